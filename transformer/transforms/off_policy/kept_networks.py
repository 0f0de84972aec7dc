"""What an object keeps under its attributes: networks that its constructor made, numbers."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from transformer.dataflow.access import free_names
from transformer.recognition.before_training import runs_before_training
from transformer.recognition.changes import only_makes, sets_by_text
from transformer.recognition.kept_optimizers import rebound
from transformer.recognition.roles import Roles
from transformer.syntax.name_lookups import looks_up_names
from transformer.syntax.query import unparse, walk, without_methods
from transformer.values.networks.attributes import NUMBER, Frame, Unknown, Values
from transformer.values.networks.uses import MOVING

NUMBERS = NUMBER | {"list"}
MADE = frozenset("torch.zeros torch.ones torch.full torch.tensor torch.rand torch.randn".split())
"""What makes a tensor that shares nothing."""


@dataclass(frozen=True)
class Kept:
    """What an object keeps under an attribute that is set above the training loop alone."""

    maker: ast.FunctionDef
    """The constructor."""
    call: ast.Call | None
    """The only call that makes such an object; None where the object is the one that trains."""
    value: ast.expr

    def frame(self, roles: Roles) -> Frame | None:
        """The constructor with what its call gives it; None where that is not written out."""
        if self.call is None:
            return None
        return Values(roles, lambda *_: None).enter(self.maker, self.call, Frame(roles.scope))

    @staticmethod
    def of(roles: Roles, path: str) -> Kept | None:
        """What `agent.critic` stands for; None where that is not known, or may change."""
        tree, (root, _, name) = roles.tree, path.rpartition(".")
        stored = [n for n in tree.of(ast.Attribute) if n.attr == name and not isinstance(n.ctx, ast.Load)]
        made_at = [s for s in map(tree.parents.get, stored) if isinstance(s, ast.Assign) and len(s.targets) == 1]
        maker = tree.scope_of(stored[0]) if stored else None
        if len(made_at) < len(stored) or not isinstance(maker, ast.FunctionDef) or maker.name != "__init__":
            return None
        cls = tree.class_of_self(stored[0].value, maker)
        again = any(tree.class_of_self(n.value, tree.scope_of(n)) is not cls for n in stored)
        again = again or len({unparse(s.value) for s in made_at}) > 1 or tree.methods(name) != ()
        if cls is None or again or not root.isidentifier() or rebound(roles, root, cls) is not None:
            return None
        if not only_makes(tree) or not all(runs_before_training(roles, n) for n in stored):
            return None
        stmt = made_at[0]
        outside = (n for n in tree.nodes if tree.scope_of(n) is not maker)
        by_name = looks_up_names(tree, cls) or any(map(sets_by_text, outside))
        if (by_name and any(n.value == name for n in tree.of(ast.Constant))) or tree.loops_around(stmt):
            return None
        if any(sets_by_text(n) and n.lineno > stmt.lineno for n in walk(maker)):
            return None
        made = roles.only_value(root)
        return Kept(maker, tree.constructor(made) if made is not None else None, stmt.value)


def makes_new(roles: Roles, values: Values, value: ast.expr, frame: Frame) -> bool:
    """Whether a call makes a tensor of torch's, or a network of a class of the file, of numbers alone."""
    value = without_methods(value, MOVING)
    if not isinstance(value, ast.Call):
        return False
    cls = values.class_called(value)
    if cls is None:
        return (roles.tree.qualified(value.func) or "") in MADE
    given = [*value.args, *(k.value for k in value.keywords)]
    functions = [m for c in roles.tree.used_classes(cls) for m in c.body if isinstance(m, ast.FunctionDef)]
    try:
        return all(values.leaves(v, frame) <= NUMBERS for v in given) and not _shared(roles, values, functions)
    except Unknown:
        return False


def _shared(roles: Roles, values: Values, functions: list[ast.FunctionDef]) -> bool:
    """Whether functions, or what they call, use a variable of the file that may be more than a number."""
    top = Frame(roles.tree.root)
    for function in functions:  # grows as it is walked
        for name in free_names(function):
            defined = [f for f in roles.tree.of(ast.FunctionDef) if f.name == name]
            functions += [f for f in defined if f not in functions]
            if name in roles.tree.bound and not values.leaves(ast.Name(name), top) <= NUMBERS:
                return True
    return False
