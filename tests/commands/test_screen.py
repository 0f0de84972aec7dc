"""Where there is no terminal, nothing is broken into lines, whatever the command."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from transformer import Skipped, cli, convert
from transformer.commands.report import Result, screen
from transformer.transforms.base import ON_CPU, SkipKind

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
    "end", ["", "__all__ = ['train']\n", "if __name__ == '__main__':\n    raise SystemExit('import it')\n"]
)
def test_a_file_that_trains_nothing_by_itself_is_told_as_one(tmp_path: Path, end: str) -> None:
    source = (FIXTURES / "in_train_function.py").read_text(encoding="utf-8")
    begin = source.index('if __name__ == "__main__":')
    for name, text in (("whole.py", source), ("part.py", source[:begin] + end)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    told = [
        CliRunner().invoke(cli.main, [str(tmp_path / name), "-o", str(tmp_path / f"lean_{name}")]).stdout
        for name in ("whole.py", "part.py")
    ]
    assert ["trains nothing by itself" in text for text in told] == [False, True]
    assert ["CPU   python " in text for text in told] == [True, False]
    assert ["lean-convert verify" in text for text in told] == [True, False]
    assert f"lean-convert TRAIN.py --with {tmp_path / 'part.py'}" in told[1]


@pytest.mark.parametrize(("kind", "on_cuda"), [("left as it was", True), ("not needed", False)])
def test_a_script_of_which_no_graph_holds_anything_may_still_train_on_cuda(kind: SkipKind, on_cuda: bool) -> None:
    done = convert((FIXTURES / "gym_classic_discrete.py").read_text(encoding="utf-8"))
    kept = Skipped("update() is not captured", kind)
    steps = [replace(s, outcome=kept) if s.transform.name == "cudagraphs" else s for s in done.steps]
    told = Result("train.py", replace(done, steps=tuple(steps)), output="out.py").commands
    compiled = "python out.py --compile"
    assert told == {"cpu": compiled, **({"cuda": compiled} if on_cuda else {})}
