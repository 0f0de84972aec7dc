"""Keep the learning rate in a tensor that annealing fills in place."""

from __future__ import annotations

import ast
from typing import TypeGuard

from transformer.conversion import TransformInfo
from transformer.dataflow import access, statements
from transformer.edits import Edits
from transformer.rendering import render
from transformer.script import Optimizer, Script
from transformer.transforms.base import Skip, Transform

INFO = TransformInfo(
    name="tensor-lr",
    summary="keep an annealed learning rate in a tensor under the flags; make the optimizer capturable",
    safety=(
        "Without a flag the rate stays the float that it was. Under --compile or --cudagraphs it is a tensor of "
        "float64, the float's precision, that annealing fills in place: a compiled update reads its present value "
        "instead of being compiled anew for every rate. Reads go through `float()`, so what is logged or printed "
        "stays a float. `capturable` is on only under --cudagraphs."
    ),
    needs=("flags",),
    before='optimizer.param_groups[0]["lr"] = lrnow',
    after=(
        'if args.compile or args.cudagraphs:\n    optimizer.param_groups[0]["lr"].fill_(lrnow)\n'
        'else:\n    optimizer.param_groups[0]["lr"] = lrnow'
    ),
)

CAPTURABLE = frozenset("Adam AdamW NAdam RAdam RMSprop Adadelta Adamax ASGD Rprop".split())
TENSOR_LR = CAPTURABLE | {"SGD", "Adagrad"}


def apply(script: Script) -> str:
    """Edit every optimizer that torch.optim made.

    Raises:
        Skip: no optimizer needs it, or none can take it.
    """
    edits = Edits(script.source)
    reasons: list[str] = []
    captured = []
    for optimizer in script.optimizers:
        try:
            captured.append(_edit(script, edits, optimizer))
            script.facts.steady_rates.add(optimizer.name)
        except Skip as skip:
            captured.append(False)
            reasons.append(f"{optimizer.name}: {skip}")
    after = script.finish(edits)
    if after == script.code:
        raise Skip("; ".join([*script.notes, *reasons]) or "no optimizer made by torch.optim was found")
    script.notes.extend(reasons)
    script.facts.capturable = bool(captured) and all(captured)
    return after


