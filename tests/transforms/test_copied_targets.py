"""Target networks that a helper copies; a loop in a helper gives their parameters new memory."""

from pathlib import Path

import pytest
from forking import assert_same_output

from transformer import convert
from transformer.conversion.result import Applied, Skipped

COPY = "    target = copy.deepcopy(network)\n"
LEARN = "        follow(actor, target_actor)\n"
SCRIPT = f"""
import copy
import random
from collections import deque

import torch
from torch import nn


class Walk:
    def reset(self):
        self.at, self.t = torch.zeros(1, 4), 0
        return self.at

    def step(self, push):
        self.at, self.t = 0.9 * self.at + 0.1 * push + 0.01, self.t + 1
        return self.at, -self.at.abs().sum().item(), self.t > 15


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.all = nn.Linear(4, 1)

    def forward(self, x):
        return torch.tanh(self.all(x))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.all = nn.Linear(5, 1)

    def forward(self, x, push):
        return self.all(torch.cat([x, push], 1))


def copied(network):
{COPY}    for param in target.parameters():
        param.requires_grad = False
    return target


def follow(network, target):
    for param, target_param in zip(network.parameters(), target.parameters()):
        target_param.data = 0.9 * target_param.data + 0.1 * param.data


random.seed(1)
torch.manual_seed(1)
walk, actor, critic = Walk(), Actor(), Critic()
target_actor, target_critic = copied(actor), copied(critic)
actor_adam = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_adam = torch.optim.Adam(critic.parameters(), lr=1e-3)
kept = deque(maxlen=50)
x = walk.reset()
for step in range(60):
    with torch.no_grad():
        push = actor(x)
        after, gain, over = walk.step(push)
        kept.append({{"x": x, "push": push, "gain": torch.tensor([[gain]]), "after": after}})
        x = walk.reset() if over else after
    if step > 16:
        batch = random.sample(kept, 8)
        batch = {{k: torch.cat([b[k] for b in batch]) for k in batch[0].keys()}}
        y = batch["gain"] + 0.9 * target_critic(batch["after"], target_actor(batch["after"]))
        loss = (critic(batch["x"], batch["push"]) - y).pow(2).mean()
        critic_adam.zero_grad()
        loss.backward()
        critic_adam.step()
        actor_loss = -critic(batch["x"], actor(batch["x"])).mean()
        actor_adam.zero_grad()
        actor_loss.backward()
        actor_adam.step()
{LEARN}        follow(critic, target_critic)
print([p.sum().item() for net in (actor, critic, target_actor, target_critic) for p in net.parameters()])
"""


def of_a_copy(old: str = "", new: str = "") -> tuple[Applied | Skipped, str]:
    assert not old or SCRIPT.count(old) == 1, old
    conversion = convert(SCRIPT.replace(old, new) if old else SCRIPT, select=("flags", "update", "one-graph"))
    (step,) = (s for s in conversion.steps if s.transform.name == "one-graph")
    assert isinstance(step.outcome, (Applied, Skipped))
    return step.outcome, conversion.source


def test_the_update_is_one_graph(tmp_path: Path) -> None:
    outcome, converted = of_a_copy()
    assert isinstance(outcome, Applied), outcome
    assert_same_output(tmp_path, SCRIPT, converted)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (COPY, "    target = network\n"),
        (COPY, "    target = copy.deepcopy(network)\n    target.all = network.all\n"),
        (LEARN, f"{LEARN}        target_critic.all = critic.all\n"),
        (LEARN, f"{LEARN}        for p in critic.parameters():\n            p.requires_grad = step % 2 == 0\n"),
    ],
    ids=["the network itself", "a part of it", "a part later", "frozen"],
)
def test_parameters_that_may_be_trained_are_held(old: str, new: str) -> None:
    outcome, _ = of_a_copy(old, new)
    assert isinstance(outcome, Skipped)
