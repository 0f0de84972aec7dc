"""A script of a common form: named tuples as steps, collated by hand, and targets updated through state_dict()."""

SCRIPT = """
import collections
import itertools
import random

import gymnasium as gym
import torch
from torch import nn, optim

Step = collections.namedtuple("Step", "seen chosen after gained")
env = gym.make("CartPole-v1")
random.seed(3)
torch.manual_seed(3)
ROWS, LAG, DISCOUNT, RARELY = 32, 0.01, 0.98, 0.2


class Values(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 24), nn.ReLU())
        self.head = nn.Linear(24, n_out)

    def forward(self, x):
        return self.head(self.body(x))


class Past:
    def __init__(self, most):
        self.kept = collections.deque(maxlen=most)

    def add(self, *parts):
        self.kept.append(Step(*parts))

    def draw(self, n):
        return random.sample(self.kept, n)

    def __len__(self):
        return len(self.kept)


values, lagging = Values(4, 2), Values(4, 2)
lagging.load_state_dict(values.state_dict())
optimizer = optim.Adam(values.parameters(), lr=1e-3)
past = Past(500)
asked = 0


def choose(seen):
    global asked
    asked += 1
    if random.random() < RARELY:
        return torch.tensor([[random.randrange(2)]])
    with torch.no_grad():
        return values(seen).max(1).indices.view(1, 1)


def learn():
    if len(past) < ROWS:
        return
    drawn = past.draw(ROWS)
    parts = Step(*zip(*drawn))
    goes_on = torch.tensor([x is not None for x in parts.after])
    after = torch.cat([x for x in parts.after if x is not None])
    seen = torch.cat(parts.seen)
    chosen = torch.cat(parts.chosen)
    gained = torch.cat(parts.gained)

    now = values(seen).gather(1, chosen).squeeze(1)
    later = torch.zeros(ROWS)
    with torch.no_grad():
        later[goes_on] = lagging(after).max(1).values
    loss = nn.functional.smooth_l1_loss(now, gained + DISCOUNT * later)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for episode in range(8):
    seen = torch.tensor(env.reset(seed=episode)[0]).unsqueeze(0)
    for t in itertools.count():
        chosen = choose(seen)
        observed, reward, ended, cut, _ = env.step(chosen.item())
        after = None if ended else torch.tensor(observed).unsqueeze(0)
        past.add(seen, chosen, after, torch.tensor([reward]))
        seen = after
        learn()
        theirs = lagging.state_dict()
        ours = values.state_dict()
        for name in ours:
            theirs[name] = LAG * ours[name] + (1 - LAG) * theirs[name]
        lagging.load_state_dict(theirs)
        if ended or cut:
            print(episode, t, asked)
            break
print(sum(p.sum().item() for p in lagging.parameters()))
"""
