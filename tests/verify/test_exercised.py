"""Which branches of the training code a run took, and how those that it did not take are named."""

from __future__ import annotations

import ast
import textwrap
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from transformer.verify.exercised import not_exercised
from transformer.verify.harness.exercised import Exercised
from transformer.verify.harness.instrument import HOOKS_NAME
from transformer.verify.recording import Site

LOOP = """\
import numpy as np
import torch
from torch import nn

def step(x):
    return torch.relu(x)

for i in range(4):
    env.step(i)
{body}
    loss.backward()
"""
X = "x = torch.tensor([0.5, 1.0, 1.5])"


def sites_of_run(script: str) -> list[Site]:
    """The sites of a run of a script that uses `env`, and `loss` with its backward()."""
    journal = MagicMock()
    exercised = Exercised(journal)
    tree = ast.parse(script)
    exercised.route(tree)
    variables: dict[str, Any] = {HOOKS_NAME: exercised.hooks, "env": MagicMock(), "loss": MagicMock()}
    exec(compile(ast.fix_missing_locations(tree), "script", "exec"), variables)
    exercised.finish()
    rows = [call.args[1:] for call in journal.add.call_args_list]
    return [Site(*row[:4], tuple(row[4]), frozenset(row[5]), *row[6:]) for row in rows]


def named(*body: str) -> list[str]:
    """What is named, without line numbers, for a training loop with these lines."""
    text = textwrap.indent("\n".join(body), "    ")
    return [sentence.partition(": ")[2] for sentence in not_exercised(sites_of_run(LOOP.format(body=text)))]


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        ("torch.clamp(x, 0.8, 1.2)", None),
        ("torch.clamp(x, 0.8, 2)", "upper bound"),
        ("x.clamp(max=1.2)", None),
        ("x.clamp(0.1, max=1.2)", "lower bound"),
        ("x.clamp_(0.1, 1.2)", "lower bound"),
        ("x.clamp(None, 2)", "upper bound"),
        ("x.clamp_min(0.1)", "lower bound"),
        ("np.clip(x.numpy(), 0, 9)", "lower bound or upper bound"),
        ("np.clip(3.0, 0, 2)", "lower bound"),
        ("x.relu()", "lower bound"),
        ("torch.clamp(input=x, min=0)", "lower bound"),
    ],
)
def test_clamps(call: str, missing: str | None) -> None:
    assert named(X, call) == ([] if missing is None else [f"{call} never reached its {missing}"])


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        ("torch.max(x, 2 - x)", ""),
        ("torch.max(x, 0 * x)", "argument 2"),
        ("np.minimum(x.numpy(), 1)", ""),
        ("x.maximum(0 * x)", "argument 2"),
        ("max(i, 1)", ""),
        ("max(0, i + 1, -i)", "argument 1 or argument 3"),
    ],
)
def test_maxima(call: str, missing: str) -> None:
    assert named(X, call) == ([f"{call} was never decided by {missing}"] if missing else [])


@pytest.mark.parametrize("call", ["torch.min(x, x.clone())", "max(i, i, i)"])
def test_arguments_that_are_always_equal(call: str) -> None:
    assert named(X, call) == [f"the arguments of {call} were always equal"]


@pytest.mark.parametrize("call", ["torch.max(x)", "torch.max(x, 0)", "x.max(i - i)", "x.min(dim=0)", "max([1, 2])"])
def test_no_maximum_of_two(call: str) -> None:
    assert named(X, call) == []


def test_choices_by_a_condition() -> None:
    assert named(X, "torch.where(x > 1, x, 0)", "x.where(x > 2, 0 * x)") == ["x.where(x > 2, 0 * x) was never true"]


@pytest.mark.parametrize(
    ("call", "clipped"),
    [
        ("nn.utils.clip_grad_norm_(net.parameters(), 0.1)", True),
        ("nn.utils.clip_grad_norm_(net.parameters(), max_norm=9)", False),
        ("nn.utils.clip_grad_value_(net.parameters(), 0.1)", True),
        ("nn.utils.clip_grad_value_(net.parameters(), 9)", False),
    ],
)
def test_norms(call: str, clipped: bool) -> None:
    body = [
        "net = nn.Linear(1, 1)",
        "net(torch.ones(1)).sum().backward()",
        call,
        "last = [p.grad for p in net.parameters()]",
    ]
    assert named(*body) == ([] if clipped else [f"{call} never clipped"])


def test_conditions_and_exits() -> None:
    assert named("if i > 8:", "    break") == ["if i > 8 was never true (break)"]
    assert named("if i > 1:", "    continue") == []
    assert named("while i < 9:", "    i += 1") == []
    assert named("y = 1 if i >= 0 else 2") == ["... if i >= 0 else ... was never false"]
    assert named("try:", "    1 / (i + 1)", "except OSError:", "    pass") == ["except OSError was never taken"]
    assert named("match i:", "    case 9:", "        pass", "    case _:", "        pass") == ["case 9 was never taken"]


def test_code_in_a_branch_not_taken_is_not_named() -> None:
    assert named(X, "if i > 8:", "    torch.clamp(x, 0, 9)", "    if x: break") == ["if i > 8 was never true"]


def test_only_training_is_watched() -> None:
    script = """\
def make(flag=True):
    return 1 if flag else 2

class Wrapper:
    def step(self, action):
        return max(action, 0)

class Net:
    def forward(self, x):
        return x if x else -x

def helper(x):
    return step(x) if x > 9 else x

def step(x):
    return min(x, 0)

def report(done=False):
    if done:
        print("done")

make()
net, envs, report_ = Net(), Wrapper(), report
for i in range(3):
    envs.step(i)
    net.forward(helper(1))
    loss.backward()
report()
"""
    assert not_exercised(sites_of_run(script)) == (
        "line 10: ... if x else ... was never false",
        "line 13: ... if x > 9 else ... was never true",
    )
    assert sites_of_run(script.replace("loss.backward()", "pass")) == []


def test_compiled_code_is_not_watched() -> None:
    assert sites_of_run(LOOP.format(body="    if i > 8: torch.compile(step)")) == []


def test_values_pass_unchanged() -> None:
    body = """
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    y = x.clamp(0, 1)
    z = x.detach().clone()
    z.clamp_(0, 1)
    assert z.tolist() == [0.5, 1.0] and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]
    assert type(i or None) is (int if i else type(None))
    norm = nn.utils.clip_grad_norm_((p for p in [x]), 0.5)
    assert norm == 1 and round(x.grad[0].item(), 3) == 0.5
"""
    state = torch.get_rng_state()
    sites_of_run(LOOP.format(body=body))
    assert torch.equal(torch.get_rng_state(), state)
