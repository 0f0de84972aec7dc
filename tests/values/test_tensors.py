"""Which expressions are tensors; the order of questions does not matter."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from scripts import PARTS
from states import more, state, valued

from transformer.syntax.tree import Tree
from transformer.values.tensors import Tensors, values

CYCLE = """
high = torch.zeros(2)
low = high
for _ in range(2):
    high = low
    middle = high
    low = middle if args.seed else 0.5
    print(high, middle, low)
"""


@pytest.mark.parametrize("asked", ["high middle low", "low middle high", "middle high low"])
@pytest.mark.parametrize("tensors", [True, False])
def test_names_defined_by_each_other(asked: str, tensors: bool) -> None:
    code = CYCLE.replace("0.5", "high") if tensors else CYCLE
    made = state(begin=PARTS["begin"] + code)
    shown = next(s for s in ast.walk(made.tree.root) if isinstance(s, ast.Expr) and "print(high" in ast.unparse(s))
    known = made.roles.get(Tensors)
    assert [known.tensor_before(name, shown) for name in asked.split()] == [tensors] * 3


@pytest.mark.parametrize(
    ("value", "tensor"),
    [
        ("next_obs", True),
        ("torch.distributions.kl_divergence(a, b)", True),
        ("torch.nn.functional.relu(next_obs)", True),
        ("b_obs.mean()", True),
        ("(unknown > 1).float().mean()", True),
        ("unknown.float()", False),
        ("(unknown > 1).astype('f')", False),
        ("torch.device('cpu')", False),
        ("torch.Size([1])", False),
        ("torch.finfo(torch.float32)", False),
        ("torch.initial_seed()", False),
        ("b_obs.type()", False),
        ("b_obs.type(torch.float64)", True),
        ("torch.get_num_threads()", False),
        ("make()(next_obs)", False),
        ("unknown(next_obs)", False),
        ("b_obs.shape", False),
        ("args.seed", False),
        ("torch.distributions.Normal(b_obs, 1.0).mean", True),
        ("torch.distributions.Categorical(logits=b_obs).probs - 1", True),
        ("(torch.distributions.Normal(b_obs, 1.0).loc - 1).pow(2).mean()", True),
        ("torch.distributions.Normal(b_obs, 1.0).batch_shape", False),
        ("(torch.distributions.Normal(b_obs, 1.0) if args.seed else args).mean", False),
        ("args.mean", False),
        ("unknown.loc", False),
    ],
)
def test_expressions(value: str, tensor: bool) -> None:
    made = state(report=more("report", f"seen = {value}"))
    assert made.roles.get(Tensors).tensor(valued(made, "seen")) is tensor


@pytest.mark.parametrize(
    ("made", "value", "tensor"),
    [
        ("dist = Categorical(logits=next_obs)", "dist.sample()", True),
        ("dist = Categorical(logits=next_obs)", "dist.log_prob(action).sum(-1)", True),
        ("dist = other = torch.distributions.Normal(next_obs, 1.0)", "other.rsample()", True),
        ("dist = Categorical(logits=next_obs) if args.seed else unknown()", "dist.sample()", False),
        ("dist = unknown(next_obs)", "dist.sample()", False),
        ("dist = Categorical(logits=next_obs)\nif args.seed:\n    dist = env.action_space", "dist.sample()", False),
        ("dist = Categorical(logits=next_obs)", "dist.batch_shape", False),
        ("dist = Categorical", "dist.sample()", False),
    ],
)
def test_results_of_distributions(made: str, value: str, tensor: bool) -> None:
    built = state(report=more("report", f"{made}\nseen = {value}"))
    assert built.roles.get(Tensors).tensor(valued(built, "seen")) is tensor


def test_results_of_a_tensor_environment() -> None:
    made = state(report=more("report", "seen = torch_envs.step(action)\nother = torch_envs.reset()"))
    made = made.knowing(replace(made.history, tensor_env="torch_envs"))
    known = made.roles.get(Tensors)
    assert [known.tensor(valued(made, name)) for name in ("seen", "other")] == [False, True]


def test_an_analysis_is_kept_for_its_state() -> None:
    made = state()
    assert made.roles.get(Tensors) is made.roles.get(Tensors)
    later = made.knowing(replace(made.history, storage="stored"))
    assert later.roles.get(Tensors) is not made.roles.get(Tensors)


@pytest.mark.parametrize(
    "code", ["x = y = 1", "x, y = 1, 2", "x, y = f()", "x: int = 1", "x += 1", "x |= y", "for x in y:\n    pass"]
)
def test_values_are_expressions_of_the_file(code: str) -> None:
    """What asks for their statement would not find it otherwise."""
    tree = Tree(code)
    found = list(values(tree.root.body[0], "x"))
    assert found
    assert all(tree.statement(value) is tree.root.body[0] for value in found)
    assert ("x" in map(ast.unparse, found)) is isinstance(tree.root.body[0], ast.AugAssign)
