"""Let torch.compile put forward, backward, clipping and optimizer step of a minibatch into one graph."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from transformer.dataflow.access import access, scope_access
from transformer.dataflow.grad_mode import without_gradients
from transformer.facts import torch_api
from transformer.facts.python import WRITES
from transformer.facts.torch_api import attributes, of_optimizers
from transformer.recognition.arguments import decided
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.query import (
    calls_method,
    names_in,
    pairwise,
    parameters,
    receiver,
    statements,
    unparse,
    walk,
)
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.compiling import frozen, other_gradients, present_rates
from transformer.transforms.compiling.compile import changed_option, stays_eager
from transformer.transforms.compiling.outside_graphs import read_with_graph
from transformer.transforms.held_results import are_detached
from transformer.transforms.update import late_append
from transformer.values.device.graph_breaks import graph_break
from transformer.values.device.unusual_parameters import sparse_gradients, without_shapes
from transformer.values.device.waits import arguments
from transformer.values.effects import kept_optimizers
from transformer.values.effects.kept_methods import reclassed, replaced_in_torch
from transformer.values.effects.recorded import Recorded
from transformer.values.effects.world import Held, World
from transformer.values.networks.attributes import own_nodes
from transformer.values.networks.reached import computed_back, unreached

INFO = TransformInfo(
    name="one-graph",
    brief="forward, backward and step in one graph",
    summary="let torch.compile trace zero_grad(), backward() and step(): one graph for each minibatch",
    applies=(
        "when update() clears gradients, computes them and steps, in this order, by separate statements that run "
        "always or under conditions on the script's arguments. Its loss must be known to reach every parameter that it "
        "computes with and that is stepped. The optimizer must be a known one, made in one place, and its rate must be "
        "constant, or nothing else may see it during update(). Training must not change a parameter by hand, which "
        "parameters the optimizer holds, or which need gradients (those of an object may be frozen while others "
        "learn). With several passes, all that runs below the first backward() must be known to be traced: it reads no "
        "tensor on the host, and prints nothing"
    ),
    safety=(
        "Without --compile the same three methods are called. With it, code that does the same and can be traced is "
        "called instead: torch.optim keeps its own methods out of graphs, and backward() rebinds .grad, which ends a "
        "graph. A gradient that appears or vanishes is set as before, at the cost of a recompilation. With several "
        "optimizers, each pass computes only the gradients that are used: all others are cleared before that. Sums of "
        "several losses are added in the eager order. A rate that is a float is put into a float64 tensor while "
        "update() runs."
    ),
    costs=(
        "The update is compiled in pieces, at half the gain, or not at all: clear, compute and use gradients once in "
        "each minibatch, in this order, and nowhere else."
    ),
    needs=("flags", "update"),
    before="def update(mb_inds):\n    ...\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()",
    after=(
        "def update(mb_inds):\n    ...\n    zero_grad()\n    backward(loss)\n    optimizer_step()\n\n\n"
        "zero_grad, backward, optimizer_step = traceable(optimizer)\n"
        "if args.compile:\n    update = torch.compile(update)"
    ),
    regroups=(
        "in a graph RAdam computes both branches of its rectification; its steps are compared with ordinary ones "
        "where update() is compiled"
    ),
)

ORDER = tuple(sorted(of_optimizers("stepping") | attributes(method="runs")))
BRANCHING, TRACED = torch_api.optimizers(counting=True), torch_api.optimizers(traced=True)
NO_GRAPH = torch_api.functions("torch", graph=False)


def apply(state: State) -> Rewrite:
    """Replace the three calls in update(), for each of its optimizers.

    Raises:
        Skip: update() is not made of plain backward passes, each followed by plain steps of its optimizers.
    """
    try:
        return _traceable(state)
    except Skip as skip:
        raise Skip(str(skip), replace(state.history, untraced=str(skip))) from None


def _traceable(state: State) -> Rewrite:
    tree, roles = state.tree, state.roles
    hook = roles.hook(r"|\w*(backward|grad|step)_\w*")
    if hook is not None:
        raise Skip(f"line {hook.lineno} registers a hook, which the traced functions would not run")
    # The traced functions are chosen once, above the loop: they would neither call nor notice a replaced method
    if (other := replaced_in_torch(roles, tree.nodes, ORDER) or reclassed(roles)) is not None:
        raise Skip(f"line {other.lineno} may replace a method of an optimizer or a tensor")
    if (unshaped := without_shapes(roles)) is not None:
        raise Skip(unshaped)
    if (sparse := sparse_gradients(roles)) is not None:
        raise Skip(f"line {sparse.lineno} may make gradients sparse, which cannot be copied into dense ones")
    updates = {tree.definition(name): name for name in (*state.history.all_updates, *_further(roles))}
    for update in updates:
        if (moved := changed_option(roles, update)) is not None:
            raise Skip(f"line {moved.lineno} changes options of the optimizer: each value would cause a recompilation")
    by_update = {definition: _plain_update(roles, definition) for definition in updates}
    passes = [one for found in by_update.values() for one in found]
    switches = _switches(roles, list(by_update))
    for definition, found in by_update.items():
        for name in (name for one in found for name in one.optimizers):
            _check_optimizer(roles, name, definition, by_update, switches)
    for definition, found in by_update.items():
        if sum(len(one.backwards) for one in found) > 1 and (call := _begun_outside(roles, definition)) is not None:
            raise Skip(
                f"line {call.lineno} may compute a graph outside {definition.name}() for its backward passes: put "
                "it under torch.no_grad()"
            )
        several = len(found) > 1 or definition in switches.values()
        if several and (result := _kept_graph(roles, definition)) is not None:
            raise Skip(f"{definition.name}() returns {result}, perhaps with a graph that a backward pass has freed")
    outside = {
        definition: read_with_graph(
            roles, definition, {call: [*one.optimizers, *one.added] for one in found for call in one.backwards}
        )
        for definition, found in by_update.items()
    }
    if any(len(found) > 1 for found in by_update.values()) and (drawn := _drawn(roles, list(by_update))) is not None:
        raise Skip(f"line {drawn.lineno} calls {ast.unparse(drawn.func)}(), where the graph would end")
    if sum(len(one.backwards) for one in passes) > len(by_update):  # an update has several passes: it retains graphs
        for definition, found in by_update.items():
            if (held := _ends_below(roles, definition, found)) is not None:
                raise Skip(
                    f"line {held.lineno} {held.what}, where the graph may end: move it above the first backward pass, "
                    "or below the last step"
                )
            if (stored := _kept_with_graph(roles, definition)) is not None:
                raise Skip(
                    f"line {stored.lineno} keeps a value with gradients in {tree.text(stored)}, beyond "
                    f"{definition.name}(): keep it in a variable, or detach it"
                )
    shared = _is_shared(by_update)
    clipped = [
        _also_clipped(roles, definition, found, alone=len(passes) == 1) for definition, found in by_update.items()
    ]
    for definition in by_update:
        if (missed := unreached(roles, definition, computed_back)) is not None:
            raise Skip(f"{missed.why}: eager code leaves a missing gradient None, but compiled code makes it zeros")
    if tree.names.taken("inspect") and tree.imports.get("inspect") != "inspect":
        raise Skip("the name inspect is not the standard module")
    obstacles = [stays_eager(roles, definition, 1) for definition in updates]
    if obstacles and all(obstacles):  # nothing would be traced
        raise Skip(f"{next(iter(updates.values()))}() is not compiled: {obstacles[0]}")
    edits, traceable, written = Edits(state.source), tree.names.fresh("traceable"), set[str]()
    flag, steady = state.history.flags["compile"], state.history.steady_rates
    added = any(one.added for one in passes)
    late, alone = _clears_late(passes), len(roles.optimizers) > 1 and roles.kind == "off-policy" and not added
    branching = _branches(roles, passes)
    if roles.history.restructured and (late or any(clipped) or added):
        raise Skip(next(iter(roles.history.restructured.values())))
    live = bool(roles.history.restructured) and (bool(switches) or _may_be_frozen(roles, passes))
    plain = all(len(found) == 1 and found[0].is_plain for found in by_update.values())
    plain = plain and not (any(clipped) or late or branching or live)
    if shared and not plain:
        raise Skip(f"{passes[0].optimizers[0]} is stepped in several phases, and not all of them step it plainly")
    only = plain and (shared or len(passes) == 1) and not alone
    setups: list[tuple[_Pass, list[str], str]] = []
    for definition, found in by_update.items():
        # If there are several updates, each is named after its optimizer, and so are the functions that it calls
        suffix = updates[definition].removeprefix("update") if len(updates) > 1 and not shared else ""
        for one in found:
            if shared and setups:
                zero_grad, backward, *steps = setups[0][1]
            else:
                each = [*map(kept_optimizers.trained_by, one.optimizers)] if len(found) > 1 or one.steps[1:] else [""]
                both = f"{suffix}{each[0] if len(each) == 1 else ''}"
                zero_grad, backward = (tree.names.fresh(f"{name}{both}") for name in ("zero_grad", "backward"))
                steps = [tree.names.fresh(f"optimizer_step{suffix}{own}") for own in each]
            written.update((zero_grad, backward, *steps))
            for call in one.zero_grads[:1]:
                edits.substitute(call, f"{zero_grad}()")
            for call in one.again[:1]:
                edits.substitute(call, f"{zero_grad}()")
            for call in (*one.zero_grads[1:], *one.backwards[:-1], *one.again[1:]):
                edits.remove(tree.statement(call))
            losses = [tree.text(receiver(call)) for call in one.backwards]
            kept = [f"{k.arg}={ast.unparse(k.value)}" for k in one.backwards[-1].keywords]
            edits.substitute(one.backwards[-1], f"{backward}({', '.join([*losses, *kept])})")
            for call, step in zip(one.steps, steps, strict=True):
                edits.substitute(call, f"{step}()")
            functions = [zero_grad, backward, *steps]
            names = ", ".join(functions)
            given = [*one.optimizers, *(f"clipped={c}" for c in clipped if c)]
            given += [f"added=[{', '.join(one.added)}]"] if one.added else []
            made = f"{names} = {traceable}({', '.join(given)})"
            own = one.optimizers[:1]
            eager = "".join(f"{names} = {o}.zero_grad, lambda loss: loss.backward(), {o}.step" for o in own)
            if not (shared and setups):
                setups.append((one, functions, f"{eager}\nif {flag}:\n    {made}" if only else made))
    for definition, read in outside.items():
        for text, nodes in read.items():
            _read_detached(edits, tree, definition, text, nodes)
    for stmt in (stmt for stmt, update in switches.items() if update is not None):
        edits.put_under(stmt, "if not torch.compiler.is_compiling():")  # a graph can neither hold it nor needs it
    code = render(
        "traceable" if plain else "traceable_several",
        traceable=traceable,
        flag=flag,
        alone=alone,
        only=only,
        several=any(len(found) > 1 for found in by_update.values()),
        shared=any(len(one.steps) != 1 for one in passes),
        added=added,
        clipped=any(clipped),
        branching=branching,
        late=late,
        live=live,
        summed=any(len(one.backwards) > 1 for one in passes),
        scheduled="lr_scheduler" in tree.code,
    )
    called_at = _set_up(roles, edits, setups)
    first = min([*by_update, *called_at], key=lambda d: d.lineno)
    edits.before(first, code, gap=1 if first.col_offset else 2)
    add_imports(tree.root, edits, "import inspect")
    floating = {
        updates[definition]: tuple(name for one in found for name in one.optimizers if name not in steady)
        for definition, found in by_update.items()
    }
    present = {name: those for name, those in floating.items() if those}
    on_device = state.history.on_device | written
    return Rewrite(edits, replace(state.history, on_device=on_device, traced=True, present_rates=present))


def _read_detached(edits: Edits, tree: Tree, update: ast.FunctionDef, text: str, nodes: Collection[ast.expr]) -> None:
    """Let an update read, without its graph, a tensor that was computed outside the update."""
    name = tree.names.fresh(text.rpartition(".")[2])
    comment = "# Gradients that go back through it are cleared before they are used"
    read = f"{name} = {text}.detach() if torch.is_tensor({text}) else {text}"
    first = update.body[1] if ast.get_docstring(update) is not None else update.body[0]
    edits.before(first, f"{comment}\n{read}")
    for node in nodes:
        edits.substitute(node, name)


def _further(roles: Roles) -> list[str]:
    """The updates of other training phases that can be traced too."""
    found, history = [], roles.history
    definitions = [roles.tree.definition(name) for name in (*history.all_updates, *history.auxiliary)]
    switches = _switches(roles, definitions)
    for name in history.auxiliary:
        definition = roles.tree.definition(name)
        try:
            for one in _plain_update(roles, definition):
                for optimizer in one.optimizers:
                    _check_optimizer(roles, optimizer, definition, definitions, switches)
        except Skip:
            continue
        found.append(name)
    return found


def _begun_outside(roles: Roles, update: ast.FunctionDef) -> ast.Call | None:
    """A call outside an update that may compute inputs of the update with gradients, by running a network.

    A backward pass that continues outside the update breaks the compiled graph, and the next pass would find parameters
    that the step has changed. A pass that retains its graph may continue in results that any code has kept anywhere,
    over many minibatches.
    """
    tree = roles.tree
    parts = {path.rpartition(".")[2] for path in roles.networks} | {*roles.modules}
    if any(isinstance(n, ast.keyword) and n.arg == "retain_graph" for n in walk(update)):
        apart = {*walk(update), *(n for cls in tree.classes.values() if roles.is_module(cls) for n in walk(cls))}
        for node in roles.run_by_training:
            if isinstance(node, ast.Call) and node not in apart and not without_gradients(tree, node):
                asked = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
                if asked in parts:
                    return node
    for call in (c for c in tree.of(ast.Call) if isinstance(c.func, ast.Name) and c.func.id == update.name):
        scope, loop = tree.scope_of(call), tree.loops_around(call)[:1]
        around = {s for outer in loop for s in statements(outer.body)}
        given = [n for a in call.args for n in walk(a) if isinstance(n, ast.Name) and _may_have_graph(roles, n)]
        stack, made = [(n.id, tree.statement(call)) for n in given], set[ast.stmt]()
        while stack:
            found = {s for s in roles.reaching(scope).before(*stack.pop()) if s is not None and s in around - made}
            made |= found
            stack += [(name, stmt) for stmt in found for name in access(stmt).reads]
        own = (n for s in sorted(made, key=lambda s: s.lineno) for n in own_nodes(s))
        for node in (n for n in own if isinstance(n, ast.Call)):
            methods = tree.methods(node.func.attr) if isinstance(node.func, ast.Attribute) else ()
            computes = _names_within(tree, node, set()) & parts or methods
            if computes and not without_gradients(tree, node) and roles.get(Recorded).may_be(node):
                return node
    return None


def _may_have_graph(roles: Roles, name: ast.Name) -> bool:
    """Whether a variable may have a graph when it is read; judged by the bindings that reach it, if all are known."""
    recorded, bindings = (
        roles.get(Recorded),
        roles.reaching(roles.tree.scope_of(name)).before(name.id, roles.tree.statement(name)),
    )
    pairs = [p for stmt in bindings if isinstance(stmt, ast.Assign) for p in pairwise(stmt)]
    values = [value for target, value in pairs if isinstance(target, ast.Name) and target.id == name.id]
    told = bool(bindings) and len(values) == len(bindings)
    return any(map(recorded.may_be, values if told else [name]))


def _kept_graph(roles: Roles, update: ast.FunctionDef) -> str | None:
    """A name that an update returns, perhaps with a graph.

    A compiled function keeps the graphs of its results, but by then a step has changed the tensors in these graphs.
    """
    returned = [s.value for s in statements(update.body) if isinstance(s, ast.Return) and s.value is not None]
    results = [n for v in returned for n in (v.elts if isinstance(v, ast.Tuple) else [v])]
    names = {n.id for n in results if isinstance(n, ast.Name)}
    names = {name for name in names if not late_append.holds_no_graph(roles, update.body, name)}
    names = {name for name in names if not are_detached(roles.tree, update.body, name)}
    for stmt in statements(update.body):
        for name in sorted(access(stmt).binds & names) if not hasattr(stmt, "body") else ():
            value = stmt.value if isinstance(stmt, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None
            if not (isinstance(value, ast.Constant) or calls_method(value, *torch_api.NO_GRAPH)):
                if not without_gradients(roles.tree, stmt):
                    return name
    return None


def _kept_by(roles: Roles, update: ast.FunctionDef, switches: Collection[ast.stmt]) -> ast.Attribute | None:
    """An attribute that an update or its callees set or lengthen: later backward passes may go through its value."""
    apart, names = {n for stmt in switches for n in walk(stmt)}, {o.name for o in roles.optimizers}
    nodes = roles.get(World).nodes_run([update])
    if nodes is None:
        others = [f for f in roles.tree.of(ast.FunctionDef) if f.name not in ORDER and f is not roles.scope]
        nodes = list(roles.reached([update], others))  # `step` means the optimizer's, not an environment's
        if any(
            calls_method(n, *ORDER) and n.func.attr != "backward" and unparse(n.func.value) not in names for n in nodes
        ):
            nodes = list(roles.reached([update]))
    for node in (n for n in nodes if n not in apart):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return node
        if calls_method(node, *WRITES) and isinstance(node.func.value, ast.Attribute):
            return node.func.value
    return None


def _names_within(tree: Tree, code: ast.AST, seen: set[ast.AST]) -> set[str]:
    """The names and attributes in some code, and in the functions of the file that it calls by name."""
    seen.add(code)
    found = names_in([code]) | {n.attr for n in walk(code) if isinstance(n, ast.Attribute)}
    called = {tree.function_called(n) for n in walk(code) if isinstance(n, ast.Call)} - {None, *seen}
    return found.union(*(_names_within(tree, function, seen) for function in called if function is not None))


def _is_shared(by_update: Mapping[ast.FunctionDef, list[_Pass]]) -> bool:
    """Whether several functions step one optimizer, each in one plain pass.

    Raises:
        Skip: an optimizer is stepped more than once in another way.
    """
    stepped = [name for found in by_update.values() for one in found for name in one.optimizers]
    again = next((name for name in stepped if stepped.count(name) > 1), None)
    if again is not None and (set(stepped) != {again} or any(len(found) > 1 for found in by_update.values())):
        raise Skip(f"{again} is stepped more than once")
    return again is not None


def _set_up(roles: Roles, edits: Edits, setups: list[tuple[_Pass, list[str], str]]) -> list[ast.stmt]:
    """Make the functions above the training loop or, if an optimizer is not always made, below the code that makes it.

    Returns:
        The statements of the module that contain the latter, above which `traceable` must be defined.

    Raises:
        Skip: the functions would need something that is not yet defined there.
    """
    always, elsewhere = [], list[ast.stmt]()
    for one, names, text in setups:
        made = [o.stmt for o in roles.optimizers if o.name in one.optimizers]
        first = min((stmt.lineno for stmt in made if stmt not in roles.setup), default=roles.outermost.lineno)
        for stmt in (o.stmt for o in roles.optimizers if o.name in one.added):
            if stmt not in roles.setup or stmt.lineno > first:
                raise Skip(f"line {stmt.lineno} makes an optimizer that is not always there")
        perhaps = [stmt for stmt in made if stmt not in roles.setup and roles.tree.scope_of(stmt) is roles.scope]
        if all(kept_optimizers.placeholders(roles, name) for name in one.optimizers):
            perhaps = []  # a placeholder can be tested for None
        if not perhaps:
            missing = [name for name in one.optimizers if not kept_optimizers.always_made(roles, name)]
            tests = [_is_there(roles, name) for name in missing]
            there = " and ".join(tests)
            kept = f"{' = '.join(names)} = None\nif {there}:\n{textwrap.indent(text, '    ')}"
            always.append(kept if there else text)
        elif len(made) == 1 and (test := _option_tested(roles, perhaps[0])) is not None:
            always.append(f"{' = '.join(names)} = None\nif {roles.tree.text(test)}:\n{textwrap.indent(text, '    ')}")
        elif len(made) > 1 or not isinstance(roles.scope, ast.Module):
            raise Skip(f"line {perhaps[0].lineno} makes an optimizer only under a condition")
        else:
            edits.after(perhaps[0], text)
            around = {perhaps[0], *roles.tree.ancestors(perhaps[0])}
            elsewhere += [stmt for stmt in roles.scope.body if stmt in around]
    if always:
        edits.before(roles.outermost, "\n".join(always), gap=1)
    return elsewhere


def _is_there(roles: Roles, name: str) -> str:
    """The text of a test whether an object has its optimizer."""
    owner, _, attribute = name.rpartition(".")
    return f"{name} is not None" if kept_optimizers.placeholders(roles, name) else f'hasattr({owner}, "{attribute}")'


def _option_tested(roles: Roles, stmt: ast.stmt) -> ast.expr | None:
    """The condition under which a statement of a training function runs, if it only tests the script's arguments."""
    outer = roles.tree.parents[stmt]
    if isinstance(roles.scope, ast.Module) or not isinstance(outer, ast.If) or outer not in roles.setup:
        return None
    return outer.test if stmt in outer.body and decided(roles, outer.test) else None


