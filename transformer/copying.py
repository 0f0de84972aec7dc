"""What a copy of a network would not follow: what else than parameters the training loop may change in it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeGuard

from transformer.aliases import is_in_place

if TYPE_CHECKING:
    from transformer.script import Script

GROWING = frozenset("append appendleft extend insert update pop popleft clear add remove discard sort reverse".split())
"""Methods that change a list, a deque, a dict or a set."""
STATELESS = tuple(
    f"{module}."
    for module in "torch numpy math typing collections functools itertools einops gym gymnasium tensordict".split()
)
"""Modules whose classes keep no state that calling them changes, or whose state is buffers, which a copy shares."""


class Changes:
    """What the code that the training loop runs changes, by the names of attributes."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.stored: dict[str, int] = {}
        """Attributes that are given another object, and the line."""
        self.touched: dict[str, int] = {}
        """Attributes whose object is changed in place, and the line."""
        self.bound: dict[str, int] = {}
        """Names of an outer scope that a function binds, and the line."""
        self.grown: dict[str, int] = {}
        """Names and attributes of containers that a method changes, and the line."""
        self.by_text: int | None = None
        """A line that sets names or attributes which only a run can tell."""
        self._methods = {m.name for cls in script.classes.values() for m in cls.body if isinstance(m, ast.FunctionDef)}
        for node in script.run_by_training:
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            self.stored.setdefault(node.attr, node.lineno)
            self._touch(node.value, node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            self._touch(node.value, node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if is_in_place(node.func.attr) or node.func.attr in GROWING:
                self._touch(node.func.value, node)
            if node.func.attr in GROWING - {"add", *self._methods}:  # tensors have an add() too
                self.grown.setdefault(ast.unparse(node.func.value).rpartition(".")[2], node.lineno)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.bound.update(dict.fromkeys(node.names, node.lineno))
        if isinstance(node, ast.Call) and (name := _set_by_name(node)) is not None:
            self.stored.setdefault(name, node.lineno)
        elif self.by_text is None and _sets_by_text(node):
            self.by_text = node.lineno

    def _touch(self, node: ast.expr, where: ast.expr) -> None:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute):
                self.touched.setdefault(node.attr, where.lineno)
            node = node.value
        if isinstance(node, ast.Name):
            self.touched.setdefault(node.id, where.lineno)


def _set_by_name(call: ast.Call) -> str | None:
    """The attribute that `setattr(x, "name", value)` sets."""
    name = call.args[1] if ast.unparse(call.func) == "setattr" and len(call.args) > 1 else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def _sets_by_text(node: ast.AST) -> TypeGuard[ast.expr]:
    """`setattr(x, name, value)`, `vars(x)["name"] = value`, `x.__dict__.update(...)`, `exec(...)` and the like."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return _is_namespace(node.value)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in GROWING | {"setdefault", "__setitem__"} and _is_namespace(node.func.value)
    return isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr", "exec")


def _is_namespace(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("vars", "globals", "locals")
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def obstacle(script: Script, constructor: ast.Call, used: Iterable[ast.ClassDef]) -> str | None:
    """Why a copy of what a constructor makes may not stay like the original.

    Args:
        script: the script.
        constructor: the call that makes the network.
        used: its class, first, and the classes of the file that it uses.
    """
    changes = Changes(script)
    if changes.by_text is not None:
        return f"line {changes.by_text} sets attributes by names that only a run can tell"
    for attribute in ("weight", "bias"):
        if attribute in changes.stored:
            return f"line {changes.stored[attribute]} gives a network another {attribute}"
    if "data" in changes.stored:
        return f"line {changes.stored['data']} gives a parameter other memory"
    for number, cls in enumerate(used):
        if (base := foreign_base(script, cls)) is not None:
            return f"{cls.name} is derived from {base}, which is not in this file"
        for attribute, value in attributes(cls):
            line = changes.stored.get(attribute) or (
                None if _is_module(script, value) else changes.touched.get(attribute)
            )
            if line is not None:
                return f"line {line} changes {attribute}, which {cls.name} keeps beside its parameters"
            if (used_class := foreign(script, value)) is not None:
                return (
                    f"{cls.name} uses {used_class}, which is not in this file and may keep state (line {value.lineno})"
                )
            kept = _given(cls, constructor, value) if number == 0 else None
            if kept is not None and (why := _kept(script, changes, kept)):
                return why
    return None


def attributes(cls: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """What `__init__` binds to attributes; buffers, which a copy shares, are not bound by assignment."""
    for method in cls.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            for node in ast.walk(method):
                if isinstance(node, ast.Assign):
                    targets = [t for part in node.targets for t in ast.walk(part)]
                    stored = (t for t in targets if isinstance(t, ast.Attribute) and isinstance(t.ctx, ast.Store))
                    yield from ((t.attr, node.value) for t in stored)
                elif isinstance(node, ast.AnnAssign) and node.value is not None:
                    if isinstance(node.target, ast.Attribute):
                        yield node.target.attr, node.value


def _is_module(script: Script, value: ast.expr) -> bool:
    """Whether a value is a module or a parameter of torch, whose tensors a copy shares."""
    return any(
        isinstance(n, (ast.Attribute, ast.Name)) and (script.qualified(n) or "").startswith("torch.nn.")
        for n in ast.walk(value)
    )


def foreign_base(script: Script, cls: ast.ClassDef) -> str | None:
    """A class of another file that a network is derived from."""
    for base in cls.bases:
        of_torch = (script.qualified(base) or "").startswith(("torch.nn.", "torch.distributions."))
        known = of_torch or ast.unparse(base) in script.classes
        if not known and ast.unparse(base) not in ("object", "ABC", "abc.ABC"):
            return ast.unparse(base)
    return None


def foreign(script: Script, value: ast.expr) -> str | None:
    """A class of another file that a value is made with."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            qualified = script.qualified(node.func)
            if qualified and qualified.rpartition(".")[2][:1].isupper() and not qualified.startswith(STATELESS):
                return qualified
    return None


def _given(cls: ast.ClassDef, constructor: ast.Call, value: ast.expr) -> ast.expr | None:
    """What the script gives to the constructor, where a value is a parameter of it kept as it is."""
    if not isinstance(value, ast.Name):
        return None
    for method in cls.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            params = [a.arg for a in method.args.args[1:]]
            if value.id in params and params.index(value.id) < len(constructor.args):
                return constructor.args[params.index(value.id)]
            return next((k.value for k in constructor.keywords if k.arg == value.id), None)
    return None


def _kept(script: Script, changes: Changes, given: ast.expr) -> str | None:
    """Whether an object that the network keeps is changed in the training loop."""
    text = ast.unparse(given)
    last = text.rpartition(".")[2]
    if not isinstance(given, (ast.Name, ast.Attribute)) or text in script.modules:
        return None
    if last in changes.touched:
        return f"line {changes.touched[last]} changes {text}, which the network keeps"
    for node in ast.walk(script.outermost):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == text:
            return f"line {node.lineno} calls {text}, which the network keeps, and may change it"
    return None
