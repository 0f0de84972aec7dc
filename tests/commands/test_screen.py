"""Output that does not go to a terminal is never wrapped, whatever the command."""

import io
from dataclasses import replace
from pathlib import Path

import golden
import pytest
from click.testing import CliRunner
from rich.console import Console

from transformer import Skipped, cli
from transformer.commands.report import Result, print_report, screen
from transformer.conversion.result import Conversion
from transformer.transforms.base import ON_CPU, SkipKind

pytestmark = pytest.mark.usefixtures("converted_once")
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


@pytest.mark.parametrize(
    ("end", "alone"),
    [
        ("", True),
        ("__all__ = ['train']\n", True),
        ("if __name__ == '__main__':\n    raise SystemExit('import it')\n", True),
        ("train()\n", False),
        ("if __name__ == '__main__':\n    run(train)\n", False),
        ("for seed in range(3):\n    exec(TRAINING)\n", False),
    ],
)
def test_a_file_that_trains_nothing_by_itself_is_told_as_one(end: str, alone: bool) -> None:
    conversion = Conversion(f"import torch\n\n\ndef train():\n    pass\n\n\n{end}")
    result = Result("part.py", conversion, output="lean.py")
    file = io.StringIO()
    print_report(Console(file=file, width=200), [result])
    report = file.getvalue()
    assert ("trains nothing by itself" in report) == alone
    assert ("lean-convert TRAIN.py --with part.py" in report) == alone
    assert ("CPU   python " in report) != alone
    assert ("lean-convert verify" in report) != alone


@pytest.mark.parametrize(("kind", "on_cuda"), [("left as it was", True), ("not needed", False)])
def test_a_script_of_which_no_graph_holds_anything_may_still_train_on_cuda(kind: SkipKind, on_cuda: bool) -> None:
    done = golden.conversion_of(FIXTURES / "gym_classic_discrete.py")
    kept = Skipped("update() is not captured", kind)
    steps = [replace(s, outcome=kept) if s.transform.name == "cudagraphs" else s for s in done.steps]
    told = Result("train.py", replace(done, steps=tuple(steps)), output="out.py").commands
    compiled = "python out.py --compile"
    assert told == {"cpu": compiled, **({"cuda": compiled} if on_cuda else {})}
