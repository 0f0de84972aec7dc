"""In a method that chooses the actions, the network's call becomes a method that --compile replaces."""

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


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.layers(x)


class Learner(object):
    def __init__(self, device):
        self.__dict__.update(device=device, lag=0.01)
        self.q_net = Net().to(device)
        self.target = Net().to(device)
        self.optimizer = torch.optim.Adam(self.q_net.parameters(), lr=1e-3)
        self.memory = []

    def choose(self, observation, greedy):
        with torch.no_grad():
            state = torch.as_tensor(observation, dtype=torch.float32).unsqueeze(0)
            if greedy:
                return self.q_net(state).argmax(1).item()
            if random.random() < 0.1:
                return random.randrange(2)
            return self.q_net(state).argmax(1).item()

    def learn(self):
        batch = random.sample(self.memory, 8)
        states, actions, rewards, following = (torch.as_tensor(np.array(x)) for x in zip(*batch))
        with torch.no_grad():
            wanted = rewards.float() + 0.9 * self.target(following.float()).max(1)[0]
        values = self.q_net(states.float()).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = ((values - wanted) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


env = gym.make("CartPole-v1")
learner = Learner(torch.device("cpu"))
observation, _ = env.reset(seed=1)
for step in range(200):
    action = learner.choose(observation, greedy=False)
    following, reward, terminated, truncated, _ = env.step(action)
    learner.memory.append((observation, action, reward, following))
    observation = following
    if terminated or truncated:
        observation, _ = env.reset()
    if step > 20:
        learner.learn()
print(learner.choose(observation, greedy=True))
"""
CALL = "self.q_net(state).argmax(1)"
BY_NAME = "        self.__dict__.update(device=device, lag=0.01)\n"


def outcome(*pairs: tuple[str, str]) -> tuple[str, Applied | Skipped]:
    text = SCRIPT
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    step = turn("acting-statements", text, ("inline",))
    assert isinstance(step.outcome, (Applied, Skipped))
    return step.after, step.outcome


def test_every_place_calls_one_method() -> None:
    after, _ = outcome()
    assert f'    def decide(self, state):\n        """Choose the actions."""\n        return {CALL}\n' in after
    assert after.count("return self.decide(state).item()") == 2
    assert after.count(CALL) == 1


@pytest.mark.parametrize(
    ("old", "new", "call"),
    [
        (f"{CALL}.item()", "int(self.q_net(state).cpu().numpy()[0].argmax())", "self.q_net(state)"),
        (f"{CALL}.item()", "self.q_net(state).max(1)[1].tolist()[0]", "self.q_net(state).max(1)[1]"),
        (f"{CALL}.item()", "self.q_net(x=state).argmax(1).item()", "self.q_net(x=state).argmax(1)"),
        (
            "        with torch.no_grad():\n            state",
            "        with torch.inference_mode():\n            state",
            CALL,
        ),
    ],
)
def test_conversions_to_the_host_stay_outside(old: str, new: str, call: str) -> None:
    after, _ = outcome((old, new))
    assert f"        return {call}\n" in after


def test_a_constant_flag_is_a_parameter() -> None:
    after, _ = outcome(
        ("self.q_net(state)", "self.q_net(state, greedy)"), ("def forward(self, x)", "def forward(self, x, noisy)")
    )
    assert "    def decide(self, state, greedy):\n" in after
    after, result = outcome(
        ("self.q_net(state)", "self.q_net(state, greedy)"),
        ("def forward(self, x)", "def forward(self, x, noisy)"),
        ("greedy=False", "greedy=step"),
    )
    assert isinstance(result, Skipped)


@pytest.mark.parametrize(
    "pairs",
    [
        [("        with torch.no_grad():\n            state", "        if True:\n            state"), (".item()", "")],
        [("state = torch.as_tensor(observation, dtype=torch.float32).unsqueeze(0)", "state = make(observation)")],
        [("        return self.layers(x)", "        return torch.distributions.Categorical(logits=self.layers(x))"),
         (CALL, "self.q_net(state)")],
        [(CALL, "[self.q_net(state) for state in [state]][0].argmax(1)")],
        [(CALL, "self.q_net(*[state]).argmax(1)")],
        [(CALL, "Net()(state).argmax(1)")],
    ],
    ids=["gradients", "no tensor", "a distribution", "in a comprehension", "spread out", "another network"],
)  # fmt: skip
def test_other_calls_stay(pairs: list[tuple[str, str]]) -> None:
    after, result = outcome(*pairs)
    assert isinstance(result, Skipped), after


def test_unused_gradients_are_no_longer_recorded() -> None:
    pairs = ("        with torch.no_grad():\n            state", "        if True:\n            state")
    after, _ = outcome(pairs, (BY_NAME, ""))
    assert "    @torch.no_grad()\n    def decide(self, state):\n" in after
    _, result = outcome(pairs)  # __dict__ may set the network
    assert isinstance(result, Skipped)


MAKES = "state = torch.as_tensor(observation, dtype=torch.float32).unsqueeze(0)"


@pytest.mark.parametrize(
    ("made", "function", "stays"),
    [
        ("make(observation)", "return torch.tensor(x, dtype=torch.float32)[None]", False),
        ("make(observation)", "y = torch.zeros(1, 4)\n    y[0] = torch.from_numpy(x)\n    return y", False),
        ("self.made(observation)", "return x", False),
        ("make(observation)", "return np.asarray(x)[None]", True),
        ("make(observation)", "return torch.zeros(1, 4) if x[0] > 0 else np.zeros((1, 4))", True),
        ("make(observation)", "return unknown(torch.as_tensor(x))", True),
        ("make(observation)", "return torch.from_numpy(x)", True),
    ],
    ids=["a function", "a filled tensor", "a method", "an array", "one or the other", "anything", "an array's memory"],
)
def test_a_function_of_the_file_makes_the_tensor(made: str, function: str, stays: bool) -> None:
    method = "    def made(self, x):\n        return torch.tensor(x).float()[None]\n\n    def choose"
    pairs = (MAKES, f"state = {made}"), ("class Learner", f"def make(x):\n    {function}\n\n\nclass Learner")
    after, result = outcome(*pairs, ("    def choose", method))
    assert isinstance(result, Skipped) is stays, after
    assert stays or "    def decide(self, state):\n" in after


@pytest.mark.parametrize(("number", "stays"), [("int({})", False), ("float({})", False), ("abs({})", True)])
def test_a_builtin_makes_a_number_of_what_records_gradients(number: str, stays: bool) -> None:
    quiet = ("        with torch.no_grad():\n            state", "        if True:\n            state")
    after, result = outcome(quiet, (f"{CALL}.item()", number.format(CALL)), (BY_NAME, ""))
    assert isinstance(result, Skipped) is stays, after


LOADS = "    def load(self):\n        self.q_net.load_state_dict(torch.load('kept'))\n\n    def learn(self):\n"


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [
        ("observation, _ = env.reset(seed=1)\n", "try:\n    learner.load()\nexcept:\n    print('new')\n", False),
        (
            "observation, _ = env.reset(seed=1)\n",
            "if env:\n    try:\n        print(env.spec)\n    except (AttributeError, ValueError):\n        pass\n",
            False,
        ),
        (
            "observation, _ = env.reset(seed=1)\n",
            "try:\n    learner.choose(env.reset(), True)\nexcept Exception:\n    print('five values')\n",
            True,
        ),
        (
            "observation, _ = env.reset(seed=1)\n",
            "def first():\n    learner.choose(1, True)\n\n\ntry:\n    first()\nexcept Exception as e:\n    print(e)\n",
            True,
        ),
        (
            "    following, reward",
            "    try:\n        env.render()\n    except Exception:\n        pass\n    following, reward",
            True,
        ),
        (
            "        batch = ",
            "        try:\n            1 / 0\n        except:\n            pass\n        batch = ",
            True,
        ),
        (
            "print(learner",
            "try:\n    learner.choose(1, True)\nexcept Exception:\n    print('no array')\nprint(learner",
            True,
        ),
    ],
    ids=["loading", "under a condition", "acting", "acting in a function", "in the loop", "in a method", "below"],
)
def test_exceptions_that_are_caught_above_the_loop(old: str, new: str, stays: bool) -> None:
    pairs = ("        with torch.no_grad():\n            state", "        if True:\n            state")
    plain = ("        self.__dict__.update(device=device, lag=0.01)\n", "")
    after, result = outcome(pairs, plain, ("    def learn(self):\n", LOADS), (old, new + old * old.endswith("\n")))
    assert isinstance(result, Skipped if stays else Applied), after


@pytest.mark.parametrize("set_", ["lag=0.01, decide=None)", "lag=0.01, **{'decide': None})"])
def test_an_attribute_set_by_its_name_keeps_it(set_: str) -> None:
    after, _ = outcome(("lag=0.01)", set_))
    assert "def decide_1(self, state):" in after


CHOOSE = """
def pick(observation{more}):
    {line}
    with torch.no_grad():
        state = torch.as_tensor(observation, dtype=torch.float32).unsqueeze(0)
        return net(state).argmax(1).item()


env = gym"""


@pytest.mark.parametrize(
    ("more", "line", "applies"),
    [
        ("", "random.random()", True),
        ("", "net = learner.q_net", False),
        ("", "net = copy.deepcopy(learner.q_net)", False),
        ("", "for net in [learner.q_net]:\n        pass", False),
        ("", "[net] = [learner.q_net]", False),
        ("", "with copy.nullcontext(learner.q_net) as net:\n        pass", False),
        (", net=None", "net = learner.q_net if net is None else net", False),
        (", net=copy.net", "pass", False),
    ],
)
def test_a_network_that_is_a_variable_of_the_function(more: str, line: str, applies: bool) -> None:
    """The new function stands beside it, and could not read it."""
    after, _ = outcome(
        ("env = gym", CHOOSE.format(more=more, line=line).lstrip()),
        ("observation, _ = env.reset(seed=1)", "net = learner.q_net\nobservation, _ = env.reset(seed=1)"),
        ("learner.choose(observation, greedy=False)", "pick(observation)"),
        ("learner.choose(observation, greedy=True)", "pick(observation)"),
        ("import argparse", "import copy"),
    )
    assert ("def decide(state)" in after) is applies
