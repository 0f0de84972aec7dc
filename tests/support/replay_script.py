"""A small off-policy script in parts that a test can replace, and that runs in a second."""

from __future__ import annotations

import textwrap

SCRIPT = """\
import argparse
import copy
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--total-timesteps", type=int, default=80)
    parser.add_argument("--learning-starts", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--gamma", type=float, default=0.9)
    parser.add_argument("--tau", type=float, default=0.05)
    return parser.parse_args()


class Envs:
    # A bead on a wire, pushed to either side
    def __init__(self):
        self.state = np.zeros((1, 2), dtype=np.float32)

    def reset(self):
        return self.state.copy()

    def step(self, actions):
        self.state[:, 1] += 0.1 * np.sign(actions[0])
        self.state[:, 0] += self.state[:, 1]
        reward, done = 1 - np.abs(self.state[:, 0]), np.abs(self.state[:, 0]) > 0.5
        self.state[done] = 0
        return self.state.copy(), reward, done, {}


class Replay:
    def __init__(self):
        self.rows = []

    def add(self, *row):
        self.rows.append([np.array(part, dtype=np.float32).ravel() for part in row])

    def sample(self, count):
        picked = [self.rows[i] for i in np.random.randint(0, len(self.rows), size=count)]
        return [torch.tensor(np.stack(column)) for column in zip(*picked)]


<network>


if __name__ == "__main__":
    args = parse_args()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    envs, rb = Envs(), Replay()
    <make>
    start_time = time.time()
    obs = envs.reset()
    for global_step in range(args.total_timesteps):
        <act>
        next_obs, rewards, dones, infos = envs.step(actions)
        rb.add(obs, next_obs, actions, rewards, dones)
        obs = next_obs
        if global_step > args.learning_starts:
            <sample>
            <learn>
            <follow>
"""

PARTS = {
    "network": """
        class QNetwork(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

            def forward(self, x):
                return self.net(x)
    """,
    "make": """
        q_network = QNetwork().to(device)
        target_network = QNetwork().to(device)
        target_network.load_state_dict(q_network.state_dict())
        optimizer = optim.Adam(q_network.parameters(), lr=1e-2)
    """,
    "act": """
        if random.random() < 0.2:
            actions = np.array([random.choice((-1, 1))])
        else:
            q_values = q_network(torch.Tensor(obs).to(device))
            actions = 2 * torch.argmax(q_values, dim=1).cpu().numpy() - 1
    """,
    "sample": "b_obs, b_next_obs, b_actions, b_rewards, b_dones = rb.sample(args.batch_size)",
    "learn": """
        with torch.no_grad():
            best = target_network(b_next_obs).max(dim=1).values
            goal = b_rewards.flatten() + args.gamma * best * (1 - b_dones.flatten())
        values = q_network(b_obs).gather(1, (b_actions > 0).long()).squeeze(1)
        loss = F.mse_loss(values, goal)
        <log>
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """,
    "log": """
        if global_step % 10 == 0:
            print(global_step, loss.item(), values.mean().item())
    """,
    "follow": """
        for param, target_param in zip(q_network.parameters(), target_network.parameters()):
            target_param.data.copy_(args.tau * param.data + (1.0 - args.tau) * target_param.data)
    """,
}


def replay(**parts: str) -> str:
    """The script with some of its parts replaced.

    Raises:
        KeyError: a part has no place.
    """
    texts = {**PARTS, **parts}
    lines = SCRIPT.splitlines()
    for _ in range(2):  # parts may contain parts
        filled = []
        for line in lines:
            name = line.strip().removeprefix("<").removesuffix(">")
            if line.strip() == f"<{name}>":
                indent = line[: len(line) - len(line.lstrip())]
                text = textwrap.dedent(texts.pop(name)).strip("\n").rstrip()
                filled += textwrap.indent(text, indent).splitlines()
            else:
                filled.append(line)
        lines = filled
    if texts.keys() & parts.keys():
        raise KeyError(f"no place for {sorted(texts)}")
    return "\n".join(lines) + "\n"


def learning_first(source: str) -> str:
    """The script with its update above the environment's step, so that it learns after the previous step was stored."""
    lines = source.splitlines(keepends=True)
    step = next(i for i, line in enumerate(lines) if "envs.step(" in line)
    learn = next(i for i, line in enumerate(lines) if line.startswith("        if global_step > args.learning_starts"))
    return "".join([*lines[:step], *lines[learn:], *lines[step:learn]])


def changed(part: str, old: str, new: str) -> str:
    """A part with one piece of its text, which must occur exactly once, replaced."""
    text = textwrap.dedent(PARTS[part])
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {part}"
    return text.replace(old, new)


def from_library(**parts: str) -> str:
    """The script with a buffer of cleanrl_utils, whose samples are named tuples on the device that it is given."""
    text = replay(
        **{"sample": "b_obs, b_actions, b_next_obs, b_dones, b_rewards = rb.sample(args.batch_size)", **parts}
    )
    kept, rest = text.index("class Replay:"), text.index("class QNetwork")
    text = text[:kept] + text[rest:]
    spaces = "envs, space = Envs(), SimpleNamespace(shape=(2,), dtype=np.float32)\n    "
    for old, new in (
        ("import numpy as np\n", "from types import SimpleNamespace\n\nimport numpy as np\n"),
        (
            "import torch.optim as optim\n",
            "import torch.optim as optim\nfrom cleanrl_utils.buffers import ReplayBuffer\n",
        ),
        (
            "envs, rb = Envs(), Replay()",
            spaces + "rb = ReplayBuffer(50, space, SimpleNamespace(dtype=np.int64), device)",
        ),
        ("rewards, dones)\n        obs", "rewards, dones, infos)\n        obs"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
