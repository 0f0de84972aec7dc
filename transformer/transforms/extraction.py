"""Move a region of statements into a function whose signature follows from dataflow.

A name becomes a parameter if the region reads it and the training loop rebinds it. Names that the loop does not rebind
(args, envs, writer, the networks) are read from the enclosing scope, as one would write it by hand. A name becomes a
result if the region binds it and it is read afterwards, including in the next turn of the loop.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from transformer.dataflow.access import access, scope_access
from transformer.dataflow.assignment import Assignment
from transformer.dataflow.bindings import variables
from transformer.dataflow.closures import (
    functions_in,
    is_used_up,
    kept_for_later,
    late_reads,
    read_at_error,
    read_by_functions,
)
from transformer.dataflow.grad_mode import without_gradients
from transformer.dataflow.liveness import Liveness, exposed
from transformer.facts.torch_api import ATTRIBUTES, GRADIENTS
from transformer.recognition.arguments import decided
from transformer.recognition.history import Function
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.layout import fit, fit_all
from transformer.syntax.query import calls_method, is_none, parameters, statements, walk
from transformer.syntax.rewrite import Edits, Line, without_blank_lines
from transformer.syntax.tree import Scope, Tree
from transformer.transforms.base import Skip
from transformer.transforms.held_results import detach_held
from transformer.values.effects.graphs import LEAVES, STAYS, Graphs
from transformer.values.effects.world import World
from transformer.values.shapes import Shapes
from transformer.values.tensors import Tensors


@dataclass(frozen=True)
class Signature:
    """Parameters and results of a region, each in the order of first appearance."""

    params: tuple[str, ...]
    results: tuple[str, ...]
    unset: tuple[str, ...] = ()
    """Parameters that only the training loop sets, perhaps after the first call: see `set_first`."""
    never: tuple[str, ...] = ()
    """Results that, as the script's arguments decide, every call sets or none; if unset, they are returned as None."""


def signature(
    roles: Roles,
    region: Sequence[ast.stmt],
    scope: Scope | None = None,
    variant: frozenset[str] | None = None,
    above: Sequence[ast.stmt] = (),
) -> Signature:
    """The parameters and results of a region.

    Args:
        roles: the script that the region belongs to.
        region: consecutive statements of one block.
        scope: the scope whose names it uses; if None, the training scope.
        variant: names that become parameters if they are read; if None, those that the training loop binds.
        above: statements of the region that stay outside the function, above its call.

    Raises:
        Skip: the region cannot be a function; the message says which statement or name forbids it.
    """
    tree = roles.tree
    scope = scope or roles.scope
    variant = roles.variant if variant is None else variant
    begin, end = region[0], region[-1]
    region = [s for s in region if s not in above]
    check_moveable(tree, region)
    once = (*roles.counted, *(s for s in region if isinstance(s, ast.For)))
    binds = scope_access(region).binds
    check_not_shared(tree, scope, region, binds)
    reads = exposed(region, once)
    liveness = Liveness.of(scope.body, read_by_functions(scope), once, read_at_error(tree, scope))
    live = liveness.after[end]
    if lost := binds & liveness.raised[begin]:
        raise Skip(
            f"line {_catches(tree, begin)} may go on after an exception in the middle, and read {min(lost)} as it is "
            "then: a function would not set it"
        )
    flow = Assignment(once)
    given = frozenset(parameters(scope)) if isinstance(scope, ast.FunctionDef) else frozenset()
    flow.after(scope.body, given)
    at_entry = flow.before[begin] | scope_access(above).binds
    bound = Assignment(once).after(region) or frozenset()
    results = (binds & live) - only_deleted(tree, scope, region).keys()
    perhaps = frozenset(n for n in results if n not in bound)
    params = (reads & (binds | variant)) | perhaps
    never = sorted(n for n in perhaps - at_entry if scope is roles.scope and _is_set_or_never(roles, n, region, binds))
    params -= {*never}
    unset = sorted(params - at_entry)
    for name in unset:
        if scope is not roles.scope or not _begins_in_loop(roles, name):
            raise Skip(f"{name} may be unset where {_where(region)} begins, so it cannot be passed in")
    check_own(tree, region, binds | params, params | results)
    order = _order(region)
    return Signature(
        tuple(sorted(params, key=lambda n: order.get(n, 0))),
        tuple(sorted(results, key=lambda n: order.get(n, 0))),
        tuple(unset),
        tuple(sorted(never, key=lambda n: order.get(n, 0))),
    )


