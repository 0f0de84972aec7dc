"""Keep the number of actions as a plain int in networks whose compiled functions use it as a size."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.dataflow.name_lookups import texts_of
from transformer.facts.torch_api import names
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import bind_arguments, method, pairwise, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree
from transformer.transforms.base import ALL, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.values.networks.attributes import SPACES

INFO = TransformInfo(
    name="plain-sizes",
    brief="sizes in compiled functions are plain ints",
    summary="keep the number of actions as a plain int in networks whose compiled functions use it as a size",
    applies=(
        "to an attribute of a network that is a space's number of actions, if it is read only as a size: of tensors "
        "that are made, one-hot ones too, or of layers"
    ),
    safety=(
        "The number is the same; gymnasium's Discrete spaces have it as numpy.int64. torch.compile turns numpy's "
        "numbers into tensors and cannot use a tensor as a size, so it would leave the function eager (observed with "
        "torch 2.13). As the shape of a tensor or the size of a layer, both forms give the same."
    ),
    costs="torch.compile leaves the function eager: write int(envs.single_action_space.n).",
    needs=("flags", "compile"),
    before="self.n = envs.single_action_space.n",
    after="self.n = int(envs.single_action_space.n)",
)


def apply(state: State) -> Rewrite:
    """Wrap the values of such attributes in int().

    Raises:
        Skip: the attributes are also read for other purposes.
    """
    roles, tree = state.roles, state.tree
    found = [(target, value) for cls in roles.network_classes for target, value in _set_to_actions(roles, cls)]
    shapes = [
        (target, value)
        for target, value in found
        if any(_shapes(tree, n) for n in _reads_of_attribute(tree, target.attr))
    ]
    if not shapes:
        raise NotNeeded("no network uses a space's number of actions as a size")
    edits = Edits(state.source)
    for target, value in shapes:
        other = next((n for n in _reads_of_attribute(tree, target.attr) if not _is_size(tree, n)), None)
        if other is not None:
            raise Skip(f"line {other.lineno} reads {tree.text(other)} other than as a size")
        if target.attr in texts_of(tree):
            raise Skip(f"the script may read {target.attr} by its name, which occurs in a text")
        edits.substitute(value, f"int({tree.text(value)})")
    return Rewrite(edits)


def _set_to_actions(roles: Roles, cls: ast.ClassDef) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """The attributes of `self` that a constructor sets to a space's number of actions, with the values."""
    tree = roles.tree
    constructor = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
    if constructor is None:
        return
    for stmt in walk(constructor):
        for target, value in pairwise(stmt) if isinstance(stmt, ast.Assign) else []:
            if isinstance(target, ast.Attribute) and tree.class_of_self(target.value, constructor) is cls:
                if _is_number_of_actions(tree, value) or _has_such_arguments(roles, cls, constructor, value):
                    yield target, value


def _has_such_arguments(roles: Roles, cls: ast.ClassDef, constructor: ast.FunctionDef, value: ast.expr) -> bool:
    """Whether a value is a parameter for which every instantiation passes a space's number of actions."""
    tree = roles.tree
    if not isinstance(value, ast.Name) or any(
        isinstance(n, ast.Name) and n.id == value.id and not isinstance(n.ctx, ast.Load) for n in walk(constructor)
    ):
        return False
    uses = [n for n in tree.of(ast.Name) if n.id == cls.name]
    for use in uses:
        call = tree.parents[use]
        if not isinstance(call, ast.Call) or call.func is not use:
            return False
        bound = bind_arguments(constructor, call, use)
        given = bound.given.get(value.id) if bound is not None else None
        if isinstance(given, ast.Name):
            given = roles.only_value(given.id)
        if given is None or not _is_number_of_actions(tree, given):
            return False
    return bool(uses)


def _is_number_of_actions(tree: Tree, value: ast.expr) -> bool:
    """Whether an expression is a space's number of actions: `envs.single_action_space.n`."""
    return isinstance(value, ast.Attribute) and value.attr == "n" and tree.last_name(value.value) in SPACES


def _reads_of_attribute(tree: Tree, attribute: str) -> list[ast.Attribute]:
    """The reads of attributes of that name, except spaces' numbers of actions."""
    named = [n for n in tree.of(ast.Attribute) if n.attr == attribute and isinstance(n.ctx, ast.Load)]
    return [n for n in named if not _is_number_of_actions(tree, n)]


def _given_to(tree: Tree, read: ast.expr) -> ast.Call | None:
    """The call that takes a number as an argument, by itself or in a product or sum."""
    whole: ast.AST = read
    while isinstance(parent := tree.parents[whole], ast.BinOp) and isinstance(
        parent.op, (ast.Mult, ast.Add, ast.Sub, ast.FloorDiv)
    ):
        whole = parent
    whole, parent = (parent, tree.parents[parent]) if isinstance(parent, ast.keyword) else (whole, parent)
    return parent if isinstance(parent, ast.Call) and whole in (*parent.args, *parent.keywords) else None


def _shapes(tree: Tree, read: ast.expr) -> bool:
    """Whether a number is one of the sizes of a shape, as also in `one_hot(actions, n)`."""
    call = _given_to(tree, read)
    sized = call is not None and method(call) in names("tensor", sizes=True)
    return sized or (call is not None and tree.calls(call, "torch.nn.functional.one_hot"))


def _is_size(tree: Tree, read: ast.expr) -> bool:
    """Whether a number is used as a size, for which a plain int is equivalent."""
    call = _given_to(tree, read)
    layer = call is not None and (tree.qualified(call.func) or "").startswith("torch.nn.")
    return layer or _shapes(tree, read)


TRANSFORM = Transform(INFO, apply, ALL)
