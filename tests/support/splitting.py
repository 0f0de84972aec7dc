"""Splits a script into files at random: definitions go to modules, which the script imports."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping

Definition = (ast.FunctionDef, ast.ClassDef)
MODULES = ("part0", "part1", "part2")


def split(source: str, draw: random.Random) -> tuple[str, dict[str, str]]:
    """The remaining script, and its modules by name.

    A definition stays in the script if it reads a variable of the script, or reads another definition that stays.
    """
    body, lines = ast.parse(source).body, source.splitlines(keepends=True)
    definitions = {stmt.name: stmt for stmt in body if isinstance(stmt, Definition)}
    imports = [stmt for stmt in body if isinstance(stmt, (ast.Import, ast.ImportFrom))]
    variables = {n.id for s in body if s not in definitions.values() for n in ast.walk(s) if _stores(n)} | {"args"}
    reads = {name: {n.id for n in ast.walk(d) if isinstance(n, ast.Name)} - {name} for name, d in definitions.items()}
    modules = MODULES[: draw.randint(1, len(MODULES))]
    where = {name: draw.choice(modules) for name in definitions if not reads[name] & variables}
    while staying := [name for name in where if any(r in definitions and r not in where for r in reads[name])]:
        where = {name: module for name, module in where.items() if name not in staying}
    while later := [(name, r) for name in where for r in reads[name] & where.keys() if where[r] > where[name]]:
        where |= {read: where[name] for name, read in later}  # no two modules import each other

    def text(stmt: ast.stmt) -> str:
        return "".join(lines[_first(stmt) - 1 : stmt.end_lineno])

    files = {}
    for module in sorted({*where.values()}):
        own = [name for name in definitions if where.get(name) == module]
        used = {read: where[read] for name in own for read in sorted(reads[name] & where.keys())}
        parts = [*map(text, imports), _imports({r: m for r, m in used.items() if m != module})]
        files[f"{module}.py"] = "".join(parts) + "".join(f"\n\n{text(definitions[name])}" for name in own)
    gone = {n for name in where for n in range(_first(definitions[name]), (definitions[name].end_lineno or 0) + 1)}
    top = max(stmt.end_lineno or 0 for stmt in imports)
    rest = "".join(line for number, line in enumerate(lines, 1) if number > top and number not in gone)
    return "".join(lines[:top]) + _imports(where) + rest, files


def _imports(modules: Mapping[str, str]) -> str:
    """The imports of names, each from its module."""
    return "".join(f"from {modules[name]} import {name}\n" for name in sorted(modules))


def _stores(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _first(stmt: ast.stmt) -> int:
    return min([stmt.lineno, *(d.lineno for d in getattr(stmt, "decorator_list", ()))])
