"""Finds where a script steps the environment, and which statements are rollout, advantage estimation and update.

The original, the converted script and others are searched in the same way. The search follows calls of a script's own
functions, so it does not matter whether a phase is written in the training loop or in a function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from transformer.conversion.together.one_file import one_file
from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax import text
from transformer.syntax.query import backwards
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World

Position: TypeAlias = tuple[int, int]
"""Line and column (in UTF-8 bytes) where a node begins, as in `ast`."""

ROLLOUT, GAE, UPDATE = "rollout", "gae", "update"


@dataclass(frozen=True)
class Places:
    """The places that were found in a script."""

    env_steps: tuple[Position, ...]
    """Calls that step an environment."""
    phases: dict[str, tuple[Position, Position]]
    """For each phase, its first and its last statement, which are in one block; empty if the phases are not known.
    Advantage estimation is absent if it cannot be separated from its surroundings."""
    stepwise: bool = False
    """Whether the rollout is a single step: the loop around the phases steps the environment once per iteration."""
    others: Mapping[str, tuple[Position, ...]] = field(default_factory=dict)
    """Calls that step an environment in files that were given with the script, by the files' resolved paths."""
    phases_in: str | None = None
    """The given file that contains the phases; None if the script does."""


def find_places(code: str) -> Places:
    """Search a script.

    Raises:
        SyntaxError, ValueError: the text is not Python.
    """
    roles = Roles(Tree(code), History(original=code))
    acting = roles.env_steps
    phases = _Phases(roles)
    found = phases.find()
    return Places(tuple(map(_position, acting)), found, ROLLOUT in found and phases.is_one_step(found[ROLLOUT][0]))


def find_places_together(script: Path, given: Sequence[Path]) -> Places:
    """Search a script merged with files that it imports; the places are positions in the separate files.

    Raises:
        OSError: a file cannot be read.
        SelectionError: the script does not import one of the files.
        SyntaxError, ValueError, Unconvertible: the files cannot be merged.
    """
    one = one_file(script, text.read(script).content, given)
    if one is None:
        raise ValueError("not Python source")
    found = find_places(one.text)
    paths = {name: script if not name else Path(name) for name, _ in one.origins}
    trees = {name: ast.parse(path.read_bytes()) for name, path in paths.items()}
    whole = ast.parse(one.text)

    def place(position: Position, kind: type[ast.AST]) -> tuple[str, Position]:
        name, line = one.origins[position[0] - 1]
        # Names may be replaced in the merged file, so columns may differ
        which = _in_line(whole, position[0], kind).index(position)
        return name, _in_line(trees[name], line, kind)[which]

    steps: dict[str, list[Position]] = {}
    for position in found.env_steps:
        name, there = place(position, ast.Call)
        steps.setdefault(name, []).append(there)
    phases = {p: (place(first, ast.stmt), place(last, ast.stmt)) for p, (first, last) in found.phases.items()}
    holding = next((first[0] for first, _ in phases.values()), "")
    return replace(
        found,
        env_steps=tuple(steps.pop("", ())),
        phases={p: (first[1], last[1]) for p, (first, last) in phases.items()},
        others={str(paths[name].resolve()): tuple(positions) for name, positions in steps.items()},
        phases_in=str(paths[holding].resolve()) if holding else None,
    )


def _in_line(tree: ast.Module, line: int, kind: type[ast.AST]) -> list[Position]:
    """The positions on a line where nodes of a kind begin."""
    found = (n for n in ast.walk(tree) if isinstance(n, kind) and getattr(n, "lineno", 0) == line)
    return sorted({_position(node) for node in found})


