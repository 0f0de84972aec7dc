"""Reads a script and routes a few of its calls through hooks, without moving a line."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

Hook = Callable[[Any], Any]
"""Takes the function that the script is about to call; returns the one to call instead."""

HOOKS_NAME = "__lean_hooks__"


def compile_with_hooks(path: Path, hooks: Mapping[str, Hook]) -> CodeType:
    """Compile the script at `path`; each call `x.name(...)` with `name` in `hooks` calls `hooks[name](x.name)(...)`.

    The code expects `hooks` in its globals as `HOOKS_NAME`. A call of `step` without arguments is left alone: it is
    an optimizer's or a scheduler's, and may stand in a function that the script compiles.

    Raises:
        SyntaxError: the file is not Python.
    """
    tree = _Router(frozenset(hooks)).visit(ast.parse(path.read_bytes(), str(path)))
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


class _Router(ast.NodeTransformer):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        called = node.func
        if not isinstance(called, ast.Attribute) or called.attr not in self._names:
            return node
        if called.attr == "step" and not (node.args or node.keywords):
            return node
        hooks = ast.Name(HOOKS_NAME, ast.Load())
        hook = ast.Subscript(hooks, ast.Constant(called.attr), ast.Load())
        node.func = ast.copy_location(ast.Call(hook, [called], []), called)
        return node
