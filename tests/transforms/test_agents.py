"""Agents with one method that acts and one that learns: what the methods may do, and what stops the transforms."""

import pytest
from cases import turn

from transformer import Applied, Skipped

SCRIPT = """
import argparse
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Scaled(nn.Module):
    def __init__(self, reach):
        super().__init__()
        self.body = nn.Linear(3, 16)
        self.head = nn.Linear(16, 1)
        self.reach = torch.FloatTensor([reach])

    def forward(self, x):
        return torch.tanh(self.head(F.relu(self.body(x)))) * self.reach

    def mean(self, x):
        return self.forward(x)

    def to(self, device):
        self.reach = self.reach.to(device)
        return super().to(device)


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 16)
        self.head = nn.Linear(16, 1)

    def forward(self, x, action):
        return self.head(F.relu(self.body(torch.cat([x, action], 1))))


class Seen:
    def __init__(self):
        self.mean = np.zeros(3)

    def note(self, x):
        self.mean = self.mean * 0.9 + x * 0.1


class Memory:
    def __init__(self):
        self.steps = []

    def put(self, *step):
        kept = tuple(step)
        self.steps.append(kept)

    def sample(self, size):
        chosen = random.sample(self.steps, size)
        states, actions, rewards, following = map(np.stack, zip(*chosen))
        return states, actions, rewards, following


class Agent:
    def __init__(self, args):
        self.device = torch.device("cpu")
        self.actor = Scaled(2.0).to(self.device)
        self.judge = Judge().to(self.device)
        if args.careful:
            self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3, eps=1e-5)
        else:
            self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.judge_optimizer = torch.optim.Adam(self.judge.parameters(), lr=1e-3)

    def act(self, observation):
        state = torch.FloatTensor(observation).to(self.device).unsqueeze(0)
        action = self.actor.mean(state)
        action = action.squeeze(0)
        return action.detach().cpu().numpy()

    def slow_down(self, left):
        for group in self.actor_optimizer.param_groups:
            group["lr"] = 1e-3 * left

    def learn(self, memory, size):
        states, actions, rewards, following = memory.sample(size)
        states = torch.FloatTensor(states).to(self.device)
        actions = torch.FloatTensor(actions).to(self.device)
        rewards = torch.FloatTensor(rewards).to(self.device).unsqueeze(1)
        following = torch.FloatTensor(following).to(self.device)
        with torch.no_grad():
            wanted = rewards + 0.9 * self.judge(following, self.actor(following))
        judge_loss = F.mse_loss(self.judge(states, actions), wanted)
        self.judge_optimizer.zero_grad()
        judge_loss.backward()
        self.judge_optimizer.step()
        actor_loss = -self.judge(states, self.actor(states)).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()


parser = argparse.ArgumentParser()
parser.add_argument("--careful", action="store_true")
parser.add_argument("--steps", type=int, default=200)
args = parser.parse_args()
env = gym.make("Pendulum-v1")
agent, memory, seen = Agent(args), Memory(), Seen()
agent = Agent(args)
observation, _ = env.reset(seed=1)
for step in range(args.steps):
    action = agent.act(observation)
    after, reward, terminated, truncated, _ = env.step(action)
    memory.put(observation, action, reward, after)
    seen.note(after)
    observation = after
    if truncated:
        observation, _ = env.reset()
    if len(memory.steps) > 16:
        agent.learn(memory, 16)
        agent.slow_down(1 - step / args.steps)
print(seen.mean)
""".replace("agent, memory, seen = Agent(args), Memory(), Seen()\n", "memory, seen = Memory(), Seen()\n")
BEFORE = ("inline", "flags", "tensor-lr", "update")
OTHERWISE = "        else:\n            self.actor_optimizer = torch.optim."
PUT = "    def put(self, *step):\n        step = tuple(step)\n        self.memory.put(*step)\n\n"
RATE = '            group["lr"] = 1e-3 * left\n'
ACT = "        action = self.actor.mean(state)\n        action = action.squeeze(0)\n"


def outcome(name: str, *pairs: tuple[str, str]) -> tuple[str, Applied | Skipped]:
    text = SCRIPT
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    step = turn(name, text, ("inline", "flags") if name == "acting-statements" else (*BEFORE, "one-graph"))
    assert isinstance(step.outcome, (Applied, Skipped))
    return step.after, step.outcome


def test_acting_that_needs_no_gradients_is_a_method() -> None:
    after, told = outcome("acting-statements")
    assert isinstance(told, Applied), told
    assert "        return self.actor.mean(state)\n" in after
    assert "        action = self.decide(state)\n        action = action.squeeze(0)\n" in after
    assert "@torch.no_grad()" not in after  # a network may be another after its own to()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        return action.detach().cpu().numpy()\n", "        return action\n"),
        (ACT, f"{ACT}        self.last = action\n"),
        ("        return torch.tanh(", "        self.body.last = x\n        return torch.tanh("),
    ],
    ids=["returned", "kept by the agent", "kept by the network"],
)
def test_acting_whose_gradients_may_be_used_stays(old: str, new: str) -> None:
    _, told = outcome("acting-statements", (old, new))
    assert isinstance(told, Skipped)


