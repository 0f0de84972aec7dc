"""numpy in the computation of a minibatch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study

HARMLESS = frozenset("array asarray finfo iinfo dtype prod random".split())
"""Functions that are not reported: the first two are reported as copies, the others touch no values of the update."""


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Calls of numpy in the minibatch loop."""
    for call, heat in study.hot_calls():
        name = study.qualified(call.func)
        if heat.role != "update" or not name.startswith("numpy.") or name.split(".")[1] in HARMLESS:
            continue
        if any(study.steps_environment(x) for x in study.heats.loops(call)[:1]):
            continue
        yield call, f"np{name[5:]}() computes on the host {heat.where}", None


RULE = Rule(
    code="LA204",
    title="numpy computes in the update",
    reason=(
        "numpy needs its inputs on the host, and its result has to go back to the device, which waits meanwhile. A "
        "compiled function has a graph break there."
    ),
    instead="Use torch's function of the same name on the tensors, and read the result after the loop.",
    weight="costly",
    find=find,
    bad=(
        Example("minibatch", "kls.append(np.mean(log_ratios))"),
        Example("minibatch", "x = np.clip(returns, -1, 1)"),
    ),
    good=(
        Example("minibatch", "kls.append(torch.mean(log_ratios))"),
        Example("iteration", "kls.append(np.mean(log_ratios))"),
        Example("step", "x = np.clip(frame, -1, 1)"),
        Example("minibatch", "x = loss * np.pi"),
        Example("minibatch", "n = np.prod(envs.single_action_space.shape)"),
    ),
)
