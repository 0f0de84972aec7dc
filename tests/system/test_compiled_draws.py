"""A compiled policy draws what the eager one draws; a captured one draws anew at each replay."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from scripts import edited, script
from test_on_cuda import ON_CUDA, environment

from transformer import convert

NORMAL = {
    "agent": (
        edited("agent", "Categorical(logits=self.actor(x))", "torch.distributions.Normal(self.actor(x), 1.0)").replace(
            "probs.log_prob(action), probs.entropy()", "probs.log_prob(action).sum(1), probs.entropy().sum(1)"
        )
    ),
    "buffers": edited("buffers", "num_envs)).to(device)\nlogprobs", "num_envs, 2)).to(device)\nlogprobs"),
    "step": edited("step", "action.cpu().numpy()", "action.cpu().numpy()[:, 0] > 0"),
    "flatten": edited("flatten", "actions.reshape(-1)", "actions.reshape(-1, 2)"),
    "minibatch": edited("minibatch", "b_actions.long()[mb_inds]", "b_actions[mb_inds]"),
}


REPLAYED = """
import torch
from tensordict.nn import CudaGraphModule

{options}
act = CudaGraphModule(torch.compile(lambda x: x + torch.randn_like(x), options=options), warmup=2)
for _ in range(8):
    print(*act(torch.zeros(16, device="cuda")).tolist())
"""
SHOWN = {"report": "print(*b_actions.flatten().tolist(), torch.rand(()).item())"}


def printed(text: str, folder: Path, *flags: str, **variables: str) -> list[list[float]]:
    """The numbers that a script prints, by line."""
    path = folder / "ppo.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, str(path), "--num-steps", "12", *flags]
    run = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return [[float(number) for number in line.split()] for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({}, id="categorical", marks=pytest.mark.slow),
        pytest.param(NORMAL, id="normal", marks=pytest.mark.slow),
    ],
)
def test_a_compiled_policy_draws_what_the_eager_one_draws(parts: dict[str, str], tmp_path: Path) -> None:
    """Inductor's own generator would draw other numbers, from a seed drawn by torch's."""
    text, compiled = re.subn(r" +update = torch.compile\(.*\n", "", convert(script({**parts, **SHOWN})).source)
    assert (compiled, text.count("= torch.compile(act, ")) == (1, 1)
    eager = printed(text, tmp_path)
    assert [len(line) for line in eager] == 3 * [24 * (2 if parts else 1) + 1]
    assert printed(text, tmp_path, "--compile") == [pytest.approx(line, abs=1e-3) for line in eager]


@pytest.mark.slow
@pytest.mark.parametrize("emulated", [True, pytest.param(False, marks=pytest.mark.gpu)], ids=["emulated", "gpu"])
def test_a_replay_draws_anew(emulated: bool, tmp_path: Path) -> None:
    if not emulated and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    options = re.search(r"options = \{.*?\}\n", textwrap.dedent(convert(script(ON_CUDA)).source), re.DOTALL)
    assert options is not None
    drawn = printed(REPLAYED.format(options=options[0]), tmp_path, **(environment() if emulated else {}))
    assert len({tuple(line) for line in drawn}) == len(drawn) == 8
