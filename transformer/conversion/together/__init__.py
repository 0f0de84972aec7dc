"""A script and files that it imports, brought into one text: which files these are, whether that is right, the text."""

from transformer.transforms.base import TransformInfo

ONE_FILE = TransformInfo(
    name="one-file",
    brief="definitions of other files stand in the script",
    summary="bring the definitions of the files given with --with into the script",
    applies="where the files do the same as one file, and one module scope can hold their names",
    safety="A module is executed where it is first imported. Its statements stand there, or below the other imports "
    "where they only define, and what would tell the modules from each other is refused.",
    costs="What the files define is not converted.",
    needs=(),
    before="from agent import Agent",
    after="class Agent(nn.Module):\n    ...",
)
"""Told of the first step of a conversion with --with; it is no transform that can be selected."""
