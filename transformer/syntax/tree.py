"""A Python file as an indexed tree: parents, spans, imports, scopes.

It is read-only, has positions, and is cheap to build for every state of a script. Edits (rewrite.py) are made on a
LibCST tree, which is paired with this tree statement by statement.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from transformer.syntax.names import Names
from transformer.syntax.query import (
    children,
    first_parameter,
    is_class_method,
    names_in,
    pairwise,
    parameters,
    parse,
    unparse,
    walk,
)

Loop: TypeAlias = ast.For | ast.While
Scope: TypeAlias = ast.Module | ast.FunctionDef
N = TypeVar("N", bound=ast.AST)


class Tree:
    """A Python file, indexed.

    Raises:
        SyntaxError, ValueError: the text is not Python.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self.root = parse(code)

    # --- the shape of the tree -----------------------------------------------------------------------------

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of every node, in breadth-first order."""
        found: dict[ast.AST, ast.AST] = {}
        nodes: list[ast.AST] = [self.root]
        for node in nodes:  # grows during the loop
            below = children(node)
            nodes += below
            for child in below:
                found[child] = node
        return found

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree."""
        return (self.root, *self.parents)

    @cached_property
    def _of_type(self) -> dict[type[ast.AST], list[Any]]:
        found: dict[type[ast.AST], list[Any]] = {}
        for node in self.nodes:
            found.setdefault(type(node), []).append(node)
        return found

    def of(self, kind: type[N]) -> Sequence[N]:
        """The nodes of a type, in the order of `nodes`."""
        return self._of_type.get(kind, ())

    @cached_property
    def stores(self) -> dict[tuple[type[ast.AST], str], list[ast.Name | ast.Attribute]]:
        """The names and attributes that are bound or deleted, by node type and name."""
        found: dict[tuple[type[ast.AST], str], list[ast.Name | ast.Attribute]] = {}
        nodes: list[ast.Name | ast.Attribute] = [*self.of(ast.Name), *self.of(ast.Attribute)]
        for node in nodes:
            if not isinstance(node.ctx, ast.Load):
                found.setdefault((type(node), node.id if isinstance(node, ast.Name) else node.attr), []).append(node)
        return found

    def attributes_set(self, name: str | None = None) -> list[ast.Attribute]:
        """Where an attribute of this name, or any attribute, is set or deleted, for any object."""
        if name is None:
            return [node for node in self.of(ast.Attribute) if not isinstance(node.ctx, ast.Load)]
        return [node for node in self.stores.get((ast.Attribute, name), []) if isinstance(node, ast.Attribute)]

    @cached_property
    def assigned(self) -> dict[ast.expr, ast.expr]:
        """Every target of an assignment with its value."""
        return dict(pair for stmt in self.of(ast.Assign) for pair in pairwise(stmt))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def never_both(self, one: ast.AST, other: ast.AST) -> bool:
        """Whether two nodes are in the two branches of one `if`."""
        around = {one, *self.ancestors(one)}, {other, *self.ancestors(other)}
        common = (n for n in around[0] & around[1] if isinstance(n, ast.If))
        return any(
            any(s in first for s in n.body) and any(s in second for s in n.orelse)
            for n in common
            for first, second in (around, around[::-1])
        )

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that contains `node` (`node` itself, if it is one)."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def lets_errors_pass(self, block: ast.With | ast.AsyncWith) -> bool:
        """Whether a block's context managers are torch's or files, which suppress no error; others may."""
        made = (i.context_expr.func if isinstance(i.context_expr, ast.Call) else i.context_expr for i in block.items)
        return all(
            (self.qualified(manager) or "").startswith("torch.") or self.names.builtin(manager) == "open"
            for manager in made
        )

    def block(self, stmt: ast.stmt) -> list[ast.stmt]:
        """The statement list that contains `stmt`."""
        parent = self.parents[stmt]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and stmt in block:
                return block
        raise AssertionError("a statement is always in a block")

    def scope_of(self, node: ast.AST) -> Scope:
        """The function or module whose scope `node` is in."""
        for outer in self.ancestors(node):
            if isinstance(outer, (ast.Module, ast.FunctionDef)):
                return outer
        return self.root

    def loops_around(self, node: ast.AST) -> list[Loop]:
        """The loops around `node` in its own scope, innermost first."""
        found: list[Loop] = []
        for outer in self.ancestors(node):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                break
            if isinstance(outer, (ast.For, ast.While)):
                found.append(outer)
        return found

    # --- the text ------------------------------------------------------------------------------------------

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source text of `node`."""
        return self.splice(node, ())

    def splice(self, owner: ast.expr | ast.stmt, edits: Iterable[tuple[ast.expr, str]]) -> str:
        """The text of `owner` with the texts of some expressions inside it replaced."""
        start = self.offset(owner.lineno, owner.col_offset)
        assert owner.end_lineno is not None and owner.end_col_offset is not None
        text = self.code[start : self.offset(owner.end_lineno, owner.end_col_offset)]
        for node, new in sorted(edits, key=lambda e: (e[0].lineno, e[0].col_offset), reverse=True):
            assert node.end_lineno is not None and node.end_col_offset is not None
            begin = self.offset(node.lineno, node.col_offset) - start
            end = self.offset(node.end_lineno, node.end_col_offset) - start
            text = text[:begin] + new + text[end:]
        text = _undent(text, self.statement(owner).col_offset)
        # The operands of an operator may be on several lines only inside brackets.
        loose = isinstance(owner, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp, ast.Attribute, ast.Call))
        return f"({text})" if loose and "\n" in text and not _is_bracketed(text) else text

    @cached_property
    def _starts(self) -> list[int]:
        starts, total = [], 0
        for line in ast_lines(self.code):
            starts.append(total)
            total += len(line)
        return [*starts, total]

    def offset(self, lineno: int, col_offset: int) -> int:
        """The character index of an `ast` position (whose columns count UTF-8 bytes)."""
        start = self._starts[lineno - 1]
        line = self.code[start : self._starts[lineno]]
        if line.isascii():
            return start + col_offset
        return start + len(line.encode()[:col_offset].decode())

    # --- names and what they refer to ----------------------------------------------------------------------

    @cached_property
    def names(self) -> Names:
        """Taken names and fresh names."""
        return Names(self._of_type)

    @cached_property
    def imports(self) -> dict[str, str]:
        """Local names to qualified names, for every import in the file."""
        found: dict[str, str] = {}
        nodes: list[ast.Import | ast.ImportFrom] = [*self.of(ast.Import), *self.of(ast.ImportFrom)]
        for node in sorted(
            nodes, key=lambda n: (len(list(self.ancestors(n))), n.lineno, n.col_offset)
        ):  # as in `nodes`
            if isinstance(node, ast.Import):
                for a in node.names:
                    found[a.asname or a.name.split(".")[0]] = a.name if a.asname else a.name.split(".")[0]
            elif node.module and not node.level:
                for a in node.names:
                    found[a.asname or a.name] = f"{node.module}.{a.name}"
        return found

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The last parts of all names, through imports: `shuffle` for `np.random.shuffle` and `x.shuffle`."""
        names = (self.imports.get(n.id, n.id).rpartition(".")[2] for n in self.of(ast.Name))
        return frozenset((*names, *(n.attr for n in self.of(ast.Attribute))))

    @cached_property
    def asked(self) -> frozenset[str]:
        """The names of which an attribute is used, `x` for `x.size`."""
        return frozenset(n.value.id for n in self.of(ast.Attribute) if isinstance(n.value, ast.Name))

    def qualified(self, node: ast.AST) -> str | None:
        """The qualified name of an expression, through imports: `optim.Adam` is torch.optim.Adam.

        None if the file replaces it: after `np.random.shuffle = counted`, no code reads numpy's own function.
        """
        name = self._name_through_imports(node)
        return None if name in self._replaced and isinstance(getattr(node, "ctx", None), ast.Load) else name

    @cached_property
    def _replaced(self) -> frozenset[str | None]:
        """The functions and classes of libraries that the file replaces."""
        named = [*map(self._name_through_imports, self.attributes_set())]
        for call in self.of(ast.Call):
            if isinstance(call.func, ast.Name) and call.func.id in ("setattr", "delattr") and len(call.args) > 1:
                name = call.args[1]
                if isinstance(name, ast.Constant) and (module := self._name_through_imports(call.args[0])) is not None:
                    named.append(f"{module}.{name.value!s}")
        return frozenset(filter(None, named))

    def _name_through_imports(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return self.imports.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        owner = self._name_through_imports(node.value)
        return None if owner is None else f"{owner}.{node.attr}"

    @cached_property
    def called(self) -> dict[str, list[ast.Call]]:
        """The calls of every imported function, by its qualified name."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.of(ast.Call):
            found.setdefault(self.qualified(call.func) or "", []).append(call)
        return found

    def last_name(self, node: ast.AST) -> str:
        """The attribute's name, or the last part of an imported name's qualified name; empty for other nodes."""
        return node.attr if isinstance(node, ast.Attribute) else (self.qualified(node) or "").rpartition(".")[2]

    def calls(self, node: ast.AST, *names: str) -> bool:
        """Whether `node` is a call of one of these qualified functions."""
        return isinstance(node, ast.Call) and self.qualified(node.func) in names

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes of the file, by name."""
        return {n.name: n for n in self.of(ast.ClassDef)}

    def used_classes(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """A class, and the classes of the file that it refers to, directly or indirectly."""
        seen, stack = {cls.name: cls}, [cls]
        while stack:
            for name in sorted(names_in([stack.pop()]) & set(self.classes) - set(seen)):
                seen[name] = self.classes[name]
                stack.append(self.classes[name])
        return list(seen.values())

    def lineage(self, cls: ast.ClassDef) -> list[ast.ClassDef]:
        """A class and its base classes in the file."""
        found = [cls]
        for one in found:  # grows during the loop
            bases = (self.classes.get(unparse(base)) for base in one.bases)
            found += [base for base in bases if base is not None and base not in found]
        return found

    def bases(self, cls: ast.ClassDef) -> list[ast.expr]:
        """The bases of a class, except Python's own that do not affect its methods: object, ABC."""
        return [
            base for base in cls.bases if self.names.builtin(base) != "object" and self.qualified(base) != "abc.ABC"
        ]

    def class_of_self(self, value: ast.expr, scope: Scope) -> ast.ClassDef | None:
        """The class of `self`, if `value` is the name of the object in a method `scope`; None for other values."""
        owner = self.parents.get(scope)
        if not isinstance(owner, ast.ClassDef) or not isinstance(scope, ast.FunctionDef) or is_class_method(scope):
            return None
        return owner if isinstance(value, ast.Name) and value.id == first_parameter(scope) else None

    def constructor(self, value: ast.expr) -> ast.Call | None:
        """The call that makes an instance of a class of this file: `Agent(envs)` in `Agent(envs).to(device)`."""
        for node in walk(value):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.classes:
                return node
        return None

    @cached_property
    def _defined(self) -> tuple[dict[str, list[ast.FunctionDef]], dict[str, list[ast.FunctionDef]]]:
        """All functions that are not methods, in any scope, and all methods; by name."""
        found: tuple[dict[str, list[ast.FunctionDef]], dict[str, list[ast.FunctionDef]]] = {}, {}
        for function in self.of(ast.FunctionDef):
            found[isinstance(self.parents[function], ast.ClassDef)].setdefault(function.name, []).append(function)
        return found

    def functions(self, name: str) -> Sequence[ast.FunctionDef]:
        """The functions with a name that are not methods, in any scope."""
        return self._defined[False].get(name, ())

    def methods(self, name: str) -> Sequence[ast.FunctionDef]:
        """The methods with a name, in any class."""
        return self._defined[True].get(name, ())

    @cached_property
    def decides_truth(self) -> bool:
        """Whether a class of the file defines the truth of its objects."""
        named = (getattr(n, "name", None) or getattr(n, "id", None) or getattr(n, "attr", None) for n in self.nodes)
        return not {"__bool__", "__len__"}.isdisjoint(named)

    @cached_property
    def _module_functions(self) -> dict[str, ast.FunctionDef]:
        """The functions that the module defines exactly once, by name."""
        found = [n for n in self.root.body if isinstance(n, ast.FunctionDef)]
        names = [f.name for f in found]
        return {f.name: f for f in found if names.count(f.name) == 1}

    def function_called(self, call: ast.Call) -> ast.FunctionDef | None:
        """The function of this file that a call certainly runs by name; None if it is not certain."""
        if not isinstance(call.func, ast.Name):
            return None
        name = call.func.id
        function = self._module_functions.get(name)
        if function is None or (name in self.rebound and not self._only_imported_above(function, call)):
            return None
        around = (n for n in self.ancestors(call) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))
        return None if any(name in parameters(f) for f in around) else function

    def helper_called(self, call: ast.Call) -> ast.FunctionDef | None:
        """As `function_called`, but also a function nested in one around the call, whose variables it may read."""
        if (function := self.function_called(call)) is not None or not isinstance(call.func, ast.Name):
            return function
        for outer in self.ancestors(call):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                found = [n for n in walk(outer) if _binds(n, call.func.id)]
                if found:
                    only = found[0] if len(found) == 1 else None
                    return only if isinstance(only, ast.FunctionDef) and self.parents[only] is outer else None
        return None

    def _only_imported_above(self, function: ast.FunctionDef, call: ast.Call) -> bool:
        """Whether a function's name is only imported above its definition in the module, and a call is below the
        definition.

        A call inside another function does not count, because that function may have been called in between.
        """
        name = function.name
        if name in self.bound or len(self.functions(name)) > 1 or name in self.classes or "*" in self._imported:
            return False
        imports = self._imported[name]
        above = all(stmt in self.root.body and stmt.lineno < function.lineno for stmt in imports)
        return above and self.scope_of(call) is self.root and call.lineno > function.lineno

    @cached_property
    def rebound(self) -> frozenset[str]:
        """Names that are bound or deleted, in any scope, by anything but one definition or a parameter."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        defined = [n.name for n in self.nodes if isinstance(n, kinds) and not isinstance(self.parents[n], ast.ClassDef)]
        twice = {name for name in defined if defined.count(name) > 1}
        return self.bound | twice | self._imported.keys()

    @cached_property
    def _imported(self) -> dict[str, list[ast.stmt]]:
        """The names that imports bind, in any scope, with the import statements."""
        found: dict[str, list[ast.stmt]] = {}
        for alias in self.of(ast.alias):
            found.setdefault((alias.asname or alias.name).split(".")[0], []).append(self.statement(alias))
        return found

    @cached_property
    def only_imported(self) -> frozenset[str]:
        """Names imported at the top level, with one meaning, and bound by nothing else in any scope."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        others = {n.name for n in self.nodes if isinstance(n, kinds)} | {a.arg for a in self.of(ast.arg)} | self.bound
        meanings: dict[str, set[str]] = {}
        for alias in self.of(ast.alias):
            stmt, name = self.statement(alias), (alias.asname or alias.name).split(".")[0]
            module = f"{stmt.module}." if isinstance(stmt, ast.ImportFrom) else ""
            whole = alias.name if module or alias.asname else name
            meanings.setdefault(name, set()).add(module + whole if self.scope_of(stmt) is self.root else "")
        return frozenset(n for n, found in meanings.items() if len(found) == 1 and "" not in found and n not in others)

    @cached_property
    def bound(self) -> frozenset[str]:
        """Names that are bound or deleted, in any scope, by anything but a definition, an import or a parameter."""
        found = {n.id for n in self.of(ast.Name) if not isinstance(n.ctx, ast.Load)}
        found |= {n.name for n in self.of(ast.ExceptHandler) if n.name}
        found |= {n.name for n in self.of(ast.MatchAs) if n.name} | {n.name for n in self.of(ast.MatchStar) if n.name}
        return frozenset(found | {n.rest for n in self.of(ast.MatchMapping) if n.rest})

    @cached_property
    def declared(self) -> frozenset[str]:
        """Names that any function declares `global` or `nonlocal`."""
        outside = [n for s in self.of(ast.Global) for n in s.names]
        return frozenset(outside + [n for s in self.of(ast.Nonlocal) for n in s.names])

    def definition(self, name: str) -> ast.FunctionDef:
        """The function that a transform extracted under this name, or the method if it is `Class.method`."""
        cls, _, method = name.rpartition(".")
        if cls:
            return next(m for m in self.classes[cls].body if isinstance(m, ast.FunctionDef) and m.name == method)
        functions = (n for n in self.of(ast.FunctionDef) if not isinstance(self.parents[n], ast.ClassDef))
        return next(n for n in functions if n.name == name)  # a method may have the same name


def first_line(stmt: ast.stmt) -> int:
    """The line of a statement's first decorator, or its own."""
    return min([d.lineno for d in getattr(stmt, "decorator_list", ())], default=stmt.lineno)


def ast_lines(code: str) -> list[str]:
    """Split into lines as Python's parser does: at newlines only, not at form feeds."""
    return [line for line in re.findall(r"[^\r\n]*(?:\r\n|\n|\r|$)", code) if line]


def _is_bracketed(text: str) -> bool:
    """Whether an expression parses on its own although it spans several lines."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _undent(text: str, column: int) -> str:
    """Move a statement's continuation lines left by as much as its first line, so that LibCST can re-indent them."""
    lines = ast_lines(text)
    pad = " " * column
    if all(line.startswith(pad) or not line.strip() for line in lines[1:]):
        if '"""' not in text and "'''" not in text:
            return "".join([lines[0], *(line[column:] if line.strip() else line for line in lines[1:])])
    return text


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a node itself binds, deletes or declares a name."""
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return name in node.names
    bound = node.arg if isinstance(node, ast.arg) else getattr(node, "asname", None) or getattr(node, "name", None)
    return bound == name or getattr(node, "rest", None) == name