def _clears_late(passes: list[_Pass]) -> bool:
    """Whether gradients are cleared after the steps.

    Raises:
        Skip: only some passes clear them there.
    """
    late = {one.zero_grads[0].lineno > one.steps[0].lineno for one in passes if one.steps}
    if len(late) > 1:
        raise Skip("some gradients are cleared before they are computed, and others after the step")
    return late.pop()


@dataclass(frozen=True)
class _Pass:
    """The computation of the gradients of some optimizers, with their clearing before and the steps after."""

    zero_grads: list[ast.Call]
    backwards: list[ast.Call]
    """One backward call, or several consecutive ones, whose gradients are summed."""
    steps: list[ast.Call]
    again: list[ast.Call] = field(default_factory=list)
    """The calls that clear the same gradients again, after the steps."""
    added: list[str] = field(default_factory=list, kw_only=True)
    """The optimizers whose gradients an earlier pass has begun to compute, and to which this pass adds."""

    @property
    def is_plain(self) -> bool:
        """Whether there is one loss and one optimizer."""
        calls = [*self.zero_grads, *self.backwards, *self.steps]
        return len(calls) == len(ORDER) and not (self.backwards[0].keywords or self.added)

    @property
    def optimizers(self) -> list[str]:
        return [ast.unparse(receiver(step)) for step in self.steps]


