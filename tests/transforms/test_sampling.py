"""Distributions are sampled without waiting for the device: which calls, and that the draws are the same."""

from typing import Any

import pytest
import torch
from cases import turn
from scripts import PARTS, script
from torch.distributions import Categorical, Independent, Normal

from transformer import Applied, Skipped
from transformer.syntax.templates import render
from transformer.values.device.graph_capture import SAMPLED
from transformer.values.networks.draws import BY_CLASS


@pytest.fixture
def sample() -> Any:
    """The emitted function."""
    space: dict[str, Any] = {"torch": torch}
    exec(render("sample", sample="sample", kinds=SAMPLED), space)
    return space["sample"]


def test_the_networks_draws() -> None:
    step = turn("sampling", script({}))
    assert isinstance(step.outcome, Applied), step.outcome
    comment = "            # The draw of probs.sample() without its checks, which wait for the device\n"
    draw = "(probs.probs / torch.empty_like(probs.probs).exponential_(1)).argmax(-1)"
    assert f"{comment}            action = {draw}\n" in step.after
    assert "def sample(" not in step.after


NONE = "no call of a network in the training loop is known to draw from a distribution"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("probs = Categorical(logits=self.actor(x))", "probs = Categorical(logits=self.actor(x).mT.mT)"),
        ("probs = Categorical(logits=self.actor(x))", "probs = Categorical(probs=self.actor(x).softmax(-1))"),
        ("probs = Categorical(logits=self.actor(x))", "probs = self.distribution(x)"),
        ("action = probs.sample()", "action = probs.sample()\n            probs = probs"),
        ("action = probs.sample()", "action = probs.sample() + 0"),
        ("super().__init__()", "super().__init__()\n        self.more = self.actor"),
        ("def get_value(", "def longer(self):\n        self.actor.append(nn.Tanh())\n\n    def get_value("),
        ("def get_value(", "def swap(self, actor):\n        self.actor = actor\n\n    def get_value("),
    ],
)
def test_an_unknown_memory_layout_is_checked_at_run_time(old: str, new: str) -> None:
    assert old in PARTS["agent"]
    step = turn("sampling", script({"agent": PARTS["agent"].replace(old, new)}))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "sample(probs)" in step.after
    assert step.after.index("def sample(distribution):") < step.after.index("class Agent(")


def test_a_tensor_made_by_its_shape() -> None:
    noise = "noise = torch.FloatTensor(x.shape).uniform_(-1, 1)"
    agent = PARTS["agent"].replace("return self.critic(x)", f"{noise}\n        return self.critic(x + noise)", 1)
    step = turn("sampling", script({"agent": agent}))
    assert 'noise = torch.empty(x.shape, dtype=torch.float32, device="cpu").uniform_(-1, 1)' in step.after
    drawn = []
    for make in (torch.FloatTensor, lambda shape: torch.empty(shape, dtype=torch.float32, device="cpu")):
        torch.manual_seed(3)
        drawn.append(make(LOC.shape).uniform_(-1, 1))
    assert torch.equal(*drawn)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (
            {"agent": PARTS["agent"].replace(".sample()", ".rsample()")},
            NONE,
        ),
        (
            {"agent": PARTS["agent"].replace(".sample()", ".sample((1,))[0]")},
            NONE,
        ),
        (
            {"functions": "class Mine(Categorical):\n    def sample(self):\n        return self.probs\n\n\n"},
            "Mine (line",
        ),
    ],
)
def test_left_alone(parts: dict[str, str], reason: str) -> None:
    step = turn("sampling", script(parts))
    assert isinstance(step.outcome, Skipped)
    assert step.outcome.reason.startswith(reason)