def _catches(tree: Tree, stmt: ast.stmt) -> int:
    """The line of the innermost `try` or `with` around a statement."""
    return next(n.lineno for n in tree.ancestors(stmt) if isinstance(n, (ast.Try, ast.With)))


def _is_set_or_never(roles: Roles, name: str, region: Sequence[ast.stmt], local: frozenset[str]) -> bool:
    """Whether only a region binds a name, and the script's arguments decide whether it does."""
    inside = {*statements(region)}
    binding = [s for s in statements(roles.scope.body) if name in access(s).binds]
    around = (outer for s in binding if s in inside for outer in roles.tree.ancestors(s) if outer in inside)
    decides = all(isinstance(o, ast.With) or (isinstance(o, ast.If) and decided(roles, o.test, local)) for o in around)
    return decides and inside.issuperset(binding) and _begins_in_loop(roles, name)


def _begins_in_loop(roles: Roles, name: str) -> bool:
    """Whether a name is bound only in the training loop, which runs once, and nothing tests whether it is bound."""
    tree = roles.tree
    inside = set(walk(roles.outermost))
    elsewhere = {n for s in statements(roles.scope.body) if s not in inside for n in access(s).binds}
    for node in tree.nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return False
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Del):
            return False
    once = not tree.loops_around(roles.outermost) and not _asks_what_is_bound(tree)
    return once and name not in elsewhere | set(dir(builtins)) and name not in tree.imports


def _asks_what_is_bound(tree: Tree) -> bool:
    """Whether a script may test whether a name is bound, or catch the error of an unbound one."""
    return any(n.id in ("NameError", "UnboundLocalError", "locals", "globals", "dir") for n in tree.of(ast.Name))


def only_deleted(tree: Tree, scope: Scope, region: Sequence[ast.stmt]) -> dict[str, list[ast.Name]]:
    """Names that a region binds and that code outside only deletes, each with the places that delete it."""
    inside, found = {n for stmt in region for n in walk(stmt)}, dict[str, list[ast.Name]]()
    deleted = {n.id for stmt in tree.of(ast.Delete) for n in walk(stmt) if isinstance(n, ast.Name)}
    if not deleted or _asks_what_is_bound(tree):
        return {}
    lines, owners = tree.code.splitlines(), variables(tree)
    for node in tree.of(ast.Name):
        if node.id in deleted and node not in inside and owners.owner_of(node) is scope:
            found.setdefault(node.id, []).append(node)
    binds = scope_access(region).binds
    return {
        name: nodes
        for name, nodes in found.items()
        if name in binds and all(isinstance(n.ctx, ast.Del) for n in nodes)
        # Removing a statement would remove its comments
        if not any("#" in line for n in nodes for line in _lines(lines, tree.statement(n)))
    }


def _lines(lines: Sequence[str], stmt: ast.stmt) -> Sequence[str]:
    return lines[stmt.lineno - 1 : stmt.end_lineno]


