"""What may mix the rows of a batch in a network's method, or is too small to evaluate for all steps at once."""

from __future__ import annotations

import pytest
from cases import converted_by, turn
from scripts import PARTS, script
from states import state

from transformer import Applied, Skipped
from transformer.values.networks.rows import Rowwise

AGENT = PARTS["agent"]
INIT = "super().__init__()\n"


def agent(method: str = "return x", kept: str = "", base: str = "nn.Module") -> str:
    """The network with one more method and attribute."""
    text = AGENT.replace(INIT, f"{INIT}        self.more = {kept}\n") if kept else AGENT
    return text.replace("nn.Module", base, 1) + f"\n\n    def extra(self, x):\n        {method}"


def obstacle(network: str, method: str = "extra", functions: str = "") -> str | None:
    made = state(agent=network, functions=functions)
    return Rowwise(made.roles, made.tree.classes["Agent"]).obstacle(method)


LAYERS = "def layers(n):\n    return nn.Sequential(nn.Linear(n, n), nn.Tanh())\n\n\n"
NODE = """\
class Node(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.below = Node(depth - 1) if depth > 0 else nn.Identity()

    def forward(self, x):
        return self.below(self.layer(x))


"""
MLP = """\
def mlp(sizes, act=nn.Tanh):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i < len(sizes) - 2:
            layers.append(act())
    return nn.Sequential(*layers)


"""
NEST = "def nest(n):\n    return nn.Sequential(nn.Linear(2, 2), nest(n - 1)) if n else nn.Linear(2, 2)\n\n\n"


@pytest.mark.parametrize(
    ("method", "kept", "functions"),
    [
        ("return self.critic(x)", "", ""),
        ("return self.get_value(x)", "", ""),
        ("return self.get_value(x) + self.get_value(x * 2)", "", ""),
        ("return x[:, 0] + x[..., 1]", "", ""),
        ("return self.critic(torch.cat([x, self.actor(x)], 1))", "", ""),
        ("return torch.cat((x, x), dim=1)", "", ""),
        ("return self(x)\n\n    def forward(self, x):\n        return self.critic(x)", "", ""),
        ("return self.more(x)", "nn.Sequential(*[nn.Linear(2, 2), nn.Tanh()])", ""),
        ("return self.more(x)", "layers(2)", LAYERS),
        ("return self.more(x)", "Node(2)", NODE),
        ("return self.more(x)", "nest(2)", NEST),
        ("return self.more(x)", "mlp([2, 3, 2])", MLP),
        ("return self.more(x)", "mlp([2, 3, 2], nn.ReLU)", MLP),
        ("return self.more(x)", "mlp(act=nn.ELU, sizes=[2, 3, 2])", MLP),
    ],
)
def test_each_row_by_itself(method: str, kept: str, functions: str) -> None:
    assert obstacle(functions + agent(method, kept)) is None


@pytest.mark.parametrize(
    ("method", "kept", "said"),
    [
        ("shape = x.shape\n        return x", "", "reads x.shape"),
        ("return x.T", "", "reads x.T"),
        ("return [y for y in x]", "", "a loop or a function"),
        ("for y in x:\n            x = x + y\n        return x", "", "a loop or a function"),
        ("return (*x,)", "", "a loop or a function"),
        ("return x @ x", "", "multiplies matrices"),
        ("return x[0]", "", "indexes x[0]"),
        ("return torch.cat([x, x])", "", "calls torch.cat()"),
        ("return torch.cat([x, x], dim=0)", "", "calls torch.cat()"),
        ("return torch.cat([x, x], -1)", "", "calls torch.cat()"),
        ("return torch.cat(tensors=x, dim=1)", "", "calls torch.cat()"),
        ("return torch.stack([x, x], 1)", "", "calls torch.stack()"),
        ("return x[1:, 0]", "", "indexes x[1:, 0]"),
        ("return shuffled(x)", "", "calls shuffled()"),
        ("return np.flip(x)", "", "calls np.flip()"),
        ("return make()(x)", "", "calls make()()"),
        ("return self.unknown(x)", "", "nothing is known of Agent.unknown"),
        ("return self(x)", "", "nothing is known of Agent.forward"),
        ("return self(x)\n\n    def forward(self, x):\n        return x[0]", "", "indexes x[0]"),
        ("return self(x)\n\n    def __call__(self, x):\n        return x.T", "", "reads x.T"),
        ("return self.more(x)", "nn.BatchNorm1d(2)", "makes a nn.BatchNorm1d"),
        ("return self.more(x)", "unknown(2)", "makes it with unknown()"),
    ],
)
def test_mixed_rows(method: str, kept: str, said: str) -> None:
    assert said in (obstacle(agent(method, kept)) or "")


def test_layers_made_by_a_function() -> None:
    norm = "def norm():\n    return nn.Sequential(nn.BatchNorm1d(2))\n\n\n"
    assert "makes a nn.BatchNorm1d" in (obstacle(norm + agent("return self.more(x)", "norm()")) or "")
    mean = NODE.replace("self.layer(x)", "self.layer(x).mean(0)")
    assert "x.mean" in (obstacle(mean + agent("return self.more(x)", "Node(1)")) or "").replace("self.layer(x)", "x")


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("", "", "mlp([2, 3, 2], nn.BatchNorm1d)"),
        ("", "", "mlp([2, 3, 2], args.act)"),
        ("", "", "nn.Sequential(mlp([2, 3, 2]), mlp([2, 3, 2], make_act))"),
        ("=nn.Tanh", "", "mlp(*[[2, 3, 2], nn.Tanh])"),
        ("    layers = []\n", "    layers, act = [], make_act(act)\n", "mlp([2, 3, 2])"),
        ("act=nn.Tanh", "act=nn.Dropout", "mlp([2, 3, 2])"),
    ],
)
def test_a_layer_of_an_unknown_class(old: str, new: str, kept: str) -> None:
    helper = MLP.replace(old, new) if old else MLP
    assert "act()" in (obstacle(helper + agent("return self.more(x)", kept)) or "").replace("makes a act,", "act()")
    network = agent(kept=kept).replace("self.actor(x)", "self.actor(self.more(x))")
    step = turn("evaluate-once", script({"agent": helper + network}), ("policy", "storage"))
    assert isinstance(step.outcome, Skipped), step.after


BY_NETWORK = ("tensor-lr", "shuffle", "deferred-sync", "sampling", "evaluate-once", "update", "one-graph", "cudagraphs")
"""Transforms that ask what a network does."""


@pytest.mark.parametrize("kept", ["mlp([2, 3, 2])", "mlp([2, 3, 2], nn.ReLU)"])
def test_a_layer_whose_class_is_a_parameter(kept: str) -> None:
    network = agent(kept=kept).replace("self.actor(x)", "self.actor(self.more(x))")
    conversion = converted_by(script({"agent": MLP + network}), *BY_NETWORK)
    applied = {s.transform.name for s in conversion.steps if isinstance(s.outcome, Applied)}
    assert applied >= {"evaluate-once", "one-graph", "cudagraphs"}


def test_classes_of_other_files() -> None:
    assert "derived from Base" in (obstacle(agent(base="Base"), functions="Base = nn.Module\n\n\n") or "")
    assert "has no method forward of its own" in (obstacle(AGENT, "forward") or "")


@pytest.mark.parametrize(("kept", "above"), [("Node(2)", NODE), ("nest(2)", NEST)])
def test_networks_that_contain_their_own_class(kept: str, above: str) -> None:
    network = agent(kept=kept).replace("self.actor(x)", "self.actor(self.more(x))")
    assert converted_by(script({"agent": above + network}), *BY_NETWORK).converted
