"""A DDPG script whose agent holds networks, optimizers and a replay buffer, and learns in a method."""

SCRIPT = """
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, size_in, size_out, squash):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(size_in, 32), nn.ReLU(), nn.Linear(32, size_out))
        self.squash = squash

    def forward(self, x):
        x = self.body(x)
        return torch.tanh(x) if self.squash else x


class Walk:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.at = self.rng.normal(size=3).astype(np.float32)
        return self.at

    def step(self, action):
        self.at = (0.9 * self.at + 0.1 * action + 0.01 * self.rng.normal(size=3)).astype(np.float32)
        return self.at, -float(np.square(self.at).sum())


class Replay:
    def __init__(self, size):
        self.rows, self.size, self.count = np.zeros((size, 8), np.float32), size, 0

    def store(self, obs, action, reward, next_obs):
        self.rows[self.count % self.size] = np.concatenate([obs, action, [reward], next_obs])
        self.count += 1

    def sample(self, n):
        rows = self.rows[np.random.randint(min(self.count, self.size), size=n)]
        obs = torch.tensor(rows[:, :3])
        action = torch.tensor(rows[:, 3:4])
        reward = torch.tensor(rows[:, 4:5])
        next_obs = torch.tensor(rows[:, 5:])
        return obs, action, reward, next_obs


class Agent:
    def __init__(self, n_obs, n_act):
        self.gamma = 0.99
        self.actor = Net(n_obs, n_act, True)
        self.critic = Net(n_obs + n_act, 1, False)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def act(self, obs):
        with torch.no_grad():
            return self.actor(torch.as_tensor(obs)).numpy()

    def learn(self, replay):
        obs, action, reward, next_obs = replay.sample(64)
        with torch.no_grad():
            target = reward + self.gamma * self.critic_target(torch.cat([next_obs, self.actor(next_obs)], 1))
        critic_loss = F.mse_loss(self.critic(torch.cat([obs, action], 1)), target)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        <freeze>
        actor_loss = -self.critic(torch.cat([obs, self.actor(obs)], 1)).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()
        <thaw>


def evaluate(agent):
    return float(agent.act(np.ones(3, np.float32))[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    np.random.seed(1)
    torch.manual_seed(1)
    env, replay = Walk(1), Replay(1000)
    agent = Agent(3, 1)
    obs = env.reset()
    for step in range(args.steps):
        action = agent.act(obs)
        next_obs, reward = env.step(action)
        replay.store(obs, action, reward, next_obs)
        obs = next_obs
        if step > 100:
            agent.learn(replay)
        if step % 50 == 0:
            print(step, reward, evaluate(agent))
"""
FREEZE = "for p in self.critic.parameters():\n            p.requires_grad = False"
THAW = FREEZE.replace("False", "True")
DEFAULTS = {"<freeze>": FREEZE, "<thaw>": THAW}


def agent_script(changes: dict[str, str]) -> str:
    """The script with pieces replaced; by default the critic is frozen for the actor's loss."""
    source = SCRIPT
    for old, new in (DEFAULTS | changes).items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source
