"""Compute an LSTM directly from its weights, if networks call it step by step and it is compiled for a CPU."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from transformer.dataflow.liveness import Liveness
from transformer.dataflow.name_lookups import texts_of
from transformer.facts.libraries import module_methods
from transformer.facts.lookups import lookups
from transformer.facts.python import ACCESS, builtin_names
from transformer.facts.torch_api import holders, layers, of_layers, of_parameters, others
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import (
    calls_method,
    children,
    first_parameter,
    is_number,
    names_in,
    parameters,
    unparse,
    walk,
)
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import NO_DEVICE, NotNeeded, Rewrite, Skip, Transform, TransformInfo

INFO = TransformInfo(
    name="lstm-cells",
    brief="--compile on a CPU: LSTM steps from its weights",
    summary="compute an LSTM that is called step by step directly from its weights, under --compile on a CPU",
    applies=(
        "to a loop over time in a network's method that clears the state where an episode ended and calls an "
        "`nn.LSTM(inputs, hidden)`, if nothing else of the LSTM is used but its sizes and parameters"
    ),
    safety=(
        "torch.compile keeps code that touches an nn.LSTM eager, and the loop with it. Now compiled code may read its "
        "sizes, and calls a function in place of the loop. That function stays eager: it projects the inputs of all "
        "steps at once, and computes the gates of each step as torch's documentation defines them, from the same "
        "parameters. If nothing is compiled, or on a GPU, the loop itself runs."
    ),
    costs=(
        "--compile gains little on a CPU: call an nn.LSTM(inputs, hidden) in a loop `for h, d in zip(hidden, done)` "
        "in the network's method."
    ),
    needs=("flags", "compile"),
    before=(
        "new_hidden = []\nfor h, d in zip(hidden, done):\n    h, state = self.lstm(\n        h.unsqueeze(0),\n"
        "        ((1.0 - d).view(1, -1, 1) * state[0], (1.0 - d).view(1, -1, 1) * state[1]),\n    )\n"
        "    new_hidden += [h]\nnew_hidden = torch.flatten(torch.cat(new_hidden), 0, 1)"
    ),
    after=(
        'new_hidden = []\nif torch.compiler.is_dynamo_compiling() and state[0].device.type == "cpu":\n'
        "    h, state = lstm_cells(self.lstm, hidden, done, state)\n    new_hidden += [h]\nelse:\n"
        "    for h, d in zip(hidden, done):\n        ...\n"
        "new_hidden = torch.flatten(torch.cat(new_hidden), 0, 1)\n...\n"
        'if args.compile:\n    ...\n    torch._dynamo.config.allow_rnn = device.type == "cpu"'
    ),
    regroups="an LSTM's gates add up inputs, state and biases in another order than torch's own LSTM",
)

LSTM = "torch.nn.LSTM"
(MODULE,) = holders("anything")
USED = of_layers() | module_methods(finds="parameters")
"""Attributes of the LSTM that may be read: setting its values in place does not change the computation."""
BUILTINS = builtin_names(gives="nothing") | ACCESS
"""Builtins that may be given a whole network, and do not change its modules."""
REACHES = (
    module_methods(finds="parts")
    | module_methods(sets=("anything", "parts"))
    | lookups(of="attribute", finds=("parts", "methods"))
    | others("autocast")
)
"""Attributes and functions that reach a module without its name and may change it, or change its dtype."""


@dataclass(frozen=True)
class _Steps:
    """A loop over time that calls an LSTM for each step."""

    loop: ast.For
    lstm: str
    """The attribute that holds the LSTM."""
    inputs: ast.expr
    dones: ast.expr
    state: str
    output: str
    others: frozenset[str]
    """Names that the loop binds besides the state."""
    outputs: str
    """The name of the list of outputs."""

    @property
    def kept(self) -> ast.stmt:
        """The statement that appends an output to the list."""
        return self.loop.body[-1]


def apply(state: State) -> Rewrite:
    """Put a branch for compiled code around each such loop, and define the called function above the networks.

    Raises:
        Skip: a network uses an LSTM in another way, or something may change what the LSTM does.
    """
    tree, roles = state.tree, state.roles
    asked = state.history.asked.target
    if asked == "cuda":
        raise NotNeeded("the target is a CUDA device")
    found = [step for cls in roles.network_classes for step in _of_class(tree, cls)]
    if not found:
        raise NotNeeded("no trained network of a class of this file has an LSTM")
    if tree.imports.get("torch") != "torch" or _modules(tree) & tree.bound:
        raise Skip("torch is not imported by its name")
    if roles.device is None and asked != "cpu":
        raise Skip(NO_DEVICE)
    _check_reached(roles)
    _check_others(tree, {steps.lstm for steps in found})
    edits, name = Edits(state.source), tree.names.fresh("lstm_cells")
    for steps in found:
        edits.replace(steps.loop, [_branch(state, edits, steps, name)])
    owners = [n for steps in found for n in tree.ancestors(steps.loop) if n in tree.root.body]
    first = min((n for n in owners if isinstance(n, ast.stmt)), key=lambda n: n.lineno)
    strict = all(isinstance(s.loop.iter, ast.Call) and s.loop.iter.keywords for s in found)
    edits.before(first, render("lstm_cells", lstm_cells=name, strict=strict), gap=2)
    compiled = next(
        (s for s in tree.block(roles.outermost) if _compiles(tree, s, state.history.flags["compile"])), None
    )
    if not isinstance(compiled, ast.If):
        raise Skip("nothing is compiled directly above the training loop")
    cpu = "True" if asked == "cpu" else f'{roles.device_type} == "cpu"'
    edits.after(compiled.body[-1], render("lstm_sizes", cpu=cpu))
    return Rewrite(edits)


def _compiles(tree: Tree, stmt: ast.stmt, flag: str) -> bool:
    """Whether a statement is the one that compiles under the flag."""
    return (
        isinstance(stmt, ast.If)
        and tree.text(stmt.test) == flag
        and any(tree.calls(n, "torch.compile") for n in walk(stmt))
    )


def _modules(tree: Tree) -> set[str]:
    """The names of the modules that define the LSTM."""
    return {name for name, module in tree.imports.items() if module in ("torch", "torch.nn", LSTM, MODULE)}


def _branch(state: State, edits: Edits, steps: _Steps, name: str) -> cst.If:
    """The branch for compiled code, with the original loop in its `else`."""
    tree, loop = state.tree, steps.loop
    call = loop.body[-2]
    assert isinstance(call, ast.Assign) and isinstance(call.value, ast.Call)
    code = render(
        "lstm_compiled",
        lstm_cells=name,
        lstm=tree.text(call.value.func),
        inputs=tree.text(steps.inputs),
        dones=tree.text(steps.dones),
        state=steps.state,
        output=steps.output,
        kept=tree.text(steps.kept),
    )
    branch = cst.parse_module(state.source.laid_out(code, loop.col_offset)).body[0]
    assert isinstance(branch, cst.If) and isinstance(branch.orelse, cst.Else)
    whole = edits.lines_of(loop).with_changes(leading_lines=[])
    return branch.with_changes(orelse=branch.orelse.with_changes(body=cst.IndentedBlock([whole])))


def _of_class(tree: Tree, cls: ast.ClassDef) -> Iterator[_Steps]:
    """The loops of a network's methods.

    Raises:
        Skip: it uses an LSTM in another way.
    """
    if not any(tree.qualified(n) == LSTM for n in walk(cls)):
        return
    if cls not in tree.root.body or [tree.qualified(b) for b in cls.bases] != [MODULE] or cls.keywords:
        raise Skip(f"{cls.name} has an LSTM, and is not a class at the top of the file derived only from nn.Module")
    methods = [s for s in cls.body if isinstance(s, ast.FunctionDef)]
    calls = [n for m in methods for n in walk(m) if isinstance(n, ast.Call) and tree.qualified(n.func) == LSTM]
    lstms = [_attribute_of_lstm(tree, cls, call) for call in calls]
    if len(lstms) != len(set(lstms)) or len(lstms) != sum(tree.qualified(n) == LSTM for n in walk(cls)):
        raise Skip(f"{cls.name} makes its LSTM in more than one place")
    found = []
    for lstm in lstms:
        loops = [steps for m in methods for steps in _in_method(tree, cls, m) if steps.lstm == lstm]
        if not loops:
            raise Skip(f"{lstm} is not called in a loop over time of a known form")
        _check_used(tree, lstm, loops)
        found += loops
    yield from found


def _attribute_of_lstm(tree: Tree, cls: ast.ClassDef, call: ast.Call) -> str:
    """The attribute in which the constructor keeps a one-layer LSTM with biases, time first.

    Raises:
        Skip: it is made in another way.
    """
    stmt, method = tree.parents[call], tree.scope_of(call)
    target = stmt.targets[0] if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else None
    constructor = isinstance(method, ast.FunctionDef) and method.name == "__init__" and stmt in method.body
    kept = isinstance(target, ast.Attribute) and tree.class_of_self(target.value, method) is cls
    if not isinstance(target, ast.Attribute) or not kept or not constructor:
        raise Skip(f"line {call.lineno} makes an LSTM that the constructor does not keep as an attribute")
    if call.keywords or len(call.args) != 2 or any(isinstance(a, ast.Starred) for a in call.args):
        raise Skip(f"line {call.lineno} makes an LSTM with more than its two sizes")
    return target.attr


def _in_method(tree: Tree, cls: ast.ClassDef, method: ast.FunctionDef) -> Iterator[_Steps]:
    """The loops directly in a method that have the known form."""
    own = first_parameter(method)
    nested = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Global, ast.Nonlocal, ast.NamedExpr)
    if own is None or method.decorator_list or any(isinstance(n, nested) for n in walk(method) if n is not method):
        return
    if tree.class_of_self(ast.Name(own), method) is not cls or own in _stored_names(method.body):
        return
    for i, stmt in enumerate(method.body[1:-1], 1):
        steps = _lstm_steps(stmt, own)
        if steps is None or not _is_empty_list(method.body[i - 1], steps.outputs):
            continue
        above, below = method.body[:i], method.body[i + 1]
        tensors = all(_is_reshaped(value, above) for value in (steps.inputs, steps.dones))
        if not tensors or not _is_joined(tree, below, steps.outputs):
            continue
        live = Liveness.of(method.body)
        rest = live.after[below] if isinstance(below, ast.Assign) and not _sets(below, steps.outputs) else frozenset()
        if not live.after[stmt] & steps.others and steps.outputs not in rest:
            yield steps


def _lstm_steps(loop: ast.stmt, own: str) -> _Steps | None:
    """The LSTM call of a loop in the form that cleanrl uses, with any names."""
    if not isinstance(loop, ast.For) or loop.orelse or len(loop.body) not in (2, 3):
        return None
    zipped, call, kept = loop.iter, loop.body[-2], loop.body[-1]
    names = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    strict = isinstance(zipped, ast.Call) and [unparse(k) for k in zipped.keywords] in ([], ["strict=True"])
    if not isinstance(zipped, ast.Call) or unparse(zipped.func) != "zip" or len(zipped.args) != 2 or not strict:
        return None
    if len(names) != 2 or not isinstance(call, ast.Assign) or not isinstance(call.value, ast.Call):
        return None
    func, results = call.value.func, call.targets[0].elts if isinstance(call.targets[0], ast.Tuple) else []
    if not isinstance(func, ast.Attribute) or len(results) != 2 or unparse(func.value) != own:
        return None
    if not all(isinstance(n, ast.Name) for n in (*names, *results)):
        return None
    step, done, output, state = map(unparse, (*names, *results))
    keep, first = f"(1.0 - {done}).view(1, -1, 1)", loop.body[0]
    others = {step, done, output}
    if len(loop.body) == 3:
        if not isinstance(first, ast.Assign) or not isinstance(first.targets[0], ast.Name):
            return None
        named = first.targets[0].id
        if not _reads_as(first, f"{named} = {keep}") or named in {*others, state}:
            return None
        keep = named
        others.add(named)
    outputs = next((n for n in names_in([kept]) - {output}), "")
    cleared = f"({keep} * {state}[0], {keep} * {state}[1])"
    known = _reads_as(call, f"{output}, {state} = {own}.{func.attr}({step}.unsqueeze(0), {cleared})")
    known = known and (_reads_as(kept, f"{outputs} += [{output}]") or _reads_as(kept, f"{outputs}.append({output})"))
    several = len({step, done, state, outputs, own}) == 5 and output not in {done, state, outputs, own}
    if not known or not several or outputs in others or others & {"zip", "torch"}:
        return None
    return _Steps(loop, func.attr, zipped.args[0], zipped.args[1], state, output, frozenset(others), outputs)


def _reads_as(stmt: ast.stmt, text: str) -> bool:
    """Whether a statement is equal to this text, however it is formatted."""
    return ast.dump(stmt) == ast.dump(ast.parse(text).body[0])


def _stored_names(body: Sequence[ast.stmt]) -> set[str]:
    return {n.id for s in body for n in walk(s) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


def _sets(stmt: ast.stmt, name: str) -> bool:
    return isinstance(stmt, ast.Assign) and [unparse(t) for t in stmt.targets] == [name]


def _is_empty_list(stmt: ast.stmt, name: str) -> bool:
    return _sets(stmt, name) and isinstance(stmt, ast.Assign) and unparse(stmt.value) == "[]"


def _is_reshaped(value: ast.expr, above: Sequence[ast.stmt]) -> bool:
    """Whether the loop iterates over a tensor: the result of a reshape, or a name last bound to one."""
    if isinstance(value, ast.Name):
        last = next((s for s in reversed(above) if value.id in _stored_names([s])), None)
        return isinstance(last, ast.Assign) and _sets(last, value.id) and calls_method(last.value, "reshape", "view")
    return calls_method(value, "reshape", "view")


def _is_joined(tree: Tree, stmt: ast.stmt, name: str) -> bool:
    """Whether a statement reads the list of outputs exactly once, to join it."""
    read = [n for n in walk(stmt) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    call = tree.parents[read[0]] if len(read) == 1 else None
    if not isinstance(stmt, (ast.Assign, ast.Return)) or call is None or not tree.calls(call, "torch.cat"):
        return False
    assert isinstance(call, ast.Call)
    given = [*call.args[1:], *(k.value for k in call.keywords)]
    first = all(k.arg == "dim" for k in call.keywords) and all(is_number(v, 0) for v in given)
    return call.args[:1] == read and first and len(given) <= 1


def _check_used(tree: Tree, lstm: str, loops: Sequence[_Steps]) -> None:
    """Check that attributes of that name are only used in ways that do not change the LSTM.

    Raises:
        Skip: one is used in another way.
    """
    for node in tree.of(ast.Attribute):
        if node.attr != lstm:
            continue
        above = tree.parents[node]
        if not isinstance(node.ctx, ast.Load):
            made = isinstance(above, ast.Assign) and tree.calls(above.value, LSTM)
            fine = made and isinstance(tree.scope_of(node), ast.FunctionDef)
        elif isinstance(above, ast.Attribute):
            fine = above.attr in USED and isinstance(above.ctx, ast.Load)
        else:
            fine = any(above is s.value for steps in loops for s in steps.loop.body if isinstance(s, ast.Assign))
        if not fine:
            raise Skip(f"line {node.lineno} uses {tree.text(node)} other than in a loop over time")
    if lstm in texts_of(tree):
        raise Skip(f"the script may read {lstm} by its name, which occurs in a text")


def _check_others(tree: Tree, lstms: Collection[str]) -> None:
    """Check that no other recurrent layer is made, and torch.compile is not configured for them.

    Raises:
        Skip: one is, or it is.
    """
    for node in tree.nodes:
        module, _, layer = (tree.qualified(node) or "").rpartition(".")
        if module == "torch.nn" and layer in layers(sequence=True):
            made = tree.parents[tree.parents[node]]
            known = made.targets[0] if isinstance(made, ast.Assign) else None
            if not isinstance(known, ast.Attribute) or known.attr not in lstms:
                raise Skip(f"line {tree.statement(node).lineno} makes another recurrent layer")
        elif isinstance(node, ast.Attribute) and node.attr == "allow_rnn":
            raise Skip(f"line {node.lineno} configures torch.compile for recurrent layers")


def _check_reached(roles: Roles) -> None:
    """Check that nothing reaches the parts of networks other than by name, where it could change what they do.

    Raises:
        Skip: something may.
    """
    tree = roles.tree
    named: list[ast.Attribute | ast.Name] = [*tree.of(ast.Attribute), *tree.of(ast.Name)]
    for node in named:
        name = node.attr if isinstance(node, ast.Attribute) else tree.imports.get(node.id, "").rpartition(".")[2]
        if name in REACHES or "hook" in name or (name == "LSTM" and not isinstance(node.ctx, ast.Load)):
            raise Skip(f"{tree.text(node)} in line {node.lineno} may change what the parts of a network do")
    names = {first_parameter(m) for cls in roles.network_classes for m in cls.body if isinstance(m, ast.FunctionDef)}
    for stmt in tree.of(ast.Assign):
        made = tree.constructor(stmt.value)
        if made is not None and tree.classes[unparse(made.func)] in roles.network_classes:
            names |= names_in(stmt.targets)
    calls = tree.of(ast.Call)
    while True:  # the parameter of a function that is passed a network is one more name for it
        handed = [(call, a) for call in calls for a in _arguments(call) if _names_itself(tree, a, names)]
        known = len(names)
        for call, _ in handed:
            function = tree.function_called(call)
            if function is not None:
                names |= set(parameters(function))
            elif not tree.calls(call, *of_parameters(copies=True)) and tree.names.builtin(call.func) not in BUILTINS:
                raise Skip(f"line {call.lineno} passes a network on, and {tree.text(call.func)} may change its parts")
        if len(names) == known:
            return


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]


def _names_itself(tree: Tree, value: ast.expr, names: Collection[str | None]) -> bool:
    """Whether an argument is one of these names, or a display that contains one; attributes and calls do not count."""
    whole = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred, ast.IfExp, ast.BoolOp)
    if isinstance(value, whole):
        return any(_names_itself(tree, n, names) for n in children(value) if isinstance(n, ast.expr))
    return isinstance(value, ast.Name) and value.id in names


TRANSFORM = Transform(INFO, apply)
