"""gae-hoist with functions whose bits differ between the vectorized part of a tensor and the rest."""

import ast
import re

import pytest
from cases import turn
from processors import CAPABILITIES, run_under
from scripts import script
from tiers import slow_but_each

from transformer import Applied

FORMS = (
    "(values[t].abs() + 1.1).pow(0.7)",
    "(values[t].abs() + 1.1) ** 0.7",
    "torch.pow(values[t].abs() + 1.1, 0.7)",
    "torch.pow(2, values[t])",
    "0.99 ** values[t].abs()",
    "values[t].abs() ** dones[t]",
    "values[t].sigmoid()",
    "torch.sigmoid(values[t])",
    "torch.special.expit(values[t])",
    "F.softplus(values[t])",
    "F.gelu(values[t], approximate='tanh')",
    "values[t].mul(0.3).sigmoid().mul(rewards[t])",
    "torch.atan2(values[t], rewards[t])",
    "values[t].arctan2(rewards[t])",
    "torch.hypot(values[t], rewards[t])",
    "values[t].exp()",
    "torch.tanh(values[t])",
    "torch.from_numpy(np.power(np.abs(values[t].numpy()), 0.7))",
    "torch.as_tensor(np.tanh(values[t]))",
    "torch.where(values[t] > 0, values[t].sigmoid(), rewards[t])",
    "torch.add(rewards[t], values[t], alpha=0.3)",
    "rewards[t].addcmul(values[t], values[t], value=0.3)",
    "1.0 / torch.maximum(values[t] * 0.0, values[t] * -0.0)",
    "values[t].remainder(rewards[t])",
    "values[t] % rewards[t]",
    "values[t] // rewards[t]",
    "F.silu(ahead)",
    "(ahead.abs() + 1.1) ** 1.7",
)
EXACT = (
    "values[t] ** 2",
    "torch.pow(values[t], 3)",
    "values[t].abs().pow(0.5)",
    "torch.sqrt(values[t].abs()) / rewards[t].add(0.3)",
    "torch.where(values[t].bool(), ahead, -rewards[t].square())",
    "0.3 / values[t].sub(rewards[t])",
)
LOOP = """
    gains_{i}, carry = torch.zeros_like(rewards), 0
    for t in reversed(range(n)):
        ahead = last_value if t == n - 1 else values[t + 1]
        delta_{i} = rewards[t] + gamma * ahead + {form}
        gains_{i}[t] = carry = delta_{i} + gamma * lam * (1.0 - dones[t]) * carry
"""
CALLED = """
    with torch.no_grad():
        last = agent.get_value(next_obs).reshape(1, -1)
        advantages, rest = estimate(rewards, values, dones, last, args.num_steps, args.gamma)
        returns = advantages + values
"""
RUN = """
import torch, numpy as np
import torch.nn.functional as F

for envs in (1, 3, 13, 21):
    torch.manual_seed(envs)
    rewards, values = torch.randn(2, 17, envs)
    given = rewards, values, (torch.rand(17, envs) < 0.2).float(), torch.randn(1, envs), 17, 0.99
    for form, left, right in zip(forms, original(*given)[1], converted(*given)[1], strict=True):
        if not torch.equal(left.nan_to_num().view(torch.int32), right.nan_to_num().view(torch.int32)):
            print(envs, form)
"""


def estimate(forms: tuple[str, ...]) -> tuple[str, str]:
    """A function with one backward loop for each form, and the function after the transform."""
    loops = "".join(LOOP.format(i=i, form=form) for i, form in enumerate(forms))
    results = ", ".join(f"gains_{i}" for i in range(len(forms)))
    begin = "def estimate(rewards, values, dones, last_value, n, gamma, lam=0.95):"
    function = f"{begin}{loops}    return gains_0, ({results})\n\n\n"
    library = "import torch.nn.functional as F"
    source = script({"functions": function, "advantages": CALLED, "third_party": library})
    step = turn("gae-hoist", source, ())
    assert isinstance(step.outcome, Applied)
    functions = [n for text in (source, step.after) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    left, right = (ast.unparse(n) for n in functions if n.name == "estimate")
    return left, right


@pytest.fixture(scope="module")
def converted() -> tuple[str, str]:
    return estimate(FORMS + EXACT)


def test_only_what_is_exact_leaves_the_loop(converted: tuple[str, str]) -> None:
    loops = [[ast.unparse(n) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.For)] for text in converted]
    for form, before, after in zip(FORMS + EXACT, *loops, strict=True):
        assert (before == after) == (form in FORMS), form
        assert form in FORMS or not re.search("values|ahead|rewards", after), form


@pytest.mark.parametrize("capability", slow_but_each(9, CAPABILITIES))
def test_advantages_are_equal_on_every_processor(capability: str, converted: tuple[str, str]) -> None:
    left, right = converted[0].replace("estimate", "original"), converted[1].replace("estimate", "converted")
    assert run_under(capability, f"forms = {FORMS + EXACT!r}\n{left}\n{right}\n{RUN}") == ""
