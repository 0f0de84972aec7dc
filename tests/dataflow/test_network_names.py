"""Which calls of a method named `step` are calls of networks."""

import ast

import pytest

from transformer.dataflow.network_names import Networks
from transformer.syntax.query import calls_method
from transformer.syntax.tree import Tree

NET = """
import torch
from torch import nn, optim
class Cell(nn.Module):
    def step(self, x, state):
        return x, state, 0.0, {}
"""
ENV = """
class Env:
    def step(self, action):
        return 0, 0.0, False, {}
"""


def of_networks(code: str) -> list[str]:
    """The calls of `step` in a script that are calls of networks, as source text."""
    tree = Tree(code)
    networks = Networks(tree)
    return [ast.unparse(n.func) for n in tree.of(ast.Call) if calls_method(n, "step") and networks.computes(n)]


@pytest.mark.parametrize(
    "code",
    [
        "cell = Cell().to(device)\nx, h, _, _ = cell.step(x, h)",
        "x, h, _, _ = Cell().eval().step(x, h)",
        "cell = torch.compile(Cell())\nx = cell.step(x, h)",
        "cell = make()\nopt = optim.Adam(cell.parameters())\nx = cell.step(x, h)",
        "cells = nn.ModuleList([Cell(), Cell()])\nfor i, c in enumerate(cells):\n    x = c.step(x, h[i])",
        "cells = [Cell() for _ in range(2)]\nx = cells[0].step(x, h)",
        "envs, cells = [Env()], [Cell()]\nfor env, c in zip(envs, cells):\n    x = c.step(x, h)",
        "def act(net, x):\n    return net.step(x, 0)\nact(net=Cell(), x=1)",
        "def act(net, x, n):\n    return net.step(x, 0) if n else act(net, x, 1)\nact(Cell(), 1, 0)",
        "class Outer(nn.Module):\n    def __init__(self):\n        self.cell = Cell()\n"
        "    def forward(self, x):\n        return self.cell.step(x, 0)",
        "class Outer(Cell):\n    def forward(self, x):\n        return self.step(x, 0)",
    ],
)
def test_a_method_of_a_network(code: str) -> None:
    assert len(of_networks(NET + ENV + code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "env = Env()\nx, r, d, i = env.step(a)",
        "env = wrapped(Env(), reward=Cell())\nx, r, d, i = env.step(a)",
        "opt = optim.Adam(Cell().parameters())\nopt.step()",
        "envs, cells = [Env()], [Cell()]\nfor env, c in zip(envs, cells):\n    x = env.step(c(x))",
        "class Agent(nn.Module):\n    def step(self, a):\n        return self.env.step(a)\n"
        "agent = Agent()\nx = agent.step(a)",
        "class Agent(nn.Module):\n    def step(self):\n        self.opt.step()\nagent = Agent()\nagent.step()",
        "def act(env, x):\n    return env.step(x)\nact(Env(), 1)",
    ],
)
def test_a_step_of_an_environment_or_an_optimizer(code: str) -> None:
    assert not of_networks(NET + ENV + code)