class _Phases:
    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree

    def find(self) -> dict[str, tuple[Position, Position]]:
        learning = [*self._roles.optimizer_steps, *(n for n in self._tree.nodes if _is_backward(n))]
        block = self._training_block(self._with_callers(self._roles.env_steps), self._with_callers(learning))
        if block is None:
            return {}
        stmts, collect, learn = block
        phases = {ROLLOUT: (collect, collect), UPDATE: (learn, learn)}
        between = stmts[stmts.index(collect) + 1 : stmts.index(learn)]
        estimating = self._estimating(between)
        if estimating:
            phases[GAE] = (estimating[0], estimating[-1])
        return {name: (_position(first), _position(last)) for name, (first, last) in phases.items()}

    def is_one_step(self, rollout: Position) -> bool:
        """Whether no loop is inside the statement at this position, around an environment step."""
        for step in self._roles.env_steps:
            for stmt in self._tree.ancestors(step):
                if isinstance(stmt, ast.stmt) and _position(stmt) == rollout:
                    return self._tree.loops_around(step)[:1] == self._tree.loops_around(stmt)[:1]
        return False

    def _with_callers(self, sites: Iterable[ast.AST]) -> list[ast.AST]:
        """The sites, the calls of functions that contain one, the calls of functions that contain these, and so on."""
        found = list(sites)
        for site in found:  # the list grows
            function = self._function_around(site)
            if function is not None:
                found += [call for call in self._calls_of(function) if call not in found]
        return sorted(found, key=_position)

    def _function_around(self, node: ast.AST) -> ast.FunctionDef | None:
        return next((n for n in self._tree.ancestors(node) if isinstance(n, ast.FunctionDef)), None)

    def _calls_of(self, function: ast.FunctionDef) -> Iterator[ast.Call]:
        """Calls by the function's name; calls of `step` only if they may run this function, as others are named so."""
        names = {function.name, *self._returned_as(function)}
        method = isinstance(self._tree.parents[function], ast.ClassDef)
        kind: type[ast.expr] = ast.Attribute if method else ast.Name
        for node in self._tree.of(ast.Call):
            if isinstance(node.func, kind) and _last_name(node.func) in names:
                if not method or function.name != "step" or self._runs(node, function):
                    yield node

    def _runs(self, call: ast.Call, function: ast.FunctionDef) -> bool:
        """Whether a call that steps no environment may run a function."""
        return call not in self._roles.env_steps and self._roles.get(World).may_be(call.func, function)

    def _returned_as(self, function: ast.FunctionDef) -> Iterator[str]:
        """The names to which `a, b = make()` binds the function, if `make` returns it along with others."""
        maker = self._function_around(function)
        returned = maker.body[-1] if maker is not None else None
        if maker is None or not isinstance(returned, ast.Return) or not isinstance(returned.value, ast.Tuple):
            return
        places = [i for i, e in enumerate(returned.value.elts) if _last_name(e) == function.name]
        for stmt in self._tree.of(ast.Assign):
            made, target = stmt.value, stmt.targets[0]
            if isinstance(made, ast.Call) and _last_name(made.func) == maker.name and isinstance(target, ast.Tuple):
                yield from (e.id for i in places for e in target.elts[i : i + 1] if isinstance(e, ast.Name))

    def _training_block(
        self, acting: list[ast.AST], learning: list[ast.AST]
    ) -> tuple[list[ast.stmt], ast.stmt, ast.stmt] | None:
        """The block, in the innermost loop around both, that separates rollout and update, and their two statements.

        A rollout above the update is preferred to one below it, which may be an evaluation. A rollout in every turn is
        preferred to one under a condition.
        """
        best: tuple[tuple[bool, int, bool], list[ast.stmt], ast.stmt, ast.stmt] | None = None
        for act in acting:
            for learn in learning:
                theirs = self._tree.loops_around(learn)
                common = [loop for loop in self._tree.loops_around(act) if loop in theirs]
                apart = self._separating_block(common[0].body, act, learn) if common else None
                if apart is None:
                    continue
                block, collect, update = apart
                rank = block.index(collect) < block.index(update), len(common), not isinstance(collect, ast.If)
                if best is None or rank > best[0]:
                    best = rank, *apart
        return None if best is None else best[1:]

    def _separating_block(
        self, block: list[ast.stmt], act: ast.AST, learn: ast.AST
    ) -> tuple[list[ast.stmt], ast.stmt, ast.stmt] | None:
        """The block in which two nodes are in different statements, and these statements."""
        first, last = (self._statement_in(block, node) for node in (act, learn))
        if first is None or last is None:
            return None
        if first is not last:
            return block, first, last
        inner = [getattr(first, name, []) for name in ("body", "orelse", "finalbody")]
        found = (self._separating_block(b, act, learn) for b in inner if isinstance(b, list))
        return next((apart for apart in found if apart is not None), None)

    def _statement_in(self, block: list[ast.stmt], node: ast.AST) -> ast.stmt | None:
        around = {node, *self._tree.ancestors(node)}
        return next((stmt for stmt in block if stmt in around), None)

    def _estimating(self, block: list[ast.stmt]) -> list[ast.stmt]:
        """The statements that loop backwards in time, or call a function that does; else calls with a matching name."""
        loops = [n for n in self._tree.of(ast.For) if backwards(n.iter) is not None]
        sites = set(self._with_callers(loops))
        found = [stmt for stmt in block if any(node in sites for node in ast.walk(stmt))]
        return found or [stmt for stmt in block if any(_is_named_for_it(node) for node in ast.walk(stmt))]


def _is_backward(node: ast.AST) -> bool:
    """Whether this is `loss.backward()` or `torch.autograd.grad(...)`; some updates call no optimizer."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "backward" or ast.unparse(node.func).endswith("autograd.grad")


def _is_named_for_it(node: ast.AST) -> bool:
    name = ast.unparse(node.func).lower() if isinstance(node, ast.Call) else ""
    return "gae" in name or "advantage" in name


def _last_name(called: ast.expr) -> str | None:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else None


def _position(node: ast.AST) -> Position:
    assert isinstance(node, (ast.stmt, ast.expr))
    return node.lineno, node.col_offset
