"""A conversion made by hand: small, but with everything that displays of conversions must show."""

import textwrap

from transformer.conversion.result import Applied, Conversion, Skipped, Step
from transformer.syntax.diagnostics import Diagnostic
from transformer.transforms.base import TransformInfo

ORIGINAL = '''\
"""A script whose docstring holds </script><b>markup</b> & <!-- a comment --> {{ 7 * 7 }}."""
import numpy as np


class Env:
    def reset(self):
        return np.zeros(3)

    def step(self, action):
        return np.ones(3), float(action)


if __name__ == "__main__":
    env = Env()
    state = env.reset()
    total = 0.0
    learning_rate = 0.1

    for iteration in range(10):
        learning_rate = learning_rate * 0.9

        # collect one batch
        for step in range(5):
            action = int(state.sum() > 1.5)
            state, reward = env.step(action)
            if reward > 0.5:
                # count only what counts
                total += reward
            print(f"{iteration}.{step}: {total:.1f}")

        print("mean", total / (iteration + 1))
'''

FLAGS = ORIGINAL.replace(
    "    env = Env()\n    state",
    "    compile = False  # compile rollout()\n    env = Env()\n    state",
)
RATE = FLAGS.replace("learning_rate = learning_rate * 0.9", "learning_rate = np.multiply(learning_rate, 0.9)")

_BODY = RATE[RATE.index("        # collect") : RATE.index('\n        print("mean"')]
ROLLOUT = RATE.replace(_BODY, "        state, total = rollout(iteration, state, total)\n").replace(
    "if __name__",
    "def rollout(iteration, state, total):\n"
    + textwrap.indent(textwrap.dedent(_BODY), "    ").replace("int(state.sum() > 1.5)", "int(state.mean() > 0.5)")
    + "    return state, total\n\n\nif __name__",
)
COMPILE = ROLLOUT.replace(
    "    for iteration", "    if compile:\n        rollout = np.vectorize(rollout)\n\n    for iteration"
)


def info(name: str, *needs: str) -> TransformInfo:
    """The description of a transform that exists only here."""
    return TransformInfo(
        name=name,
        brief=f"{name} is done",
        summary=f"do what {name} does",
        applies="to nothing",
        safety=f"Nothing that `{name}` touches is read.",
        costs="Nothing.",
        needs=needs,
        before="x = 1",
        after="x = 2",
    )


def hand_made() -> Conversion:
    """A conversion with four applied transforms and one left out; `rollout` moves eight lines and edits one of them."""
    return Conversion(
        ORIGINAL,
        (
            Step(info("flags"), Applied(), ORIGINAL, FLAGS),
            Step(info("rate"), Applied(("The rate is a number.",)), FLAGS, RATE),
            Step(info("storage"), Skipped("there is <nothing> to store"), RATE, RATE),
            Step(info("rollout", "flags"), Applied(), RATE, ROLLOUT),
            Step(info("compile", "flags", "rollout"), Applied(), ROLLOUT, COMPILE),
        ),
        (Diagnostic(29, 13, "LC101", "print() reads `total`"),),
    )
