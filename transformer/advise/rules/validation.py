"""Distributions that validate their arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, keyword
from transformer.facts.torch_api import DISTRIBUTIONS
from transformer.syntax.query import method


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """torch's distributions that are made in hot code with validation on."""
    if any(_switches_off(c) for c in study.calls):
        return
    for call, heat in study.hot_calls():
        name = study.qualified(call.func)
        if not name.startswith(DISTRIBUTIONS) or not name.rpartition(".")[2][:1].isupper():
            continue
        if not any(k.arg in ("validate_args", None) for k in call.keywords) or keyword(call, "validate_args") is True:
            kind = name.rpartition(".")[2]
            yield call, f"{kind} checks all values of its arguments, {heat.where}", "compile"


def _switches_off(call: ast.Call) -> bool:
    return method(call) == "set_default_validate_args" and any(
        isinstance(a, ast.Constant) and a.value is False for a in (*call.args, *(k.value for k in call.keywords))
    )


RULE = Rule(
    code="LA301",
    title="distributions validate their arguments",
    reason=(
        "By default a distribution checks its parameters when it is made, and the values passed to `log_prob`: a few "
        "more kernels and a wait for the device each time."
    ),
    instead="Pass `validate_args=False`, or once: `torch.distributions.Distribution.set_default_validate_args(False)`.",
    weight="costly",
    find=find,
    bad=(
        Example("minibatch", "probs = Categorical(logits=agent.act(obs))"),
        Example("minibatch", "probs = Categorical(logits=agent.act(obs), validate_args=True)"),
        Example("step", "probs = torch.distributions.Normal(agent.act(next_obs), 1.0)"),
    ),
    good=(
        Example("minibatch", "probs = Categorical(logits=agent.act(obs), validate_args=False)"),
        Example("setup", "prior = Categorical(logits=torch.zeros(4))"),
        Example("minibatch", "kl = torch.distributions.kl_divergence(p, q)"),
        Example(
            "module", "torch.distributions.Distribution.set_default_validate_args(False)\ndef f(x):\n    Categorical(x)"
        ),
    ),
)
