"""Original and conversion do the same, bit by bit: conversions, the states between transforms, published scripts."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import golden
import gymnasium
import pytest

from transformer import Conversion, Skipped, convert
from transformer.bench.measure import places_of
from transformer.verify import Recording, compare, record
from transformer.verify.arguments import added_options, without_options
from transformer.verify.record import record_run
from transformer.verify.run import Run

pytestmark = pytest.mark.usefixtures("runs_forked")
FIXTURES = sorted(golden.ARGS)
REPRESENTATIVE = ["gym_classic_discrete.py", "gymnasium_continuous.py"]
"""argparse, gym and CartPole; tyro, gymnasium and Normal actions."""
LIMIT = 300.0
"""Seconds for one run."""

PUBLISHED = {
    "ppo.py": ["--total-timesteps", "384", "--num-envs", "2", "--num-steps", "64", "--update-epochs", "2"],
    "ppo_atari_envpool.py": [
        *["--env-id", "Breakout-v5", "--total-timesteps", "96", "--num-envs", "4", "--num-steps", "8"],
        *["--num-minibatches", "2", "--update-epochs", "1"],
    ],
    "ppo_continuous_action.py": [
        *["--total-timesteps", "384", "--num-steps", "128", "--num-minibatches", "4", "--update-epochs", "2"],
    ],
}


def slow_unless(fast: list[str]) -> list[object]:
    """All fixtures; those that are not in `fast` are marked slow."""
    return [pytest.param(f, marks=[] if f in fast else pytest.mark.slow) for f in FIXTURES]


def arguments(fixture: str) -> list[str]:
    return list(golden.ARGS[fixture]["args"])


def processes(fixture: str) -> int | None:
    """The number of processes that torchrun starts; None if the fixture runs without it."""
    return golden.ARGS[fixture].get("processes")


@cache
def original(fixture: str) -> Recording:
    return recorded(fixture, (golden.FIXTURES / fixture).read_text(encoding="utf-8"))


def recorded(fixture: str, source: str) -> Recording:
    """A run of the fixture or its conversion; stepwise scripts get the clock that `verify` gives them."""
    script = golden.FIXTURES / fixture
    run = Run(script, tuple(arguments(fixture)), source, timeout=LIMIT, processes=processes(fixture))
    return record_run(run, stepwise=places_of(Run(script)).stepwise)


def conversion(fixture: str) -> Conversion:
    return golden.conversion_of(golden.FIXTURES / fixture)


def check(fixture: str, state: str) -> None:
    written_for = golden.ARGS[fixture].get("gymnasium", "0")
    if "import gymnasium" in state and not gymnasium.__version__.startswith(f"{written_for}."):
        pytest.skip(f"the fixture is written for gymnasium {written_for}; test_gymnasium_1.py has one for both")
    converted = recorded(fixture, state)
    assert converted.steps and converted.prints
    assert len(converted.peers) == (processes(fixture) or 1) - 1
    added = added_options((golden.FIXTURES / fixture).read_text(encoding="utf-8"), state)
    assert compare(original(fixture), without_options(converted, added)) == ()


@pytest.mark.parametrize("fixture", slow_unless(REPRESENTATIVE))
def test_conversion_is_equal(fixture: str) -> None:
    check(fixture, conversion(fixture).source)


@pytest.mark.slow
@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_state_is_equal(fixture: str) -> None:
    *between, _ = conversion(fixture).states[1:]
    assert between
    for step in conversion(fixture).steps:
        if step.applied and step.after in between:
            print(f"after {step.transform.name}")
            check(fixture, step.after)


@pytest.mark.parametrize("transform", ["rollout"])
def test_state_in_between_is_equal(transform: str) -> None:
    fixture = REPRESENTATIVE[0]
    (step,) = (s for s in conversion(fixture).steps if s.transform.name == transform)
    assert step.applied
    check(fixture, step.after)


@pytest.mark.slow
@pytest.mark.parametrize("fixture", FIXTURES)
def test_compiled_conversion_trains_to_the_end(fixture: str, tmp_path: Path) -> None:
    script = tmp_path / fixture
    script.write_text(conversion(fixture).source, encoding="utf-8")
    launched = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes(fixture)}"]
    launched = launched if processes(fixture) else []
    command = [sys.executable, *launched, str(script), *arguments(fixture), "--compile"]
    environment = {**os.environ, "TORCH_LOGS": "graph_breaks,recompiles"}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=2 * LIMIT, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    prints = [p.line for recording in (original(fixture), *original(fixture).peers) for p in recording.prints]
    printed = without_numbers(result.stdout)
    assert all(without_numbers(line) in printed for line in prints), "permutations are others, so numbers are, too"
    if any(s.transform.name == "one-graph" and s.applied for s in conversion(fixture).steps):
        assert breaks_in_update(script, result.stderr) == []
        assert result.stderr.count("Recompiling function update") <= ANEW.get(fixture, 0)


ANEW = {"uneven_minibatches.py": 2, "target_kl.py": 1}
"""How often update() is compiled anew: for the size of the last minibatch; for a number that the script changes, and
which the first graph holds as a constant."""


def without_numbers(text: str) -> str:
    """The output, without its numbers."""
    return re.sub(r"-?\d[\d.e+-]*|nan|inf", "#", text)


def breaks_in_update(script: Path, log: str) -> list[int]:
    """The lines of update() at which torch.compile ended a graph."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    lines = [int(n) for n in re.findall(rf"Graph break in user code at \S*{re.escape(script.name)}:(\d+)", log)]
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("update")]
    return [n for n in lines if any(f.lineno <= n <= (f.end_lineno or 0) for f in functions)]


BREAKS = """\
import torch


@torch.compile(backend="eager")
def update(x):
    torch._dynamo.graph_break()
    return x + 1


update(torch.ones(2))
"""


@pytest.mark.slow
def test_a_break_in_update_is_seen(tmp_path: Path) -> None:
    script = tmp_path / "breaks.py"
    script.write_text(BREAKS, encoding="utf-8")
    environment = {**os.environ, "TORCH_LOGS": "graph_breaks"}
    result = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert breaks_in_update(script, result.stderr) == [6]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_script_is_equal(name: str, published: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(published) as wheel:
        script = Path(wheel.extract(f"cleanrl/{name}", tmp_path))
    source = script.read_text(encoding="utf-8")
    converted = convert(source)
    assert not [s for s in converted.steps if isinstance(s.outcome, Skipped) and s.outcome.left_as_it_was]
    left = record(script, PUBLISHED[name], timeout=LIMIT)
    right = record(script, PUBLISHED[name], source=converted.source, timeout=LIMIT)
    assert left.steps and right.iterations > 1
    assert compare(left, without_options(right, added_options(source, converted.source))) == ()
