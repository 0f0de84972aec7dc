"""Turn consecutive calls of a function that learns into one call, in a loop over the arguments that differ.

`learn(memory, True)` above `learn(memory)` becomes `for recent in (True, False): learn(memory, recent)`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

import libcst as cst

from transformer.dataflow.closures import Nested
from transformer.dataflow.name_lookups import variable_lookups
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import bind_arguments, last_written, parameters, walk
from transformer.syntax.rewrite import Edits
from transformer.values.effects.world import World


def with_one_call(state: State) -> State | None:
    """The state in which a function that steps an optimizer, directly or not, is called once, in a loop.

    Before, consecutive statements called it that differ only in constant arguments. So the same calls are made in the
    same order. None if there is no such function.
    """
    for function in _learning(state.roles):
        uses = [n for n in state.tree.nodes if last_written(n) == function.name]
        calls = [c for u in uses if isinstance(c := state.tree.parents[u], ast.Call) and c.func is u]
        if 2 <= len(calls) == len(uses) and (found := _in_a_loop(state, function, calls)) is not None:
            return found
    return None


def _learning(roles: Roles) -> list[ast.FunctionDef]:
    """The functions that step an optimizer, directly or by calls, which are found by name."""
    found: list[ast.FunctionDef] = []
    pending: list[ast.AST] = [*roles.optimizer_steps]
    while pending:
        function = roles.tree.scope_of(pending.pop())
        if isinstance(function, ast.FunctionDef) and function not in found:
            found.append(function)
            pending += [c for c in roles.tree.of(ast.Call) if last_written(c.func) == function.name]
    return found


def _in_a_loop(state: State, function: ast.FunctionDef, calls: Sequence[ast.Call]) -> State | None:
    """The state with a loop instead of calls that follow one another in a block of a loop; None if they do not."""
    tree, calls = state.tree, sorted(calls, key=lambda c: (c.lineno, c.col_offset))
    row = [tree.statement(call) for call in calls]
    block = tree.block(row[0])
    place = block.index(row[0])
    lines = [state.source.pairs[stmt].line for stmt in row]
    alone = all(isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 for line in lines)
    if block[place : place + len(row)] != row or not alone or not tree.loops_around(row[0]):
        return None
    given = [_arguments(state, function, call) for call in calls]
    if any(values is None for values in given):
        return None
    table = [values for values in given if values is not None]
    differing = [p for p in table[0] if len({ast.dump(values[p]) for values in table}) > 1]
    written = next((i for i, c in enumerate(calls) if all(table[i][p] in walk(c) for p in differing)), None)
    if written is None or not all(isinstance(v[p], ast.Constant) for p in differing for v in table):
        return None
    if len({_frame(stmt, call) for stmt, call in zip(row, calls, strict=True)}) > 1:
        return None
    names = [_loop_name(state, row[0], p) for p in differing]
    each = [", ".join(tree.text(values[p]) for p in differing) for values in table]
    texts = ", ".join(f"({text})" if len(names) > 1 else text for text in each)
    header = f"for {', '.join(names)} in ({texts}):" if names else f"for _ in range({len(row)}):"
    edits = Edits(state.source)
    for parameter, name in zip(differing, names, strict=True):
        edits.substitute(table[written][parameter], name)
    moved = [edits.lines_of(stmt) for stmt in row]
    beside = [getattr(line, "trailing_whitespace", None) for line in moved]
    told = [c for i, line in enumerate(moved) if i for c in line.leading_lines if c.comment]
    told += [cst.EmptyLine(comment=b.comment) for i, b in enumerate(beside) if b and b.comment and i != written]
    loop = cst.parse_statement(f"{header}\n    pass\n")
    assert isinstance(loop, cst.For)
    body = cst.IndentedBlock([moved[written].with_changes(leading_lines=told)])
    own = [line for line in moved[0].leading_lines if line.comment]
    edits.move(row[0], [loop.with_changes(body=body, leading_lines=own)])
    for stmt in row[1:]:
        edits.move(stmt)
    return state.after(edits)


def _arguments(state: State, function: ast.FunctionDef, call: ast.Call) -> Mapping[str, ast.expr] | None:
    """The arguments of a call, by parameter; None if it may run another function or uses a default that may change."""
    method = isinstance(call.func, ast.Attribute)
    bound = bind_arguments(function, call, call.func.value if isinstance(call.func, ast.Attribute) else None)
    if bound is None or not all(isinstance(v, ast.Constant) for v in bound.defaults.values()):
        return None
    own = state.roles.get(World).only_runs(call.func, function) if method else None
    if not (own or state.tree.function_called(call) is function) or function.decorator_list:
        return None
    return bound.values


def _frame(stmt: ast.stmt, call: ast.Call) -> str:
    """A statement without the constants in its call's arguments and the order of what has no effect."""
    kept = [a for a in call.args if not isinstance(a, ast.Constant)]
    named = [k for k in call.keywords if not isinstance(k.value, ast.Constant)]
    bare = ast.dump(ast.Call(call.func, kept, named))
    return ast.dump(stmt).replace(ast.dump(call), bare)


def _loop_name(state: State, stmt: ast.stmt, wanted: str) -> str:
    """The parameter's name, if the scope of a statement, which is a function, has no other use for it."""
    scope, names = state.tree.scope_of(stmt), state.tree.names
    nested = isinstance(scope, ast.FunctionDef) and not any(
        n is not scope for n in walk(scope) if isinstance(n, Nested)
    )
    if nested and next(variable_lookups(state.tree, scope), None) is None:  # type: ignore[arg-type]
        own = {n.id for n in walk(scope) if isinstance(n, ast.Name)} | {*parameters(scope)}  # type: ignore[arg-type]
        if wanted not in own and wanted not in state.tree.declared:
            return wanted
    return names.fresh(wanted)
