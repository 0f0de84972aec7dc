"""Where there is no terminal, nothing is broken into lines, whatever the command."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from transformer import cli
from transformer.commands.report import screen
from transformer.transforms.base import ON_CPU

FIXTURES = Path(__file__).parents[2] / "fixtures"
PPO = str(FIXTURES / "one_step_per_turn.py")
COMMANDS = (
    ("convert", "-v", PPO),
    ("advise", PPO),
    ("explain", "gae-hoist"),
    ("explain", "LA202"),
    ("explain", "LC101"),
    ("diff", PPO),
    ("diff", "--stat", PPO),
    ("diff", "--transform", "flags", PPO),
    ("transforms",),
    ("migrate", PPO),
)


def printed(*command: str) -> str:
    return CliRunner().invoke(cli.main, command).output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_lines_are_as_long_as_they_are(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = printed(*command)
    monkeypatch.setenv("COLUMNS", "20000")
    assert text == printed(*command)
    assert text and "Usage: " not in text


def test_columns_still_says_how_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "33")
    assert screen().width == screen(to_stderr=True).width == 33


def test_a_script_for_the_cpu_says_so_beside_its_commands(tmp_path: Path) -> None:
    told = [
        CliRunner().invoke(cli.main, [str(FIXTURES / name), "-o", str(tmp_path / name)]).stdout
        for name in ("plain_prints.py", "gym_classic_discrete.py")
    ]
    assert f"CUDA  {ON_CPU}\n" in told[0]
    assert "CUDA  python " in told[1] and ON_CPU not in told[1]
