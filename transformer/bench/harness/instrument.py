"""Reads a script and makes it notify a stopwatch of its environment steps and phases, without moving a line."""

from __future__ import annotations

import ast
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import TypeAlias

from .job import Job

STOPWATCH = "__lean_stopwatch__"
"""The name of the stopwatch among the builtins, where the script's code finds it."""
Phases: TypeAlias = "dict[str, tuple[tuple[int, int], tuple[int, int]]]"


def instrument_imports(job: Job) -> None:
    """Make imported files that step environments or contain the phases notify the stopwatch, too.

    Their bytecode caches are neither read nor written.
    """
    get_code = SourceFileLoader.get_code
    files = {*job.others, *filter(None, [job.phases_in])}

    def told(loader: SourceFileLoader, name: str) -> CodeType | None:
        path = Path(loader.get_filename(name))
        real = str(path.resolve())
        return (
            _compile(path, job.others.get(real, []), _phases_in(job, real)) if real in files else get_code(loader, name)
        )

    SourceFileLoader.get_code = told  # type: ignore[method-assign, assignment]


def compile_with_stopwatch(job: Job) -> CodeType:
    """Compile the job's script with calls of the stopwatch.

    At the given places `x.step(a)` becomes `stopwatch.env_step(x.step, a)`, and each phase is enclosed in
    `stopwatch.enter("rollout")` and `stopwatch.enter("other")`.

    Raises:
        SyntaxError: the file is not Python.
        ValueError: a statement or call was not found at its position.
    """
    return _compile(Path(job.script), job.env_steps, _phases_in(job, None))


def _phases_in(job: Job, file: str | None) -> Phases:
    return job.phases if job.phases_in == file else {}


def _compile(path: Path, env_steps: list[tuple[int, int]], phases: Phases) -> CodeType:
    tree = ast.parse(path.read_bytes(), str(path))
    calls = {(n.lineno, n.col_offset): n for n in ast.walk(tree) if isinstance(n, ast.Call) and _is_step(n)}
    for place in env_steps:
        call = calls.get((place[0], place[1]))
        if call is None:
            raise ValueError(f"no environment step at line {place[0]}, column {place[1] + 1}")
        call.args.insert(0, call.func)
        call.func = ast.copy_location(ast.Attribute(_stopwatch(call), "env_step", ast.Load()), call)
    for phase, (first, last) in phases.items():
        _enclose(tree, phase, tuple(first), tuple(last))
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def _is_step(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "step"


def _enclose(tree: ast.Module, phase: str, first: tuple[int, ...], last: tuple[int, ...]) -> None:
    """Put calls around the statements of one block from `first` to `last`."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list):
                continue
            starts = [(stmt.lineno, stmt.col_offset) for stmt in block if isinstance(stmt, ast.stmt)]
            if first in starts and last in starts:
                end = starts.index(last)
                block.insert(end + 1, _statement_that_enters("other", block[end]))
                begin = starts.index(first)
                block.insert(begin, _statement_that_enters(phase, block[begin]))
                return
    raise ValueError(f"no statements for {phase} at lines {first[0]} to {last[0]}")


def _statement_that_enters(phase: str, place: ast.stmt) -> ast.stmt:
    function = ast.Attribute(_stopwatch(place), "enter", ast.Load())
    return ast.copy_location(ast.Expr(ast.Call(function, [ast.Constant(phase)], [])), place)


def _stopwatch(place: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(STOPWATCH, ast.Load()), place)