def _branches(roles: Roles, passes: list[_Pass]) -> bool:
    """Whether the optimizers branch on their step count.

    Raises:
        Skip: only some do.
    """
    stepped = {name for one in passes for name in one.optimizers}
    kinds = {o.kind or "" for o in roles.optimizers if o.name in stepped}
    if (found := kinds & BRANCHING) and len(kinds) > 1:
        raise Skip(f"{min(found)} and another optimizer step on one minibatch")
    return bool(found)


def _plain_update(roles: Roles, function: ast.FunctionDef) -> list[_Pass]:
    """The calls of zero_grad(), backward() and step() in update(), each its own statement, in this order.

    A pass may be under a condition on the script's arguments, which is constant for the whole run.

    Raises:
        Skip: there are other calls, or calls with arguments, or something else touches the gradients.
    """
    tree, calls = roles.tree, list[ast.Call]()
    known = {n for clipped, _ in other_gradients.clipping(function) for n in walk(clipped)}
    for node in walk(function):
        if isinstance(node, ast.Attribute) and node.attr == "grad" and node not in known:
            raise Skip(f"line {node.lineno} uses single gradients")
        if isinstance(node, (ast.Name, ast.Attribute)) and "torch.distributed" in (tree.qualified(node) or ""):
            raise Skip(f"line {node.lineno} talks to other processes")
        if calls_method(node, *ORDER) and (node.func.attr != "step" or roles.is_step(node)):
            calls.append(node)
    calls.sort(key=lambda c: (c.lineno, c.col_offset))
    passes = _passes(calls)
    if not passes or any(_apart(tree, one) for one in passes):
        passes = _overlapping(calls) or passes
    if not passes:
        found = ", ".join(c.func.attr for c in calls if isinstance(c.func, ast.Attribute))
        stepped = {ast.unparse(receiver(c)) for c in calls if roles.is_step(c)}
        cleared = [c for c in tree.of(ast.Call) if calls_method(c, "zero_grad") and ast.unparse(receiver(c)) in stepped]
        if cleared and "zero_grad" not in found:
            raise Skip(f"line {cleared[0].lineno} clears the gradients, and is not in {function.name}()")
        raise Skip(f"a minibatch must run zero_grad(), backward() and step() once and in this order, but runs {found}")
    summed = {call for one in passes for call in one.backwards[:-1]}
    for call in calls:
        kept = (len(passes) > 1 or call in summed) and [k.arg for k in call.keywords] == ["retain_graph"]
        if call.args or (call.keywords and not kept and not _is_default(call)):
            raise Skip(f"{ast.unparse(call.func)}() on line {call.lineno} takes arguments")
        stmt = tree.parents[call]
        if not isinstance(stmt, ast.Expr) or not (stmt in function.body or _is_decided(roles, function, stmt)):
            raise Skip(f"line {call.lineno} is not a statement of its own that always runs")
    for one in passes:
        _check_pass(roles, one, passes)
    return passes