def _delete_less(tree: Tree, edits: Edits, names: Mapping[str, Sequence[ast.Name]]) -> None:
    """Remove names that are no longer bound from the `del` statements."""
    for stmt in dict.fromkeys(tree.statement(n) for nodes in names.values() for n in nodes):
        assert isinstance(stmt, ast.Delete)
        targets = [e for t in stmt.targets for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
        kept = [tree.text(t) for t in targets if not (isinstance(t, ast.Name) and t.id in names)]
        if kept:
            edits.replace(stmt, f"del {', '.join(kept)}")
        elif not all(isinstance(other, ast.Delete) for other in tree.block(stmt)):
            edits.remove(stmt)
        else:
            edits.replace(stmt, "pass")


def set_first(roles: Roles, edits: Edits, sig: Signature) -> None:
    """Bind to None, above the training loop, the names that may be unset at a call. The original never reads them
    unset: it would stop."""
    if sig.unset:
        comment = "# Set by the loop below, perhaps not in its first turn; functions can only take what is set"
        edits.before(roles.outermost, f"{comment}\n{' = '.join(sig.unset)} = None")


def check_moveable(tree: Tree, region: Sequence[ast.stmt]) -> None:
    """Check that no statement would mean something else in a function of its own.

    Raises:
        Skip: there is one.
    """
    inside = {n for s in region for n in walk(s)}
    for stmt in statements(region):
        if isinstance(stmt, (ast.Return, ast.Global, ast.Nonlocal, ast.Delete)):
            raise Skip(f"line {stmt.lineno} has a {type(stmt).__name__.lower()} statement")
        if isinstance(stmt, (ast.Break, ast.Continue)):
            loops = tree.loops_around(stmt)
            if not loops or loops[0] not in inside:
                what = f"the {type(stmt).__name__.lower()} on line {stmt.lineno} jumps out of"
                last = region[-1]
                if not (isinstance(last, ast.Expr) and calls_method(last.value, "step")):
                    raise Skip(f"{what} what would be a function: move it below that")
                more = ", which takes one more step before it stops" if isinstance(stmt, ast.Break) else ""
                raise Skip(f"{what} the minibatch above {tree.text(last)}: move it below that{more}")
    for stmt in region:
        for node in walk(stmt):
            if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)):
                raise Skip(f"line {node.lineno} has a {type(node).__name__.lower()} expression")
            if isinstance(node, ast.Name) and node.id in ("super", "__class__"):
                raise Skip(f"line {node.lineno} uses {node.id}, which has another meaning in a separate function")
            if isinstance(node, ast.AnnAssign) and any(isinstance(n, ast.Call) for n in walk(node.annotation)):
                raise Skip(f"line {node.lineno} has an annotation that a function would not evaluate")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in tree.classes and tree.methods("__del__"):
                    raise Skip(f"line {node.lineno} makes an object whose __del__() would run at another time")
                if node.func.id in ("locals", "globals", "exec", "eval") or (node.func.id == "vars" and not node.args):
                    raise Skip(f"line {node.lineno} calls {node.func.id}(), which depends on the local names")


def check_not_shared(tree: Tree, scope: Scope, region: Sequence[ast.stmt], binds: frozenset[str]) -> None:
    """Check that no function elsewhere reads a name that the region would no longer set in the training scope.

    Raises:
        Skip: one does.
    """
    inside = {n for s in region for n in walk(s)}
    for node in functions_in(scope):
        if node in inside or (isinstance(node, ast.GeneratorExp) and is_used_up(tree, node)):
            continue
        for name in sorted(late_reads(node) & binds)[:1]:
            made = getattr(node, "name", "the generator" if isinstance(node, ast.GeneratorExp) else "the lambda")
            raise Skip(f"{made} (line {node.lineno}) reads {name} from the training scope, which sets it here")


def check_own(tree: Tree, region: Sequence[ast.stmt], own: frozenset[str], carried: frozenset[str]) -> None:
    """Check that the new function's variables are private: not read after a call, not set by other functions.

    Args:
        tree: the script that the region belongs to.
        region: the function's statements.
        own: its parameters and variables.
        carried: the parameters and results among these.

    Raises:
        Skip: they may not be private.
    """
    for name, line in sorted(kept_for_later(tree, region, own, carried).items(), key=lambda found: found[1]):
        raise Skip(f"line {line} makes something that may be kept and read {name} after the loop has changed it")
    for node in tree.nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)) and own & {*node.names}:
            name = sorted(own & {*node.names})[0]
            raise Skip(f"line {node.lineno} shares {name}, which is set here, with other functions")


def _where(region: Sequence[ast.stmt]) -> str:
    return f"line {region[0].lineno}"


def _order(region: Sequence[ast.stmt]) -> dict[str, int]:
    order: dict[str, int] = {}
    for stmt in statements(region):
        one = access(stmt)
        found = [n for n in walk(stmt) if isinstance(n, ast.Name) and n.id in one.reads | one.binds]
        for node in sorted(found, key=lambda n: (n.lineno, n.col_offset)):
            order.setdefault(node.id, len(order))
    return order


INSTEAD = {"rollout": "collect_rollout", "gae": "compute_gae", "update": "update_networks"}
"""Names of the functions in scripts that use theirs already: `for update in range(...)`."""


