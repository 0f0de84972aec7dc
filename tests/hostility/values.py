"""What hostile scripts do to the values of rollout and update: change them in place, or keep them for later.

X stands for the value, in statements that may run any number of times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A name that has a value at a place of reaches.py."""

    name: str
    hole: str
    whole: bool = False
    """Whether it holds integers or booleans."""
    array: bool = False
    """Whether it is an array of numpy's."""
    graph: bool = False
    """Whether gradients may be asked of it."""
    number: bool = False
    """Whether it has no dimensions."""
    inner: bool = False
    """Whether it is a name of the update alone, where that is a function."""


VALUES = [
    *(Value(n, "storing") for n in ("next_obs", "next_done")),
    *(Value(n, "acted") for n in ("next_obs", "value", "logprob", "obs", "values", "next_done")),
    Value("action", "acted", whole=True),
    Value("reward", "stepped", array=True),
    Value("done", "stepped", whole=True, array=True),
    *(Value(n, "stepped") for n in ("next_obs", "next_done", "value", "rewards", "dones", "logprobs", "actions")),
    Value("action", "stepped", whole=True),
    *(
        Value(n, "collected")
        for n in ("obs", "rewards", "dones", "values", "logprobs", "actions", "next_obs", "next_done")
    ),
    *(Value(n, "estimated") for n in ("advantages", "returns", "values", "rewards", "obs")),
    *(Value(n, "begun", inner=True) for n in ("b_obs", "b_advantages", "b_returns", "b_logprobs")),
    *(Value(n, "epoch", inner=True) for n in ("b_advantages", "b_returns")),
    *(Value(n, "optimized", graph=True, inner=True) for n in ("ratio", "newvalue", "newlogprob")),
    *(Value(n, "optimized", graph=True, number=True, inner=True) for n in ("v_loss", "pg_loss")),
    *(Value(n, "optimized", inner=True) for n in ("mb_advantages", "b_returns")),
    *(Value(n, "reported") for n in ("advantages", "returns", "obs", "values", "rewards", "next_obs", "next_done")),
    Value("v_loss", "reported", graph=True, number=True),
]

CHANGES = {
    "a method in place": "X.mul_(0.5)",
    "an augmented assignment to a part": "X[0] *= 0.5",
    "an augmented assignment": "X *= 0.5",
    "an item": "X[0] = 0.25",
    "all items": "X[...] = 0.5 * X",
    "a slice": "X[:1] = 0.25",
    "a mask": "X[X > 0] = 0.25",
    "out=": "torch.mul(X, 0.5, out=X)",
    "another name": "same = X\nsame.mul_(0.5)",
    "a view": "flat = X.view(-1)\nflat *= 0.5",
    "a view of a view": "X.reshape(-1).unsqueeze(0).squeeze().mul_(0.5)",
    "its data": "X.data.mul_(0.5)",
    "numpy's view": "array = X.numpy()\narray *= 0.5",
    "numpy's out=": "np.multiply(X.numpy(), np.float32(0.5), out=X.numpy())",
    "rows in a loop": "for row in X:\n    row.mul_(0.5)",
    "unbind()": "X.unbind(0)[0].mul_(0.5)",
    "copy_()": "X.copy_(0.5 * X)",
    "a function of torch's class": "torch.Tensor.mul_(X, 0.5)",
    "getattr()": 'getattr(X, "mul_")(0.5)',
    "the operator module": "import operator\noperator.imul(X, 0.5)",
    "swapped rows": "X[[0, 1]] = X[[1, 0]]",
    "clamp_()": "X.clamp_(-0.1, 0.1)",
    "set_()": "X.set_(X * 0.5)",
    "a rebinding": "X = 0.5 * X",
    "index_fill_()": "X.index_fill_(0, torch.tensor([0]), 0.25)",
    "masked_fill_()": "X.masked_fill_(X > 0, 0.25)",
    "a tuple of names": "first, *others = X.unbind(0)\nfirst.mul_(0.5)",
    "a dictionary": 'held = {"x": X}\nheld["x"].mul_(0.5)',
    "a comprehension": "[row.mul_(0.5) for row in [X]]",
    "map()": "list(map(lambda row: row.mul_(0.5), [X]))",
    "setitem by name": "X.__setitem__(0, 0.25)",
    "torch._foreach": "torch._foreach_mul_([X], 0.5)",
    "a transposed view": "X.transpose(0, -1).mul_(0.5)",
}
ARRAY_CHANGES = {
    "an augmented assignment": "X *= 0.5",
    "an item": "X[0] = 0.25",
    "all items": "X[:] = 0.5 * X",
    "out=": "np.multiply(X, 0.5, out=X)",
    "copyto()": "np.copyto(X, 0.5 * X)",
    "a view": "flat = X.reshape(-1)\nflat *= 0.5",
    "fill()": "X.fill(0.5)",
    "torch's view": "torch.from_numpy(X).mul_(0.5)",
    "put()": "X.put(0, 0.25)",
    "another name": "same = X\nsame += 1",
}
WHOLE_CHANGES = {
    "an item": "X[0] = 0",
    "a slice": "X[:1] = 0",
    "another name": "same = X\nsame[0] = 1",
    "a rebinding": "X = X * 0",
    "a mask": "X[X > 0] = 0",
}

