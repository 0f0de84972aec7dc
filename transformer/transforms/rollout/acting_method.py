"""Wrap a method that chooses the actions, but belongs to no known network, in a function that can be compiled."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from transformer.dataflow.grad_mode import without_gradients
from transformer.facts.torch_api import DRAWN, OF_HOST, TYPES, names
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import (
    calls_method,
    names_in,
    statements,
    unparse,
    walk,
    without_methods,
)
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.rollout.acting import becomes_numbers
from transformer.transforms.rollout.computation import SIMPLE, Computation, method_of
from transformer.transforms.rollout.policy import deciding_values, is_tensor
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="acting-method",
    brief="the method that chooses the actions, as policy",
    summary="move the call of the method that chooses the actions into a function, which --compile rebinds",
    applies=(
        "when `policy` found no call that it could name, to a call of a method of the object that trains, or of a "
        "network that is one of its attributes. The call must run under torch.no_grad(), or return nothing that "
        "carries gradients. A method of this file must only compute its result, from tensors; it may begin by "
        "converting an array to a tensor and end by converting back. A method of another file must be given tensors, "
        "under torch.no_grad(). The script must not use random.Random"
    ),
    safety="The function makes the same call in the same place, on the object that the name refers to at that time.",
    costs=(
        "The code that chooses the actions is not compiled: choose them by a method that only computes tensors from "
        "tensors, under torch.no_grad()."
    ),
    instead_of="policy",
    needs=("flags",),
    before="action, log_prob = self.get_action(obs)",
    after=(
        'def policy(obs):\n    """Choose the actions."""\n    return self.get_action(obs)\n\n'
        "for iteration in ...:\n    ...\n    action, log_prob = policy(obs)"
    ),
    prepares=True,
)

OTHER_SHAPES = names("tensor", memory="shared", reorders=False) & names("array")
"""Methods that arrays and tensors share, and that compute nothing."""


def apply(state: State) -> Rewrite:
    """Define the function above the training loop, and call it in the rollout.

    Raises:
        Skip: no such call is found, or it is not shown to be worth compiling.
    """
    tree, roles = state.tree, state.roles
    if state.history.policy is not None:
        raise NotNeeded("the call that chooses the actions already has a name")
    found = _acting(roles)
    if found is None:
        raise Skip("no function, and no method of the object that trains or of its network, chooses the actions")
    call, callee = found
    line, text, quiet = call.lineno, unparse(call.func), without_gradients(tree, call)
    generator = next((n for n in walk(tree.root) if tree.qualified(n) == "random.Random"), None)
    if generator is not None:  # Dynamo does not keep the generator's state: observed with torch 2.13
        raise Skip(f"line {generator.lineno} names random.Random, from which compiled code draws one number repeatedly")  # type: ignore[attr-defined]
    given = [*call.args, *(k.value for k in call.keywords)]
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        raise Skip(f"line {line} calls {text}() with * or **")
    varying = [a for a in given if not isinstance(a, ast.Constant)]
    if callee.function is None and not quiet:
        raise Skip(f"line {line} calls {text}(), which is not in this file, outside of torch.no_grad()")
    if callee.function is None and varying and not is_tensor(tree, roles.get(Tensors), varying[0]):
        raise Skip(f"line {line} passes {text}(), which is not in this file, an argument not known to be a tensor")
    if callee.function is not None:
        other = Computation(roles, callee.cls).other(callee.function)
        if other is not None:
            raise Skip(f"{text}() does more than compute: {other}")
        array, of_class = _array_used(callee.function), callee.cls is not None
        if array is not None:
            instead, outer = f"let {text}() return tensors", tree.parents[array]
            if isinstance(outer, ast.Subscript) and outer.value is array:
                instead = f"index the tensor before it becomes one, x[{tree.text(outer.slice)}].numpy()"
            raise Skip(f"line {array.lineno} may compute with an array: {instead}")
        unknown = _unknown_used(roles, call, callee.function, of_class)
        if unknown is not None:
            raise Skip(f"line {line} passes {text}() {unparse(unknown)}, which is not known to be a tensor")
        graph = None if quiet else _with_gradients(roles, callee.function)
        if graph is not None:
            raise Skip(
                f"line {line} calls {text}() outside of torch.no_grad(): gradients may flow through line {graph}"
            )
    edits, policy = Edits(state.source), tree.names.fresh("policy")
    number = next((a for a in varying[1:] if not is_tensor(tree, roles.get(Tensors), a)), None)
    if number is not None:  # each number would cause a recompilation
        raise Skip(f"line {line} also passes {text}() {unparse(number)}, which is not known to be a tensor")
    params = [a.id if isinstance(a, ast.Name) else tree.names.fresh("observation") for a in varying]
    if len(set(params)) < len(params) or set(params) & names_in([call.func]):
        raise Skip(f"line {line} passes {text}() one name twice, or several expressions that are not names")
    body = tree.splice(call, list(zip(varying, params, strict=True)))
    code = render("acting_method", policy=policy, params=params, call=body)
    edits.before(roles.outermost, code, gap=1, does=tree.statement(call))
    edits.substitute(call, f"{policy}({', '.join(map(tree.text, varying))})")
    return Rewrite(edits, replace(state.history, act=policy))


@dataclass(frozen=True)
class _Callee:
    """The function or method of this file that chooses the actions; None for a method of another file's class."""

    function: ast.FunctionDef | None
    cls: ast.ClassDef | None = None


