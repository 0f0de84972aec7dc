"""The optimizers of a file, judged by its text alone, before the training loop is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeGuard

from transformer.dataflow.network_names import networks
from transformer.syntax.query import MethodCall, bind_arguments, calls_method, pairwise, statements, unparse
from transformer.syntax.tree import Tree


@dataclass(frozen=True)
class Optimizer:
    """An optimizer: its name, the statement and call that make it, and its class in `torch.optim` if known."""

    name: str
    stmt: ast.Assign
    call: ast.Call
    kind: str | None

    @property
    def params(self) -> tuple[ast.expr, ...]:
        """The parameters that it trains, as one expression: the first argument or `params`; none if given by `**`."""
        return (*self.call.args[:1], *(k.value for k in self.call.keywords if k.arg == "params"))


class Optimizers:
    """The optimizers that a file makes with `torch.optim`, and other objects that it uses as optimizers.
    Names bound to optimizers from `torch.optim`, or to objects on which both `zero_grad()` and `step()` are called."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._networks = networks(tree)

    def _is_step(self, node: ast.AST) -> TypeGuard[MethodCall]:
        return node in self._networks.steps

    @cached_property
    def made(self) -> tuple[Optimizer, ...]:
        """Names that are bound to optimizers of `torch.optim`, or on which both `zero_grad()` and `step()` are
        called."""
        methods: dict[str, set[str]] = {}
        for node in self._tree.of(ast.Call):
            if calls_method(node, "zero_grad") or self._is_step(node):
                methods.setdefault(unparse(node.func.value), set()).add(node.func.attr)
        found = []
        for stmt in self._tree.of(ast.Assign):
            if len(stmt.targets) == 1 and isinstance(stmt.value, ast.Call):
                target = stmt.targets[0]
                if not isinstance(target, (ast.Name, ast.Attribute)):
                    continue
                name, qualified = unparse(target), self._tree.qualified(stmt.value.func) or ""
                known = qualified.startswith("torch.optim.") and not qualified.startswith("torch.optim.lr_scheduler")
                kind = qualified.rsplit(".", 1)[-1] if known else None
                known = known or self._is_own_optimizer(stmt.value)
                elsewhere = [f"{owner}.{name.partition('.')[2]}" for owner in self._instances_of_self(target)]
                asked = {"step"} if known else {"zero_grad", "step"}  # its networks may clear the gradients instead
                used = [n for n in (name, *elsewhere) if methods.get(n, set()) >= asked]
                found += [Optimizer(n, stmt, stmt.value, kind) for n in used or ([name] if known else [])]
        return tuple(sorted(found, key=lambda o: o.stmt.lineno))

    def _is_own_optimizer(self, made: ast.Call) -> bool:
        """Whether a call instantiates a class of this file derived from torch's optimizers."""
        cls = self._tree.classes.get(made.func.id) if isinstance(made.func, ast.Name) else None
        return cls is not None and any((self._tree.qualified(b) or "").startswith("torch.optim.") for b in cls.bases)

    def _instances_of_self(self, target: ast.expr) -> list[str]:
        """For `self.x` in methods of a class: the names to which instances of the class are assigned."""
        owner = (
            self._tree.class_of_self(target.value, self._tree.scope_of(target))
            if isinstance(target, ast.Attribute)
            else None
        )
        return self._objects.get(owner.name, []) if owner is not None else []

    @cached_property
    def _objects(self) -> dict[str, list[str]]:
        """For each class of the file, the names of its instances: `agent`, `agent.critic`, `self.critic`."""
        made = [
            (target, call, self._tree.class_of_self(target.value, self._tree.scope_of(target)))
            if isinstance(target, ast.Attribute)
            else (target, call, None)
            for stmt in self._tree.of(ast.Assign)
            for target, value in pairwise(stmt)
            if isinstance(target, (ast.Name, ast.Attribute))
            if (call := self._tree.constructor(value)) is not None
        ]
        found: dict[str, list[str]] = {}
        for target, call, _ in made:
            if isinstance(target, ast.Name):
                found.setdefault(unparse(call.func), []).append(target.id)
        for cls in self._tree.classes:
            names = found.get(cls, [])
            found[cls] = list(dict.fromkeys([*names, *self._handed_on(cls, names)]))
        whole = {cls: [*names] for cls, names in found.items()}
        for target, call, owner in made:
            if isinstance(target, ast.Attribute) and owner is not None:
                owners = [unparse(target.value), *whole.get(owner.name, [])]
                found.setdefault(unparse(call.func), []).extend(f"{name}.{target.attr}" for name in owners)
        return found

    def _handed_on(self, cls: str, names: Sequence[str]) -> Iterator[str]:
        """The parameters that receive objects of a class, and the attributes that functions set to these parameters."""
        for value, known_as in self._given:
            new = isinstance(value, ast.Call) and unparse(value.func) == cls
            if new or unparse(value) in names:
                yield from known_as

    @cached_property
    def _given(self) -> list[tuple[ast.expr, list[str]]]:
        """The arguments that calls pass to functions of the file, each with its names there."""
        found = []
        for call in self._tree.of(ast.Call):
            made = self._tree.classes.get(call.func.id) if isinstance(call.func, ast.Name) else None
            makers = [m for m in (made.body if made else ()) if getattr(m, "name", "") == "__init__"]
            function = makers[0] if makers else self._tree.function_called(call)
            if not isinstance(function, ast.FunctionDef) or not (call.args or call.keywords):
                continue
            bound = bind_arguments(function, call, call.func if makers else None)
            pairs = [pair for s in statements(function.body) if isinstance(s, ast.Assign) for pair in pairwise(s)]
            for parameter, value in bound.given.items() if bound else ():
                set_to = [unparse(t) for t, v in pairs if isinstance(t, ast.Attribute) and unparse(v) == parameter]
                if value is not call.func:
                    found.append((value, [parameter, *set_to]))
        return found

    @cached_property
    def made_elsewhere(self) -> frozenset[str]:
        """Expressions, as written, on which `zero_grad()` and `step()` are called, but to which the file assigns no
        optimizer.

        Such an optimizer is an argument, comes from another file, or is in a container. Calls that an object makes of
        its own two methods do not count.
        """
        methods: dict[str, set[str]] = {}
        for call in self._tree.of(ast.Call):
            if calls_method(call, "zero_grad") or self._is_step(call):
                alone = isinstance(self._tree.parents[call], ast.Expr)
                if alone and self._tree.class_of_self(call.func.value, self._tree.scope_of(call)) is None:
                    methods.setdefault(unparse(call.func.value), set()).add(call.func.attr)
        made = {o.name for o in self.made}
        return frozenset(name for name, called in methods.items() if len(called) > 1 and name not in made)


@lru_cache(maxsize=2)
def optimizers(tree: Tree) -> Optimizers:
    """The optimizers of a file, found once."""
    return Optimizers(tree)
