"""Which function a call may run, and which object an expression may be."""

from __future__ import annotations

import ast

import pytest

from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World

CODE = """
import argparse
import torch
import torch.nn as nn

options = argparse.ArgumentParser().parse_args()


class Net(nn.Module):
    def forward(self, x):
        return x * 2


class Agent(object):
    def __init__(self, **given):
        {line}
        self.net = Net()

    def train(self):
        return self.net(torch.zeros(3))


class Other:
    def __init__(self):
        self.size = 3


other = Other()
agent = Agent(**vars(options))
{below}
agent.train()
agent.net.train()
"""


def world_of(line: str = "pass", below: str = "pass") -> tuple[Tree, World]:
    code = CODE.replace("{line}", line).replace("{below}", below)
    tree = Tree(code)
    return tree, Roles(tree, History(original=code)).get(World)


def call_of(tree: Tree, text: str) -> ast.expr:
    return next(n.func for n in tree.of(ast.Call) if ast.unparse(n) == text)


def may_run(text: str, line: str = "pass", below: str = "pass") -> bool:
    tree, world = world_of(line, below)
    return world.may_be(call_of(tree, text), tree.classes["Agent"].body[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["self.__dict__.update(given)", "vars(self).update(given)", "self.__dict__['a'] = 1"])
def test_entries_of_the_attribute_dict_are_attributes(line: str) -> None:
    assert may_run("agent.train()", line)
    assert not may_run("agent.net.train()", line)


@pytest.mark.parametrize(
    "below",
    [
        "agent.__dict__['net'] = agent",
        "vars(agent)['net'] = agent",
        "vars(agent).update(net=agent)",
        "vars(agent).update([('net', agent)])",
        "def give(**given):\n    vars(agent).update(given)\ngive(net=agent)",
        "def give(**given):\n    given['ne' + 't'] = agent\n    vars(agent).update(given)\ngive()",
        "options.net = agent\nvars(agent).update(vars(options))",
        "options.net = agent\nvars(agent).update(**vars(options))",
        "vars(options)['net'] = agent\ndef give(**given):\n    vars(agent).update(given)\ngive(**vars(options))",
        "setattr(agent, 'ne' + 't', agent)",
        "hold(agent)\nagent.net = made()",
        "for agent.net in [agent]: pass",
    ],
)
def test_an_attribute_may_be_set_by_any_name(below: str) -> None:
    assert may_run("agent.net.train()", below=below)


def test_other_attributes_stay_apart() -> None:
    below = (
        "def give(**given):\n    vars(agent).update(given, a=agent)\noptions.c = agent\ngive(b=agent, **vars(options))"
    )
    assert not may_run("agent.net.train()", "self.__dict__.update(given)", below)


def test_formatting_an_object_gives_nothing_away() -> None:
    tree, world = world_of(below="text = '{} {}'.format(agent, options.lr)")
    assert world.is_known(world.of(call_of(tree, "agent.train()").value))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("below", "known"),
    [
        ("pass", True),
        ("class Sub(Agent):\n    pass\nagent = Sub()", True),
        ("other, agent = Other(), Agent()", True),
        ("class Sub(Agent):\n    def train(self):\n        pass\nagent = Sub()", False),
        ("agent = agent if options.x else other", True),  # Other has no such method
        ("Other.train = print\nagent = agent if options.x else other", False),
        ("Agent.train = print", False),
        ("agent.train = print", False),
        ("agent = unknown(agent)", False),
    ],
)
def test_the_method_that_a_call_runs(below: str, known: bool) -> None:
    tree, world = world_of(below=below)
    train = tree.classes["Agent"].body[1]
    assert world.only_runs(call_of(tree, "agent.train()"), train) == known  # type: ignore[arg-type]


def test_modules_and_tensors() -> None:
    tree, world = world_of(below="x = agent.net(torch.ones(2))\ny = x if options.x else None\nz = [x]")
    assert world.is_module(call_of(tree, "agent.net.train()").value)  # type: ignore[attr-defined]
    assert not world.is_module(call_of(tree, "agent.train()").value)  # type: ignore[attr-defined]


@pytest.mark.parametrize("order", ["agent, other", "other, agent"])
@pytest.mark.parametrize("made", ["def give(): return x\n    return give", "return lambda: x"])
def test_closures_made_in_several_places(made: str, order: str) -> None:
    several = ", ".join(f"once({name})" for name in order.split(", "))
    tree, world = world_of(below=f"def once(x):\n    {made}\nfor one in [{several}]:\n    held = one()\nheld.train()")
    held = call_of(tree, "held.train()").value  # type: ignore[attr-defined]
    assert {t.of[0].node for t in world.of(held)} == {tree.classes["Agent"], tree.classes["Other"]}


def test_objects_made_by_a_library() -> None:
    below = "d = torch.distributions.Normal(agent.net(torch.ones(2)), 1)\ns = d.sample()\nboth = (s, d)\nd, s, both"
    tree, world = world_of(below=below)
    found = {
        n.id: world.may_be_made_by(n, "torch.distributions.") for n in tree.of(ast.Name) if isinstance(n.ctx, ast.Load)
    }
    assert (found["d"], found["s"], found["both"]) == (True, False, True)


@pytest.mark.parametrize(
    "below",
    [
        "import copy\nbody = nn.Sequential(nn.Linear(2, 2))\nwhile options.x: body = copy.deepcopy(body)",
        "body = nn.Sequential(nn.Linear(2, 2))\nwhile options.x: body = nn.Sequential(body, nn.ReLU())",
        "one = two = nn.Sequential(nn.Linear(2, 2))\nwhile options.x:\n    one = nn.Sequential(two)\n"
        "    two = nn.Sequential(one)\nbody = one",
        "body = nn.Sequential(nn.Linear(2, 2))\nbody.append(body)",
    ],
    ids=["copied", "grown", "each in the other", "in itself"],
)
def test_modules_may_hold_themselves(below: str) -> None:
    tree, world = world_of(below=f"{below}\nbody(torch.zeros(2))")
    assert world.of(next(n for n in tree.of(ast.Call) if ast.unparse(n) == "body(torch.zeros(2))"))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("next(map(np.stack, [kept]))", {"array"}),
        ("next(map(lambda x: other, [kept]))", {"instance"}),
        ("torch.FloatTensor([kept])", {"tensor"}),
    ],
)
def test_values_made_of_a_containers_elements(text: str, kinds: set[str]) -> None:
    below = f"import numpy as np\nkept = torch.zeros(3)\nresult = {text}\nresult.sum()"
    tree, world = world_of(below=below)
    result = next(n.func.value for n in tree.of(ast.Call) if ast.unparse(n) == "result.sum()")  # type: ignore[attr-defined]
    found = world.of(result)
    assert {t.kind for t in found if t.kind in ("tensor", "array", "instance")} == kinds
    kept = world.of(next(n for n in tree.of(ast.Name) if n.id == "kept" and isinstance(n.ctx, ast.Load)))
    assert kept and kept.isdisjoint(found)
