"""Rounding to float32 in numpy: which transfers, and that the bits are the same."""

import warnings

import numpy as np
import pytest
import torch
from cases import turn
from scripts import PARTS, edited, script

from transformer import Applied, Skipped

CAST = "torch.as_tensor(np.asarray(next_obs, dtype=np.float32)).to(device, non_blocking=True)"


def test_observations() -> None:
    step = turn("host-casts", script({}))
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.before.count(".to(device, torch.float32, non_blocking=True)") == 2
    assert CAST in step.after
    assert "torch.as_tensor(np.asarray(done, dtype=np.float32)).to(device, non_blocking=True)" in step.after


def test_after_host_arrays_only_observations_are_left() -> None:
    step = turn("host-casts", script({}), ("host-arrays",))
    assert isinstance(step.outcome, Applied), step.outcome
    assert CAST in step.after
    assert step.after.count("np.asarray") == 1


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"step": edited("step", "torch.Tensor(next_obs)", "torch.Tensor(look(next_obs))")}, None),
        ({"agent": PARTS["agent"].replace("nn.Linear(2, 8)", "nn.Conv1d(1, 1, 1)", 1)}, "the network is given images"),
        ({"imports": PARTS["imports"].replace("import numpy as np", "import numpy")}, ""),
    ],
)
def test_what_is_left_alone(parts: dict[str, str], reason: str | None) -> None:
    step = turn("host-casts", script(parts))
    if reason is None:
        assert "np.asarray(look" not in step.after, "a function may return a tensor"
    elif reason:
        assert isinstance(step.outcome, Skipped)
        assert step.outcome.reason.startswith(reason)
    else:
        assert "numpy.asarray(next_obs, dtype=numpy.float32)" in step.after


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_])
def test_the_bits_are_the_same(dtype: type) -> None:
    random = np.random.default_rng(0)
    array = random.normal(size=(1000, 7)) * np.logspace(-45, 38.5, 7)
    array[0] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0**-149, 16_777_217.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is out of range
        array = array.astype(dtype)
        in_numpy = torch.as_tensor(np.asarray(array, dtype=np.float32))
    in_torch = torch.as_tensor(array).to("cpu", torch.float32, non_blocking=True)
    assert torch.equal(in_numpy.view(torch.int32), in_torch.view(torch.int32))
    assert torch.equal(in_numpy.view(torch.int32), torch.Tensor(array).view(torch.int32))


def test_layout_is_the_same() -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert torch.as_tensor(np.asarray(array, dtype=np.float32)).stride() == torch.as_tensor(array).float().stride()
