"""Reads a script and routes a few of its calls through hooks, without moving a line."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

Hook = Callable[[Any], Any]
"""Takes the function that the script is about to call, and returns the function to call instead."""

HOOKS_NAME = "__lean_hooks__"
TOGETHER = "all steps in one call"
"""The hook of calls whose arguments are all of the form `torch.cat([step["name"] for step in steps])`, with the same
steps. The replacement function receives the lists instead of their concatenations."""


def compile_with_hooks(
    path: Path, hooks: Mapping[str, Hook], route: Callable[[ast.Module], None] | None = None
) -> CodeType:
    """Compile the script at `path`; each call `x.name(...)` with `name` in `hooks` calls `hooks[name](x.name)(...)`.

    The code expects `hooks` in its globals as `HOOKS_NAME`. A call of `step` without arguments is left alone: it is
    an optimizer's or a scheduler's, and may be in a function that the script compiles. So is a call that passes more
    than an action and ignores the result, such as `agent.step(obs, action, reward)`. `route` may route more of the
    script through its own hooks.

    Raises:
        SyntaxError: the file is not Python.
    """
    tree = ast.parse(path.read_bytes(), str(path))
    if route is not None:
        route(tree)
    tree = _Router(frozenset(hooks)).visit(tree)
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


class _Router(ast.NodeTransformer):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._late = False
        """Whether the visited block evaluates entries that the rollout's steps left out."""

    def visit_If(self, node: ast.If) -> ast.If:
        """Recognise `if "values" not in transition:`."""
        before, self._late = self._late, self._late or _asks_for_entry(node.test)
        self.generic_visit(node)
        self._late = before
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Leave vector environment classes of the script alone, whose code is not part of training."""
        if not any(ast.unparse(base).endswith("VectorEnv") for base in node.bases):
            self.generic_visit(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        """Leave `agent.step(obs, action, reward)` alone."""
        call = node.value
        given = [*call.args, *call.keywords] if isinstance(call, ast.Call) else []
        if len(given) > 1 and isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "step":
            self.generic_visit(call)
        else:
            self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        called = node.func
        if TOGETHER in self._names and _of_all_steps(node, 1 if self._late else 2):
            node.args = [_listed(a) for a in node.args]
            for keyword in node.keywords:
                keyword.value = _listed(keyword.value)
            return self._hooked(node, TOGETHER)
        if not isinstance(called, ast.Attribute) or called.attr not in self._names:
            return node
        if called.attr == "step" and not (node.args or node.keywords):
            return node
        return self._hooked(node, called.attr)

    def _hooked(self, node: ast.Call, name: str) -> ast.Call:
        """The call with its function replaced by the hook's result."""
        hook = ast.Subscript(ast.Name(HOOKS_NAME, ast.Load()), ast.Constant(name), ast.Load())
        node.func = ast.copy_location(ast.Call(hook, [node.func], []), node.func)
        return node


def _listed(value: ast.expr) -> ast.expr:
    """The list that is passed to torch.cat()."""
    assert isinstance(value, ast.Call)
    return value.args[0]


def _asks_for_entry(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=ast.Constant(), ops=[ast.NotIn()], comparators=[ast.Name()]):
            return True
    return False


def _of_all_steps(node: ast.Call, least: int) -> bool:
    """Whether there are at least `least` arguments, and each concatenates one entry of each of the same steps."""
    steps = [_name_of_steps(v) for v in (*node.args, *(k.value for k in node.keywords))]
    return len(steps) >= least and len({*steps}) == 1 and None not in steps


def _name_of_steps(value: ast.expr) -> str | None:
    """The name of `steps` in `torch.cat([step["name"] for step in steps])`."""
    match value:
        case ast.Call(
            func=ast.Attribute(attr="cat"),
            args=[
                ast.ListComp(
                    elt=ast.Subscript(slice=ast.Constant()),
                    generators=[ast.comprehension(iter=ast.Name(id=name), ifs=[])],
                )
            ],
            keywords=[],
        ):
            return name
    return None
