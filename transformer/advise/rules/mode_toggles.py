"""`train()` and `eval()` in hot loops."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.syntax.query import method, receiver


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Calls of a network's `train` or `eval`."""
    for call, heat in study.hot_calls():
        if method(call) in ("train", "eval") and study.network(receiver(call)) and len(call.args) < 2:
            yield call, f"{study.text(call)} goes through all modules of the network {heat.where}", None


RULE = Rule(
    code="LA202",
    title="a network is switched between train() and eval() in a hot loop",
    reason="`train()` and `eval()` set an attribute of every module, in Python, and compiled functions recheck guards.",
    instead="Switch once per phase, or not at all if no module behaves differently (no dropout, no batch norm).",
    weight="minor",
    find=find,
    bad=(
        Example("step", "agent.eval()"),
        Example("minibatch", "agent.train()"),
        Example("minibatch", "agent.train(True)"),
    ),
    good=(
        Example("iteration", "agent.eval()"),
        Example("setup", "agent.train()"),
        Example("step", "trainer.train()"),
        Example("minibatch", "value = config.eval()"),
    ),
)