def _is_decided(roles: Roles, function: ast.FunctionDef, stmt: ast.stmt) -> bool:
    """Whether a statement of update() runs in every call or in none, depending only on the script's arguments."""
    local = scope_access(function.body).binds | frozenset(parameters(function))
    for outer in roles.tree.ancestors(stmt):
        if outer is function:
            return True
        if not isinstance(outer, ast.If) or not decided(roles, outer.test, local):
            return False
    return False


def _passes(calls: list[ast.Call]) -> list[_Pass]:
    """The calls in groups: gradients cleared, computed, used; a single group may also clear them at its end."""
    letters = "".join(c.func.attr[0] for c in calls if isinstance(c.func, ast.Attribute))
    late = re.fullmatch("(b+s+)(z+)", letters)
    if late:
        calls, letters = [*calls[late.end(1) :], *calls[: late.end(1)]], late[2] + late[1]
    if not re.fullmatch("(z+b+s+)+z*", letters):
        return []
    groups = re.finditer("(z+)(b+)(s+)(z*$)?", letters)
    return [_Pass(*(calls[g.start(i) : g.end(i)] for i in (1, 2, 3, 4))) for g in groups]


def _overlapping(calls: list[ast.Call]) -> list[_Pass]:
    """Passes of several optimizers where one loss is computed before the step for another; empty if there are none.

    A loss adds to gradients that an earlier loss has begun and that no step has used yet, whichever parameters it
    reaches. Gradients that are cleared before a step uses them are not computed.
    """
    cleared, stepped = (
        {ast.unparse(receiver(c)): i for i, c in enumerate(calls) if calls_method(c, method)}
        for method in ("zero_grad", "step")
    )
    backwards = [i for i, call in enumerate(calls) if calls_method(call, "backward")]
    if len(stepped) < 2 or cleared.keys() != stepped.keys() or len(calls) != 2 * len(stepped) + len(backwards):
        return []
    found, begun = list[_Pass](), dict[str, None]()
    for i in backwards:
        used = [name for name in stepped if cleared[name] < i < stepped[name]]
        own = [name for name in used if name not in begun]
        zero_grads, steps = ([calls[at] for at in sorted(where[name] for name in own)] for where in (cleared, stepped))
        found.append(_Pass([*zero_grads], [calls[i]], [*steps], added=[name for name in used if name in begun]))
        begun |= dict.fromkeys(own)
        if not used:
            return []
    return found if len(begun) == len(stepped) else []