def _edit(script: Script, edits: Edits, optimizer: Optimizer) -> bool:
    """Edit one optimizer; whether its step may then be captured in a CUDA graph.

    Raises:
        Skip: its learning rate stays a float.
    """
    if optimizer.kind not in TENSOR_LR:
        raise Skip(f"{optimizer.kind or 'its class'} is not known to take a tensor learning rate")
    if sum(o.name == optimizer.name for o in script.optimizers) > 1:
        raise Skip("it is made more than once")
    if any(n is optimizer.stmt for n in ast.walk(script.outermost)):
        raise Skip("it is made in the training loop")
    if script.scope_of(optimizer.stmt) is not script.scope:
        if not _is_left_alone(script, optimizer):
            raise Skip("it is made in a function, where the flags are not at hand")
        script.notes.append(f"{optimizer.name}: its learning rate never changes and stays a float")
        return False
    given = {k.arg for k in optimizer.call.keywords}
    if None in given:
        raise Skip("its arguments are passed as **keywords")
    uses = Uses(script, optimizer.name)
    if uses.obstacle:
        raise Skip(uses.obstacle)
    inside = {id(n) for n in ast.walk(script.outermost)}
    replaced = any(id(stmt) in inside for stmt in uses.loads)  # by other tensors than those that a graph holds
    cudagraphs, device = script.facts.flags["cudagraphs"], script.device
    # On a CPU, where a script without a device stays, step() refuses to be capturable
    capturable = bool(device) and optimizer.kind in CAPTURABLE and not (given & {"capturable", "fused"} or replaced)
    extra = [f"capturable={cudagraphs}"] if capturable else []
    place = f', device={device} if {cudagraphs} else "cpu"' if device and (capturable or not uses.loads) else ""
    group = script.names.fresh("group")
    loaded: dict[str, str] = {"optimizer": optimizer.name, "group": group}
    captured = (
        render(
            "capturable_loaded",
            **loaded,
            state=script.names.fresh("state"),
            flag=cudagraphs,
            place=f", device={device}",
        )
        if capturable and uses.loads
        else ""
    )
    if replaced:
        script.notes.append(f"{optimizer.name}: a checkpoint is loaded in the training loop, its step is not captured")
    if not (uses.writes or uses.scheduled):
        if extra:
            _add_arguments(script, edits, optimizer, extra)
        for stmt in uses.loads if captured else ():
            edits.after(stmt, captured)
        script.notes.append(f"{optimizer.name}: its learning rate never changes and stays a float")
        return capturable or (optimizer.kind == "SGD" and not replaced)
    if any(k.arg == "foreach" for k in optimizer.call.keywords):
        raise Skip("foreach=True takes no tensor learning rate unless the optimizer is capturable")
    if extra:
        _add_arguments(script, edits, optimizer, extra)
    flags = f"{script.facts.flags['compile']} or {cudagraphs}"
    edits.after(optimizer.stmt, render("tensor_lr", **loaded, place=place, flags=flags))
    for stmt in uses.loads:
        edits.after(stmt, render("tensor_lr_loaded", **loaded, place=place, flags=flags) + captured)
    if uses.loads:
        script.notes.append(f"{optimizer.name}: a checkpoint's rates become tensors")
    for stmt, target in uses.writes:
        value = script.source.text(stmt.value)
        edits.replace(stmt, render("tensor_lr_fill", target=script.source.text(target), value=value, flags=flags))
    for read in uses.reads:
        edits.substitute(read, f"float({script.source.text(read)})")
    return capturable


def _is_left_alone(script: Script, optimizer: Optimizer) -> bool:
    """Whether all that happens to an object's optimizer is that it is stepped, in the training scope."""
    attribute, inside, made = (
        optimizer.name.rpartition(".")[2],
        set(ast.walk(script.scope)),
        set(ast.walk(optimizer.stmt)),
    )
    for node in script.nodes:
        if isinstance(node, ast.Attribute) and node.attr == attribute and node not in made:
            user = script.source.parents[node]
            if node not in inside or getattr(user, "attr", None) not in ("zero_grad", "step", "state_dict"):
                return False
        elif isinstance(node, ast.Constant) and node.value == attribute:
            return False
    return "." in optimizer.name


def _add_arguments(script: Script, edits: Edits, optimizer: Optimizer, extra: list[str]) -> None:
    source, call, stmt = script.source, optimizer.call, optimizer.stmt
    args = [source.text(a) for a in call.args]
    args += [f"{k.arg}={source.text(k.value)}" for k in call.keywords]
    prefix = f"{source.text(stmt.targets[0])} = "
    edits.replace(stmt, f"{prefix}{source.text(call.func)}({', '.join([*args, *extra])})")


def _mentions_rate(node: ast.AST) -> bool:
    """Whether a function that is given an optimizer looks at its learning rate."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("param_groups", "defaults")
    return isinstance(node, ast.Constant) and node.value in ("lr", "param_groups")


def _members(loop: ast.For, groups: str) -> set[str]:
    """The loop's names for one parameter group: over the groups, enumerate(groups), or zip(groups, ...)."""
    iterable, target = loop.iter, loop.target
    if ast.unparse(iterable) == groups:
        return {ast.unparse(target)}
    if not isinstance(iterable, ast.Call) or not isinstance(target, ast.Tuple):
        return set()
    args = [ast.unparse(a) for a in iterable.args]
    if ast.unparse(iterable.func) == "enumerate" and args[:1] == [groups] and len(target.elts) == 2:
        return {ast.unparse(target.elts[1])}
    if ast.unparse(iterable.func) == "zip" and len(args) == len(target.elts):
        return {ast.unparse(t) for t, a in zip(target.elts, args, strict=True) if a == groups}
    return set()


