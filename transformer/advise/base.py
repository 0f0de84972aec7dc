"""A rule of advice: its description, and a function that finds its cases in a script."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from transformer.advise.study import Study

Place = Literal["setup", "step", "iteration", "minibatch", "module"]

Weight = Literal["costly", "minor"]
"""`costly`: stalls the device or launches needless work in every turn. `minor`: costs Python time in every turn."""


@dataclass(frozen=True, order=True)
class Finding:
    """One place of a script that costs time. `line` and `column` count from 1, as in editors."""

    line: int
    column: int
    code: str
    message: str
    transform: str | None = None
    """The transform that rewrites this place; None if there is none."""
    file: str = ""
    """The file, given with the script, that the place is in; "" for the script itself."""


@dataclass(frozen=True)
class Example:
    """Lines of code and their place in a script; :attr:`script` is the whole script."""

    place: Place
    """setup: above the training loop; step: where the environment is stepped; iteration: between rollout and update;
    minibatch: before the optimizer's step; module: above everything else, as a function or a class."""
    code: str

    @property
    def script(self) -> str:
        """A training script around the lines."""
        lines = dict.fromkeys(("SETUP", "STEP", "ITERATION", "MINIBATCH", "MODULE"), "pass")
        lines[self.place.upper()] = self.code.strip("\n")
        text = FRAME
        for mark, code in lines.items():
            (line,) = (x for x in text.splitlines() if x.strip() == mark)
            text = text.replace(line, textwrap.indent(code, " " * (len(line) - len(mark))))
        return text


FRAME = """\
import numpy as np
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)

    def act(self, x):
        return self.body(x)

MODULE

args = Args()
device = torch.device("cuda")
agent = Agent().to(device)
optimizer = torch.optim.Adam(agent.parameters())
obs = torch.zeros((args.num_steps, 4), device=device)
next_obs = torch.zeros(4, device=device)
SETUP
for iteration in range(100):
    for step in range(args.num_steps):
        with torch.no_grad():
            action = agent.act(next_obs)
        frame, reward, done, info = envs.step(action.cpu().numpy())
        STEP
    ITERATION
    for epoch in range(4):
        for start in range(0, 512, 128):
            loss = agent.act(obs[start : start + 128]).mean()
            MINIBATCH
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
"""The script around the examples."""


@dataclass(frozen=True)
class Rule:
    """A kind of advice. `find` only reports; it never changes anything."""

    code: str
    title: str
    """What the rule finds, without full stop."""
    reason: str
    """Why such code costs time: a short paragraph."""
    instead: str
    """What to write instead: a sentence."""
    weight: Weight
    find: Callable[[Study], Iterator[tuple[ast.AST, str, str | None]]]
    """Yields each node with a message and the transform that rewrites it, if there is one."""
    bad: tuple[Example, ...]
    """Examples in which the rule finds something; `explain` and the documentation show the first."""
    good: tuple[Example, ...]
    """Examples in which the rule must find nothing; the first is the corrected form of the first one in `bad`."""