def _check_pass(roles: Roles, one: _Pass, passes: Sequence[_Pass]) -> None:
    """Check that a pass clears, computes and steps the same optimizers, under one condition, its losses side by side.

    Raises:
        Skip: it does not.
    """
    tree, cleared = roles.tree, [_cleared(roles, call) for call in one.zero_grads]
    for calls in (one.zero_grads, one.again):
        names = [_cleared(roles, call) for call in calls]
        for name, call in zip(names, calls, strict=True):
            if name not in one.optimizers or names.count(name) > 1:
                raise Skip(
                    f"line {call.lineno} clears gradients of another optimizer than {' and '.join(one.optimizers)}"
                )
    for name in one.optimizers:
        if name not in cleared:
            raise Skip(f"the gradients of {name} are not cleared before they are computed")
    if one.again and len(one.again) < len(one.optimizers):
        raise Skip(f"line {one.again[0].lineno} clears some of the gradients again, and not all")
    conditions = _conditions(tree, one.backwards[0])
    begun = [other.backwards[0] for other in passes if {*other.optimizers} & {*one.added}]
    for call in (*one.zero_grads, *one.backwards, *one.steps, *one.again, *begun):
        if not (_conditions(tree, call) <= conditions if call in begun else _conditions(tree, call) == conditions):
            raise Skip(f"line {call.lineno} runs under another condition than its backward pass")
    if _apart(tree, one):
        raise Skip(
            f"between the backward passes on line {one.backwards[0].lineno} and "
            f"line {one.backwards[-1].lineno} stands something else"
        )


