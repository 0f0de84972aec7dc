"""Benchmarks on a CUDA device, with a stand-in for torch whose GPU is a queue of sleeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sleeper
from click.testing import CliRunner
from sleeper import edited

from transformer.bench.measure import Length, Measurement, measure
from transformer.cli import main
from transformer.verify.run import Run

GPU = """
import sys
import types

queue = []


def synchronize():
    while queue:
        time.sleep(queue.pop())


cuda = types.SimpleNamespace(
    is_available=lambda: True,
    is_initialized=lambda: True,
    get_device_name=lambda: "GPU of sleeps",
    max_memory_allocated=lambda: 3 * 2**20,
    max_memory_reserved=lambda: 5 * 2**20,
    synchronize=synchronize,
)
torch = sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, compile=lambda f: f)


def CudaGraphModule(function):
    return function
"""


def queued(source: str) -> str:
    """A toy whose update is queued; its next policy call needs the result."""
    source = edited("import time\n", f"import time\n{GPU}\n", source)
    source = edited(f"        time.sleep({sleeper.UPDATE})", f"        queue.append({sleeper.UPDATE})", source)
    return edited(
        f"        time.sleep({sleeper.POLICY})", f"        time.sleep({sleeper.POLICY}); synchronize()", source
    )


ORIGINAL = queued(sleeper.TOY)
CONVERTED = edited(
    'parser.add_argument("--compile", action="store_true")',
    'parser.add_argument("--compile", action="store_true")\nparser.add_argument("--cudagraphs", action="store_true")',
    edited(
        '    print("no torch.compile(update) here")',
        "    update = torch.compile(update)\nif args.cudagraphs:\n    update = CudaGraphModule(update)",
        queued(sleeper.IN_FUNCTIONS),
    ),
)
STEPS = sleeper.STEPS * sleeper.NUM_ENVS
UPDATE = sleeper.MINIBATCHES * sleeper.UPDATE


def timed(folder: Path, *, synchronise: bool) -> Measurement:
    script = folder / "script.py"
    script.write_text(ORIGINAL)
    return measure(Run(script), Length(burnin=1, iterations=3, seconds=None, turns=1), synchronise=synchronise)


def test_only_a_run_that_waits_tells_the_phases_apart(tmp_path: Path) -> None:
    waited, not_waited = (timed(tmp_path, synchronise=s) for s in (True, False))
    assert waited.split["update"] * STEPS >= UPDATE
    assert not_waited.split["update"] * STEPS < 0.1 * UPDATE
    # A busy machine lengthens either; without the update, the difference would be about 0
    assert not_waited.split["rollout"] - waited.split["rollout"] > 0.5 * UPDATE / STEPS
    assert waited.cuda == "GPU of sleeps"
    assert (waited.memory["cuda_allocated_mib"], waited.memory["cuda_reserved_mib"]) == (3, 5)


@pytest.mark.slow
def test_all_rungs_run_and_phases_come_from_one_more_run(tmp_path: Path) -> None:
    scripts = [tmp_path / "original.py", tmp_path / "converted.py"]
    for script, text in zip(scripts, (ORIGINAL, CONVERTED), strict=True):
        script.write_text(text)
    options = ["--rounds", "1", "--turns", "1", "--burn-in", "1", "--iterations", "2", "--format", "json"]
    result = CliRunner().invoke(main, ["bench", *map(str, scripts), *options])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["cuda"] == "GPU of sleeps"
    by_name = {r["name"]: r for r in found["results"]}
    assert {r["status"] for r in by_name.values()} == {"measured"}
    assert by_name["compile + cudagraphs"]["arguments"] == ["--compile", "--cudagraphs"]
    for one in by_name.values():
        assert one["seconds_per_step"]["update"] * STEPS >= UPDATE, "waited for"
        assert one["rounds"][0]["seconds_per_step"]["update"] * STEPS < 0.1 * UPDATE, "not waited for"
        assert one["peak_mib"]["cuda_allocated_mib"] == 3


def test_a_script_that_fails_only_where_it_is_waited_for(tmp_path: Path) -> None:
    script, other = tmp_path / "original.py", tmp_path / "other.py"
    script.write_text(ORIGINAL)
    other.write_text(
        edited(
            "    while queue:",
            "    if any('enter' in f.f_code.co_name for f in frames()):\n        boom\n    while queue:",
            edited(
                "queue = []",
                "queue = []\n\n\ndef frames():\n    frame = sys._getframe()\n"
                "    while frame is not None:\n        yield frame\n        frame = frame.f_back",
                ORIGINAL,
            ),
        )
    )
    options = [
        "--rung",
        "none",
        "--rounds",
        "1",
        "--turns",
        "1",
        "--burn-in",
        "1",
        "--iterations",
        "1",
        "--against",
        str(other),
    ]
    result = CliRunner().invoke(main, ["bench", str(script), *options])
    assert result.exit_code == 1, result.output
    assert "other.py: failed" in result.output
    assert "boom" in result.output
