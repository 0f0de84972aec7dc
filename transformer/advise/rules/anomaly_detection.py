"""Autograd's anomaly detection."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.facts.libraries import library_does


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Calls that always turn it on, not ones that depend on a variable."""
    for call in study.calls:
        off = bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value is False
        fixed = not call.args or isinstance(call.args[0], ast.Constant)
        name = study.qualified(call.func)
        if library_does(name) == "settings" and name.endswith("detect_anomaly") and fixed and not off:
            yield call, "anomaly detection records a traceback for every operation and checks every gradient", None


RULE = Rule(
    code="LA306",
    title="anomaly detection is on",
    reason="It is for debugging: it records where each operation was called, and checks every gradient for NaN.",
    instead="Remove it, or turn it on by an argument when it is needed.",
    weight="costly",
    find=find,
    bad=(
        Example("setup", "torch.autograd.set_detect_anomaly(True)"),
        Example("minibatch", "with torch.autograd.detect_anomaly():\n    loss.sum().backward()"),
    ),
    good=(
        Example("setup", "torch.autograd.set_detect_anomaly(args.debug)"),
        Example("setup", "torch.autograd.set_detect_anomaly(False)"),
    ),
)
