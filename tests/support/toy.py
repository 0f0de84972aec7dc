"""A small training script that needs no packages for environments or logging, and is recorded in about a second."""

TOY = '''\
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn


class Walk:
    """Two walkers on a line, who want to stay near zero."""

    def __init__(self):
        self.position = np.zeros(2, dtype=np.float32)

    def step(self, action):
        self.position = self.position + np.where(action == 1, 0.5, -0.5).astype(np.float32)
        return self.position[:, None].copy(), -np.abs(self.position)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(1, 2)
        self.register_buffer("seen", torch.zeros(()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=2)
    args = parser.parse_args()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    start = time.time()
    envs = Walk()
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
    obs = torch.zeros(2, 1)
    inds = np.arange(8)
    for update in range(args.updates):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - update / args.updates)
        states, actions, rewards = [], [], []
        for step in range(4):
            with torch.no_grad():
                action = torch.distributions.Categorical(logits=agent.actor(obs)).sample()
            states.append(obs)
            actions.append(action)
            next_obs, reward = envs.step(action.numpy())
            rewards.append(torch.tensor(reward))
            obs = torch.tensor(next_obs)
        b_obs, b_actions, b_rewards = torch.cat(states), torch.cat(actions), torch.cat(rewards)
        np.random.shuffle(inds)
        for begin in range(0, 8, 4):
            mb = inds[begin : begin + 4]
            logprob = torch.distributions.Categorical(logits=agent.actor(b_obs[mb])).log_prob(b_actions[mb])
            loss = -(logprob * b_rewards[mb]).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            agent.seen += 4
        print(f"update {update}: loss {loss.item()}")
        print("SPS:", int((update + 1) * 8 / (time.time() - start)))


if __name__ == "__main__":
    main()
'''
"""The script. It only prints; it has two iterations of four environment steps and two optimizer steps."""


def edited(old: str, new: str, source: str = TOY) -> str:
    """`source` with the one occurrence of `old` replaced."""
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times"
    return source.replace(old, new)
