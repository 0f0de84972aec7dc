"""A converted script's own modules, which stand in its folder and hide the original's."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from transformer.cli import main
from transformer.verify.run import Run, Scratch

LEAN = "import config\nfrom agents import dqn\n\nprint(config.A, dqn.B)\n"


@pytest.fixture
def original(tmp_path: Path) -> Path:
    files = {
        "train.py": "import config\nimport other\nfrom agents import dqn, memory\n",
        "config.py": "A = 1\n",
        "other.py": "C = 1\n",
        "agents/dqn.py": "B = 1\n",
        "agents/memory.py": "D = 1\n",
        "out/lean.py": LEAN,
        "out/config.py": "A = 2  # --compile\n",
        "out/agents/dqn.py": "B = 2\n",
        "out/unused.py": "E = 2\n",
        "elsewhere/lean.py": LEAN,
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path / "train.py"


def seen(run: Run, scratch: Path) -> dict[str, str]:
    """The files that a run finds, by their paths in the script's folder."""
    scratch.mkdir()
    Scratch(scratch).lay_out(run, {})
    folder = scratch / "script"
    found = {path for pattern in ("*.py", "agents/*.py") for path in folder.glob(pattern)}
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(found)}


def test_they_hide_those_of_the_original(original: Path, tmp_path: Path) -> None:
    run = Run(original, source=LEAN, place=tmp_path / "out/lean.py")
    assert seen(run, tmp_path / "scratch") == {
        "train.py": LEAN,
        "config.py": "A = 2  # --compile\n",
        "other.py": "C = 1\n",
        "agents/dqn.py": "B = 2\n",
        "agents/memory.py": "D = 1\n",
    }
    assert "# --compile" in run.whole(LEAN)
    assert not run._can_be_forked(Scratch(tmp_path / "scratch"))


@pytest.mark.parametrize("place", [None, "lean.py", "elsewhere/lean.py"])
def test_there_may_be_none(original: Path, tmp_path: Path, place: str | None) -> None:
    run = Run(original, source=LEAN, place=None if place is None else tmp_path / place)
    found = seen(run, tmp_path / "scratch")
    assert (found["config.py"], found["agents/dqn.py"]) == ("A = 1\n", "B = 1\n")
    assert run.whole(LEAN) == LEAN


def test_the_original_has_its_own(original: Path, tmp_path: Path) -> None:
    found = seen(Run(original, place=tmp_path / "out/lean.py"), tmp_path / "scratch")
    assert (found["config.py"], found["agents/dqn.py"]) == ("A = 1\n", "B = 1\n")


@pytest.mark.slow
@pytest.mark.parametrize("gamma", ["0.98", "0.97"])
def test_a_change_in_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gamma: str) -> None:
    fixtures = Path(__file__).parents[2] / "fixtures"
    for name in ("several_files.py", "agents/dqn.py", "agents/memory.py", "agents/networks.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((fixtures / name).read_text())
    monkeypatch.chdir(tmp_path)
    given = [arg for name in ("dqn", "memory", "networks") for arg in ("--with", f"agents/{name}.py")]
    done = CliRunner().invoke(main, ["several_files.py", *given, "--output-dir", "out"])
    assert done.exit_code == 0, done.output
    agent = Path("out/agents/dqn.py")
    agent.write_text(agent.read_text().replace("gamma=0.98", f"gamma={gamma}"))
    checked = CliRunner().invoke(main, ["verify", "several_files.py", "out/several_files.py", "--up-to", "flags-on"])
    assert checked.exit_code == (gamma != "0.98"), checked.output
