"""A script that computes with all its options, so that one more option would change the results."""

import pytest
from cases import turn
from scripts import script

from transformer import Applied
from transformer.syntax.tree import Tree
from transformer.transforms.compiling.all_options import computed_with

HEAD = (
    "import argparse, copy, dataclasses, json\nfrom torch.utils.tensorboard import SummaryWriter\n"
    "args = argparse.ArgumentParser().parse_args()\nwriter = SummaryWriter('runs')\n"
    "def own(options):\n    return options.seed\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "args.seed = hash(str(args)) % 1000",
        "torch.manual_seed(len(args._get_kwargs()))",
        "kept = args.__dict__",
        "args.run = f'{args}'",
        "name = json.dumps(vars(args))\nopen(name)",
        "first, *others = vars(args).values()",
        "assert set(vars(args)) <= known",
        "run(**vars(args))",
        "seed = len(args.__dict__)\nrun(seed)",
        "for key in sorted(vars(copy.copy(args))): print(key)",
        "if args == other: run()",
        "made = library(args)\nmade.run()",
        "kept = dataclasses.asdict(args)",
        "def whole(options):\n    return repr(options)\nwhole(args)",
        "text = repr(args)\nprint(text)\nrun(text)",
        "a = f(b)\nb = g(a, str(args))",
    ],
)
def test_code_that_computes_with_all_options(line: str) -> None:
    assert computed_with(Tree(f"{HEAD}{line}\n")) is not None


@pytest.mark.parametrize(
    "line",
    [
        "print(args)",
        "writer.add_text('args', '|'.join(f'{k}={v}' for k, v in vars(args).items()))",
        "rows = '|'.join(f'{k}={v}' for k, v in vars(args).items())\nwriter.add_text('args', rows)",
        "same = args",
        "own(args)",
        "seed = own(args)",
        "seed = getattr(args, 'seed')",
        "seed = vars(args)['seed']",
        "library(args)",
        "saved = {'args': vars(args)}",
        "if args is not None: print(args.seed)",
    ],
)
def test_code_that_does_not(line: str) -> None:
    assert computed_with(Tree(f"{HEAD}{line}\n")) is None


def test_flags_are_parsed_apart_there() -> None:
    step = turn("flags", script({"setup": 'args.seed = hash(str(args)) % 1000\ndevice = torch.device("cpu")'}))
    assert isinstance(step.outcome, Applied)
    assert "flags, sys.argv[1:] = flags.parse_known_args()" in step.after


def test_a_flag_whose_name_the_script_asks_for_gets_another() -> None:
    step = turn(
        "flags", script({"setup": 'if hasattr(args, "compile"):\n    print("fast")\ndevice = torch.device("cpu")'})
    )
    assert '"--lean-compile"' in step.after and '"--compile"' not in step.after
