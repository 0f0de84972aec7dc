"""Merge files into the script that imports them: which files these are, whether it is safe, and the resulting text."""

from transformer.transforms.base import TransformInfo

ONE_FILE = TransformInfo(
    name="one-file",
    brief="definitions of other files are in the script",
    summary="merge the definitions of the files given with --with into the script",
    applies="when the files do the same as a single file, and one module scope can hold their names",
    safety="A module is executed when it is first imported. Its statements replace that import or, if they only define "
    "things, go below the other imports; code that could tell the modules apart is refused.",
    costs="Definitions in these files are not converted.",
    needs=(),
    before="from agent import Agent",
    after="class Agent(nn.Module):\n    ...",
)
"""Describes the first step of a conversion with --with; it is not a transform that can be selected."""
