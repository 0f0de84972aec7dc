"""Arguments that are looked up at every iteration of a hot loop."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from transformer.advise.base import Example, Rule
from transformer.advise.heat import Heat
from transformer.advise.study import Study
from transformer.syntax.query import statements, walk
from transformer.syntax.tree import Loop

MANY = 4
"""Fewer lookups per iteration are not worth reporting."""
PARSERS = frozenset("cli parse_args parse_known_args parse_args_into_dataclasses".split())


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """One finding for each hot loop that looks up many arguments."""
    names = _arguments(study)
    for loop, heat in study.heats.hot_loops():
        found = [
            n
            for n in chain.from_iterable(walk(s) for s in loop.body)
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and ast.unparse(n.value) in names
        ]
        own = [n for n in found if study.hot(n)]
        if len(own) >= MANY:
            yield _finding(own, loop, heat)


def _finding(found: list[ast.Attribute], loop: Loop, heat: Heat) -> tuple[ast.AST, str, str | None]:
    counts = Counter(ast.unparse(n) for n in found)
    names = ", ".join(name for name, _ in counts.most_common(4)) + (", ..." if len(counts) > 4 else "")
    first = min(found, key=lambda n: (n.lineno, n.col_offset))
    transform = "compile" if heat.role == "update" else None
    return (
        first,
        f"{len(found)} lookups of arguments ({names}) at every iteration of the loop on line {loop.lineno}",
        transform,
    )


def _arguments(study: Study) -> set[str]:
    """Names of the script's arguments: parsed ones, or an instance of a dataclass of the file."""
    found: set[str] = set()
    for stmt in statements(study.tree.root.body):
        found |= _parsed_arguments(study, stmt)
    for node in study.tree.nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for stmt in statements(node.body):
                found |= _parsed_arguments(study, stmt)
            found |= {a.arg for a in node.args.args if a.arg in ("args", "cfg", "config")}
    return found


def _parsed_arguments(study: Study, stmt: ast.stmt) -> set[str]:
    if not isinstance(stmt, ast.Assign) or not isinstance(stmt.value, ast.Call):
        return set()
    func = stmt.value.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    data = study.tree.classes.get(name)
    is_data = data is not None and any("dataclass" in ast.unparse(d) for d in data.decorator_list)
    if name in PARSERS or is_data or name in ("Args", "parse_args"):
        return {t.id for t in stmt.targets if isinstance(t, ast.Name)}
    return set()


RULE = Rule(
    code="LA201",
    title="arguments are looked up in a hot loop",
    reason=(
        "Each `args.x` is an attribute lookup in Python, which takes tens of nanoseconds at every iteration; in a "
        "compiled function it is a guard that is checked at every call."
    ),
    instead="Assign what the loop needs to local names before the loop: `x = args.x`.",
    weight="minor",
    find=find,
    bad=(
        Example("minibatch", "loss = loss * args.a + args.b - args.c\nif args.norm:\n    loss = loss / 2"),
        Example("step", "reward = min(max(reward, args.low), args.high) * args.scale + args.shift"),
    ),
    good=(
        Example("minibatch", "loss = loss * a + b - c\nif norm:\n    loss = loss / 2"),
        Example("minibatch", "loss = loss * args.a"),
        Example("iteration", "x = args.a + args.b + args.c + args.d + args.e"),
        Example("minibatch", "loss = loss * model.a + model.b - model.c * model.d"),
    ),
)
