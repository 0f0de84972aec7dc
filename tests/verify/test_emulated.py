"""Runs on the emulated CUDA device: what it provides, and why a script may end there."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy import TOY, edited

from transformer.verify import RunFailed, record
from transformer.verify.record import record_run
from transformer.verify.run import Run

HERE = "    agent = Agent()\n"
ON_CUDA = [
    (HERE, '    device = "cuda" if torch.cuda.is_available() else "cpu"\n    agent = Agent().to(device)\n'),
    ("agent.actor(obs)", "agent.actor(obs.to(device))"),
    ("agent.actor(b_obs[mb])", "agent.actor(b_obs[mb].to(device))"),
    ("action.numpy()", "action.cpu().numpy()"),
    ("b_actions[mb])", "b_actions[mb].to(device))"),
    ("b_rewards[mb])", "b_rewards[mb].to(device))"),
]


def run(folder: Path, *edits: tuple[str, str]) -> Run:
    source = TOY
    for old, new in edits:
        source = edited(old, new, source)
    path = folder / "toy.py"
    path.write_text(source, encoding="utf-8")
    return Run(path)


NO_DRIVER = """
import torch


def no_driver(*_):
    raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")


for name in dir(torch._C):
    if name.startswith(("_accelerator_", "_cuda_")):
        setattr(torch._C, name, no_driver)
torch._C._accelerator_getAccelerator = lambda: torch.device("cuda")  # the one that was built for, without a driver too
torch.backends.cudnn.m.is_available = lambda: True
torch.backends.cudnn.m._init = lambda: torch.cuda.get_device_capability() > (7, 5)
torch.cuda.get_device_properties = no_driver
"""
"""Makes torch's CPU build answer as a CUDA build does; it goes to the top of a script."""


@pytest.mark.parametrize("more", ["", "torch.nn.LSTM(2, 2).to(device)", "torch.cuda.get_device_capability()[0] >= 8"])
def test_a_build_for_cuda_without_a_driver(more: str, tmp_path: Path) -> None:
    at = (ON_CUDA[0][0], f"{ON_CUDA[0][1]}    {more}\n")
    there = record_run(run(tmp_path, at, *ON_CUDA[1:], ("import torch\n", NO_DRIVER)), emulated=True)
    assert there.versions["cuda"] and len(there.steps) > 0


@pytest.mark.null_cuda  # a CUDA build of torch must not ask for a driver
@pytest.mark.slow
def test_a_training_there(tmp_path: Path) -> None:
    there = record_run(run(tmp_path, *ON_CUDA), emulated=True)
    here = record(tmp_path / "toy.py")
    assert (there.versions["cuda"], here.versions["cuda"]) == (True, False)
    assert [s.tensors["Agent.actor.weight"].digest for s in there.steps] == [
        s.tensors["Agent.actor.weight"].digest for s in here.steps
    ]


@pytest.mark.parametrize(
    ("broken", "not_emulated"),
    [
        ("torch.ones(1, device='cuda').unsqueeze_(0)", True),
        pytest.param("torch.ones(2, device='cuda') + torch.ones(2)", False, marks=pytest.mark.slow),
        pytest.param("raise SystemExit('needs no CUDA device')", True, marks=pytest.mark.slow),
        pytest.param("torch.ones(1, device='cuda'); raise SystemExit('not on cuda')", False, marks=pytest.mark.slow),
        pytest.param("assert False, 'something else'", False, marks=pytest.mark.slow),
        pytest.param("undefined", False, marks=pytest.mark.slow),
    ],
)
def test_why_a_script_ends(broken: str, not_emulated: bool, tmp_path: Path) -> None:
    with pytest.raises(RunFailed) as failed:
        record_run(run(tmp_path, (HERE, f"    {broken}\n{HERE}")), emulated=True)
    assert failed.value.not_emulated == not_emulated
