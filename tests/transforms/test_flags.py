import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import ADDED, FLAGS, Rewrite, turn
from ruff.__main__ import find_ruff_bin
from scripts import edited, script

from transformer import Applied

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
        compile: bool = False  # compile policy and update with torch.compile
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
            "taken": 'parser.add_argument("--compile", default=1)',
        },
        {
            "flags": ADDED.replace("--compile", "--lean-compile"),
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
                """if toggled, the policy and the update are compiled with torch.compile"""
            '''
        },
    ),
    Rewrite(
        "tyro with methods below the fields",
        {**TYRO, "methods": "\ndef __post_init__(self):\n    assert self.seed"},
        TYRO_FLAGS,
    ),
]

OWN = f"""\
flags = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
{ADDED.replace("parser.", "flags.").rstrip()}
if __name__ == "__main__":
    if not {{"-h", "--help"}}.isdisjoint(sys.argv):
        flags.print_help()  # above the script's own
    # Taken off the command line, so that what else reads it does not see them
    flags, sys.argv[1:] = flags.parse_known_args()
else:  # imported: the command line is another script's
    flags = flags.parse_args([])
"""


ALONE = f"""\
flags = argparse.ArgumentParser(allow_abbrev=False)
{ADDED.replace("parser.", "flags.").rstrip()}
flags = flags.parse_args(None if __name__ == "__main__" else [])
"""


def constants(imports: str) -> dict[str, str]:
    """A script whose arguments are constants, with other imports."""
    mine = {**TYRO, "imports": edited("imports", "import argparse\n<stdlib>\n", f"{imports}\n"), "third_party": ""}
    return {
        **{part: text for part, text in mine.items() if part != "stdlib"},
        "decorator": "",
        "parse": "args = Args()",
    }


@pytest.mark.parametrize("more", ["", "import sys\nprint(sys.path)", "import random\nfrom collections import deque"])
def test_an_argument_that_nothing_reads_is_an_error(
    more: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ALONE in turn("flags", script(constants(more))).after
    monkeypatch.setattr(sys, "argv", ["ppo.py", "--complie"])
    exec(ALONE, {"argparse": argparse, "__name__": "another"})
    with pytest.raises(SystemExit) as ended:
        exec(ALONE, {"argparse": argparse, "__name__": "__main__"})
    assert ended.value.code == 2 and "unrecognized arguments: --complie" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    ["import sys\nprint(sys.argv)", "from sys import argv", "import fire", "from .mine import x", "import optparse"],
)
def test_an_argument_that_another_module_may_read_is_left(more: str) -> None:
    assert OWN in turn("flags", script(constants(more))).after


@pytest.mark.parametrize(
    ("name", "given", "left", "compiles"),
    [
        ("__main__", ["--compile", "--seed", "3"], ["--seed", "3"], True),
        ("__main__", ["--compiler"], ["--compiler"], False),
        ("ppo", ["--compile"], ["--compile"], False),
    ],
)
def test_separate_flags_are_parsed_where_the_script_is_run(
    name: str, given: list[str], left: list[str], compiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ppo.py", *given])
    made: dict[str, Any] = {"argparse": argparse, "sys": sys, "__name__": name}
    exec(OWN, made)
    assert (sys.argv[1:], made["flags"].compile) == (left, compiles)


def test_help_lists_the_flags(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["ppo.py", "--help"])
    exec(OWN, {"argparse": argparse, "sys": sys, "__name__": "__main__"})
    assert "--compile" in capsys.readouterr().out and sys.argv == ["ppo.py", "--help"]


# No flag can be added to these: the flags get a parser of their own
OTHERS = {
    "a class of constants": {**TYRO, "decorator": "", "parse": "args = Args()"},
    "a dataclass that nothing parses": {**TYRO, "parse": "args = Args(seed=3)"},
    "a class from another file": {"args": "from settings import Args", "parse": "args = tyro.cli(Args)"},
    "a dataclass without fields": {**TYRO, "fields": "pass"},
    "a parser from another file": {"args": "from settings import parser", "parse": "args = parser.parse_args()"},
    "words of the command line": {"args": "import sys", "parse": "args = Settings(*sys.argv)"},
    "a parser without options": {"options": ""},
    "options that are not read": {"options": 'parser.add_argument("--verbose")'},
    "options without defaults": {
        "parser": edited("parser", "ArgumentParser()", "ArgumentParser(argument_default=argparse.SUPPRESS)"),
    },
    "another prefix": {"parser": edited("parser", "ArgumentParser()", 'ArgumentParser(prefix_chars="+")')},
    "a parser made from others": {"parser": edited("parser", "ArgumentParser()", "ArgumentParser(parents=[])")},
    "arguments that are written out": {
        "args": edited("args", "parser.parse_args()", 'parser.parse_args(["--seed", "2"])')
    },
    "no arguments, as in a notebook": {"args": edited("args", "parser.parse_args()", "parser.parse_args(args=[])")},
    "an object of the script": {"args": edited("args", "parser.parse_args()", "parser.parse_args(None, print)")},
    "a namespace of the script": {"args": edited("args", "parser.parse_args()", "parser.parse_args(namespace=print)")},
    "a dataclass that is given arguments": {**TYRO, "parse": "args = tyro.cli(Args, args=())"},
}


@pytest.mark.parametrize("title", OTHERS)
def test_flags_that_join_no_arguments(title: str) -> None:
    before = script(OTHERS[title])
    step = turn("flags", before)
    assert isinstance(step.outcome, Applied)
    assert OWN in step.after
    rest = step.after.replace(OWN, "").splitlines()
    assert [line for line in rest if line and line != "import sys"] == [
        line for line in before.splitlines() if line and line != "import sys"
    ]
    assert ruff(step.after) <= ruff(before)


def ruff(text: str) -> set[str]:
    """What ruff finds: unsorted imports, and missing or superfluous blank lines."""
    command = [find_ruff_bin(), "check", "--isolated", "--preview", "--select=E3,I", "--output-format=concise", "-"]
    found = subprocess.run(command, input=text, capture_output=True, text=True, check=False).stdout
    return {line.split(": ", 1)[1] for line in found.splitlines() if ": " in line}


def test_flags_are_taken_off_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "given.py"
    text = script({**OTHERS["words of the command line"], "parse": "print(sys.argv)\nraise SystemExit"})
    path.write_text(turn("flags", text).after.replace("print(", "print(flags, "), encoding="utf-8")
    command = [sys.executable, str(path), "5", "--compile", "--comp", "--seed=2"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("Namespace(compile=True) ")
    assert result.stdout.strip().endswith("given.py', '5', '--comp', '--seed=2']")


def test_an_option_that_the_script_sets_itself_keeps_its_name() -> None:
    after = turn("flags", script({"setup": 'args.compile = "mine"\ndevice = torch.device("cpu")'})).after
    assert 'parser.add_argument("--lean-compile"' in after


def test_names_of_other_options_are_left_to_them() -> None:
    text = script({**OTHERS["a class of constants"], "documentation": "compile: bool = True"})
    after = turn("flags", text).after
    assert 'flags.add_argument("--lean-compile"' in after


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("flags")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("torch.save({'model': agent.state_dict(), 'args': vars(args)}, 'x.pt')", True),
        ("kept = {'args': vars(args)}", True),
        ("print(vars(args))", False),
        ("print('|'.join(f'{k}={v}' for k, v in vars(args).items()))", False),
        ("kept = vars(agent)", False),
    ],
)
def test_arguments_that_are_kept_are_told_of_the_flags(line: str, told: bool) -> None:
    step = turn("flags", script({"report": f"{line}\nprint(iteration, global_step)"}))
    assert isinstance(step.outcome, Applied)
    assert any("keeps all arguments, and the new flags" in note for note in step.outcome.notes) == told