def _cleared(roles: Roles, call: ast.Call) -> str:
    """The optimizer whose gradients a call clears: by `optimizer.zero_grad()`, or `zero_grad()` of its network."""
    cleared = receiver(call)
    held = (o for o in roles.optimizers if kept_optimizers.holds_network(roles, o, cleared))
    named = any(o.name == ast.unparse(cleared) for o in roles.optimizers)
    return ast.unparse(cleared) if named else next((o.name for o in held), ast.unparse(cleared))


def _apart(tree: Tree, one: _Pass) -> bool:
    """Whether another statement stands between the backward() calls of a pass."""
    block, stmts = tree.block(tree.statement(one.backwards[0])), [tree.statement(call) for call in one.backwards]
    places = [block.index(stmt) for stmt in stmts if stmt in block]
    return len(places) < len(stmts) or places[-1] - places[0] >= len(places)


def _conditions(tree: Tree, node: ast.AST) -> frozenset[tuple[str, bool]]:
    """The conditions under which code of an update runs, as written, each with whether it holds."""
    found, below = set[tuple[str, bool]](), node
    for outer in tree.ancestors(node):
        if isinstance(outer, ast.If):
            found.add((ast.unparse(outer.test), below in outer.body))
        below = outer
    return frozenset(found)


def _is_default(call: ast.Call) -> bool:
    """Whether a call is `zero_grad(set_to_none=True)`, which is torch's default."""
    return [ast.unparse(k) for k in call.keywords] == ["set_to_none=True"]


