"""Make float32 tensors of arrays in compiled functions too, where torch.Tensor() would keep the array's dtype."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports
from transformer.syntax.query import calls_method, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.transforms.base import ALL, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.arrays import KnownArrays
from transformer.values.tensors import Tensors

INFO = TransformInfo(
    name="float-arrays",
    brief="tensors of arrays in compiled functions",
    summary="make float32 tensors of numpy arrays in compiled functions, as torch.Tensor() does in others",
    applies=(
        "to `torch.Tensor(x)` and `torch.FloatTensor(x)` in what is compiled, where every call shows that x is an "
        "array or a tensor, and no size"
    ),
    safety=(
        "torch.Tensor(x) and torch.FloatTensor(x) make a new float32 tensor of an array's numbers, and so does what "
        "takes their place, with the same rounding. In compiled functions the former keeps the array's dtype and the "
        "latter fails (seen with torch 2.13). What is no array is given to torch.Tensor() as before."
    ),
    costs="torch.Tensor(x) breaks the compiled graph: write torch.as_tensor(x, dtype=torch.float32).",
    needs=("flags", "compile"),
    before="def get_value(self, x):\n    return self.critic(torch.Tensor(x).to(device))",
    after="def get_value(self, x):\n    return self.critic(float_tensor(x).to(device))",
)

CONSTRUCTORS = ("torch.Tensor", "torch.FloatTensor")


def apply(state: State) -> Rewrite:
    """Put a function in the place of the constructors, in the networks and in what was extracted.

    Raises:
        Skip: they do not make tensors of what may be an array, or not float32.
    """
    tree = state.tree
    found = list(dict.fromkeys(_made_of_arrays(state.roles)))
    if not found:
        raise NotNeeded("nothing that is compiled makes tensors of arrays with torch.Tensor()")
    if any((tree.qualified(n) or "").startswith("torch.set_default_") for n in tree.nodes):
        raise Skip("the script sets another default for torch.Tensor()")
    if tree.imports.get("torch") != "torch":
        raise Skip("torch is not imported by its name")
    numpy = next((name for name, module in tree.imports.items() if module == "numpy"), None)
    if numpy is None and tree.names.taken("numpy"):
        raise Skip("the name numpy stands for something else than the module")
    edits, name = Edits(state.source), tree.names.fresh("float_tensor")
    for call in found:
        edits.substitute(call.func, name)
    places = [s for call in found for s in (call, *tree.ancestors(call)) if s in tree.root.body]
    first = min((s for s in places if isinstance(s, ast.stmt)), key=lambda s: s.lineno)
    edits.before(first, render("float_tensor", float_tensor=name, numpy=numpy or "numpy"), gap=2)
    if numpy is None:
        add_imports(tree.root, edits, "import numpy")
    return Rewrite(edits)


def _made_of_arrays(roles: Roles) -> Iterator[ast.Call]:
    """The constructors' calls in what is compiled, with one argument that is known to be an array or a tensor."""
    tree = roles.tree
    tensors, known = roles.get(Tensors), roles.get(KnownArrays)
    extracted = [tree.definition(f.name) for role, f in roles.history.functions.items() if role != "rollout"]
    reached: list[ast.AST] = [*roles.network_classes, *extracted]
    apart = set(_around_acting(roles))
    for part in reached:  # which grows
        for node in walk(part):
            if not isinstance(node, ast.Call) or node in apart:
                continue
            function = tree.function_called(node)
            if function is not None and function not in reached:
                reached.append(function)
            if tree.calls(node, *CONSTRUCTORS) and len(node.args) == 1 and not node.keywords:
                if not tensors.tensor(node.args[0]) and known.kind(node.args[0]) is not None:
                    yield node


def _around_acting(roles: Roles) -> Iterator[ast.AST]:
    """The nodes of methods that are not compiled, as they call one that is: what acting-statements has made."""
    _, dot, name = (roles.history.act or "").rpartition(".")
    for method in roles.tree.of(ast.FunctionDef) if dot else ():
        if any(calls_method(n, name) for n in walk(method)):
            yield from walk(method)


TRANSFORM = Transform(INFO, apply, ALL)
