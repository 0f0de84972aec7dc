"""What a CUDA graph replays is what the function would have done: emulated on a CPU, bit by bit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from scripts import script as small_script
from test_equality import FIXTURES, LIMIT, arguments, conversion, processes

from transformer import convert


def emulated(text: str) -> str:
    """A converted script that captures on a CPU, in the second call of a function."""
    text, graphs = re.subn(
        "from tensordict.nn import CudaGraphModule", "from emulated_graphs import CudaGraphModule", text
    )
    text, checks = re.subn(r'\.type != "cuda":', '.type == "none":', text)
    text, warmups = re.subn("warmup=20", "warmup=2", text)
    text = text.replace("all(r.is_cpu and", "all(False and")  # the recurrence in numpy is for the CPU
    assert graphs == checks == 1 <= warmups
    return text


ACTS_ALONE = ":  # the policy's other results are then computed once for the whole rollout"
"""Where a run captures either the draw of the actions or the policy."""


def graphs(text: str) -> int:
    """How many functions a run captures."""
    return text.count("= CudaGraphModule(") - text.count(ACTS_ALONE)


def run(script: Path, args: list[str], how: str) -> dict[str, Any]:
    """What a script prints and ends with where graphs are replayed, or where their functions are called."""
    outcome = script.with_name(f"{how}.json")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
        "EMULATED_GRAPHS": how,
        "EMULATED_OUTCOME": str(outcome),
    }
    command = [sys.executable, str(script), *args, "--cudagraphs"]
    result = subprocess.run(
        command, cwd=script.parent, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    lines = [line for line in result.stdout.splitlines() if "SPS" not in line]
    return {"lines": lines, **json.loads(outcome.read_text())}


def check(script: Path, args: list[str], graphs: int) -> None:
    """Replaying changes nothing, and there are so many graphs."""
    plain, replayed = (run(script, args, how) for how in ("pass", "replay"))
    assert plain["trained"]
    assert plain.pop("replays") == {}
    assert len(replayed.pop("replays")) == graphs
    assert replayed == plain


@pytest.mark.slow
@pytest.mark.parametrize("fixture", FIXTURES)
def test_replays_do_what_the_functions_do(fixture: str, tmp_path: Path) -> None:
    if processes(fixture) or "CudaGraphModule(" not in conversion(fixture).source:
        pytest.skip("captures nothing, or runs in several processes")
    text, script = emulated(conversion(fixture).source), tmp_path / fixture
    script.write_text(text, encoding="utf-8")
    uneven = fixture == "uneven_minibatches.py"  # whose update() is not captured
    check(script, arguments(fixture), graphs(text) - uneven)
    if ACTS_ALONE in text:
        check(script, [*arguments(fixture), "--compile"], graphs(text) - uneven)


@pytest.mark.slow
def test_the_optimizer_of_a_checkpoint_is_captured(tmp_path: Path) -> None:
    earlier = """
        earlier = optim.Adam(agent.parameters(), lr=1e-3)
        agent.critic(torch.ones(2)).backward()
        earlier.step()
        torch.save(earlier.state_dict(), "optimizer.pt")
        optimizer.load_state_dict(torch.load("optimizer.pt"))
    """
    text = emulated(convert(small_script({"before_loop": textwrap.dedent(earlier).strip()})).source)
    path = tmp_path / "loads.py"
    path.write_text(text, encoding="utf-8")
    assert "    update = CudaGraphModule(update" in text
    check(path, [], graphs(text))


def test_the_draw_of_actions_alone_is_captured(tmp_path: Path) -> None:
    text = emulated(convert(small_script()).source)
    path = tmp_path / "acts.py"
    path.write_text(text, encoding="utf-8")
    assert ACTS_ALONE in text
    check(path, ["--compile"], graphs(text))
