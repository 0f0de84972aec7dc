"""Networks that make their own optimizers and belong to an object: `agent.critic.optimizer`."""

from pathlib import Path
from textwrap import dedent, indent

import pytest
from forking import assert_same_output
from walk import WALK

from transformer import convert
from transformer.conversion.result import Applied, Skipped

PART = "        self.one, self.two = nn.Linear(inputs, 8), nn.Linear(8, 1)\n"
ADAM = "        self.optimizer = torch.optim.Adam(self.parameters(), lr=rate)\n"
MADE = '        self.critic = Critic(5, 1e-3, "critic")\n'
LEARN = "        learner.learn()\n"
SCRIPT = f"""
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


{WALK}

class Critic(nn.Module):
    def __init__(self, inputs, rate, name):
        super().__init__()
        self.name = name
{PART}{ADAM}        self.device = torch.device("cpu")
        self.to(self.device)

    def forward(self, x):
        return self.two(F.relu(self.one(x)))


class Actor(nn.Module):
    def __init__(self, inputs, rate):
        super().__init__()
        self.all = nn.Linear(inputs, 1)
        self.optimizer = torch.optim.Adam(self.all.parameters(), lr=rate)

    def forward(self, x):
        return torch.tanh(self.all(x))


class Learner:
    def __init__(self):
        self.actor = Actor(4, 1e-3)
{MADE}        self.past, self.count = [], 0

    def act(self, x):
        with torch.no_grad():
            return self.actor(torch.from_numpy(x)).item()

    def keep(self, x, push, gain):
        self.past.append((x, push, gain))

    def learn(self):
        drawn = random.sample(self.past, 8)
        x = torch.tensor(np.array([d[0] for d in drawn]))
        push = torch.tensor([[d[1]] for d in drawn])
        gain = torch.tensor([[d[2]] for d in drawn])
        self.critic.optimizer.zero_grad()
        loss = F.mse_loss(self.critic(torch.cat([x, push], 1)), gain)
        loss.backward()
        self.critic.optimizer.step()
        self.actor.optimizer.zero_grad()
        actor_loss = -self.critic(torch.cat([x, self.actor(x)], 1)).mean()
        actor_loss.backward()
        self.actor.optimizer.step()
        self.count += 1


random.seed(1)
torch.manual_seed(1)
walk, learner = Walk(), Learner()
x = walk.reset()
for step in range(60):
    push = learner.act(x)
    after, gain, over = walk.step(push)
    learner.keep(x, push, gain)
    x = walk.reset() if over else after
    if step > 16:
{LEARN}print(learner.count, [p.sum().item() for net in (learner.actor, learner.critic) for p in net.parameters()])
"""
SELECT = ("inline", "flags", "tensor-lr", "update", "one-graph")


def of_a_network(changes: dict[str, str]) -> tuple[Applied | Skipped, str]:
    source = SCRIPT
    for old, new in changes.items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    conversion = convert(source, select=SELECT)
    (step,) = (s for s in conversion.steps if s.transform.name == "one-graph")
    assert isinstance(step.outcome, (Applied, Skipped))
    return step.outcome, conversion.source


def test_both_networks_are_stepped_in_the_graph(tmp_path: Path) -> None:
    outcome, converted = of_a_network({})
    assert isinstance(outcome, Applied), outcome
    assert "traceable(learner.critic.optimizer)" in converted and "traceable(learner.actor.optimizer)" in converted
    assert_same_output(tmp_path, SCRIPT, converted)


TAIL = SCRIPT[SCRIPT.index("walk, learner =") :]
TRAINER = """class Trainer:
    def __init__(self, learner, walk):
        self.learner, self.walk = learner, walk

    def train(self):
        x = self.walk.reset()
        for step in range(60):
            push = self.learner.act(x)
            after, gain, over = self.walk.step(push)
            self.learner.keep(x, push, gain)
            x = self.walk.reset() if over else after
            if step > 16:
                self.learner.learn()


learner = Learner()
"""
FUNCTION = """def train(learner, walk):
    x = walk.reset()
    for step in range(60):
        push = learner.act(x)
        after, gain, over = walk.step(push)
        learner.keep(x, push, gain)
        x = walk.reset() if over else after
        if step > 16:
            learner.learn()


learner = Learner()
"""
SHOWN = "print([p.sum().item() for net in (learner.actor, learner.critic) for p in net.parameters()])\n"
SEED = "random.seed(1)\ntorch.manual_seed(1)\n"
HANDED_ON = f"{TRAINER}{SEED}trainer = Trainer(learner, Walk())\ntrainer.train()\n{SHOWN}"
GIVEN = f"{FUNCTION}{SEED}train(learner, Walk())\ntrain(learner, Walk())\n{SHOWN}"
LEARNS = "self.learner.learn()\n"
PROPERTY = "    @property\n    def learner(self):\n        return random.choice(self.learners)\n\n    def train(self"


