"""`lean-convert bench` end to end: its exit codes, its table and JSON, and the files it leaves behind."""

from __future__ import annotations

import json
import tempfile
from itertools import groupby
from pathlib import Path

import pytest
import sleeper
from click.testing import CliRunner, Result
from sleeper import edited

from transformer.bench.contenders import line_up
from transformer.cli import main
from transformer.verify.run import Run

FIXTURE = Path(__file__).parents[2] / "fixtures" / "gym_classic_discrete.py"

SHORT = ("--rounds", "2", "--turns", "1", "--burn-in", "1", "--iterations", "2")
ONCE = ("--rounds", "1", "--turns", "1", "--burn-in", "1", "--iterations", "1")
STEPS = sleeper.STEPS * sleeper.NUM_ENVS
FASTER = edited(f"time.sleep({sleeper.UPDATE})", "pass", sleeper.IN_FUNCTIONS)
COMPILED = edited(
    'print("no torch.compile(update) here")',
    "import types; torch = types.SimpleNamespace(compile=lambda f: f)\n    update = torch.compile(update)",
    FASTER,
)


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["bench", *map(str, args)])


@pytest.fixture
def original(tmp_path: Path) -> Path:
    return written(tmp_path / "original.py", sleeper.TOY)


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    return written(tmp_path / "converted.py", COMPILED)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_table(original: Path, converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    plot = tmp_path / "plot.png"
    result = run(original, converted, *SHORT, "--plot", plot)
    assert result.exit_code == 0, result.output
    lines = {line.split("  ")[0].strip(): line for line in reversed(result.output.splitlines())}
    assert {"original", "flags off", "compile"} <= set(lines)
    assert "cudagraphs: not run: the converted script has no flag for cudagraphs" in result.output
    assert "2 rounds of 1 turn of 2 iterations after 1 iterations of burn-in" in result.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_json(original: Path, converted: Path, tmp_path: Path) -> None:
    other = written(
        tmp_path / "other script.py", edited("import time", "import sys, time; assert sys.argv[4] == 'a b'")
    )
    other.write_text(edited("args = parser", 'parser.add_argument("--text")\nargs = parser', other.read_text()))
    against = f"'{other}' --text 'a b'"
    result = run(original, converted, *SHORT, "--against", against, "--format", "json", "--", "--iterations", "50")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert tuple(found[k] for k in ("rounds", "turns", "burnin_iterations", "measured_iterations")) == (2, 1, 1, 2)
    assert found["arguments"] == ["--iterations", "50"]
    assert {"processor", "cores", "memory_gib", "load", "time"} <= set(found["machine"])
    by_name = {r["name"]: r for r in found["results"]}
    assert list(by_name) == [
        "original",
        "flags off",
        "compile",
        "cudagraphs",
        "compile + cudagraphs",
        "'other script.py' --text 'a b'",
    ]
    assert by_name["compile"]["arguments"] == ["--iterations", "50", "--compile"]
    assert by_name["cudagraphs"]["status"] == "not run"
    first, faster = by_name["original"], by_name["flags off"]
    assert first["ratio"] == {"median": 1, "low": 1, "high": 1}
    assert first["break_even"] is None
    without_update = faster["seconds_per_step"]["update"]
    assert without_update * STEPS < 0.001
    assert first["seconds_per_step"]["update"] * STEPS >= sleeper.MINIBATCHES * sleeper.UPDATE
    assert faster["ratio"]["median"] > 1  # the machine decides by how much
    for result in by_name.values():
        if result["status"] == "measured":
            assert len(result["rounds"]) == 2
            for one in result["rounds"]:
                assert (one["iterations"], one["steps"]) == (2, 2 * STEPS)


@pytest.mark.parametrize(
    ("rungs", "names"),
    [
        (["none"], ["original"]),
        (["compile"], ["original", "compile"]),
        (["compile", "flags off"], ["original", "flags off", "compile"]),
    ],
)
def test_rungs_can_be_chosen(original: Path, converted: Path, rungs: list[str], names: list[str]) -> None:
    chosen = [word for rung in rungs for word in ("--rung", rung)]
    result = run(original, converted, *chosen, *ONCE, "--format", "json")
    assert [r["name"] for r in json.loads(result.stdout)["results"]] == names


@pytest.mark.slow
def test_tuned_rungs_stand_beside_the_others(original: Path, converted: Path) -> None:
    names = [c.name for c in line_up(Run(FIXTURE, ()), None, (), ("flags off", "compile"), tune=True)]
    assert names == ["original", "flags off", "compile", "flags off, tuned", "compile, tuned"]
    sources = [c.run.source or "" for c in line_up(Run(FIXTURE, ()), None, (), ("compile",), tune=True)]
    assert ["TORCHINDUCTOR_VEC_ISA_OK" in source for source in sources] == [False, False, True]
    assert run(original, converted, "--tune", *ONCE).exit_code == 2


@pytest.mark.parametrize("fixture", ["gymnasium_continuous.py", "gym_classic_discrete.py"])
def test_fused_modes_stand_beside_the_others(fixture: str, original: Path, converted: Path) -> None:
    taking_part = line_up(Run(FIXTURE.with_name(fixture), ()), None, (), ("compile",), fuse_envs=True)
    assert [c.name for c in taking_part] == ["original", "compile", "compile, fused"]
    _, plain, fused = taking_part
    alike = fixture == "gym_classic_discrete.py"  # it makes no SyncVectorEnv of gymnasium
    assert (fused.run.source == plain.run.source) == bool(fused.reason) == alike
    assert run(original, converted, "--fuse-envs", *ONCE).exit_code == 2


def test_a_script_that_crashes_does_not_hold_up_the_others(original: Path, converted: Path, tmp_path: Path) -> None:
    crash = written(tmp_path / "crash.py", edited("        advantages[t] = 1.0", "        advantages[t] = 1.0 / t"))
    result = run(original, converted, *SHORT, "--mode", "flags-off", "--against", crash)
    assert result.exit_code == 1
    assert "crash.py: failed: the script ended with exit status 1" in result.output
    assert "ZeroDivisionError" in result.output
    assert "flags off" in result.output


@pytest.mark.slow
def test_scripts_train_in_turns(original: Path, converted: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for script, name in ((original, "o"), (converted, "c")):
        noting = f"    def step(self, action):\n        open({str(log)!r}, 'a').write({name!r})\n"
        script.write_text(edited("    def step(self, action):\n", noting, script.read_text()))
    script = converted.read_text()
    converted.write_text(edited(f"    time.sleep({sleeper.OTHER})", "    time.sleep(0.5)", script))
    options = ("--rounds", "1", "--turns", "3", "--burn-in", "1", "--iterations", "2", "--mode", "flags-off")
    result = run(original, converted, *options, "--format", "json")
    assert result.exit_code == 0, result.output
    turns = [(name, len(list(steps))) for name, steps in groupby(log.read_text())]
    assert turns == [(name, iterations * sleeper.STEPS) for iterations in (1, 2, 2, 2) for name in "oc"]
    first, slow = json.loads(result.stdout)["results"]
    assert [len(r["rounds"][0]["turns"]) for r in (first, slow)] == [3, 3]
    assert first["ratio"]["median"] > 2 * slow["ratio"]["median"], "what others do in their turns does not count"


def test_a_script_that_crashes_in_its_second_turn(original: Path, tmp_path: Path) -> None:
    crash = written(tmp_path / "crash.py", edited("    time.sleep(0.016)", "    time.sleep(0.016 / (iteration < 2))"))
    options = ("--rounds", "1", "--turns", "3", "--burn-in", "1", "--iterations", "1", "--mode", "none")
    result = run(original, original, *options, "--against", crash, "--format", "json")
    assert result.exit_code == 1
    first, other = json.loads(result.stdout)["results"]
    assert len(first["rounds"][0]["turns"]) == 3
    assert (other["status"], "ZeroDivisionError" in other["reason"]) == ("failed", True)


def test_a_script_that_ends_by_itself_has_fewer_turns(original: Path, tmp_path: Path) -> None:
    short = written(tmp_path / "short.py", edited("default=1000", "default=5"))
    options = ("--rounds", "1", "--turns", "3", "--burn-in", "1", "--iterations", "2", "--mode", "none")
    result = run(original, original, *options, "--against", short, "--format", "json")
    assert result.exit_code == 0, result.output
    first, other = json.loads(result.stdout)["results"]
    assert [r["rounds"][0]["iterations"] for r in (first, other)] == [6, 3]
    assert [len(r["rounds"][0]["turns"]) for r in (first, other)] == [3, 2]


@pytest.mark.slow
def test_a_converted_script_that_crashes(original: Path, tmp_path: Path) -> None:
    crash = written(tmp_path / "converted.py", edited("    optimizer.step()", "    optimizer.step(); boom", COMPILED))
    result = run(original, crash, *SHORT, "--format", "json")
    assert result.exit_code == 1
    statuses = {r["name"]: (r["status"], r["reason"]) for r in json.loads(result.stdout)["results"]}
    assert statuses["original"] == ("measured", None)
    for rung in ("flags off", "compile"):
        assert statuses[rung][0] == "failed"
        assert "NameError: name 'boom' is not defined" in statuses[rung][1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["no_such.py"], "'no_such.py' does not exist"),
        (["{toy}", "{toy}", "--against", "no_such.py --compile"], "'no_such.py' does not exist"),
        (["{toy}", "{toy}", "--against", "'open"], "No closing quotation"),
        (["{toy}", "{toy}", "--against", ""], "--against is empty"),
        (["{toy}", "{toy}", "--mode", "speed"], "'speed' is not one of none, flags-off"),
        (["{toy}", "{toy}", "--rounds", "0"], "0 is not in the range"),
        (["{toy}", "{toy}", "--python", "/no/such/python"], "/no/such/python"),
        (["{toy}", "{toy}", "--", "--no-such-flag"], "unrecognized arguments: --no-such-flag"),
        (["{toy}", "{toy}", "--", "--iterations", "3"], "trained for 3 iterations; 5 are needed"),
        (["{toy}"], "the original cannot be converted"),
        (["{toy}", "{toy}", "--format", "json", "--", "--no-such-flag"], "original.py: the script ended"),
    ],
)
def test_what_cannot_be_run(original: Path, args: list[str], message: str) -> None:
    result = run(*(arg.format(toy=original) for arg in args))
    assert result.exit_code == 2
    assert message in result.output


