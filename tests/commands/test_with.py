"""`--with FILE` of the commands that convert."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from scripts import PARTS, script

from transformer.cli import main
from transformer.syntax import header

pytestmark = pytest.mark.usefixtures("converted_once")
NETWORK = f"import torch.nn as nn\nfrom torch.distributions.categorical import Categorical\n\n\n{PARTS['agent']}\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text(NETWORK)
    Path("train.py").write_text(script({"agent": "", "third_party": "from agent import Agent"}))
    return tmp_path


def run(*args: Any) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def test_one_file_comes_out() -> None:
    done = run("train.py", "--with", "agent.py", "-o", "lean.py")
    assert done.exit_code == 0, done.output
    assert "one-file" in done.stdout
    assert "From agent.py." in done.stdout
    text = Path("lean.py").read_text()
    assert "# From agent.py\nclass Agent(nn.Module):" in text
    assert "from agent import" not in text
    assert run("train.py", "--with", "agent.py", "-o", "lean.py", "--check").exit_code == 0


class TestSeveralFiles:
    WRITE = ("train.py", "--with", "agent.py", "--output-dir", "out")

    def test_they_come_out(self) -> None:
        done = run(*self.WRITE)
        assert done.exit_code == 0, done.output
        assert sorted(path.name for path in Path("out").iterdir()) == ["agent.py", "train.py"]
        assert "class Agent" not in Path("out/train.py").read_text()
        assert "class Agent(nn.Module)" in Path("out/agent.py").read_text()
        assert "\nagent.py is changed\n" in done.stdout
        assert run(*self.WRITE).exit_code == run(*self.WRITE, "--check").exit_code == 0
        found = json.loads(run(*self.WRITE, "--format", "json").stdout)["scripts"][0]
        assert (found["output"], found["others"]) == ("out/train.py", ["out/agent.py"])

    def test_from_another_folder(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(project.parent)
        named = [f"{project.name}/{name}" for name in ("train.py", "agent.py")]
        done = run(named[0], "--with", named[1], "--output-dir", f"{project.name}/out")
        assert done.exit_code == 0, done.output
        assert "\nagent.py is changed\n" in done.stdout

    @pytest.mark.slow
    def test_edits_of_each_are_kept(self) -> None:
        run(*self.WRITE)
        before = Path("out/train.py").read_bytes()
        Path("out/agent.py").write_text(Path("out/agent.py").read_text() + "# mine\n")
        Path("train.py").write_text(Path("train.py").read_text() + "print('new')\n")
        checked = run(*self.WRITE, "--check")
        assert checked.exit_code == 1
        done = run(*self.WRITE)
        assert done.exit_code == 2
        assert "out/agent.py was edited since lean-convert wrote it; --force overwrites it" in done.stderr
        assert Path("out/train.py").read_bytes() == before
        assert run(*self.WRITE, "--force").exit_code == 0
        assert "# mine" not in Path("out/agent.py").read_text()
        assert "print('new')" in Path("out/train.py").read_text()

    def test_a_check_names_the_file(self) -> None:
        run(*self.WRITE)
        Path("agent.py").write_text(NETWORK.replace("nn.Linear(2, 8)", "nn.Linear(2, 9)"))
        checked = run(*self.WRITE, "--check")
        assert checked.exit_code == 1
        assert "out/agent.py is out of date" in checked.stderr
        Path("out/agent.py").unlink()
        assert "out/agent.py does not exist" in run(*self.WRITE, "--check").stderr

    def test_strangers_files_are_kept(self) -> None:
        Path("out").mkdir()
        Path("out/agent.py").write_text("mine = 1\n")
        done = run(*self.WRITE)
        assert done.exit_code == 2
        assert [path.name for path in Path("out").iterdir()] == ["agent.py"]
        assert Path("out/agent.py").read_text() == "mine = 1\n"

    def test_the_originals_are_never_overwritten(self) -> None:
        Path("out").mkdir()
        Path("out/agent.py").symlink_to(Path("agent.py").absolute())
        assert run(*self.WRITE, "--force").exit_code == 2
        assert Path("agent.py").read_text() == NETWORK

    def test_what_does_not_change_is_copied(self) -> None:
        assert "\nagent.py is as it was\n" in run(*self.WRITE, "--select", "gae").stdout
        assert header.without(Path("out/agent.py").read_text()) == NETWORK

    def test_a_patch_of_each_that_changes(self) -> None:
        both = run(*self.WRITE, "--diff").stdout
        assert "+++ out/train.py" in both
        assert "--- agent.py\n+++ out/agent.py\n" in both
        one = run(*self.WRITE, "--diff", "--select", "gae").stdout
        assert "+++ out/train.py" in one
        assert "agent.py\n" not in one
        assert not Path("out").exists()

    def test_of_several_scripts_each_is_one_file(self) -> None:
        Path("other.py").write_text(Path("train.py").read_text())
        done = run("train.py", "other.py", *self.WRITE[1:])
        assert done.exit_code == 0, done.output
        assert sorted(path.name for path in Path("out").iterdir()) == ["other.py", "train.py"]
        assert "class Agent" in Path("out/train.py").read_text()

    def test_a_file_that_stays_is_copied(self) -> None:
        Path("agent.py").write_text(f"{NETWORK}\n\nNAME = __name__\nprint(NAME)\n")
        done = run(*self.WRITE)
        assert done.exit_code == 0, done.output
        assert "agent.py stays as it is: `__name__` is specific" in " ".join(done.stdout.split())
        assert header.without(Path("out/agent.py").read_text()) == Path("agent.py").read_text()
        assert "from agent import Agent" in Path("out/train.py").read_text()

    def test_what_is_part_of_the_script_is_said(self) -> None:
        Path("lib").mkdir()
        Path("lib/train.py").write_text(Path("train.py").read_text())
        Path("lib/train.py").write_text(Path("train.py").read_text())
        done = run("lib/train.py", *self.WRITE[1:])
        assert done.exit_code == 0, done.output
        assert "agent.py is part of train.py: it is not below the folder of train.py" in done.stdout
        assert [path.name for path in Path("out").iterdir()] == ["train.py"]


def test_check_names_the_command_that_writes() -> None:
    done = run("train.py", "--with", "agent.py", "-o", "lean.py", "--check")
    assert done.exit_code == 1
    assert "`lean-convert train.py --with agent.py -o lean.py`" in done.stderr


def test_edits_are_not_overwritten_and_are_shown() -> None:
    run("train.py", "--with", "agent.py", "-o", "lean.py")
    Path("lean.py").write_text(Path("lean.py").read_text().replace("nn.Linear(2, 8)", "nn.Linear(2, 9)"))
    assert run("train.py", "--with", "agent.py", "-o", "lean.py").exit_code == 2
    shown = run("diff", "--edits", "lean.py", "train.py", "--with", "agent.py")
    assert shown.exit_code == 0, shown.output
    assert "nn.Linear(2, 9)" in shown.stdout


def test_a_file_that_is_not_imported_is_bad_usage() -> None:
    Path("other.py").write_text("x = 1\n")
    done = run("train.py", "--with", "agent.py", "--with", "other.py", "-o", "lean.py")
    assert done.exit_code == 2
    assert "--with other.py: neither train.py nor another file given with it imports it" in done.stderr
    assert not Path("lean.py").exists()


def test_standard_input_has_no_files_beside_it() -> None:
    done = CliRunner().invoke(main, ["-", "--with", "agent.py"], input=Path("train.py").read_text())
    assert done.exit_code == 2
    assert "--with needs a script in a file" in done.stderr


def test_a_given_file_is_never_overwritten() -> None:
    done = run("train.py", "--with", "agent.py", "-o", "agent.py", "--force")
    assert done.exit_code == 2
    assert Path("agent.py").read_text() == NETWORK


def test_a_refusal_names_file_and_line() -> None:
    Path("agent.py").write_text(f"{NETWORK}\n\nimport sys\nsys.modules\n")
    done = run("train.py", "--with", "agent.py", "-o", "lean.py")
    assert done.exit_code == 1
    assert "agent.py:22:1: LC009 `sys.modules` looks things up by module" in done.stderr
    assert not Path("lean.py").exists()
    found = json.loads(run("train.py", "--with", "agent.py", "-o", "lean.py", "--format", "json").stdout)
    (finding,) = found["scripts"][0]["diagnostics"]
    assert (finding["file"], finding["line"], finding["code"]) == ("agent.py", 22, "LC009")


@pytest.mark.slow
def test_a_file_that_stays_is_told_of() -> None:
    Path("agent.py").write_text(f"{NETWORK}\n\nNAME = __name__\nprint(NAME)\n")
    done = run("train.py", "--with", "agent.py", "-o", "lean.py")
    assert done.exit_code == 0, done.output
    assert "agent.py stays as it is, and must be found where the result runs: `__name__` is specific" in " ".join(
        done.stdout.split()
    )
    assert "--with" not in done.stdout
    assert "from agent import Agent" in Path("lean.py").read_text()
    (line,) = (n for n, line in enumerate(Path("train.py").read_text().split("\n"), 1) if line.startswith("from agent"))
    blamed = run("blame", "train.py", "--with", "agent.py").stdout.splitlines()
    (imports,) = (line for line in blamed if "from agent import Agent" in line)
    assert imports.split()[0] == str(line)


def test_diff_tells_of_it_first() -> None:
    shown = run("diff", "train.py", "--with", "agent.py", "--stat")
    assert shown.exit_code == 0, shown.output
    names = [line.split()[0] for line in shown.stdout.splitlines() if line.strip()]
    assert names.index("one-file") < names.index("flags")
    blamed = run("blame", "train.py", "--with", "agent.py")
    (agent,) = (line for line in blamed.stdout.splitlines() if "class Agent" in line)
    assert agent.split()[:2] == ["one-file", "agent.py:5"]


@pytest.mark.slow
def test_verify_finds_both_equal() -> None:
    done = run("verify", "train.py", "--with", "agent.py", "--up-to", "flags-on")
    assert done.exit_code == 0, done.output
    run("train.py", "--with", "agent.py", "--output-dir", "out")
    assert run("verify", "train.py", "out/train.py", "--up-to", "flags-off").exit_code == 0


def test_verify_converts_nothing_where_a_conversion_is_given() -> None:
    done = run("verify", "train.py", "agent.py", "--with", "agent.py")
    assert done.exit_code == 2
    assert "leave CONVERTED out" in done.stderr


def test_advice_names_the_file_and_its_own_columns() -> None:
    text = NETWORK.replace("    ", "\t") + "\n\t\treturn Categorical(logits=x)\n"
    Path("agent.py").write_text(text)
    alone, both = (run("advise", "train.py", *given, "--format", "json") for given in ((), ("--with", "agent.py")))
    assert {"LA301"}.isdisjoint(f["code"] for f in json.loads(alone.stdout)["scripts"][0]["advice"])
    found = [f for f in json.loads(both.stdout)["scripts"][0]["advice"] if f["code"] == "LA301"]
    assert {f["file"] for f in found} == {"agent.py"}
    for finding in found:
        assert text.splitlines()[finding["line"] - 1][finding["column"] - 1 :].startswith("Categorical(")
    shown = run("advise", "train.py", "--with", "agent.py").stdout
    assert f"agent.py:{found[0]['line']}:{found[0]['column']}: LA301" in shown


@pytest.mark.parametrize("command", ["advise", "bench"])
def test_a_file_that_is_not_imported_is_bad_usage_of_any_command(command: str) -> None:
    Path("other.py").write_text("x = 1\n")
    done = run(command, "train.py", "--with", "other.py")
    assert done.exit_code == 2, done.output
    assert "neither train.py nor another file given with it imports it" in done.output


@pytest.mark.parametrize(
    "imported", ["import tools", "from tools.more import f", "def f():\n    import tools.more as m"]
)
@pytest.mark.parametrize("output", ["lean.py", "out/lean.py", "beside/lean.py"])
def test_what_would_not_be_found_from_another_folder(imported: str, output: str) -> None:
    for folder in ("tools", "out", "beside/tools"):
        Path(folder).mkdir(parents=True)
    for name in ("tools/__init__.py", "tools/more.py", "beside/tools/__init__.py", "beside/tools/more.py"):
        Path(name).write_text("f = 1\n")
    Path("train.py").write_text(f"{imported}\n{Path('train.py').read_text()}")
    done = run("train.py", "--with", "agent.py", "-o", output)
    assert done.exit_code == 0, done.output
    here = Path.cwd()
    told = f"it imports tools from .: write it there, or run it with PYTHONPATH={here}"
    assert (told in done.stdout) == (output == "out/lean.py")


@pytest.mark.parametrize("command", ["convert", "diff", "verify"])
@pytest.mark.parametrize("given", [(), ("--with", "learner.py")])
def test_a_refusal_names_the_files_to_give(command: str, given: tuple[str, ...]) -> None:
    learner = (
        "import torch\nclass Learner:\n    def learn(self, loss):\n        loss.backward()\n        self.opt.step()\n"
    )
    Path("learner.py").write_text(learner)
    Path("main.py").write_text(
        "import torch\nfrom learner import Learner\nfor step in range(9):\n    Learner().learn(step)\n"
    )
    done = run(command, "main.py", *given)
    assert done.exit_code == 1, done.output
    assert "LC004" in done.stderr
    assert ("was not read: try --with learner.py" in done.stderr) == (not given)