class Uses:
    """Where an optimizer's learning rate is written and read."""

    def __init__(self, script: Script, name: str) -> None:
        self.writes: list[tuple[ast.Assign, ast.Subscript]] = []
        self.reads: list[ast.expr] = []
        self.loads: list[ast.stmt] = []
        """Statements after which its parameter groups are those of a checkpoint."""
        self.scheduled = False
        self.obstacle: str | None = None
        self._script, self._name = script, name
        loops = [n for n in ast.walk(script.scope) if isinstance(n, ast.For)]
        members = {member for loop in loops for member in _members(loop, f"{name}.param_groups")}
        schedulers = set()
        for stmt in statements(script.scope.body):
            if isinstance(stmt, ast.Assign) and isinstance(stmt.value, ast.Call):
                made = script.qualified(stmt.value.func) or ""
                if made.startswith("torch.optim.lr_scheduler.") and stmt.value.args:
                    if ast.unparse(stmt.value.args[0]) == name:
                        self.scheduled = True
                        schedulers.add(ast.unparse(stmt.targets[0]))
        for node in ast.walk(script.scope):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                self._call(node, node.func, schedulers)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self._passed(node, node.func.id)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == name:
                self._attribute(node)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "lr":
                if self._is_group(node.value):
                    self._use(node)
            elif isinstance(node, ast.Name) and node.id in members and self._is_passed_on(node):
                self.obstacle = f"line {node.lineno} uses a parameter group in a way that is not understood"
            elif isinstance(node, ast.Name) and node.id == name and self._is_shown(node):
                self.obstacle = f"line {node.lineno} prints the optimizer"
            elif isinstance(node, ast.Name) and node.id == name and self._is_given(node):
                self.obstacle = f"line {node.lineno} gives the optimizer to a function that may read its learning rate"

    def _is_group(self, node: ast.expr) -> bool:
        """Whether an expression is one of its parameter groups: `optimizer.param_groups[0]`, or a loop's variable."""
        groups = f"{self._name}.param_groups"
        if not isinstance(node, ast.Name):
            return ast.unparse(node).startswith(f"{groups}[")
        scope = self._script.scope_of(node)
        loops = [
            n
            for n in ast.walk(scope)
            if isinstance(n, ast.For) and node.id in access(n.target).binds and self._script.scope_of(n) is scope
        ]
        around = [n for n in self._script.source.ancestors(node) if n in loops]
        return any(node.id in _members(n, groups) for n in around[:1] or loops)

    def _is_passed_on(self, node: ast.Name) -> bool:
        """Whether one of its parameter groups is used otherwise than by `group["key"]`."""
        parent = self._script.source.parents[node]
        entry = isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant)
        return isinstance(node.ctx, ast.Load) and not entry and self._is_group(node)

    def _call(self, node: ast.Call, func: ast.Attribute, schedulers: set[str]) -> None:
        receiver = ast.unparse(func.value)
        if receiver == self._name and func.attr == "add_param_group":
            self.obstacle = f"{func.attr}() on line {node.lineno} replaces its parameter groups"
        if receiver == self._name and func.attr == "state_dict":
            if isinstance(self._script.source.parents[node], (ast.Subscript, ast.Attribute)):
                self.obstacle = f"line {node.lineno} reads its state"
        if receiver == self._name and func.attr == "load_state_dict":
            if isinstance(func.value, ast.Name) and not self._script.is_ours(func.value):
                return  # a parameter of that name; the call of the function tells
            self._load(node)
        if func.attr == "get_last_lr" and receiver in schedulers:
            parent = self._script.source.parents[node]
            if isinstance(parent, ast.Subscript) and parent.value is node:
                self._read(parent)
            else:
                self.obstacle = f"line {node.lineno} reads the rates as a list"

    def _load(self, node: ast.Call) -> None:
        stmt = self._script.source.statement(node)
        if isinstance(stmt, (ast.Expr, ast.Assign)):
            self.loads.append(stmt)
        else:
            self.obstacle = f"line {node.lineno} replaces its parameter groups"

    def _passed(self, node: ast.Call, function: str) -> None:
        """A function that it is given to may load a checkpoint into it."""
        at = [i for i, a in enumerate(node.args) if ast.unparse(a) == self._name]
        by_name = [k.arg for k in node.keywords if k.arg and ast.unparse(k.value) == self._name]
        if not at and not by_name:
            return
        for made in ast.walk(self._script.tree):
            if isinstance(made, ast.FunctionDef) and made.name == function:
                params = [a.arg for a in (*made.args.posonlyargs, *made.args.args)]
                taken = {*(params[i] for i in at if i < len(params)), *by_name}
                if taken & {ast.unparse(n.value) for n in ast.walk(made) if _is(n, "load_state_dict")}:
                    self._load(node)

    def _attribute(self, node: ast.Attribute) -> None:
        """`optimizer.param_groups` must be used in a way that is understood."""
        parent = self._script.source.parents[node]
        if node.attr == "defaults":
            self.obstacle = f"line {node.lineno} reads its defaults"
        if node.attr == "param_groups" and isinstance(parent, ast.Subscript) and parent.value is node:
            entry = self._script.source.parents[parent]
            if not (isinstance(entry, ast.Subscript) and entry.value is parent):
                self.obstacle = f"line {node.lineno} takes a parameter group by itself"
        elif node.attr == "param_groups":
            loop = parent if isinstance(parent, ast.For) else self._script.source.parents.get(parent)
            understood = isinstance(loop, ast.For) and _members(loop, ast.unparse(node))
            counted = isinstance(parent, ast.Call) and ast.unparse(parent.func) == "len"
            if not understood and not counted:
                self.obstacle = f"line {node.lineno} uses its parameter groups in a way that is not understood"

    def _is_given(self, node: ast.Name) -> bool:
        """Whether the optimizer is an argument of a function that looks at its learning rate, or is not known."""
        parent = self._script.source.parents[node]
        while isinstance(parent, (ast.Tuple, ast.List, ast.Dict, ast.keyword, ast.Starred)):
            parent = self._script.source.parents[parent]
        if not isinstance(parent, ast.Call) or parent.func is node:
            return False
        if not isinstance(parent.func, ast.Name) or parent.func.id in self._script.imports:
            return False
        function = next((n for n in self._script.nodes if getattr(n, "name", None) == parent.func.id), None)
        return function is None or any(_mentions_rate(n) for n in ast.walk(function))

    def _is_shown(self, node: ast.Name) -> bool:
        parent = self._script.source.parents[node]
        called = isinstance(parent, ast.Call) and ast.unparse(parent.func) in ("print", "str", "repr")
        return called or isinstance(parent, ast.FormattedValue)

    def _use(self, node: ast.Subscript) -> None:
        parent = self._script.source.parents[node]
        if isinstance(node.ctx, ast.Load):
            self._read(node)
        elif isinstance(parent, ast.Assign) and len(parent.targets) == 1 and parent.targets[0] is node:
            self.writes.append((parent, node))
        elif isinstance(parent, ast.AugAssign):
            self.scheduled = True  # `tensor *= x` already works in place
        else:
            self.obstacle = f"line {node.lineno} assigns it together with other targets"

    def _read(self, node: ast.expr) -> None:
        if any(isinstance(n, ast.JoinedStr) for n in self._script.source.ancestors(node)):
            parent = self._script.source.parents[node]
            if not isinstance(parent, ast.FormattedValue) or parent.conversion != -1:
                self.obstacle = f"line {node.lineno} computes with it inside an f-string"
            return  # a 0-dim tensor formats itself as the float that it holds
        self.reads.append(node)


def _is(node: ast.AST, attribute: str) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == attribute


TRANSFORM = Transform(INFO, apply)
