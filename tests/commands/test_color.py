"""Colors: the option, NO_COLOR and FORCE_COLOR, in real processes whose output is not a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from transformer import cli

pytestmark = pytest.mark.usefixtures("converted_once")
FIXTURE = Path(__file__).parent.parent.parent / "fixtures" / "one_step_per_turn.py"
PLAIN = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | {"TERM": "xterm"}


ALL = pytest.mark.parametrize(
    ("variables", "options", "colored"),
    [
        ({}, (), False),
        ({}, ("--color",), True),
        ({"FORCE_COLOR": "1"}, (), True),
        ({"FORCE_COLOR": "1"}, ("--no-color",), False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False),
        ({"NO_COLOR": "1"}, ("--color",), True),
    ],
)
COMMANDS = pytest.mark.parametrize("command", [("advise",), ("diff", "--stat")], ids=" ".join)


@ALL
@COMMANDS
def test_colors(command: tuple[str, ...], variables: dict[str, str], options: tuple[str, ...], colored: bool) -> None:
    runner = CliRunner(env={"NO_COLOR": None, "FORCE_COLOR": None, "TERM": "xterm", **variables})
    check(runner.invoke(cli.main, [*command, str(FIXTURE), *options], color=True).stdout, colored)


@pytest.mark.slow
@ALL
@COMMANDS
def test_colors_of_processes(
    command: tuple[str, ...], variables: dict[str, str], options: tuple[str, ...], colored: bool
) -> None:
    in_a_process(command, variables, options, colored)


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "colored"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_colors_of_a_process(variables: dict[str, str], colored: bool) -> None:
    in_a_process(("advise",), variables, (), colored)


def in_a_process(command: tuple[str, ...], variables: dict[str, str], options: tuple[str, ...], colored: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "transformer", *command, str(FIXTURE), *options],
        env={**PLAIN, **variables}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    check(done.stdout, colored)


def check(printed: str, colored: bool) -> None:
    assert printed
    assert ("\x1b[3" in printed) == colored  # 30 to 37 are colors; bold and dim are none