def extract(
    state: State,
    edits: Edits,
    region: Sequence[ast.stmt],
    role: str,
    doc: str,
    *,
    detach: bool = False,
    above: Sequence[ast.stmt] = (),
) -> Function:
    """Move `region` into a new function `role` (or another name if it is taken) and call it instead.

    Args:
        state: the state that `region` belongs to.
        edits: receives the edits.
        region: consecutive statements of one block.
        role: the wanted name.
        doc: the function's one-line docstring.
        detach: return tensors detached from the graph, which nothing may use after the backward pass.
        above: statements of the region that stay outside, above the call; they must not depend on the others.

    Raises:
        Skip: the region cannot be moved.
    """
    tree, roles = state.tree, state.roles
    sig = signature(roles, region, above=above)
    tensors = roles.get(Tensors)
    name = tree.names.fresh(role, INSTEAD.get(role))
    begin, end = region[0], region[-1]
    region = [s for s in region if s not in above]
    given = {n: s for s in above for n in access(s).binds}
    function = Function(
        name,
        sig.params,
        sig.results,
        others=tuple(
            p
            for p in sig.params
            if p in sig.unset or not (p == state.history.storage or _binds_tensor(p, tensors, given, begin))
        ),
        tensor_results=frozenset(r for r in sig.results if tensors.tensor_after(r, end) and r not in sig.unset),
        tuple_results=frozenset(r for r in sig.results if tensors.tensors_after(r, end)),
    )
    nested = not isinstance(roles.scope, ast.Module)
    anchor = roles.outermost if nested else top_level(tree, roles.outermost)
    indent = anchor.col_offset
    graphs = [r for r in sig.results if not _without_graph(tree, region, r)] if detach else []
    in_graph = {r for r in graphs if tensors.tensor_after(r, end)}
    perhaps = {r for r in graphs if r not in in_graph and roles.get(World).is_tensor(r)}
    follows = detach and roles.kind == "on-policy" and in_graph
    if follows and (held := roles.get(Graphs).seen(in_graph, region)) is not None:
        raise Skip(
            f"line {held.lineno} {held.what}, which results of {name}() do not have: use `.detach()` or `.item()`"
        )
    in_graph |= perhaps
    in_graph -= _shown(roles, region, perhaps if follows else in_graph)
    if (told := _told_apart(roles, region, in_graph)) is not None:
        raise Skip(f"line {told.lineno} asks whether a result of {name}() is an object, which a detached result is not")
    whole = {r for r in sig.never if all(tensors.tensor(value) for _, value in roles.assignments(r))}
    guard = {r: f"{r} if {r} is None else " for r in (*sig.unset, *sig.never)}
    otherwise = {r: f" if torch.is_tensor({r}) else {r}" for r in perhaps - whole}
    if detach:
        detach_held(roles, edits, region, [r for r in graphs if r not in in_graph])
    texts = {r: f"{'' if r in otherwise else guard.get(r, '')}{r}.detach(){otherwise.get(r, '')}" for r in in_graph}
    results = [texts.get(r, r) for r in sig.results]
    call = f"{name}({', '.join(sig.params)})"
    if sig.results:
        call = f"{', '.join(sig.results)} = {call}"
    set_first(roles, edits, sig)
    _delete_less(tree, edits, only_deleted(tree, roles.scope, region))
    _rejoin(state, edits, region, indent + 4 - region[0].col_offset)
    edits.before(region[0], [edits.move(stmt) for stmt in above])
    lines: list[Line] = [edits.move(region[0], call), *(edits.move(stmt) for stmt in region[1:])]
    lines[0] = without_blank_lines(lines[0])
    first = f"{' = '.join(sig.never)} = None" if sig.never else ""
    function_def = define(state, name, sig.params, doc, lines, results, indent, first)
    edits.before(anchor, [function_def], gap=1 if nested else 2)
    return function


def _told_apart(roles: Roles, region: Sequence[ast.stmt], names: Collection[str]) -> ast.Compare | None:
    """Where code outside a region compares one of its results by identity: `first is loss`, `loss in kept`."""
    inside = {n for stmt in region for n in walk(stmt)}
    for node in roles.tree.of(ast.Compare):
        by_identity = any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
        sides = (node.left, *node.comparators)
        if by_identity and node not in inside and not any(map(is_none, sides)):
            if any(isinstance(side, ast.Name) and side.id in names and roles.is_ours(side) for side in sides):
                return node
    return None