LOC, SCALE = torch.linspace(-1, 1, 60).reshape(20, 3), torch.linspace(0.1, 2, 3)
DISTRIBUTIONS = [
    Normal(LOC, SCALE.expand_as(LOC)),
    Normal(LOC.T, SCALE[0]),
    Normal(LOC[:1], SCALE),
    Independent(Normal(LOC, SCALE.expand_as(LOC)), 1),
    Categorical(logits=LOC),
    Categorical(probs=LOC.abs().reshape(4, 5, 3)),
    Categorical(logits=LOC[0]),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("where", ["eager", "compiling", "capturing"])
def test_draws_are_those_of_the_distribution(
    sample: Any, distribution: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits are the same, as no operations are fused, and so is the generator's state afterwards."""
    torch.manual_seed(3)
    expected, after = distribution.sample(), torch.get_rng_state()
    torch.manual_seed(3)
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "is_initialized", lambda: True)
        patched.setattr(torch.cuda, "is_current_stream_capturing", lambda: where == "capturing")
        patched.setattr(torch.compiler, "is_compiling", lambda: where == "compiling")
        drawn = sample(distribution)
    assert torch.equal(drawn, expected)
    assert (drawn.shape, drawn.dtype) == (expected.shape, expected.dtype)
    assert torch.equal(torch.get_rng_state(), after)


def test_graphs_draw_without_a_check(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("normal", "multinomial"):
        monkeypatch.setattr(torch, name, None)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for distribution in DISTRIBUTIONS:
        sample(distribution)


def test_draws_carry_no_gradient(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not sample(Normal(LOC.clone().requires_grad_(), SCALE)).requires_grad
    assert not sample(Categorical(logits=LOC.clone().requires_grad_())).requires_grad


def test_other_distributions_draw_as_they_do(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.manual_seed(3)
    expected = torch.distributions.Beta(SCALE, SCALE).sample()
    torch.manual_seed(3)
    assert torch.equal(sample(torch.distributions.Beta(SCALE, SCALE)), expected)


@pytest.mark.parametrize("shape", [(1,), (3,), (17,), (16, 6), (5, 7), (300, 4), (2, 3, 40)])
@pytest.mark.parametrize("kind", ["Normal", "Categorical"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_line_draws_the_bits_of_the_distribution(kind: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Measured on the installed torch: CPU kernels treat fewer than 16 numbers differently."""
    torch.manual_seed(len(shape))
    given = torch.randn(shape, dtype=dtype)
    scale = torch.rand(shape[-1:], dtype=dtype) + 0.1
    probs = Normal(given, scale.expand_as(given)) if kind == "Normal" else Categorical(logits=given)
    draw = BY_CLASS[kind][0].format(torch="torch", x="probs")
    for seed in range(20):
        torch.manual_seed(seed)
        expected, after = probs.sample(), torch.get_rng_state()
        torch.manual_seed(seed)
        drawn = eval(draw)
        assert torch.equal(drawn, expected)
        assert (drawn.shape, drawn.dtype) == (expected.shape, expected.dtype)
        assert torch.equal(torch.get_rng_state(), after)


KEPT = "self.last = probs\n            action = self.last.sample() if x is None else probs.sample()"


@pytest.mark.parametrize(
    ("third_party", "kinds"),
    [
        ("", {"Categorical"}),
        ("from torch.distributions import Normal as Gaussian", {"Categorical"}),
        ("from torch.distributions import Normal as Gaussian\n\nmade = Gaussian(0.0, 1.0)", {"Categorical", "Normal"}),
        ("from torch import distributions as D\n\nmade = D.Independent", {"Categorical", "Independent"}),
    ],
)
def test_the_function_that_draws_knows_what_the_file_names(third_party: str, kinds: set[str]) -> None:
    agent = PARTS["agent"].replace("action = probs.sample()", KEPT)
    assert agent != PARTS["agent"]
    step = turn("sampling", script({"agent": agent, "third_party": third_party}))
    assert isinstance(step.outcome, Applied), step.outcome
    written = step.after.partition("def sample(distribution):")[2].partition("\n\n\n")[0]
    assert {kind for kind in SAMPLED if f"torch.distributions.{kind})" in written} == kinds
