"""The emulated CUDA device refuses what CUDA refuses, and computes what the CPU computes."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from transformer.verify.harness import emulated_device
from transformer.verify.harness.eager_steps import COMPARED, EagerSteps
from transformer.verify.harness.emulated_device import Devices, DeviceTensor, falls_short
from transformer.verify.harness.emulated_streams import Graph, capturing
from transformer.verify.harness.journal import Journal


@pytest.fixture(autouse=True)
def cuda() -> Iterator[None]:
    emulated_device.waits.clear()
    with emulated_device.emulated():
        yield


def on_device(*values: float) -> torch.Tensor:
    """A tensor on the device, made without a wait."""
    return torch.tensor(values).to("cuda", non_blocking=True)


def kinds() -> dict[str, int]:
    """The number of times the host has waited, by kind."""
    return {place.partition(":")[0]: count for place, count in emulated_device.waits.items()}


def train(device: str) -> list[float]:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1, eps=1e-5)
    for _ in range(3):
        loss = network(torch.randn(5, 3).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
    return [x for p in network.parameters() for x in p.detach().cpu().reshape(-1).tolist()]


def test_training_there_gives_the_same_bits() -> None:
    assert train("cuda") == train("cpu")


def halve(x: torch.Tensor, index: Any) -> list[float]:
    x[index] /= 2
    return x[index].cpu().tolist() + x.cpu().tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("index", [[0, 2], [True, False, True], (slice(None), [1]), ([0, 1], [1, 0])])
def test_lists_of_indices_mean_the_same(index: Any) -> None:
    host = torch.arange(1.0, 7.0).reshape(3, 2)
    assert halve(host.clone().to("cuda"), index) == halve(host.clone(), index) != halve(host.clone(), slice(None))


def test_lost_values_are_refused() -> None:
    x = on_device(1.0, 2.0)
    with torch._C.DisableTorchFunction(), pytest.raises(NotImplementedError, match="lost"):
        x[[0]] = 0.0  # torch's C++ makes a "meta" tensor of the list


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, device="cuda"),
        lambda: torch.tensor([1.0, 2.0], device="cuda"),
        lambda: torch.zeros_like(on_device(1.0)),
        lambda: on_device(1.0, 2.0)[torch.tensor([1])],
        lambda: on_device(1.0).to("cuda"),
        lambda: nn.Linear(2, 2).to(torch.device("cuda")).weight,
        lambda: deepcopy(nn.Linear(2, 2).to("cuda")).weight,
        lambda: on_device(1.0) * torch.tensor(2.0),
    ],
)
def test_supported(make: Any) -> None:
    assert isinstance(made := make(), DeviceTensor)
    assert (made.device.type, made.is_cuda, made.cpu().device.type) == ("cuda", True, "cpu")


@pytest.mark.parametrize(
    ("error", "do"),
    [
        (Devices, lambda x, host: x + host),
        (Devices, lambda x, host: torch.cat([x, host])),
        (Devices, lambda x, host: torch.stack([x[0], host[0]])),
        (Devices, lambda x, host: host[x.long()]),
        (Devices, lambda x, host: nn.functional.mse_loss(x, host)),
        (TypeError, lambda x, host: x.numpy()),
        (RuntimeError, lambda x, host: x.pin_memory()),
    ],
)
def test_refused_as_on_cuda(error: type[Exception], do: Any) -> None:
    with pytest.raises(error):
        do(on_device(1.0, 0.0), torch.ones(2))


@pytest.mark.parametrize(
    ("short", "do"),
    [
        (True, lambda x: x.unsqueeze_(0)),
        (True, lambda x: torch.cuda.get_device_properties(0)),
        (False, lambda x: x + torch.ones(2)),
        (False, lambda x: x.numpy()),
        (False, lambda x: x @ x[:1]),
        (False, lambda x: x.missing),
    ],
)
def test_not_emulated_is_no_mistake(short: bool, do: Any) -> None:
    with pytest.raises(Exception) as raised:
        do(on_device(1.0, 0.0))
    assert falls_short(raised.value) == short


def test_a_refusal_that_led_to_another_error_is_a_mistake() -> None:
    with pytest.raises(NotImplementedError) as raised:
        try:
            on_device(1.0) + torch.ones(1)
        except Devices as error:
            raise NotImplementedError from error
    assert not falls_short(raised.value)


@pytest.mark.parametrize(
    ("kind", "do"),
    [
        ("item", lambda x: x[0].item()),
        ("item", lambda x: bool(x.any())),
        ("download", lambda x: x.cpu()),
        ("download", lambda x: x.tolist()),
        ("download", lambda x: torch.zeros(2).copy_(x)),
        ("upload", lambda x: torch.zeros(2).to("cuda")),
        ("upload", lambda x: x.copy_(torch.zeros(2))),
        ("nonzero", lambda x: x.nonzero()),
        ("mask", lambda x: x[x > 0]),
        ("multinomial", lambda x: torch.distributions.Categorical(x, validate_args=False).sample()),
        ("normal", lambda x: torch.distributions.Normal(x, x, validate_args=False).sample()),
    ],
)
def test_where_the_host_waits(kind: str, do: Any) -> None:
    x = on_device(1.0, 2.0)
    do(x)
    assert kinds() == {kind: 1}


def test_where_the_host_does_not_wait() -> None:
    x = on_device(1.0, 2.0)
    x.copy_(torch.zeros(2), non_blocking=True)
    (x * 2 + torch.tensor(1.0)).clone().sum()
    x[0] = 1.0
    assert kinds() == {}


def test_a_replay_repeats_only_device_code() -> None:
    x, host, python = on_device(1.0), torch.tensor(1.0), []
    graph = Graph()
    with capturing(graph):
        python.append(1)
        result = x.mul_(2) + host
    assert x.item() == 1  # a capture computes nothing
    host.fill_(100)
    graph.replay()
    assert (x.item(), result.item(), python) == (2, 3, [1])  # the replay uses the host's number at the capture
    graph.replay()
    assert (x.item(), result.item()) == (4, 5)


@pytest.mark.parametrize("do", [lambda x: x.item(), lambda x: x.cpu(), lambda x: x.copy_(torch.zeros(1))])
def test_host_copies_in_a_capture(do: Any) -> None:
    x = on_device(1.0)
    with pytest.raises(Devices, match="captur"), capturing(Graph()):
        do(x)


class Descent(torch.optim.Optimizer):
    """Gradient descent with capturable steps `slip` times as long as others."""

    slip = 1.0

    def __init__(self, parameters: Any, lr: Any, capturable: bool) -> None:
        super().__init__(parameters, {"lr": lr, "capturable": capturable})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad * float(group["lr"]) * (self.slip if group["capturable"] else 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("slip", [1.0, 1.5])
def test_capturable_steps_equal_ordinary_ones(slip: float, tmp_path: Path) -> None:
    journal = Journal(tmp_path, 0)
    steps, parameter = EagerSteps(journal), nn.Parameter(on_device(1.0, 2.0))
    parameter.grad = on_device(0.5, 0.5)
    optimizer = Descent([parameter], torch.tensor(0.1, dtype=torch.float64, device="cuda"), capturable=True)
    optimizer.slip = slip
    for _ in range(COMPARED + 2):
        with steps.during_step(optimizer):
            optimizer.step()
    steps.finish()
    moved = 0.1 * 0.5 * (COMPARED + 2)
    assert parameter.tolist() == pytest.approx([1 - moved, 2 - moved])
    assert optimizer.param_groups[0]["capturable"]
    assert isinstance(optimizer.param_groups[0]["lr"], torch.Tensor)
    far = {call: relative for _, _, call, _, _, _, _, _, relative, _ in journal.entries["calls"]}
    assert far == {call: pytest.approx(slip - 1, abs=1e-4) for call in range(1, COMPARED + 1)}
    assert [entry[1] for entry in journal.entries["regrouped"]] == ["cudagraphs"]
