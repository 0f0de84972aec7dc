"""Which expressions are networks, judged by the file's text alone, before the training loop is known."""

from __future__ import annotations

import ast
from functools import cached_property, lru_cache

from transformer.dataflow.bindings import bound_to
from transformer.facts.libraries import module_methods
from transformer.syntax.query import (
    MethodCall,
    calls_method,
    unparse,
    walk,
    without_methods,
)
from transformer.syntax.tree import Scope, Tree


class Networks:
    """The networks of a file: objects of its module classes or torch's, and objects whose parameters are accessed."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[tuple[Scope, str], bool] = {}

    def is_module(self, cls: ast.ClassDef) -> bool:
        """Whether a class of the file derives from a torch module, directly or through other classes of the file."""
        derived = [cls]
        for kind in derived:  # a malformed file may have cycles
            named = (self._tree.classes.get(base.id) for base in kind.bases if isinstance(base, ast.Name))
            derived += [other for other in named if other is not None and other not in derived]
        bases = (base for kind in derived for base in kind.bases)
        return any((self._tree.qualified(base) or "").startswith("torch.nn.") for base in bases)

    def computes(self, call: MethodCall) -> bool:
        """Whether a method call runs a network, and no network of the file passes such calls to anything else.

        If an agent is a module, its method `step` may step its optimizer or its environment.
        """
        name = call.func.attr
        classes = (cls for cls in self._tree.of(ast.ClassDef) if self.is_module(cls))
        methods = (m for cls in classes for m in cls.body if isinstance(m, ast.FunctionDef) and m.name == name)
        inside = (n for m in methods for n in walk(m) if calls_method(n, name))
        return self.holds(call.func.value) and all(self.holds(n.func.value) for n in inside)

    @cached_property
    def steps(self) -> frozenset[ast.AST]:
        """The calls `x.step(...)` that run no network."""
        calls = (call for call in self._tree.of(ast.Call) if calls_method(call, "step"))
        return frozenset(call for call in calls if not self.computes(call))

    def holds(self, value: ast.expr) -> bool:
        """Whether an expression is a network or a sequence of networks."""
        value, tree = without_methods(value, module_methods(gives="itself")), self._tree
        if isinstance(value, ast.Subscript):
            return self.holds(value.value)
        if isinstance(value, (ast.List, ast.Tuple, ast.ListComp)):
            return any(map(self.holds, [value.elt] if isinstance(value, ast.ListComp) else value.elts))
        if isinstance(value, ast.Call):
            if tree.calls(value, "torch.compile"):
                return any(map(self.holds, value.args))
            cls = tree.classes.get(unparse(value.func))
            return (tree.qualified(value.func) or "").startswith("torch.nn.") if cls is None else self.is_module(cls)
        if not isinstance(value, (ast.Name, ast.Attribute)):
            return False
        if (cls := tree.class_of_self(value, tree.scope_of(value))) is not None:
            return self.is_module(cls)
        key = tree.scope_of(value), unparse(value)
        if key not in self._known:
            self._known[key] = key[1] in self._asked  # a placeholder during the search: a function may call itself
            bound = [v for v in bound_to(tree, value, own=True) if v is not None]
            sequences = self._sequences.get(value.id, []) if isinstance(value, ast.Name) else []
            self._known[key] = any(map(self.holds, (*bound, *sequences))) or self._known[key]
        return self._known[key]

    @cached_property
    def _asked(self) -> frozenset[str]:
        """Expressions, as written, whose parameters are accessed, except a method's own object."""
        calls = (n for n in self._tree.of(ast.Call) if calls_method(n, "parameters", "named_parameters"))
        return frozenset(unparse(n.func.value) for n in calls) - {"self"}

    @cached_property
    def _sequences(self) -> dict[str, list[ast.expr]]:
        """By name, the sequences that loops iterate over to bind the name."""
        loops: list[ast.For | ast.comprehension] = [*self._tree.of(ast.For), *self._tree.of(ast.comprehension)]
        found: dict[str, list[ast.expr]] = {}
        for name, over in (pair for loop in loops for pair in _loop_bindings(loop.target, loop.iter)):
            found.setdefault(name, []).append(over)
        return found


@lru_cache(maxsize=2)
def networks(tree: Tree) -> Networks:
    """The networks of a file, found once."""
    return Networks(tree)


def _loop_bindings(target: ast.expr, over: ast.expr) -> list[tuple[str, ast.expr]]:
    """The names that a loop binds to elements, each with the sequence: through enumerate() and zip()."""
    if isinstance(target, ast.Name):
        return [(target.id, over)]
    if not isinstance(target, ast.Tuple) or not isinstance(over, ast.Call) or not isinstance(over.func, ast.Name):
        return []
    parts = over.args if over.func.id == "zip" else [ast.Constant(0), *over.args]
    return [pair for t, part in zip(target.elts, parts, strict=False) for pair in _loop_bindings(t, part)]