def _also_clipped(roles: Roles, function: ast.FunctionDef, passes: list[_Pass], *, alone: bool) -> str:
    """The parameters, as written, that update() clips but that its optimizers may not all hold; "" if there are none.

    A pass computes only the gradients of its own optimizers' parameters, so it may clip others only if it is `alone`.

    Raises:
        Skip: it may clip others, or the parameters cannot be written above the training loop.
    """
    also: dict[str, None] = {}
    for node, clipped in other_gradients.clipping(function):
        ones = [p for p in passes if p.steps and p.backwards[-1].lineno < node.lineno < p.steps[-1].lineno]
        own = [o for o in roles.optimizers if any(o.name in one.optimizers for one in ones)]
        if ones and clipped is not None:
            if other_gradients.held_by(roles, clipped, own) or kept_optimizers.holds(roles, own, clipped):
                continue
        if not ones or clipped is None or not alone or isinstance(node, ast.For):
            raise Skip(f"line {node.lineno} may clip gradients of several optimizers")
        local = scope_access(function.body).binds | set(parameters(function))
        if names_in([clipped]) & (roles.variant | local):
            raise Skip(f"line {node.lineno} may clip gradients that the optimizer does not use")
        also[roles.tree.text(clipped)] = None
    if len(also) > 1:
        raise Skip("different sets of parameters are clipped, some of which the optimizer may not hold")
    return next(iter(also), "")


def _drawn(roles: Roles, updates: Sequence[ast.FunctionDef]) -> ast.Call | None:
    """Where updates draw a Python random number, which breaks the graph: a second pass would reach freed buffers."""
    run = roles.get(World).nodes_run(updates)
    for node in roles.reached(updates) if run is None else run:
        if isinstance(node, ast.Call) and (roles.tree.qualified(node.func) or "").startswith("random."):
            return node
    return None


