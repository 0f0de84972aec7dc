"""The recurrence on numpy's views: which loops, and that the bits are those of torch's loop."""

from typing import Any

import pytest
import torch
from cases import turn
from scripts import edited, script

from transformer import Applied, Skipped

ALSO = ("gae-hoist", "gae")
VIEWS = """\
    rows = delta, discount, advantages
    shared = all(r.is_cpu and r.dtype == torch.float32 and r.dim() > 1 and not r.requires_grad for r in rows)
    if shared and type(lastgaelam) in (int, float):
        # The same sums and products in the same memory, without torch's price for each of them
        delta, discount, advantages = (r.numpy() for r in rows)
"""


def emitted() -> tuple[str, Any]:
    """The text after the transform, and the function that it emits."""
    step = turn("numpy-recurrence", script({}), ALSO)
    assert isinstance(step.outcome, Applied), step.outcome
    start = step.after.index("def recurrence(")
    function = step.after[start : step.after.index("\n\n\n", start)]
    space: dict[str, Any] = {"torch": torch, "args": type("Args", (), {"num_steps": 50})}
    exec(function, space)
    return function, space["recurrence"]


def test_views_of_the_rows() -> None:
    function, _ = emitted()
    arrays = ("delta", "discount", "advantages")
    assert all(f"{name}[t]" in function for name in arrays)
    rows = function.split("rows = ")[1].splitlines()[0]
    assert sorted(rows.split(", ")) == sorted(arrays)
    assert VIEWS.replace("delta, discount, advantages", rows) in function


def given(recurrence: Any, tensors: dict[str, torch.Tensor], start: Any = 0) -> torch.Tensor:
    """The advantages that it computes."""
    advantages = torch.zeros_like(tensors["delta"])
    recurrence(**tensors, advantages=advantages, lastgaelam=start)
    return advantages


@pytest.mark.parametrize("shape", [(50, 1), (50, 4), (50, 3, 2)])
@pytest.mark.parametrize("start", [0, 0.25])
def test_the_bits_are_those_of_torch(shape: tuple[int, ...], start: float, monkeypatch: pytest.MonkeyPatch) -> None:
    _, recurrence = emitted()
    torch.manual_seed(0)
    tensors = {"delta": torch.randn(shape) * 1e3 ** torch.randn(shape), "discount": torch.rand(shape)}
    found = given(recurrence, tensors, start)
    expected, last = torch.zeros(shape), start
    for t in reversed(range(50)):
        expected[t] = last = tensors["delta"][t] + tensors["discount"][t] * last
    assert torch.equal(found.view(torch.int32), expected.view(torch.int32))


@pytest.mark.parametrize("why", ["double", "one dimension", "a tensor to start with", "gradients"])
def test_what_stays_in_torch(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, recurrence = emitted()
    shape = (50,) if why == "one dimension" else (50, 2)
    tensors = {"delta": torch.randn(shape), "discount": torch.rand(shape)}
    if why == "double":
        tensors["discount"] = tensors["discount"].double()
    if why == "gradients":
        tensors["delta"].requires_grad_()
    monkeypatch.setattr(torch.Tensor, "numpy", None)
    start = torch.ones(2) if why == "a tensor to start with" else 0
    with torch.no_grad():
        assert given(recurrence, tensors, start).abs().sum() > 0


def test_float32_tensors_go_through_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    _, recurrence = emitted()
    monkeypatch.setattr(torch.Tensor, "numpy", None)
    with pytest.raises(TypeError, match="NoneType"):
        given(recurrence, {"delta": torch.randn(50, 2), "discount": torch.rand(50, 2)})


@pytest.mark.parametrize("carried", ["torch.clamp(lastgaelam, -9, 9)", "(lastgaelam * args.scale)", "lastgaelam ** 2"])
def test_loops_that_do_more(carried: str) -> None:
    step = turn("numpy-recurrence", script({"gae": edited("gae", "* lastgaelam", f"* {carried}")}), ALSO)
    assert isinstance(step.outcome, Skipped)
    assert "does more than add" in step.outcome.reason
