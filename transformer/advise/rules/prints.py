"""Tensors that are printed or logged in a hot loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.facts.libraries import REPORTS
from transformer.facts.python import SHOWS
from transformer.syntax.query import method


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Calls that print or log a tensor, and strings formatted from one."""
    for node in study.tree.nodes:
        heat = study.hot(node) if isinstance(node, (ast.Call, ast.JoinedStr)) else None
        if heat is None:
            continue
        if isinstance(node, ast.JoinedStr):
            shown = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
        elif isinstance(node, ast.Call) and _reports(study, node):
            shown = list(_printed(node))
        else:
            continue
        for value in shown:
            if study.tensor(value):
                yield node, f"{study.text(value)} is a tensor: showing it waits for the device {heat.where}", None
                break


def _reports(study: Study, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in SHOWS
    return method(call) in REPORTS | {"format"} and not study.qualified(call.func).startswith(("torch", "numpy"))


def _printed(call: ast.Call) -> Iterator[ast.expr]:
    for argument in (*call.args, *(k.value for k in call.keywords)):
        if isinstance(argument, ast.Dict):
            yield from argument.values
        else:
            yield argument


RULE = Rule(
    code="LA004",
    title="a tensor is printed or logged in a hot loop",
    reason=(
        "To show a tensor, its values are copied to the host, which waits for the device as `.item()` does; printing "
        "also formats every element."
    ),
    instead="Collect the tensors and print or log them once per iteration, after the loop.",
    weight="costly",
    find=find,
    bad=(
        Example("minibatch", "print(loss)"),
        Example("minibatch", "text = f'{epoch}: {loss:.3f}'"),
        Example("minibatch", "writer.add_scalar('losses/total', loss, step)"),
        Example("minibatch", "run.log({'loss': loss})"),
    ),
    good=(
        Example("minibatch", "losses.append(loss.detach())"),
        Example("iteration", "print(loss)"),
        Example("step", "print(reward, f'{done}')"),
        Example("minibatch", "if start % 1000 == 0:\n    print(loss)"),
        Example("minibatch", "scale = torch.log(loss)"),
    ),
)
