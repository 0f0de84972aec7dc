import pytest
from cases import ADDED, FLAGS, NoOp, Rewrite
from scripts import edited

TYRO = {
    "stdlib": "from dataclasses import dataclass",
    "third_party": "import tyro",
    "args": """
        <decorator>
        class Args:
            <fields>
            <documentation>
            <flags>
            <methods>
    """,
    "decorator": "@dataclass",
    "fields": """
        seed: int = 1
        num_iterations: int = 3
        num_envs: int = 2
        num_steps: int = 8
        update_epochs: int = 2
        minibatch_size: int = 4
        learning_rate: float = 1e-2
        gamma: float = 0.99
        gae_lambda: float = 0.95
        clip_coef: float = 0.2
    """,
    "documentation": "",
    "flags": "",
    "methods": "",
    "parse": "args = tyro.cli(Args)",
}
TYRO_FLAGS = {
    "flags": """
        compile: bool = False  # compile policy, advantages and update with torch.compile
        cudagraphs: bool = False  # replay policy, advantages and update as CUDA graphs
        measure_burnin: int = 3  # iterations before the speed is measured
    """
}
REWRITES = [
    Rewrite("argparse in a function", {}, FLAGS),
    Rewrite(
        "argparse where the script trains",
        {"args": "", "parse": "<parser>\nargs = parser.parse_args()"},
        FLAGS,
    ),
    Rewrite(
        "conditional options stay below the flags",
        {
            "parser": edited("parser", "<flags>", "<flags>\n<more>"),
            "more": 'if torch.cuda.is_available():\n    parser.add_argument("--gpu")',
        },
        FLAGS,
    ),
    Rewrite(
        "names that are taken",
        {
            "parser": edited("parser", "<options>", "<options>\n<taken>"),
            "taken": 'parser.add_argument("--compile", default=1)\nparser.add_argument("-b", dest="measure_burnin")',
        },
        {
            "flags": ADDED.replace("--compile", "--lean-compile").replace("--measure-burnin", "--lean-measure-burnin"),
        },
    ),
    Rewrite(
        "a helper reads more arguments under another name",
        {
            "functions": "def show(config):\n"
            + 9 * "    print(config.seed, config.num_envs, config.num_steps, config.gamma, config.gae_lambda)\n"
            + "\n\n"
        },
        FLAGS,
    ),
    Rewrite("tyro", TYRO, TYRO_FLAGS),
    Rewrite(
        "tyro with documented fields",
        {**TYRO, "documentation": '"""how far the ratio may go"""'},
        {
            "flags": '''
                compile: bool = False
                """if toggled, the policy, the advantages and the update are compiled with torch.compile"""
                cudagraphs: bool = False
                """if toggled, the policy, the advantages and the update are replayed as CUDA graphs"""
                measure_burnin: int = 3
                """the number of iterations before the speed is measured"""
            '''
        },
    ),
    Rewrite(
        "tyro with methods below the fields",
        {**TYRO, "methods": "\ndef __post_init__(self):\n    assert self.seed"},
        TYRO_FLAGS,
    ),
]

NO_DEFINITION = "the script defines no arguments with tyro (a dataclass) or argparse that flags could join"
NO_READER = "no name in the training scope holds the parsed arguments"

NOOPS = [
    NoOp("a class of constants", {**TYRO, "decorator": "", "parse": "args = Args()"}, NO_DEFINITION),
    NoOp("a dataclass that nothing parses", {**TYRO, "parse": "args = Args(seed=3)"}, NO_DEFINITION),
    NoOp(
        "a class from another file",
        {"args": "from settings import Args", "third_party": "import tyro", "parse": "args = tyro.cli(Args)"},
        NO_DEFINITION,
    ),
    NoOp("a dataclass without fields", {**TYRO, "fields": "pass"}, NO_DEFINITION),
    NoOp(
        "a parser from another file",
        {"args": "from settings import parser", "parse": "args = parser.parse_args()"},
        NO_DEFINITION,
    ),
    NoOp(
        "options of click",
        {"args": "import click\n\n\n@click.command()\n@click.option('--seed')\ndef parse_args(seed):\n    return seed"},
        NO_DEFINITION,
    ),
    NoOp("words of the command line", {"args": "import sys", "parse": "args = Settings(*sys.argv)"}, NO_DEFINITION),
    NoOp("a parser without options", {"options": ""}, NO_DEFINITION),
    NoOp("no option is read", {"options": 'parser.add_argument("--verbose")'}, NO_READER),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("flags")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("flags")