def test_scripts_take_turns_and_the_cache_is_filled_first(original: Path, converted: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    note = "import os; open({!r}, 'a').write('{} ' + os.environ['TORCHINDUCTOR_CACHE_DIR'] + chr(10))\nenvs = Envs()"
    for script in (original, converted):
        script.write_text(edited("envs = Envs()", note.format(str(log), script.stem), script.read_text()))
    arguments = (original, converted, *SHORT, "--mode", "flags-off")
    assert run(*arguments).exit_code == 0
    names, caches = zip(*(line.split() for line in log.read_text().splitlines()), strict=True)
    assert names == ("original", "converted") * 2
    assert len(set(caches)) == 4
    log.unlink()
    assert run(*arguments, "--warm-cache").exit_code == 0
    names, caches = zip(*(line.split() for line in log.read_text().splitlines()), strict=True)
    assert names == ("original", "original", "converted", "converted", "original", "converted")
    assert {name: {c for n, c in zip(names, caches, strict=True) if n == name} for name in names} == {
        "original": {caches[0]},
        "converted": {caches[2]},
    }
    assert not Path(caches[0]).parent.exists()


def test_the_cache_is_filled_by_a_whole_burn_in(original: Path, converted: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    note = f"    open({str(log)!r}, 'a').write(f'{{iteration}} ')\n    time.sleep({sleeper.OTHER})"
    original.write_text(edited(f"    time.sleep({sleeper.OTHER})", note))
    arguments = ("--burn-in", "4", "--rounds", "1", "--turns", "1", "--iterations", "1", "--mode", "none")
    assert run(original, converted, *arguments, "--warm-cache").exit_code == 0
    assert log.read_text().split().count("4") == 2  # the first run also compiles what compiles late


def test_others_can_take_part_in_fewer_rounds(original: Path, converted: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.py", sleeper.TOY)
    result = run(
        original, converted, *SHORT, "--mode", "none", "--against", other, "--against-rounds", "1", "--format", "json"
    )
    rounds = {r["name"]: len(r["rounds"]) for r in json.loads(result.stdout)["results"]}
    assert rounds == {"original": 2, "other.py": 1}


@pytest.mark.slow
def test_a_fixture(tmp_path: Path) -> None:
    script = Path(__file__).parent.parent.parent / "fixtures" / "gym_classic_discrete.py"
    result = run(
        script, "--rounds", "1", "--turns", "1", "--iterations", "3", "--format", "json", "--", "--num-steps", "64"
    )
    assert result.exit_code == 0, result.output
    by_name = {r["name"]: r for r in json.loads(result.stdout)["results"]}
    for name in ("original", "flags off", "compile"):
        assert by_name[name]["status"] == "measured"
        assert set(by_name[name]["seconds_per_step"]) == {"env_step", "rollout", "gae", "update", "other"}
    compiled = by_name["compile"]["functions"]
    assert any(name.startswith("update") for name in compiled)
    assert sum(f["recompilations_after_burnin"] for f in compiled.values()) == 0
    assert by_name["compile"]["warmup_seconds"]["median"] > by_name["original"]["warmup_seconds"]["median"]


@pytest.mark.slow
def test_worker_processes() -> None:
    rungs = ["flags off", "compile"]
    found = {c.name: c.run.args for c in line_up(Run(FIXTURE), None, (), rungs, env_workers=[0, 1, 4])}
    assert list(found) == [
        "original",
        *rungs,
        *(f"{rung}, {number}" for number in ("1 env worker", "4 env workers") for rung in rungs),
    ]
    assert found["compile, 4 env workers"] == ("--env-workers", "4", "--compile")


@pytest.mark.slow
def test_other_arithmetic() -> None:
    rungs = ["flags off", "compile"]
    contenders = line_up(Run(FIXTURE.with_name("target_kl.py")), None, (), rungs, precision=True)
    found = {c.name: c.run.args for c in contenders}
    assert list(found) == ["original", *rungs, "bf16", "compile + bf16", "tf32", "compile + tf32"]
    assert found["compile + bf16"] == ("--precision", "bf16", "--compile")
    assert [c.name for c in contenders if c.needs_cuda] == ["tf32", "compile + tf32"]
    assert [c.name for c in line_up(Run(FIXTURE), None, (), rungs)] == ["original", *rungs]


def test_other_arithmetic_that_there_is_not(original: Path, converted: Path) -> None:
    result = run(original, converted, "--precision", *ONCE)
    assert result.exit_code == 2
    assert "--precision: the script has no such flag" in result.output


def test_worker_processes_that_there_are_not(original: Path, converted: Path) -> None:
    result = run(original, converted, "--env-workers", "2", *ONCE)
    assert result.exit_code == 2
    assert "the converted script has no such flag" in result.output
    result = run(original, converted, "--env-workers", "two", *ONCE)
    assert result.exit_code == 2 and "is not a list of numbers like 0,2,4" in result.output
