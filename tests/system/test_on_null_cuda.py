"""Conversions with torch's CUDA build on a device that computes nothing: compiling and capturing work.

The emulated device of test_on_cuda.py computes, but neither compiles nor runs torch's CUDA code; this one runs all of
that, Inductor, Triton's compiler and the capture of graphs included, and has no values.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import golden
import pytest
from null_cuda.build import CannotBuild, build
from test_equality import FIXTURES, LIMIT, arguments, processes
from test_on_cuda import captured, early

pytestmark = pytest.mark.null_cuda

ENDS_EARLY = {"extra_buffer.py": "its environment does not take the action 0, the only one there is, everywhere"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables that give a process the device."""
    try:
        return {**os.environ, **build(tmp_path_factory.mktemp("null_cuda"))}
    except CannotBuild as error:
        pytest.skip(str(error))


def run(path: Path, environment: dict[str, str], *args: str) -> tuple[subprocess.CompletedProcess[str], Counter[str]]:
    """A run of a script on the device, and the device's counts."""
    outcome = path.parent / "counts.json"
    result = subprocess.run(
        [sys.executable, str(path), *args],
        cwd=path.parent,
        env={**environment, "NULL_CUDA_COUNTS": str(outcome)},
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
        check=False,
    )
    return result, Counter(json.loads(outcome.read_text()) if outcome.exists() else {})


def converted_fixtures() -> Iterator[object]:
    """All converted fixtures that run on a device."""
    for fixture in FIXTURES:
        text = (golden.FIXTURES / "converted" / fixture).read_text(encoding="utf-8")
        if processes(fixture) is None and captured(text):
            marks = [pytest.mark.skip(ENDS_EARLY[fixture])] if fixture in ENDS_EARLY else []
            yield pytest.param(fixture, text, marks=marks, id=fixture)


@pytest.mark.parametrize("flags", [("--cudagraphs",), ("--compile",), ("--compile", "--cudagraphs")], ids=" ".join)
@pytest.mark.parametrize(("fixture", "text"), list(converted_fixtures()))
def test_a_fixture_is_compiled_and_captured(
    fixture: str, text: str, flags: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / fixture
    path.write_text(early(text), encoding="utf-8")
    result, counts = run(path, environment, *arguments(fixture), *flags)
    assert (result.returncode, counts["forbidden"]) == (0, 0), result.stderr[-3000:]
    # A function with two sizes of minibatches is not captured
    uneven = {"update_networks"} if fixture == "uneven_minibatches.py" else set()
    assert counts["captures"] == (len(captured(text) - uneven) if "--cudagraphs" in flags else 0)


def test_a_capture_that_waits_for_the_device_fails(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "waits.py"
    path.write_text(
        "import torch\nfrom tensordict.nn import CudaGraphModule\n"
        'mean = CudaGraphModule(lambda x: x * x.sum().item())\nx = torch.ones(8, device="cuda")\n'
        "for _ in range(4):\n    mean(x)\n",
        encoding="utf-8",
    )
    result, counts = run(path, environment)
    assert counts["forbidden"] == 1
    assert "operation not permitted when stream is capturing" in result.stderr


def test_an_environment_step_is_one_graph_and_one_wait(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "discrete.py"
    text = (golden.FIXTURES / "converted" / "gym_classic_discrete.py").read_text(encoding="utf-8")
    path.write_text(early(text), encoding="utf-8")
    found = []
    for steps in (64, 96, 64, 96):  # the first run of each size compiles, and waits while Inductor tries out kernels
        sizes = "--num-envs", "1", "--num-steps", str(steps), "--total-timesteps", str(3 * steps)
        result, counts = run(path, environment, *sizes, "--compile", "--cudagraphs")
        assert result.returncode == 0, result.stderr[-3000:]
        found.append(counts)
    more = found[3] - found[2]
    assert (more["graph_launches"], more["waits"], more["downloads"]) == (96, 96, 96)
