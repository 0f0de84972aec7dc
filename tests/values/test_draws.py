"""Draws of distributions that one line of torch gives with the same bits."""

from __future__ import annotations

import ast

import pytest

from transformer.syntax.tree import Tree
from transformer.values.networks.draws import in_one_line

SCRIPT = """\
import torch
import torch.nn as nn
from torch.distributions import Beta, Categorical, Normal


def layer(module, scale=1.0):
    nn.init.orthogonal_(module.weight, scale)
    return module


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    def act(self, x, given=None):
        logits = self.actor(x)
        probs = Categorical(logits=logits)
        return probs.sample()
"""
LAST = "nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))"
MADE = "Categorical(logits=logits)"
FORWARD = (
    ("    def act", "    def forward(self, x):\n        return self.actor(x)\n\n    def act"),
    ("logits = self.actor(x)", "logits = self(x)"),
)


def draw(*edits: tuple[str, str]) -> str | None:
    """The expression that draws the bits of the edited script's sample."""
    code = SCRIPT
    for old, new in edits:
        assert old in code
        code = code.replace(old, new)
    tree = Tree(code)
    (call,) = (n for n in tree.of(ast.Call) if isinstance(n.func, ast.Attribute) and n.func.attr == "sample")
    return in_one_line(tree, call)


@pytest.mark.parametrize(
    "edits",
    [
        (),
        ((LAST, "layer(nn.Linear(2, 2), 0.1)"),),
        ((LAST, "nn.Sequential(nn.Tanh(), layer(nn.Linear(2, 2)))"),),
        (("self.actor(x)", "torch.tanh(self.actor(x))"),),
        (("logits = self.actor(x)\n", "x = x * 2\n        logits = self.actor(x)\n"),),
        ((MADE, "Categorical(None, self.actor(x))"),),
        (("        return probs", "        print(self.actor.parameters())\n        return probs"),),
        FORWARD,
        (*FORWARD, ("= self(x)", "= torch.tanh(self.forward(x))")),
        (
            *FORWARD,
            ("return self.actor(x)", "if len(x):\n            return self.actor(x)\n        return self.actor(-x)"),
        ),
    ],
)
def test_draws_in_one_line(edits: tuple[tuple[str, str], ...]) -> None:
    drawn = draw(*edits)
    assert drawn is not None and "probs" in drawn
    ast.parse(drawn, mode="eval")


@pytest.mark.parametrize(
    "edits",
    [
        ((MADE, "Beta(logits, logits)"),),
        ((MADE, "make(logits=logits)"),),
        ((MADE, "Categorical(logits=logits, validate_args=True)"),),
        ((MADE, "Categorical(logits=x)"),),
        ((MADE, "Categorical(logits=logits.T)"),),
        ((MADE, "Categorical(logits=make(logits))"),),
        ((MADE, "Categorical(logits=torch.transpose(logits, 0, 1))"),),
        ((MADE, "given"),),
        (("        probs = C", "        probs = given\n        probs = C"),),
        (("        probs = C", "        probs, other = C"),),
        (("probs.sample()", "given.sample()"),),
        (("import torch\n", "import torch\ntorch.distributions.Distribution.set_default_validate_args(False)\n"),),
        ((LAST, "nn.Sequential(nn.Linear(2, 2), nn.Unflatten(1, (2, 1)))"),),
        ((LAST, "nn.Sequential()"),),
        ((LAST, "nn.Linear"),),
        ((LAST, "make(nn.Linear(2, 2))"),),
        ((LAST, "layer(nn.Conv2d(2, 2, 1))"),),
        ((LAST, "layer(nn.Linear(2, 2))"), ("def layer", "@keep\ndef layer")),
        ((LAST, "layer(nn.Linear(2, 2))"), ("    return module", "    if scale:\n        return module\n    return 1")),
        ((LAST, "layer(nn.Linear(2, 2))"), ("    return module", "    keep(module)\n    return module")),
        ((LAST, "layer(nn.Linear(2, 2))"), ("    return module", "    module = keep()\n    return module")),
        (("        super().__init__()\n", "        super().__init__()\n        self.actor = nn.Conv2d(2, 2, 1)\n"),),
        (("        return probs", "        keep(self.actor)\n        return probs"),),
        (("    def act", "    def actor(self, x):\n        return x.T\n\n    def act"),),
        (*FORWARD, ("return self.actor(x)", "return self.actor(x).T")),
        (*FORWARD, ("return self.actor(x)", "if len(x):\n            return x\n        return self.actor(x)")),
        (*FORWARD, ("return self.actor(x)", "yield self.actor(x)")),
        (*FORWARD, ("return self.actor(x)", "return self(x)")),
        (*FORWARD, ("    def forward", "    @turned\n    def forward")),
        (*FORWARD, ("    def forward", "    def __call__(self, x):\n        return x.T\n\n    def forward")),
        (*FORWARD, ("    def forward", "    def forward(self, x):\n        return x.T\n\n    def forward")),
        (*FORWARD, ("import torch\n", "import torch\nagent.forward = turned\n")),
        (
            *FORWARD,
            ("        return probs.sample()\n", "        return probs.sample()\n\n\nclass Turned(Agent):\n    pass\n"),
        ),
    ],
)
def test_other_draws(edits: tuple[tuple[str, str], ...]) -> None:
    assert draw(*edits) is None


def test_draws_outside_of_a_method() -> None:
    tree = Tree("from torch.distributions import Categorical\nprobs = Categorical(logits=x)\nprobs.sample()\n")
    (call,) = (n for n in tree.of(ast.Call) if isinstance(n.func, ast.Attribute))
    assert in_one_line(tree, call) is None
