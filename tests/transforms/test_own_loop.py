"""An object that trains in a method of its own, whose networks have a base class in the file and lists of layers."""

from pathlib import Path

import pytest
from cases import converted_by
from forking import assert_same_output
from walk import WALK

from transformer import convert
from transformer.conversion.result import Applied, Skipped

ASKED = ("dissolve", "inline", "acting-statements", "tensor-lr", "update", "one-graph")
LAYERS = "        self.layers = nn.ModuleList()\n"
THROUGH = "        for layer in self.layers:\n            x = self.activation(layer(x))\n"
ABOVE = "super(Actor, self).forward(x)"
BOTH = "list(self.one.parameters()) + list(self.two.parameters())"
ACT = "push = self.actor(torch.Tensor(x))"
PUSHED = "            push = push.detach().numpy()\n"
SCRIPT = f"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


{WALK}

class Net(nn.Module):
    def __init__(self, inputs, outputs, activation=F.relu, limit=1.0):
        super(Net, self).__init__()
        self.activation, self.limit = activation, limit
{LAYERS}        for size in (8, 8):
            layer = nn.Linear(inputs, size)
            inputs = size
            self.layers.append(layer)
        self.last = nn.Linear(inputs, outputs)

    def forward(self, x):
{THROUGH}        return self.last(x)


class Critic(Net):
    def forward(self, x, push):
        return super(Critic, self).forward(torch.cat([x, push], -1))


class Actor(Net):
    def __init__(self, inputs, outputs, limit):
        super(Actor, self).__init__(inputs, outputs)
        self.limit = limit

    def forward(self, x):
        return torch.tanh({ABOVE}) * self.limit


class Past:
    def __init__(self):
        self.x, self.push, self.gain = (np.zeros([100, n], np.float32) for n in (4, 1, 1))
        self.at = 0

    def add(self, x, push, gain):
        self.x[self.at], self.push[self.at], self.gain[self.at] = x, push, gain
        self.at += 1

    def sample(self):
        drawn = np.random.randint(0, self.at, size=8)
        return torch.Tensor(self.x[drawn]), torch.Tensor(self.push[drawn]), torch.Tensor(self.gain[drawn])


class Agent(object):
    def __init__(self, limit, rate=1e-3):
        self.actor = Actor(4, 1, limit)
        self.one, self.two = Critic(5, 1), Critic(5, 1)
        self.both = {BOTH}
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=rate)
        self.optimizer = torch.optim.Adam(self.both, lr=rate)
        self.past = Past()

    def learn(self):
        x, push, gain = self.past.sample()
        actor_loss = -self.one(x, self.actor(x)).mean()
        loss = F.mse_loss(self.one(x, push), gain) + F.mse_loss(self.two(x, push), gain)
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def run(self, walk, steps):
        x = walk.reset()
        for step in range(steps):
            {ACT}
{PUSHED}            after, gain, over = walk.step(push)
            self.past.add(x, push, gain)
            x = walk.reset() if over else after
            if step > 10:
                self.learn()
        print(self.one(torch.zeros(4), torch.zeros(1)), x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=1.0)
    args = parser.parse_args()
    np.random.seed(1)
    torch.manual_seed(1)
    agent = Agent(args.limit)
    agent.run(Walk(), 40)


