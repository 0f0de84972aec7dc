"""Which options of a script an expression is computed from.

Names, attributes, properties and parameters are followed by name, ignoring control flow: the result only chooses
arguments to try, and no verdict depends on it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from inspect import Parameter, Signature

from transformer.verify.options import Option

_DEEP = 12
"""The maximum number of names to follow."""
_ARITHMETIC = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


class Origins:
    """The assignments of one script."""

    def __init__(self, tree: ast.Module, options: Iterable[Option]) -> None:
        self._options = {option.attribute: option for option in options}
        self._values: defaultdict[str, list[ast.expr]] = defaultdict(list)
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        fields = {stmt for cls in classes for stmt in cls.body}  # of settings, with defaults
        signatures = dict(_signatures(tree))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node not in fields:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self._assign(target, node.value)
            elif isinstance(node, ast.FunctionDef) and node in fields and _is_property(node):
                self._values["." + node.name] += [
                    s.value for s in ast.walk(node) if isinstance(s, ast.Return) and s.value is not None
                ]
            elif isinstance(node, ast.Call) and (signature := signatures.get(_called_name(node.func))):
                self._pass(signature, node)

    def expressions(self, value: ast.expr, depth: int = _DEEP) -> Iterator[ast.expr]:
        """Everything that an expression's value is computed from, itself first, except called functions."""
        yield value
        for assigned in (
            {v: None for node in _names_in(value) for v in self._values.get(_key(node), ())} if depth else ()
        ):
            yield from self.expressions(assigned, depth - 1)

    def options(self, value: ast.expr) -> list[Option]:
        """The options that an expression's value is computed from, in the order in which they are found."""
        found = {
            self._options[node.attr]: None
            for part in self.expressions(value)
            for node in _names_in(part)
            if isinstance(node, ast.Attribute) and node.attr in self._options and _key(node) not in self._values
        }
        return list(found)

    def by_arithmetic(self, value: ast.expr) -> list[Option]:
        """The options of a value, if only arithmetic leads from them to the value; otherwise none."""
        plain = all(isinstance(n, _ARITHMETIC) for v in self.expressions(value) for n in _value_nodes(v))
        return self.options(value) if plain else []

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, (ast.Name, ast.Attribute)) and value is not None:
            if not (isinstance(value, ast.Attribute) and _key(value) == _key(target)):  # self.lr = args.lr
                self._values[_key(target)].append(value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            for i, part in enumerate(target.elts):
                self._assign(part, parts[i] if len(parts) == len(target.elts) else value)

    def _pass(self, signature: Signature, call: ast.Call) -> None:
        """Note which arguments a call passes for which parameters, as far as possible.

        Unlike `bind_arguments` in syntax/, which proofs need, this does not know the function or give up on partial
        bindings: any function with the name may be meant, and the script is known to run.
        """
        if any(isinstance(a, ast.Starred) for a in call.args):
            return
        try:
            bound = signature.bind_partial(*call.args, **{k.arg: k.value for k in call.keywords if k.arg})
        except TypeError:  # another function of this name
            return
        for name, value in bound.arguments.items():
            if isinstance(value, ast.expr) and not (isinstance(value, ast.Name) and value.id == name):
                self._values[name].append(value)


def _signatures(tree: ast.Module) -> Iterator[tuple[str, Signature]]:
    """The parameters of the file's functions, by name; a constructor's, by the name of its class."""
    owners = {s: c.name for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for s in c.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            plain = (*node.args.posonlyargs, *node.args.args)[node in owners :]
            params = [Parameter(a.arg, Parameter.POSITIONAL_OR_KEYWORD) for a in plain]
            params += [Parameter(a.arg, Parameter.KEYWORD_ONLY) for a in node.args.kwonlyargs]
            yield owners[node] if node in owners and node.name == "__init__" else node.name, Signature(params)


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(d) for d in node.decorator_list)


def _called_name(function: ast.expr) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _key(node: ast.expr) -> str:
    """A name unchanged, an attribute with a leading dot."""
    return f".{node.attr}" if isinstance(node, ast.Attribute) else str(getattr(node, "id", ""))


def _value_nodes(value: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression, except the objects of attributes and called functions."""
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("float", "int"):
            waiting[:0] = node.args
            continue
        yield node
        if isinstance(node, ast.Call):
            owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            waiting[:0] = [*owner, *node.args, *(k.value for k in node.keywords)]
        elif not isinstance(node, ast.Attribute):
            waiting[:0] = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr_context)]


def _names_in(value: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    """The names and attributes that an expression reads."""
    return (node for node in _value_nodes(value) if isinstance(node, (ast.Name, ast.Attribute)))