def _kept_with_graph(roles: Roles, update: ast.FunctionDef) -> ast.expr | None:
    """Where an update stores a value with a graph in a network or its containers, such as `self.mu = ...` in forward().

    torch would compute gradients for this value too, after the steps have changed the tensors that they need.
    """
    recorded, world, tree = roles.get(Recorded), roles.get(World), roles.tree
    reached = [n for n in roles.reached([update]) if isinstance(n, ast.expr)]
    modules = {t for n in reached if isinstance(n, ast.Name) for t in world.of(n) if world.is_module_object(t)}
    owned = world.reach(modules)
    for node in reached:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            stmt = tree.statement(node)
            given = [tree.assigned.get(node) or getattr(stmt, "value", None) or getattr(stmt, "iter", None)]
        elif calls_method(node, *WRITES):
            given = [*arguments(node)]
            node = node.func
        else:
            continue
        values = [v for v in given if v is not None and not calls_method(v, *torch_api.NO_GRAPH)]
        kept = not owned.isdisjoint(world.of(node.value))  # not in an object of the update's own
        if kept and not without_gradients(tree, node) and any(map(recorded.held, values)):
            return node if isinstance(node.ctx, ast.Store) else node.value
    return None


def _ends_below(roles: Roles, update: ast.FunctionDef, passes: Sequence[_Pass]) -> Held | None:
    """Where the compiled graph may break below the first backward pass of an update.

    If graphs are retained, Dynamo lets a graph that computes gradients return a loss that is used below the break. The
    backward pass of that loss would read parameters that a step in the same graph has changed: `modified by an inplace
    operation`.
    """
    traced = {call for one in passes for call in (*one.zero_grads, *one.backwards, *one.steps, *one.again)}
    first = min((call.end_lineno or 0, call.end_col_offset or 0) for one in passes for call in one.backwards)
    below = [
        n for n in walk(update) if n not in traced and (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)) > first
    ]
    return graph_break(roles, update, below)


def _switches(roles: Roles, updates: Sequence[ast.FunctionDef]) -> dict[ast.stmt, ast.FunctionDef | None]:
    """The statements that harmlessly freeze networks while others are trained; only for networks of objects."""
    return frozen.harmless_switches(roles, updates) if roles.history.restructured else {}


def _may_be_frozen(roles: Roles, passes: Sequence[_Pass]) -> bool:
    """Whether code that is not known may freeze what the optimizers train; code of the script was checked before."""
    world = roles.get(World)
    made = [one for found in passes for name in found.optimizers for one in kept_optimizers.making(roles, name)]
    return not all(world.is_known(world.reach(world.of(one.call))) for one in made)


def _check_optimizer(
    roles: Roles,
    name: str,
    update: ast.FunctionDef,
    updates: Collection[ast.FunctionDef],
    switches: Collection[ast.stmt],
) -> None:
    """Check that the optimizer can be traced, and that only updates, which clear them first, compute its gradients.

    Raises:
        Skip: it cannot, or something else may.
    """
    made = kept_optimizers.making(roles, name)
    if len(made) > 1 and all(o.kind in TRACED for o in made) and not kept_optimizers.made_once(roles, name):
        raise Skip(
            f"{name} is made more than once: make it in one statement, and compute conditional arguments above it"
        )
    if not made or any(o.kind not in TRACED for o in made):
        kind = made[0].kind if made else None
        raise Skip(f"{name} is {f'torch.optim.{kind}' if kind else 'not known'}, whose step() may not be traceable")
    if any(k.arg in ("fused", "differentiable", None) for o in made for k in o.call.keywords):
        raise Skip(f"{name} is made with options under which its step() may not be traceable")
    if made[0].kind in BRANCHING and name not in roles.history.steady_rates:
        raise Skip(
            f"in a graph {made[0].kind} counts the steps of {name} in float32, which is percents off in early steps"
        )
    floats = name not in roles.history.steady_rates
    if floats and (why := next(filter(None, (present_rates.obstacle(roles, one, updates) for one in made)), None)):
        changes = f"the learning rate of {name} is a float that may change: each value would cause a recompilation"
        raise Skip(f"{changes}, and {why}")
    restructured = next(iter(roles.history.restructured.values()), None)
    if restructured and "." not in name:
        raise Skip(restructured)
    if restructured or (floats and "." in name):
        several = sum(calls_method(n, "backward") for u in updates for n in walk(u)) > 1
        exact = several or any(True for u in updates for _ in other_gradients.clipping(u))
        for one in made:
            why = kept_optimizers.obstacle(roles, one, updates, exact=exact, harmless=switches)
            if why is not None:
                raise Skip(why)
    if restructured and (node := _kept_by(roles, update, switches)) is not None:
        raise Skip(
            f"line {node.lineno} keeps {ast.unparse(node)}, perhaps with a graph that a backward pass goes through"
        )
    used = next(filter(None, (other_gradients.outside(roles, updates, one) for one in made)), None)
    if used is not None:
        raise Skip(f"line {used.lineno} uses gradients outside of the minibatch too")


TRANSFORM = Transform(INFO, apply, BOTH)