@pytest.mark.parametrize("tail", [HANDED_ON, GIVEN], ids=["an object's", "an argument"])
def test_an_object_that_is_handed_on(tail: str, tmp_path: Path) -> None:
    outcome, converted = of_a_network({TAIL: tail})
    assert isinstance(outcome, Applied), outcome
    assert "learner.critic.optimizer)\n" in converted
    assert_same_output(tmp_path, SCRIPT.replace(TAIL, tail), converted)


SETS = "                self.learner = Learner()\n"
LATER = "                again()\n"
AGAIN_BELOW = "learner = Learner()\n\n\ndef again():\n    trainer.learner = Learner()\n\n\n"
GETS = "    def __getattr__(self, name):\n        pass\n\n    def train(self"
SEVERAL = "self.learners, self.walk = [learner, Learner()]"
STEPS = (
    indent(dedent(SCRIPT[SCRIPT.index("        drawn =") : SCRIPT.index("\n\nrandom.seed(1)")]), " " * 16).rstrip()
    + "\n"
)
WRITTEN_OUT = HANDED_ON.replace(f"                {LEARNS}", STEPS.replace("self.", "self.learner."))
SPARE = "learner, spare = Learner(), Learner()\n"
RIVAL = """class Rival(Learner):
    def __init__(self):
        super().__init__()
        self.critic = Actor(5, 1.0)


"""
ANOTHER = {
    "set": HANDED_ON.replace(LEARNS, LEARNS + SETS),
    "set by its name": HANDED_ON.replace(LEARNS, f"{LEARNS}                setattr(self, 'learner', Learner())\n"),
    "set by a function": HANDED_ON.replace(LEARNS, LEARNS + LATER).replace("learner = Learner()\n", AGAIN_BELOW),
    "set by a loop": HANDED_ON.replace(LEARNS, f"{LEARNS}                for self.learner in [Learner()]: pass\n"),
    "a property": HANDED_ON.replace("self.learner, self.walk = learner", SEVERAL).replace(
        "    def train(self", PROPERTY
    ),
    "set, written out": WRITTEN_OUT.replace("learner = Learner()\n", SPARE).replace(
        "self.learner.count += 1\n", f"self.learner.count += 1\n{SETS.replace('Learner()', 'spare')}"
    ),
    "asked for": HANDED_ON.replace("    def train(self", GETS),
    "of two classes": RIVAL + GIVEN.replace("train(learner, Walk())\n", "train(Rival(), Walk())\n", 1),
}


@pytest.mark.parametrize("tail", ANOTHER.values(), ids=ANOTHER)
def test_an_object_that_is_handed_on_and_may_be_another(tail: str) -> None:
    outcome, _ = of_a_network({TAIL: tail})
    assert isinstance(outcome, Skipped), tail


DERIVED = {
    "class Actor(nn.Module)": "class Actor(Critic)",
    "super().__init__()\n        self.all": "super().__init__(4, 1e-3, 'a')\n        self.all",
}
AGAIN = f'{LEARN}        learner.critic = Critic(5, 1e-3, "c")\n'
BY_NAME = f'{LEARN}        setattr(learner, "critic", learner.actor)\n'


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({LEARN: AGAIN}, "is not made by exactly one call"),
        ({LEARN: BY_NAME}, "may set critic by its name"),
        (
            {MADE: f"{MADE}        self.again = Learner() if random.random() > 2 else None\n"},
            "runs before the training",
        ),
        ({LEARN: f"{LEARN}        learner.actor.optimizer = learner.critic.optimizer\n"}, "is not set in one place"),
        ({ADAM: f"{ADAM}        self.more = nn.Linear(2, 2)\n"}, "learner.critic.optimizer may not hold"),
        (DERIVED, "is not set in one place"),
    ],
    ids=["made again", "set by its name", "made in a function", "exchanged", "a part more", "derived"],
)
def test_an_optimizer_that_may_be_another(changes: dict[str, str], reason: str) -> None:
    outcome, _ = of_a_network(changes)
    assert isinstance(outcome, Skipped), changes
    assert reason in outcome.reason