def _acting(roles: Roles) -> tuple[ast.Call, _Callee] | None:
    """The call whose result reaches the environment's step."""
    for value in deciding_values(roles):
        if isinstance(value, ast.Call) and (callee := _callee(roles, value)) is not None:
            return value, callee
    return None


def _callee(roles: Roles, call: ast.Call) -> _Callee | None:
    """The callee of a call: a function that uses a trained network, or a method of an object that has one; or None."""
    tree = roles.tree
    if not isinstance(call.func, ast.Attribute):
        function = tree.function_called(call)
        return _Callee(function) if function is not None and names_in([function]) & {*roles.modules} else None
    receiver = call.func.value
    own = tree.class_of_self(receiver, roles.scope)
    if own is not None:  # not for self.actor(obs): a network alone is not worth compiling
        method = method_of(own, call.func.attr)
        uses = method is not None and any(unparse(n) in roles.networks for n in roles.reached([method]))
        return _Callee(method, own) if uses else None
    path = unparse(receiver)
    trained = path in roles.networks or path in roles.modules
    if not trained and not isinstance(receiver, ast.Name):
        return None
    if isinstance(receiver, ast.Name):
        values = [value for _, value in roles.assignments(path)]
    else:
        values = [s.value for s in tree.of(ast.Assign) if path in map(unparse, s.targets)]
    made = [tree.constructor(value) for value in values]
    classes = {unparse(c.func) for c in made if c is not None}
    if len(classes) == 1 and None not in made:
        cls = tree.classes[classes.pop()]
        method = method_of(cls, call.func.attr)
        if method is None or not (trained or any(unparse(n) in roles.networks for n in roles.reached([method]))):
            return None  # an object without a trained network
        return _Callee(method, cls)
    return _Callee(None) if path in roles.networks else None


def _array_used(method: ast.FunctionDef) -> ast.Call | None:
    """Where a method converts a tensor to an array and does more with it than return it.

    In compiled code, an element or a sum of an array is an array, not a number, and dividing integers gives float32.
    """
    returned = [s.value for s in statements(method.body) if isinstance(s, ast.Return) and s.value is not None]
    values = [e for v in returned for e in (v.elts if isinstance(v, ast.Tuple) else [v])]
    names = [v.id for v in values if isinstance(v, ast.Name)]
    for stmt in (s for s in statements(method.body) if isinstance(s, ast.Assign)):
        for name in (t.id for t in stmt.targets if isinstance(t, ast.Name)):
            used = [n for n in walk(method) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
            if len(stmt.targets) == 1 and names.count(name) == len(used):  # it is only returned
                values.append(stmt.value)
    made = {without_methods(v, OTHER_SHAPES) for v in values}
    return next((n for n in walk(method) if calls_method(n, "numpy") and n not in made), None)


def _unknown_used(roles: Roles, call: ast.Call, method: ast.FunctionDef, of_class: bool) -> ast.expr | None:
    """The first argument, if it may be an array that a method uses before it converts it to a tensor."""
    tree = roles.tree
    params = [a.arg for a in (*method.args.posonlyargs, *method.args.args)][of_class:]
    given = [*zip(params, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
    name, value = next(((n, v) for n, v in given if not isinstance(v, ast.Constant)), (None, None))
    if value is None or is_tensor(tree, roles.get(Tensors), value):
        return None
    for stmt in method.body:
        for node in walk(stmt):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                outer = tree.parents[node]
                if not (isinstance(outer, ast.Call) and node in outer.args and tree.calls(outer, *(OF_HOST - TYPES))):
                    return value
        if isinstance(stmt, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in stmt.targets):
            return None
    return None


def _with_gradients(roles: Roles, method: ast.FunctionDef) -> int | None:
    """The line of a method that returns something with gradients; None if there is none."""
    for stmt in statements(method.body):
        if isinstance(stmt, ast.Return) and stmt.value is not None and not without_gradients(roles.tree, stmt):
            values = stmt.value.elts if isinstance(stmt.value, ast.Tuple) else [stmt.value]
            if not all(_is_detached(roles, value, method) for value in values):
                return stmt.lineno
    return None


def _is_detached(roles: Roles, value: ast.expr, method: ast.FunctionDef) -> bool:
    """Whether a value that a method returns has no gradient: it is detached, a number, or drawn."""
    if not isinstance(value, ast.Name):
        return _is_drawn(value)
    bound = [s for s in statements(method.body) if isinstance(s, SIMPLE) and value.id in _stored(s)]
    return bool(bound) and all(
        without_gradients(roles.tree, s)
        or (isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and _is_drawn(s.value))
        for s in bound
    )


def _is_drawn(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in DRAWN:
        return True
    return isinstance(value, ast.Constant) or becomes_numbers(value)


def _stored(stmt: ast.stmt) -> set[str]:
    return {n.id for n in walk(stmt) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


TRANSFORM = Transform(INFO, apply, BOTH)