NEED_ROWS = re.compile(r"X\[(?!\.\.\.)|unbind|in X|rows|index_fill|transpose|__setitem__")
"""Matches statements that need dimensions, and so fail on a number."""

KEEPS = {
    "appended to a list": ("KEPT.append(X)", "KEPT"),
    "the last in a list": ("KEPT[:] = [X]", "KEPT"),
    "in a list by +=": ("KEPT += [X]", "KEPT"),
    "a view in a list": ("KEPT.append(X.reshape(-1))", "KEPT"),
    "detached in a list": ("KEPT.append(X.detach())", "KEPT"),
    "a row in a list": ("KEPT.append(X[:1])", "KEPT"),
    "numpy's view in a list": ("KEPT.append(X.detach().numpy())", "KEPT"),
    "its mean in a list": ("KEPT.append(X.mean())", "KEPT"),
    "in a dictionary": ('HELD["x"] = X', "HELD.values()"),
    "in a dictionary by update()": ("HELD.update(x=X)", "HELD.values()"),
    "in a dictionary by setdefault()": ('HELD.setdefault("x", X)', "HELD.values()"),
    "as an attribute": ("KEEPER.last = X", "[KEEPER.last]"),
    "as an attribute by setattr()": ('setattr(KEEPER, "last", X)', "[KEEPER.last]"),
    "in a closure": ("CALLED.append(lambda: X)", "[f() for f in CALLED]"),
    "in a closure's default": ("CALLED.append(lambda x=X: x)", "[f() for f in CALLED]"),
    "in a partial": ("CALLED.append(functools.partial(torch.as_tensor, X))", "[f() for f in CALLED]"),
    "in a deque": ("QUEUE.append(X)", "QUEUE"),
    "in a list of a list": ("KEPT.append([X, X])", "[pair[0] for pair in KEPT]"),
    "by a function": ("keep(X)", "KEPT"),
    "by a method": ("KEEPER.keep(X)", "KEEPER.all"),
    "by a generator": ("KEPT.extend(x for x in (X,))", "KEPT"),
    "by the network": ("agent.last = X", "[agent.last]"),
    "by the arguments": ("args.last = X", "[args.last]"),
    "by a bound method": ("CALLED.append(X.sum)", "[f() for f in CALLED]"),
    "by a method of the list": ("add = KEPT.append\nadd(X)", "KEPT"),
    "in a tuple": ("KEPT.append((X,))", "[x for x, in KEPT]"),
    "in a zip": ("KEPT.extend(zip([X], [0]))", "[x for x, _ in KEPT]"),
    "by insert()": ("KEPT.insert(0, X)", "KEPT"),
}
KEEPER = """
import collections
import functools

KEPT, HELD, CALLED, QUEUE = [], {}, [], collections.deque(maxlen=3)


class Keeper:
    def __init__(self):
        self.last, self.all = 0.0, []

    def keep(self, x):
        self.all.append(x)


KEEPER = Keeper()


def keep(x):
    KEPT.append(x)


def total(things):
    return [float(torch.as_tensor(x).detach().double().sum()) for x in things]


"""
READS = {
    "read at the end of the turn": ("reported", "print(total(READ))"),
    "read in the next turn": ("heading", "if iteration > 1:\n    print(total(READ))"),
    "changed at the end of the turn": (
        "reported",
        "for x in READ:\n    if isinstance(x, torch.Tensor):\n        x.detach().zero_()",
    ),
}
