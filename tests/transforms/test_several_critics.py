"""Two critics with an optimizer each, whose passes follow each other; the agent's method stores the steps."""

from pathlib import Path

import pytest
from forking import assert_same_output
from walk import WALK

from transformer import convert

MADE = "walk, learner = Walk(), Learner()"

SCRIPT = f"""
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


{WALK}

class Learner:
    def __init__(self):
        self.actor, self.one, self.two = nn.Linear(4, 1), nn.Linear(5, 1), nn.Linear(5, 1)
        self.adam_one = torch.optim.Adam(self.one.parameters(), lr=1e-3)
        self.adam_two = torch.optim.Adam(self.two.parameters(), lr=1e-3)
        self.past, self.count = [], 0

    def act(self, x):
        with torch.no_grad():
            return self.actor(torch.from_numpy(x)).item()

    def keep(self, x, push, gain):
        self.past.append((x, push, gain))

    def learn(self):
        drawn = random.sample(self.past, 8)
        x = torch.tensor(np.array([d[0] for d in drawn]))
        push = torch.tensor([[d[1]] for d in drawn])
        gain = torch.tensor([d[2] for d in drawn])
        both = torch.cat([x, push], 1)
        loss_one = F.mse_loss(self.one(both).squeeze(1), gain)
        loss_two = F.mse_loss(self.two(both).squeeze(1), gain)
        self.adam_one.zero_grad()
        loss_one.backward()
        self.adam_one.step()
        self.adam_two.zero_grad()
        loss_two.backward()
        self.adam_two.step()
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
        learner.learn()
print(learner.count, [p.sum().item() for net in (learner.one, learner.two) for p in net.parameters()])
"""


@pytest.mark.parametrize("made", [MADE, "walk = Walk()\nlearner = Learner()"], ids=["at once", "one by one"])
def test_both_passes_are_one_update(made: str, tmp_path: Path) -> None:
    script = SCRIPT.replace(MADE, made)
    converted = convert(script, select=("dissolve", "inline", "update"))
    assert converted.source.count("def update(") == 1
    assert_same_output(tmp_path, script, converted.source)


@pytest.mark.parametrize("tuned", [True, False])
def test_an_optimizer_that_may_not_exist(tuned: bool, tmp_path: Path) -> None:
    made = "        self.adam_two = torch.optim.Adam(self.two.parameters(), lr=1e-3)\n"
    step = "        self.adam_two.zero_grad()\n        loss_two.backward()\n        self.adam_two.step()\n"
    compute = "        loss_two = F.mse_loss(self.two(both).squeeze(1), gain)\n"
    script = SCRIPT.replace(made, f"        self.tuned = {tuned}\n        if self.tuned:\n    {made}").replace(
        compute, ""
    )
    under = "".join(f"    {line}\n" for line in (compute + step).splitlines())
    script = script.replace(step, f"        if self.tuned:\n{under}").replace(
        MADE, "walk = Walk()\nlearner = Learner()"
    )
    converted = convert(script, select=("inline", "flags", "tensor-lr", "update", "one-graph"))
    assert 'if hasattr(learner, "adam_two"):\n' in converted.source
    assert_same_output(tmp_path, script, converted.source)
