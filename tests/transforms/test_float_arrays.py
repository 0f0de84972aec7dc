import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import NoOp, turn
from scripts import PARTS, edited, script

from transformer import Applied, Skipped
from transformer.syntax import templates
from transformer.transforms.compiling.float_arrays import INFO

OLD = edited("agent", "return self.critic(x)", "return self.critic(torch.Tensor(x).to('cpu'))")
PLAIN = {"agent": OLD}

NOOPS = [
    NoOp("none", {}, "nothing that is compiled makes tensors of arrays", kind="not needed"),
    NoOp(
        "a list",
        {"agent": OLD.replace("torch.Tensor(x)", "torch.Tensor([1.0, 2.0])")},
        "nothing that is compiled",
        kind="not needed",
    ),
    NoOp(
        "a size",
        {"agent": OLD.replace("torch.Tensor(x)", "torch.Tensor(3, 2)")},
        "nothing that is compiled",
        kind="not needed",
    ),
    NoOp(
        "a known tensor in the update",
        {"minibatch": edited("minibatch", "b_advantages[mb_inds]", "torch.Tensor(b_advantages[mb_inds])")},
        "nothing that is compiled",
        kind="not needed",
    ),
    NoOp(
        "another default",
        {"agent": OLD, "setup": PARTS["setup"] + "\ntorch.set_default_dtype(torch.float64)"},
        "another default",
    ),
    NoOp(
        "another device by default",
        {"agent": OLD, "setup": PARTS["setup"] + "\ntorch.set_default_device(device)"},
        "another default",
    ),
]


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    replace(noop, also=("policy", "update")).check(INFO.name)


@pytest.mark.parametrize("constructor", ["torch.Tensor", "torch.FloatTensor"])
def test_in_a_network(constructor: str) -> None:
    step = turn(INFO.name, script({"agent": OLD.replace("torch.Tensor", constructor)}), ("policy",))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "return self.critic(float_tensor(x).to('cpu'))" in step.after
    assert step.after.index("def float_tensor(x)") < step.after.index("class Agent")
    assert "next_obs = torch.Tensor(" in step.after, "the training scope is not compiled"


def test_in_a_function_that_a_network_calls() -> None:
    parts = {
        "agent": edited("agent", "return self.critic(x)", "return self.critic(scaled(x))"),
        "functions": "\ndef scaled(x):\n    return torch.FloatTensor(x) / 2\n\n",
    }
    step = turn(INFO.name, script(parts), ("policy",))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "    return float_tensor(x) / 2" in step.after


ARRAYS = [
    np.arange(6.0).reshape(2, 3).T / 3,
    np.arange(6, dtype=np.uint8).reshape(2, 3),
    np.array([1e300, np.nan, -np.inf, 1 + 2**-24]),
    np.array([2**62 + 1, -(2**24) - 1]),
    np.array([True, False]),
    np.zeros((0, 3)),
    np.array(0.1),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}-{a.ndim}")
def test_same_bits_eager_and_compiled(array: np.ndarray) -> None:
    space: dict[str, object] = {"np": np, "torch": torch}
    exec(templates.render("float_tensor", float_tensor="float_tensor", numpy="np"), space)
    float_tensor = space["float_tensor"]
    assert callable(float_tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = torch.Tensor(array)
        made = float_tensor(array)
        compiled = torch.compile(float_tensor, backend="eager", fullgraph=True)(array)
    for got in (made, compiled):
        assert got.dtype == expected.dtype and got.stride() == expected.stride()
        assert got.numpy().tobytes() == expected.numpy().tobytes()
    made.add_(1)
    assert torch.Tensor(array).numpy().tobytes() == expected.numpy().tobytes(), "it is a copy"


def test_tensors_and_sizes_go_to_torch() -> None:
    space: dict[str, object] = {"np": np, "torch": torch}
    exec(templates.render("float_tensor", float_tensor="float_tensor", numpy="np"), space)
    float_tensor = space["float_tensor"]
    assert callable(float_tensor)
    assert float_tensor(3).shape == (3,)
    assert torch.equal(float_tensor([1, 2]), torch.Tensor([1, 2]))
    given = torch.ones(2)
    assert torch.equal(float_tensor(given), given)


SIZES = {
    "the size of a tensor": "torch.FloatTensor(x.shape).uniform_(-1, 1).to(x)",
    "a size with a name": "torch.Tensor(size).fill_(0)",
    "a number": "torch.Tensor(x.shape[0]).fill_(0)",
    "what a function of another file returns": "torch.Tensor(helper(x))",
}


@pytest.mark.parametrize("made", SIZES.values(), ids=SIZES.keys())
def test_what_may_be_a_size_stays(made: str) -> None:
    agent = edited("agent", "return self.critic(x)", f"size = x.size()\nreturn self.critic(x) + {made}.sum()")
    assert isinstance(turn(INFO.name, script({"agent": agent}), ("policy",)).outcome, Skipped)


def test_a_parameter_that_one_call_gives_a_size_stays() -> None:
    """One call in many is enough; a call that spreads its arguments may give anything."""
    for call in ("agent.get_value(next_obs.shape)", "agent.get_value(*[3])", "print(agent.get_value)"):
        parts = {**PLAIN, "report": PARTS["report"] + "\n" + call}
        assert isinstance(turn(INFO.name, script(parts), ("policy",)).outcome, Skipped), call


def test_the_environments_arrays_are_arrays() -> None:
    parts = {
        "agent": OLD.replace("probs = ", "x = torch.FloatTensor(x)\n        probs = "),
        "begin": PARTS["begin"].replace("torch.Tensor(envs.reset()).to(device)", "envs.reset()"),
        "store": PARTS["store"].replace("= next_obs", "= torch.as_tensor(next_obs)"),
        "step": PARTS["step"].replace("next_obs, next_done = torch.Tensor(next_obs).to(device),", "next_done ="),
    }
    step = turn(INFO.name, script(parts), ("policy", "update"))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "self.critic(float_tensor(x)" in step.after
