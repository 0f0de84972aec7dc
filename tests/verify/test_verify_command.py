"""The command `lean-convert verify`: exit codes, table, JSON, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tiers import slow_but_each
from toy import edited

from transformer.cli import main
from transformer.syntax import header
from transformer.verify.server import Server

DATA = Path(__file__).parent / "data"


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["verify", *map(str, args)])


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    path = tmp_path / "converted.py"
    path.write_text(edited("if __name__", "# only a comment differs\nif __name__"))
    return path


def test_equal(toy_script: Path, converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr("transformer.verify.side_by_side.Server", Server)  # its own server leaves nothing either
    report = tmp_path / "report"
    result = run(toy_script, converted, "--iterations", "3", "--report", report, "--", "--updates", "9")
    assert result.exit_code == 0, result.output
    assert re.search(r"^flags off +same bits +[\d,.]+( M)? values", result.output, re.MULTILINE)
    assert re.search(r"^EQUAL on all that could run", result.output, re.MULTILINE)
    assert "nothing to draw: no scalar was logged, no parameter differs" in result.stderr
    assert not report.exists()
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_different_as_json(toy_script: Path, converted: Path, tmp_path: Path) -> None:
    converted.write_text(edited("1 - update / args.updates", "1 - max(update - 1, 0) / args.updates"))
    result = run(toy_script, converted, "--format", "json", "--report", tmp_path / "report")
    assert result.exit_code == 1
    assert [file.name for file in (tmp_path / "report").iterdir()] == ["parameters.png"]
    outcome = json.loads(result.stdout)
    assert (outcome["verdict"], outcome["first_failing_check"]) == ("different", "flags-off")
    assert outcome["summary"] == "DIFFERENT: flags off"
    refactored, *others = outcome["checks"]
    assert "hyperparameter lr of group 0 at optimizer step 3: 0.005 became 0.01" in refactored["findings"][0]
    unequal = {row["what"]: row["largest_difference"] for row in refactored["compared"] if not row["equal"]}
    assert unequal["hyperparameter"] == pytest.approx(0.005)
    assert {check["status"] for check in others} == {"not run"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["no_such.py"], "'no_such.py' does not exist"),
        ([], "Missing argument 'ORIGINAL'"),
        (["{toy}", "{toy}"], "are the same file"),
        (
            ["{toy}", "{other}", "--require", "cuda-graphs", "--up-to", "flags-off"],
            "--up-to flags-off leaves that check",
        ),
        (["{toy}", "{other}", "--require", "other-arguments", "--no-other-arguments"], "leaves that check out"),
        (["{toy}", "{other}", "--each-transform"], "leave CONVERTED out"),
        (["{toy}", "{other}", "--require", "speed"], "'speed' is not one of"),
        (["{toy}", "{other}", "--seeds", "3"], "3 is not in the range x>=4"),
        (["{toy}", "{other}", "--", "--no-such-flag"], "unrecognized arguments: --no-such-flag"),
        (["{toy}", "{other}", "--python", "/no/such/python"], "/no/such/python"),
        (["{toy}", "{other}", "--format", "json", "--", "--no-such-flag"], '"verdict": "could not run"'),
    ],
)
def test_bad_input(toy_script: Path, converted: Path, args: list[str], message: str) -> None:
    result = run(*(arg.format(toy=toy_script, other=converted) for arg in args))
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output.replace('Traceback (most recent call last):\n  File "toy.py"', "")


def test_swapped(toy_script: Path, converted: Path) -> None:
    written = header.add(converted.read_text(), header.quoted(toy_script))
    converted.write_text(written)
    result = run(str(converted), str(toy_script))
    assert result.exit_code == 2
    assert "is a conversion, and" in result.output and "the original comes first" in result.output


def test_a_script_that_cannot_be_converted(tmp_path: Path) -> None:
    script = tmp_path / "other.py"
    script.write_text("print('no training here')\n")
    result = run(script)
    assert result.exit_code == 1
    assert f"{script}:1:1: LC004" in result.output


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("print('trains nothing')\n", "stepped no torch optimizer"),
        (edited("envs = Walk()", "envs = Walk(); raise ValueError('no walk today')"), "ValueError: no walk today"),
        (edited("envs = Walk()", "raise SystemExit(3)"), "script.py failed: the script ended with exit status 3"),
    ],
)
def test_an_original_that_cannot_be_used(tmp_path: Path, converted: Path, source: str, message: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(source)
    result = run(script, converted)
    assert result.exit_code == 2
    assert message in result.output
    assert (f"the original {script} failed: " in result.output) == ("raise" in source)


@pytest.mark.parametrize("end", slow_but_each(3, [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]))
def test_interruption_leaves_no_process_and_no_files(tmp_path: Path, end: signal.Signals) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    pid_file = tmp_path / "pid"
    script = tmp_path / "endless.py"
    script.write_text(f"import os, time\nopen({str(pid_file)!r}, 'w').write(f'{{os.getpid()}}\\n')\ntime.sleep(600)\n")
    converted = Path(shutil.copy(script, tmp_path / "converted.py"))
    command = subprocess.Popen(
        [sys.executable, "-m", "transformer", "verify", str(script), str(converted)],
        env={**os.environ, "TMPDIR": str(scratch)},
        stderr=subprocess.DEVNULL,
        # Background jobs of a shell ignore Ctrl-C, jobs under nohup SIGHUP, and their children too
        preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGINT, signal.SIGHUP)],
    )
    limit = time.monotonic() + 30
    while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
        assert time.monotonic() < limit
        time.sleep(0.05)
    command.send_signal(end)
    assert command.wait(timeout=30) == 128 + end
    assert list(scratch.iterdir()) == []
    assert not Path(f"/proc/{pid_file.read_text().strip()}").exists()


@pytest.mark.slow
def test_compile_for_real() -> None:
    # multinomial(), with which the script draws, is in no CUDA graph: the later checks do not apply
    result = run(DATA / "small_ppo.py", DATA / "small_ppo_converted.py", "--format", "json", "--up-to", "compiled")
    outcome = json.loads(result.stdout)
    assert result.exit_code == 0, outcome
    assert {check["name"]: check["status"] for check in outcome["checks"]}["compiled"] == "equal"


@pytest.mark.slow
def test_ten_runs_have_ten_equal_verdicts(toy_script: Path, converted: Path) -> None:
    assert {run(toy_script, converted).exit_code for _ in range(10)} == {0}


@pytest.mark.slow
def test_each_transform_of_a_real_conversion() -> None:
    result = run(DATA / "small_ppo.py", "--each-transform", "--format", "json")
    outcome = json.loads(result.stdout)
    assert result.exit_code == 0, outcome
    names = [check["name"] for check in outcome["checks"]]
    assert names[0] == "after flags"
    assert len(names) > 12
    assert all(check["status"] == "equal" for check in outcome["checks"] if check["name"].startswith("after "))


@pytest.mark.slow
def test_seeds(tmp_path: Path) -> None:
    """Whole trainings, with and without flags; torch.compile's eager backend saves time."""
    source = (DATA / "small_ppo_converted.py").read_text()
    converted = tmp_path / "converted.py"
    converted.write_text(re.sub(r"torch\.compile\((\w+)\)", r'torch.compile(\1, backend="eager")', source))
    args = ("--up-to", "flags-off", "--seeds", "4", "--format", "json", "--", "--total-timesteps", "2048")
    result = run(DATA / "small_ppo.py", converted, *args)
    assert result.exit_code == 0, result.output
    seeds = json.loads(result.stdout)["seeds"]
    assert len(set(seeds["flags_off"])) == 4, "seeds differ"
    assert seeds["flags_on"] == pytest.approx(seeds["flags_off"], abs=5)


def test_a_converted_script_that_fails_is_not_equal(tmp_path: Path, toy_script: Path, converted: Path) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text(converted.read_text().replace("envs = Walk()", "envs = Walk(); raise ValueError('no walk')"))
    result = run(toy_script, failing, "--up-to", "flags-off")
    assert result.exit_code == 1
    assert "ValueError: no walk" in result.output
    assert result.output.splitlines()[-1].startswith("FAILED: flags off")