def _shown(roles: Roles, region: Sequence[ast.stmt], names: Collection[str]) -> set[str]:
    """Names that code outside the region reads in ways that may show whether they have a graph."""
    inside, found = {n for stmt in region for n in walk(stmt)}, set[str]()
    for read in (n for n in roles.tree.of(ast.Name) if n.id in names and n not in inside):
        ours = read.id not in found and isinstance(read.ctx, ast.Load) and roles.is_ours(read)
        if ours and not _takes_values(roles, read):
            if roles.get(Graphs).seen({read.id}, region) is not None:
                found.add(read.id)
    return found


def _takes_values(roles: Roles, read: ast.Name) -> bool:
    """Whether a read of a tensor uses only its values: `x.mean().item()`, `f"{x:.3f}"`."""
    node: ast.AST = read
    outer = roles.tree.parents[read]
    if isinstance(outer, ast.FormattedValue):
        return outer.conversion == -1 and (outer.format_spec is not None or roles.get(Shapes).rank(read) == 0)
    computed = isinstance(outer, (ast.BinOp, ast.UnaryOp)) and not isinstance(outer.op, ast.Mod)  # "%s" % x
    if computed and without_gradients(roles.tree, read):
        return True  # a result without a graph
    while isinstance(outer, ast.Attribute) and outer.attr in STAYS - LEAVES and outer.value is node:
        node = roles.tree.parents[outer]
        if not isinstance(node, ast.Call) or node.func is not outer:
            return False
        outer = roles.tree.parents[node]
    return isinstance(outer, ast.Attribute) and outer.attr in (LEAVES | ATTRIBUTES) - GRADIENTS


def _binds_tensor(param: str, tensors: Tensors, given: Mapping[str, ast.stmt], begin: ast.stmt) -> bool:
    """Whether a parameter is known to be a tensor or tensors: bound by a statement moved above the call, or before."""
    return tensors.tensor_after(param, given[param]) if param in given else tensors.tensors_before(param, begin)


def _rejoin(state: State, edits: Edits, region: Sequence[ast.stmt], shift: int) -> None:
    """Join statements that a formatter split for lack of columns, if they now fit."""
    broken = [s for s in statements(region) if s.end_lineno != s.lineno and not hasattr(s, "body")]
    texts = [re.sub(r"\r\n?", "\n", state.tree.text(s)) + "\n" for s in broken]
    there, here = ([(t, s.col_offset + by) for t, s in zip(texts, broken, strict=True)] for by in (0, shift))
    fitted = fit_all((*there, *here), state.source.width)
    for stmt, old, as_was, new in zip(broken, texts, fitted, fitted[len(broken) :], strict=False):
        if old == as_was != new:
            edits.reword(stmt, new.rstrip("\n"))


def _without_graph(tree: Tree, region: Sequence[ast.stmt], name: str) -> bool:
    """Whether a region binds a name only under torch.no_grad()."""
    binding = [s for s in statements(region) if name in access(s).binds]
    return all(without_gradients(tree, stmt) for stmt in binding)


def define(
    state: State,
    name: str,
    params: Sequence[str],
    doc: str,
    lines: Sequence[Line],
    results: Sequence[str],
    indent: int,
    first: str = "",
) -> cst.FunctionDef:
    """A function definition around moved lines, below a new first line."""
    ends = f"return {', '.join(results)}" if results else ""
    head = fit(f"def {name}({', '.join(params)}):\n    pass\n", indent, state.source.width)
    head = head.removesuffix("    pass\n") + f'    """{doc}"""\n'
    shell = cst.parse_module(head).body[0]
    assert isinstance(shell, cst.FunctionDef)
    above, last = (cst.parse_module(fit(text, indent + 4, state.source.width)).body for text in (first, ends))
    blank = [cst.EmptyLine(indent=False)] * (1 if indent else 2)
    return shell.with_changes(leading_lines=blank, body=cst.IndentedBlock([*shell.body.body, *above, *lines, *last]))


def top_level(tree: Tree, node: ast.AST) -> ast.stmt:
    """The statement of the module that contains `node`."""
    for stmt in tree.root.body:
        if stmt is node or stmt in tree.ancestors(node):
            return stmt
    raise AssertionError("every node is in the module")
