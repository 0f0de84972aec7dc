"""Scripts in which an option chooses the class of the object that trains, and only one class is in the file.

`if args.policy == "TD3": policy = TD3(...)`, `elif args.policy == "DDPG": policy = other_file.DDPG(...)`.
"""

from __future__ import annotations

import ast

from transformer.recognition.arguments import defaults
from transformer.state import State
from transformer.syntax.query import calls_method
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree


def of_known_class(state: State) -> tuple[State, tuple[str, ...]] | None:
    """The state in which the object has the class that the option's default chooses, with notes; None if not possible.

    For every other choice the script stops where it would make the object, and tells the user to run the original.
    """
    tree, roles = state.tree, state.roles
    for method in dict.fromkeys(tree.scope_of(step) for step in roles.optimizer_steps):
        cls = tree.parents.get(method)
        if not isinstance(method, ast.FunctionDef) or not isinstance(cls, ast.ClassDef):
            continue
        for name in dict.fromkeys(_receivers(tree, method.name)):
            made = {tree.statement(n): tree.assigned.get(n) for n in _stores_of(tree, name)}
            ours = [s for s, v in made.items() if isinstance(v, ast.Call) and ast.unparse(v.func) == cls.name]
            others = [s for s, v in made.items() if isinstance(v, ast.Call) and tree.qualified(v.func) is not None]
            if len(ours) != 1 or not others or len(others) + 1 < len(made) or not _is_default(tree, ours[0]):
                continue
            if not all(tree.never_both(ours[0], other) for other in others):
                continue
            edits, notes = Edits(state.source), list[str]()
            for other in others:
                what = ast.unparse(made[other].func)  # type: ignore[union-attr]
                told = f"converted for {cls.name} alone: run the original {_condition(tree, other) or f'for {what}'}"
                edits.replace(other, f"raise SystemExit({told!r})" if '"' in told else f'raise SystemExit("{told}")')
                note = f"the new file is for {cls.name} alone: with {what} (line {other.lineno}) it ends with a message"
                notes.append(state.in_original(note))
            return state.after(edits), tuple(notes)
    return None


def _condition(tree: Tree, stmt: ast.stmt) -> str:
    """The condition under which a branch runs, for a message: "if args.policy == 'DDPG'"; empty for an `else`."""
    branch = tree.parents[stmt]
    return f"if {ast.unparse(branch.test)}" if isinstance(branch, ast.If) and stmt in branch.body else ""


def _receivers(tree: Tree, method: str) -> list[str]:
    """The names of objects on which loops call a method of this name."""
    calls = [c for c in tree.of(ast.Call) if calls_method(c, method) and tree.loops_around(c)]
    return [c.func.value.id for c in calls if isinstance(c.func, ast.Attribute) and isinstance(c.func.value, ast.Name)]


def _stores_of(tree: Tree, name: str) -> list[ast.Name]:
    return [n for n in tree.of(ast.Name) if n.id == name and not isinstance(n.ctx, ast.Load)]


def _is_default(tree: Tree, stmt: ast.stmt) -> bool:
    """Whether a statement is outside loops, in the branch `if args.x == "...":` that the option's default takes."""
    chosen = tree.parents[stmt]
    if not isinstance(chosen, ast.If) or stmt not in chosen.body or tree.loops_around(stmt):
        return False
    test, tests = chosen.test, [chosen.test]
    while isinstance(outer := tree.parents[chosen], ast.If) and outer.orelse == [chosen]:
        chosen = outer
        tests.append(outer.test)
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq) or len(test.ops) > 1:
        return False
    same = all(isinstance(t, ast.Compare) and ast.unparse(t.left) == ast.unparse(test.left) for t in tests)
    return same and ast.unparse(test.comparators[0]) in defaults(tree, tree.last_name(test.left))
