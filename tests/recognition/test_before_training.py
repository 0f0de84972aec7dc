"""Code that runs only before training: on an object that nothing in the loop makes."""

from __future__ import annotations

import ast

import pytest
from states import more, state

from transformer.recognition.before_training import runs_before_training

MADE = """class Agent:
    def __init__(self):
        self.rate = 1

    def act(self, x):
        return x

    @classmethod
    def again(cls):
        return cls()


def make():
    return Agent()


{}
made = make()"""


def is_set_before(line: str = "pass", above: str = "") -> bool:
    """Whether the agent's rate is set only before the training, whose loop runs `line`."""
    roles = state(report=more("report", line), functions=f"{MADE.format(above)}\n\n\n").roles
    (stored,) = (n for n in roles.tree.of(ast.Attribute) if n.attr == "rate")
    return runs_before_training(roles, stored)


@pytest.mark.parametrize(
    "line",
    [
        "pass",
        "print(made.act(1))",
        "Agent.act = print(Agent.act)",
        "print([make for make in range(3)])",
        "print((lambda Agent: Agent + 1)(iteration))",
    ],
)
def test_an_object_that_is_made_above_the_loop(line: str) -> None:
    assert is_set_before(line)


@pytest.mark.parametrize(
    "above",
    [
        "def plus(make, Agent):\n    return make(Agent)\n",
        "def plus():\n    make = len\n    return make([1])\n",
        "def plus():\n    from os import stat as Agent\n    return Agent\n",
    ],
)
def test_another_variable_of_the_same_name(above: str) -> None:
    assert is_set_before(above=above)


@pytest.mark.parametrize(
    "line",
    [
        "Agent()",
        "make()",
        "Agent.again()",
        "Agent.__call__()",
        "Agent.other()",
        "print(Agent.__class__)",
        "print(Agent)",
        "print((lambda Agent=Agent: 1)())",
        "print([make for _ in range(3)])",
        "print([make() for make in (make,)])",
    ],
)
def test_an_object_that_may_be_made_in_the_loop(line: str) -> None:
    assert not is_set_before(line)


def test_a_global_of_the_same_name() -> None:
    assert not is_set_before(above="def plus():\n    global make\n    make = len\n    return make\n")


def test_a_method_with_another_name_in_the_class() -> None:
    assert not is_set_before(above="class More(Agent):\n    both = Agent.again\n")
