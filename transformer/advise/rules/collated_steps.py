"""Minibatches that are assembled step by step at each update: `Step(*zip(*steps))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Calls of zip() in hot code that turn a list of steps into lists of their parts."""
    for call, heat in study.hot_calls():
        if (
            study.tree.names.builtin(call.func) == "zip"
            and len(call.args) == 1
            and isinstance(call.args[0], ast.Starred)
        ):
            steps = call.args[0].value
            yield call, f"{study.text(steps)} is put together step by step {heat.where}", None


RULE = Rule(
    code="LA205",
    title="stored steps are put together from a list at each update",
    reason=(
        "`zip(*steps)` makes lists of as many small arrays or tensors as there are steps in a batch, and `torch.cat` "
        "or `torch.tensor` of each list copies them one by one: hundreds of small copies for each update."
    ),
    instead=(
        "Keep observations, actions, rewards and dones in an array or a tensor each, of the memory's size, written in "
        "each step; an update then takes its rows by one index: `states[picked]`."
    ),
    weight="costly",
    find=find,
    bad=(
        Example("minibatch", "batch = Step(*zip(*random.sample(memory, 64)))"),
        Example("minibatch", "states, actions = map(torch.cat, zip(*steps))"),
    ),
    good=(
        Example("minibatch", "batch = states[picked], actions[picked]"),
        Example("minibatch", "for a, b in zip(states, actions):\n    loss = loss + a * b"),
        Example("setup", "names, values = zip(*settings)"),
    ),
)
