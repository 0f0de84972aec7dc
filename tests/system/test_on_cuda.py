"""Conversions on an emulated CUDA device: every check is equal, and the host waits once per environment step."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import golden
import pytest
from scripts import script as small_script
from test_equality import FIXTURES, LIMIT, arguments, processes

from transformer import convert
from transformer.verify.checks import Check
from transformer.verify.names import CHECKS, OTHER_ARGUMENTS
from transformer.verify.run import Run
from transformer.verify.verify import Task, verify

SEEN = tuple(name for name in CHECKS if name != OTHER_ARGUMENTS)
EMULATED = Path(__file__).parents[1] / "support" / "emulated_cuda"
ON_CUDA = {"setup": 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'}


def environment(**more: str) -> dict[str, str]:
    """The variables that give a process the emulated device."""
    path = os.pathsep.join(filter(None, (str(EMULATED), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", **more}


def early(converted: str) -> str:
    """The script with CUDA graphs captured in the second call of a function, not in the twentieth."""
    return converted.replace("warmup=20", "warmup=2")


def checks(run: Run) -> dict[str, Check]:
    """The outcome of each check, on the emulated device."""
    source = run.source or run.script.read_text(encoding="utf-8")
    task = Task(replace(run, environment=environment()), convert(source).source)
    return {check.name: check for check in verify(task).checks}


def captured(text: str) -> set[str]:
    """The functions that a converted script captures when it does not compile."""
    names = re.findall(r"(\w+) = CudaGraphModule\(", text)
    return {name for name in names if not re.fullmatch(r"act(_\d+)?", name)}  # only compiled steps call act()


def seen(check: Check) -> set[str]:
    """The functions that a check compared."""
    assert check.lockstep is not None
    return {function.name for function in check.lockstep.functions if " " not in function.name}


@pytest.mark.slow
def test_every_check_is_equal(tmp_path: Path) -> None:
    path = tmp_path / "small.py"
    path.write_text(small_script(ON_CUDA), encoding="utf-8")
    found = checks(Run(path, timeout=LIMIT))
    assert {name: check.status for name, check in found.items()} == dict.fromkeys(SEEN, "equal")
    assert seen(found["cuda-graphs"]) == {"policy", "gae", "update"}
    assert seen(found["compiled-cuda-graphs"]) == {"act", "gae", "update"}


@pytest.mark.slow
@pytest.mark.parametrize("fixture", FIXTURES)
def test_every_check_of_a_fixture_is_equal(fixture: str) -> None:
    if processes(fixture):
        pytest.skip("the emulated device belongs to one process")
    text = (golden.FIXTURES / "converted" / fixture).read_text(encoding="utf-8")
    found = checks(Run(golden.FIXTURES / fixture, tuple(arguments(fixture)), timeout=LIMIT))
    expected = SEEN if captured(text) else [check for check in SEEN if "cuda-graphs" not in check]
    statuses = {name: (found[name].status, found[name].reason, found[name].findings) for name in expected}
    assert statuses == dict.fromkeys(expected, ("equal", "", ()))
    # A function with two sizes of minibatches is not captured
    uneven = {"update_networks"} if fixture == "uneven_minibatches.py" else set()
    assert not captured(text) or seen(found["cuda-graphs"]) == captured(text) - uneven


@pytest.mark.slow
def test_the_optimizer_of_a_checkpoint_is_captured(tmp_path: Path) -> None:
    earlier = """
        earlier = optim.Adam(agent.parameters(), lr=1e-3)
        agent.critic(torch.ones(2, device=device)).backward()
        earlier.step()
        torch.save(earlier.state_dict(), "optimizer.pt")
        optimizer.load_state_dict(torch.load("optimizer.pt"))
    """
    path = tmp_path / "loads.py"
    path.write_text(small_script({**ON_CUDA, "before_loop": earlier}), encoding="utf-8")
    found = checks(Run(path, timeout=LIMIT))
    assert {name: check.status for name, check in found.items()} == dict.fromkeys(SEEN, "equal")


def waits(source: str, folder: Path, *args: str) -> Counter[str]:
    """The number of waits for the device in a run, by kind and by the text of the line."""
    script, outcome = folder / "waits.py", folder / "waits.json"
    script.write_text(source, encoding="utf-8")
    command = [sys.executable, str(script), *args]
    subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment(EMULATED_CUDA_WAITS=str(outcome))},
        capture_output=True,
        timeout=LIMIT,
        check=True,
    )
    lines = source.splitlines()
    found: Counter[str] = Counter()
    for place, count in json.loads(outcome.read_text()).items():
        kind, _, line = place.partition(":")
        found[f"{kind} {lines[int(line) - 1].strip()}"] += count
    return found


def each_step(source: str, folder: Path, *flags: str) -> Counter[str]:
    """The waits of ten more environment steps, with equally many minibatches."""
    once = *flags, "--num-iterations", "1", "--update-epochs", "1", "--minibatch-size", "100000"
    few, more = (waits(source, folder, *once, "--num-steps", steps) for steps in ("24", "34"))
    return more - few


@pytest.mark.slow
def test_an_environment_step_waits_once(tmp_path: Path) -> None:
    original = small_script(ON_CUDA)
    assert each_step(original, tmp_path).total() == 70
    ours = each_step(early(convert(original).source), tmp_path, "--compile", "--cudagraphs")
    assert ours == {"download next_obs, reward, done, info = envs.step(action.cpu().numpy())": 10}