main()
"""


def changed(*edits: tuple[str, str]) -> str:
    script = SCRIPT
    for old, new in edits:
        assert old in script, old
        script = script.replace(old, new)
    return script


def outcomes(script: str) -> dict[str, object]:
    return {step.transform.name: step.outcome for step in converted_by(script, *ASKED).steps}


SAME = {
    "as it is": (),
    "all layers at once": ((LAYERS, f"{LAYERS}        self.more = nn.ModuleList([nn.Linear(inputs, inputs)])\n"),),
    "super() without arguments": ((ABOVE, "super().forward(x)"),),
    "without gradients": ((ACT, f"with torch.no_grad():\n                {ACT}"),),
}


@pytest.mark.parametrize("edits", SAME.values(), ids=list(SAME))
def test_it_acts_and_learns_in_compiled_functions(edits: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    script = changed(*edits)
    found = outcomes(script)
    assert isinstance(found["acting-statements"], Applied), found["acting-statements"]
    assert isinstance(found["one-graph"], Applied), found["one-graph"]
    converted = convert(script).source
    assert "self.decide(torch.Tensor(x))" in converted
    assert_same_output(tmp_path, script, converted)


FORWARD = "    def forward(self, x):\n        return torch.tanh("
MADE = f"        self.both = {BOTH}\n"
ELSEWHERE = "import torch\n", "import torch\nimport elsewhere\n"
EAGER = {
    "its graph is kept": ((PUSHED, f"            self.kept = push\n{PUSHED}"),),
    "its graph is used": (
        (PUSHED, f"            doubled = push * 2\n{PUSHED}"),
        ("self.past.add(x, push, gain)", "self.past.add(x, doubled, gain)"),
    ),
    "the network keeps a graph": (
        (FORWARD, FORWARD.replace("return", "self.seen = self.last.weight * 2\n        return")),
    ),
    "it draws otherwise": ((FORWARD, FORWARD.replace("return", "np.random.rand()\n        return")),),
    "a distribution": (
        (f"torch.tanh({ABOVE}) * self.limit", f"torch.distributions.Normal({ABOVE}, self.limit)"),
        ("self.actor(x))", "self.actor(x).rsample())"),
        (PUSHED, PUSHED.replace("push.detach", "push.sample().detach")),
    ),
    "no tensor": ((ACT, "push = self.actor(elsewhere.made(x))"), ELSEWHERE),
    "by name": ((ACT, "push = self.actor(x=torch.Tensor(x))"),),
    "any object": (("self.actor = Actor(4, 1, limit)", "self.actor = elsewhere.Actor(4, 1, limit)"), ELSEWHERE),
    "a method": (
        (ACT, "push = self.acted(torch.Tensor(x))"),
        ("    def learn", "    def acted(self, x):\n        self.x = x\n        return self.actor(x)\n\n    def learn"),
    ),
}


@pytest.mark.parametrize("edits", EAGER.values(), ids=list(EAGER))
def test_it_acts_as_before_where_more_may_happen(edits: tuple[tuple[str, str], ...]) -> None:
    found = outcomes(changed(*edits))
    assert isinstance(found.get("acting-statements", Skipped("")), Skipped)


STOPPED = "class Stopped:\n    def forward(self, x):\n        return x.detach()\n\n\n"
SEVERAL = {
    "a longer list": ((MADE, f"{MADE}        self.both.append(next(self.actor.parameters()))\n"),),
    "a list that is handed on": ((MADE, f"{MADE}        elsewhere.seen(self.both)\n"), ELSEWHERE),
    "another list": ((MADE, f"{MADE}        if limit > 2:\n            self.both = list(self.actor.parameters())\n"),),
    "a list set by its name": ((MADE, f"{MADE}        setattr(self, 'both', list(self.actor.parameters()))\n"),),
    "two base classes": (("class Actor(Net)", f"{STOPPED}class Actor(Net, Stopped)"),),
    "another class's super()": ((ABOVE, "super(Net, self).__call__(x)"),),
    "a layer of another library": (("layer = nn.Linear(", "layer = elsewhere.layer("), ELSEWHERE),
    "a list of layers that is handed on": ((LAYERS, f"{LAYERS}        elsewhere.fill(self.layers)\n"), ELSEWHERE),
    "a network that is handed on": ((MADE, f"{MADE}        elsewhere.fill(self.actor)\n"), ELSEWHERE),
    "an object that is handed on": (("    agent.run", "    elsewhere.fill(agent)\n    agent.run"), ELSEWHERE),
    "layers under names": (
        (LAYERS, f"{LAYERS}        self.more = nn.Sequential(dict(a=nn.ReLU(inplace=True)))\n"),
        (THROUGH, f"        for layer in self.more:\n            layer(x)\n{THROUGH}"),
    ),
    "the network sets an attribute": ((THROUGH, f"{THROUGH}        self.seen = 1\n"),),
    "the network keeps a graph": ((THROUGH, f"{THROUGH}        self.seen = x\n"),),
    "a base class keeps a graph": (("return self.last(x)\n", "self.seen = self.last(x)\n        return self.seen\n"),),
}


@pytest.mark.parametrize("edits", SEVERAL.values(), ids=list(SEVERAL))
def test_it_learns_in_several_graphs_where_more_may_happen(edits: tuple[tuple[str, str], ...]) -> None:
    found = outcomes(changed(*edits))
    assert isinstance(found.get("one-graph", Skipped("")), Skipped)
