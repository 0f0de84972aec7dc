"""Phases are found in what the converter reads and in what it writes, and cut alike."""

from __future__ import annotations

import ast
from pathlib import Path

import golden
import pytest
import sleeper

from transformer.bench.phases import Position, find_places, find_places_together
from transformer.transforms.extraction import INSTEAD

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
METHODS = {"rollout": "collect", "gae": "estimate", "update": "learn"}
SCRIPTS = sorted(FIXTURES.glob("*.py"))


def texts(source: str, span: tuple[Position, Position]) -> str:
    """The lines from the first statement to the end of the last one."""
    starts = {(n.lineno, n.col_offset): n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt)}
    last = starts[span[1]]
    return "\n".join(source.splitlines()[span[0][0] - 1 : last.end_lineno])


OFF_POLICY = ("deep_q", "distributional", "soft_actor_critic", "tuned_entropy", "twin_critics")
"""Fixtures in which single steps are stored and sampled; they estimate no advantages."""
APART = (
    "acts_and_learns",
    "acts_into_memory",
    "agent_is_a_module",
    "one_update_per_rollout",
    "several_files",
    "learner_of_a_runner",
    "one_step_per_turn",
    "several_agents",
)
"""Fixtures that learn in a method, or estimate advantages in the update, once for each of several agents, or not."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_every_fixture_and_its_conversion(script: Path) -> None:
    original, converted = (p.read_text() for p in (script, FIXTURES / "converted" / script.name))
    beside = [FIXTURES / path for path in golden.ARGS[script.name].get("together", ())]
    there = find_places_together(script, beside) if beside else find_places(original)
    here = find_places(converted)
    assert len(there.env_steps) == len(here.env_steps) > 0
    found = {} if beside else {phase: texts(original, span) for phase, span in there.phases.items()}
    if script.stem in OFF_POLICY:
        assert set(found) == set(here.phases) == {"rollout", "update"}
        assert (".step(" in found["rollout"], ".backward()" in found["update"]) == (True, True)
        assert texts(converted, here.phases["rollout"]) == found["rollout"]
        assert "update" in texts(converted, here.phases["update"])
        return
    if script.stem in APART:
        assert {"rollout", "update"} == {*there.phases} - {"gae"} == {*here.phases} - {"gae"}
        return
    assert set(there.phases) == set(here.phases) == {"rollout", "gae", "update"}
    if script.stem == "in_methods":  # the phases are calls there
        assert {phase: text.split("self.")[1].split("(")[0] for phase, text in found.items()} == METHODS
    else:
        assert ".step(" in found["rollout"]
        assert ".backward()" in found["update"]
        assert "reversed(" in found["gae"] or "-1" in found["gae"]
    for phase in there.phases:
        called = texts(converted, here.phases[phase])
        assert f"{phase}(" in called or f"{INSTEAD[phase]}(" in called


def test_the_toys() -> None:
    for source in (sleeper.TOY, sleeper.IN_FUNCTIONS):
        found = find_places(source)
        assert set(found.phases) == {"rollout", "gae", "update"}
        assert len(found.env_steps) == 1


def test_functions_that_call_functions() -> None:
    source = sleeper.IN_FUNCTIONS.replace("    rollout()\n    gae()", "    collect()\n    estimate()")
    source = source.replace(
        "for iteration", "def collect():\n    rollout()\n\ndef estimate():\n    gae()\n\nfor iteration"
    )
    assert set(find_places(source).phases) == {"rollout", "gae", "update"}


def test_methods() -> None:
    source = """
class Trainer:
    def collect(self):
        for _ in range(4):
            obs, reward = self.envs.step(0)

    def learn(self):
        self.loss().backward()

    def train(self):
        while True:
            self.collect()
            compute_advantages(self)
            self.learn()
"""
    found = find_places(source)
    assert {phase: texts(source, span).strip() for phase, span in found.phases.items()} == {
        "rollout": "self.collect()",
        "gae": "compute_advantages(self)",
        "update": "self.learn()",
    }


def test_an_agent_with_a_step_of_its_own() -> None:
    """It is told from the environment's, and from the optimizer's, by what the object is."""
    source = """
import gym
import torch

class Agent:
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def step(self, obs, reward):
        if reward > 0:
            self.learn(obs)

    def learn(self, obs):
        self.net(obs).sum().backward()
        self.optimizer.step()

env, agent = gym.make("CartPole-v1"), Agent()
for t in range(9):
    obs, reward, done, info = env.step(0)
    agent.step(obs, reward)
"""
    found = find_places(source)
    assert {phase: texts(source, span).strip() for phase, span in found.phases.items()} == {
        "rollout": "obs, reward, done, info = env.step(0)",
        "update": "agent.step(obs, reward)",
    }


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n",
        "for i in range(9):\n    obs, reward = envs.step(0)\n",
        "for i in range(9):\n    obs, reward = envs.step(loss.backward())\n",
    ],
)
def test_where_there_are_none(source: str) -> None:
    assert find_places(source).phases == {}


ABOVE = """
for i in range(9):
    if i > 4:
        for epoch in range(2):
            loss.backward()
    obs, reward = envs.step(0)
"""


@pytest.mark.parametrize(
    ("source", "update"),
    [
        (ABOVE, "if i > 4:"),
        (ABOVE.replace("        for epoch in range(2):\n            loss", "        loss"), "if i > 4:"),
        # An evaluation below an update does not make it the rollout
        (f"{ABOVE}    for epoch in range(2):\n        learner.loss().backward()\n        ", "for epoch in range(2):"),
    ],
)
def test_an_update_above_the_environments_step(source: str, update: str) -> None:
    if source.endswith(" "):
        source = source.replace("            loss.backward()", "            print(i)") + "evaluation = envs.step(1)\n"
    places = find_places(source)
    found = {phase: texts(source, span).strip().splitlines()[0] for phase, span in places.phases.items()}
    assert found == {"rollout": "obs, reward = envs.step(0)", "update": update}
    assert places.stepwise


def test_phases_inside_a_with_statement() -> None:
    source = "for i in range(9):\n    with scope:\n        obs, reward = envs.step(0)\n        loss.backward()\n"
    assert {phase: texts(source, span).strip() for phase, span in find_places(source).phases.items()} == {
        "rollout": "obs, reward = envs.step(0)",
        "update": "loss.backward()",
    }