def test_one_graph_of_an_agent() -> None:
    """Its optimizer is made in either branch, its rate falls, and another object has a method named mean()."""
    after, told = outcome("one-graph")
    assert isinstance(told, Applied), told
    assert "traceable(agent.actor_optimizer)" in after
    assert "traceable(agent.judge_optimizer)" in after


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (f"{OTHERWISE}Adam", f"{OTHERWISE}SGD", "is made more than once"),
        ("        else:\n", "        if not args.careful:\n", "is made more than once"),
        ("        self.reach = self.reach.to(device)\n", "        self.reach = nn.Linear(1, 1)\n", "sets reach"),
        (RATE, f"{RATE}            group['params'] = []\n", "changes options of the optimizer"),
    ],
    ids=["of two classes", "of two conditions", "a part", "other parameters"],
)
def test_an_agent_that_may_do_more_has_no_graph(old: str, new: str, reason: str) -> None:
    _, told = outcome("one-graph", (old, new))
    assert isinstance(told, Skipped), told
    assert reason in told.reason, told.reason


SLOW = "def slow(opt, rate):\n    for group in opt.param_groups:\n        group['lr'] = rate\n"
CALLED = ("agent.slow_down(1 - step / args.steps)", "slow(agent.actor_optimizer, rate=1 / step)")


@pytest.mark.parametrize(
    ("function", "known"),
    [
        (SLOW, "group['lr'].fill_(rate)"),
        (f"{SLOW}    torch.save(opt.state_dict(), 'opt.pt')\n", "group['lr'].fill_(rate)"),
        (f"{SLOW}    print(opt.state_dict())\n", "group['lr'] = rate"),
        (f"{SLOW}    return opt\n", "group['lr'] = rate"),
        (f"def slow(opt, rate):\n    opt = opt or rate\n{SLOW.partition(':')[2]}", "group['lr'] = rate"),
        ("def slow(*opt, rate):\n    opt[0].param_groups[0]['lr'] = rate\n", "opt[0].param_groups[0]['lr'] = rate"),
        ("class slow:\n    def __init__(self, opt, rate):\n        self.opt = opt\n", "self.opt = opt"),
    ],
)
def test_a_function_that_is_given_the_optimizer(function: str, known: str) -> None:
    """Its rate is in a tensor, or, where that would be seen, in one only while an update runs."""
    after, told = outcome("one-graph", ("class Agent:\n", f"{function}\n\nclass Agent:\n"), CALLED)
    assert isinstance(told, Applied), told
    assert f" {known}\n" in after


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (f"{SLOW}    opt.step()\n", "may step the optimizer, or pass it on"),
        (f"{SLOW}    opt.add_param_group({{}})\n", "add_param_group"),
        (f"{SLOW}    kept.append(opt)\n\n\nkept = []\n", "may step the optimizer, or pass it on"),
        (f"{SLOW}    used(opt)\n\n\ndef used(opt):\n    opt.step()\n", "may step the optimizer, or pass it on"),
        (f"import functools\n\n\n@functools.cache\n{SLOW}", "the learning rate of agent.actor_optimizer"),
    ],
)
def test_a_function_that_may_do_more_with_the_optimizer(function: str, reason: str) -> None:
    _, told = outcome("one-graph", ("class Agent:\n", f"{function}\n\nclass Agent:\n"), CALLED)
    assert isinstance(told, Skipped), told
    assert reason in told.reason


def test_steps_that_are_kept_with_their_graphs() -> None:
    """Stacked arrays have no graph, whatever they were made of; stacked tensors have one."""
    kept = ("tuple(step)", "tuple(agent.judge(x, x) for x in step)")
    _, told = outcome("one-graph", kept, ("map(np.stack, ", "map(torch.stack, "))
    assert isinstance(told, Skipped), told
    assert "may compute a graph outside" in told.reason, told.reason
    assert isinstance(outcome("one-graph", kept)[1], Applied)


def test_steps_put_together_before_they_are_stored() -> None:
    """The agent stores its steps itself, put together by `step = tuple(step)`."""
    keeps = ("        self.device = torch", "        self.memory = Memory()\n        self.device = torch")
    put = ("    def learn(self, memory, size):\n", PUT + "    def learn(self, size):\n        memory = self.memory\n")
    calls = ("    memory.put(", "    agent.put("), ("len(memory.steps)", "len(agent.memory.steps)")
    after, told = outcome("one-graph", keeps, put, *calls, ("agent.learn(memory, 16)", "agent.learn(16)"))
    assert isinstance(told, Applied), told
    assert "    agent.judge_optimizer.zero_grad()\n" not in after


@pytest.mark.parametrize("held", [True, False])
def test_gradients_that_a_network_clears(held: bool) -> None:
    """It clears those that its optimizer steps, if that holds all of them and no others."""
    judge = ("        self.judge_optimizer.zero_grad()\n", "        self.judge.zero_grad()\n")
    other = ("self.judge.parameters(), lr", "[*self.judge.parameters(), *self.actor.parameters()], lr")
    after, told = outcome("one-graph", judge, *([] if held else [other]))
    if held:
        assert isinstance(told, Applied), told
        assert "judge.zero_grad()" not in after
    else:
        assert isinstance(told, Skipped), told
        assert "clears gradients of another optimizer than agent.judge_optimizer" in told.reason


def test_a_name_that_the_update_rebinds() -> None:
    shown = "    actions = agent.judge(torch.zeros(1, 3), torch.zeros(1, 1))\n    print(actions.item())\n"
    _, told = outcome("update", ("    seen.note(after)\n", f"    seen.note(after)\n{shown}"))
    assert isinstance(told, Applied), told
    assert not any("carries gradients" in note for note in told.notes)
