"""Colors: the option, NO_COLOR and FORCE_COLOR, in real processes that write to no terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURE = Path(__file__).parent.parent.parent / "fixtures" / "one_step_per_turn.py"
PLAIN = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | {"TERM": "xterm"}


@pytest.mark.parametrize(
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
@pytest.mark.parametrize(
    "command", [("advise",), pytest.param(("diff", "--stat"), marks=pytest.mark.slow)], ids=" ".join
)
def test_colors(command: tuple[str, ...], variables: dict[str, str], options: tuple[str, ...], colored: bool) -> None:
    check(command, variables, options, colored)


@pytest.mark.parametrize(("options", "colored"), [((), False), (("--color",), True)])
def test_colors_of_another_command(options: tuple[str, ...], colored: bool) -> None:
    check(("diff", "--stat"), {}, options, colored)


def check(command: tuple[str, ...], variables: dict[str, str], options: tuple[str, ...], colored: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "transformer", *command, str(FIXTURE), *options],
        env={**PLAIN, **variables}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.stdout
    assert ("\x1b[3" in done.stdout) == colored  # 30 to 37 are colors; bold and dim are none
