"""A training script that only sleeps for known times, and needs no packages."""

ENV, POLICY, GAE, UPDATE, OTHER, START = 0.004, 0.002, 0.003, 0.005, 0.016, 0.1
"""Seconds per environment step, around each step, per step of the advantages, per minibatch, per iteration, and at the
start."""
STEPS, MINIBATCHES, NUM_ENVS = 4, 4, 3

PARTS = f"""\
import argparse
import time


class Envs:
    def step(self, action):
        time.sleep({ENV})
        return [0.0] * {NUM_ENVS}, [1.0] * {NUM_ENVS}


class Optimizer:
    def zero_grad(self):
        pass

    def step(self):
        time.sleep({UPDATE})

"""

SETUP = f"""
parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=1000)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
envs = Envs()
optimizer = Optimizer()
time.sleep({START})
"""

TOY = f"""\
{PARTS}{SETUP}
for iteration in range(args.iterations):
    for step in range({STEPS}):
        time.sleep({POLICY})
        obs, reward = envs.step(0)
    advantages = [0.0] * {STEPS}
    for t in reversed(range({STEPS})):
        time.sleep({GAE})
        advantages[t] = 1.0
    for minibatch in range({MINIBATCHES}):
        optimizer.zero_grad()
        optimizer.step()
    time.sleep({OTHER})
"""

IN_FUNCTIONS = f"""\
{PARTS}
def rollout():
    for step in range({STEPS}):
        time.sleep({POLICY})
        obs, reward = envs.step(0)


def gae():
    advantages = [0.0] * {STEPS}
    for t in reversed(range({STEPS})):
        time.sleep({GAE})
        advantages[t] = 1.0


def update():
    optimizer.zero_grad()
    optimizer.step()

{SETUP}
if args.compile:
    print("no torch.compile(update) here")
for iteration in range(args.iterations):
    rollout()
    gae()
    for minibatch in range({MINIBATCHES}):
        update()
    time.sleep({OTHER})
"""
"""The same script, in the form that a conversion gives it."""


def edited(old: str, new: str, source: str = TOY) -> str:
    """`source` with the one occurrence of `old` replaced."""
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times"
    return source.replace(old, new)
