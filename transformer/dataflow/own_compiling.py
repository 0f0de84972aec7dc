"""Code that a script compiles itself. It must stay unchanged, because changed code may compute differently when
compiled.

Compiled code draws from its own generator, fuses the statements of one function, and follows its calls.
"""

from __future__ import annotations

import ast

from transformer.facts.libraries import library_does
from transformer.syntax.query import last_written, names_in, walk
from transformer.syntax.tree import Tree


def own_compiling(tree: Tree) -> ast.expr | None:
    """The first place where the script compiles, scripts or traces code; None if there is none."""
    return min(_compiling(tree), key=lambda n: (n.lineno, n.col_offset), default=None)


def compiled_by_script(tree: Tree) -> list[ast.ClassDef | ast.FunctionDef]:
    """The functions and classes that the script may compile: those named where it compiles, and all that these name."""
    made = {t.id: names_in([s.value]) for s in tree.of(ast.Assign) for t in s.targets if isinstance(t, ast.Name)}
    defined: dict[str, list[ast.ClassDef | ast.FunctionDef]] = {}
    for cls in tree.of(ast.ClassDef):
        defined.setdefault(cls.name, []).append(cls)
    for function in tree.of(ast.FunctionDef):
        owner = tree.parents[function]
        defined.setdefault(function.name, []).append(owner if isinstance(owner, ast.ClassDef) else function)
    stack: list[ast.AST] = []
    for place in _compiling(tree):
        stmt = tree.statement(place)
        stack.append(stmt if isinstance(stmt, (ast.ClassDef, ast.FunctionDef)) else _whole(tree, place))
        around = tree.parents.get(stmt)
        stack += [around] if isinstance(around, ast.ClassDef) else []
    found: dict[ast.AST, None] = {}
    seen: set[str] = set()
    while stack:
        code = stack.pop()
        if isinstance(code, (ast.ClassDef, ast.FunctionDef)):
            if code in found:
                continue
            found[code] = None
        for node in walk(code):
            name = last_written(node)
            if name and name not in seen:
                seen.add(name)
                stack += defined.get(name, [])
                for other in made.get(name, set()) - seen:
                    stack += defined.get(other, [])
    return [code for code in found if isinstance(code, (ast.ClassDef, ast.FunctionDef))]


def _compiling(tree: Tree) -> list[ast.Name | ast.Attribute]:
    names: list[ast.Name | ast.Attribute] = [n for n in tree.of(ast.Name) if n.id in tree.imports]
    return [node for node in (*names, *tree.of(ast.Attribute)) if _is_compiling(tree, node)]


def _whole(tree: Tree, node: ast.AST) -> ast.AST:
    """The expression that names what is compiled: the call with its arguments; for an alias, the whole statement."""
    parent = tree.parents[node]
    if isinstance(node, ast.Attribute) and node.attr == "compile" and tree.qualified(node) is None:
        return node.value
    while isinstance(parent, ast.Attribute):
        parent = tree.parents[parent]
    return parent if isinstance(parent, ast.Call) else tree.statement(node)


def _is_compiling(tree: Tree, node: ast.Name | ast.Attribute) -> bool:
    """Whether an expression names a compiling function: one of torch, or a module's method compile()."""
    name = tree.qualified(node) or ""
    if library_does(name) == "compiles":
        return True
    call = tree.parents[node]
    method = isinstance(node, ast.Attribute) and node.attr == "compile" and not name
    return method and isinstance(call, ast.Call) and call.func is node and isinstance(tree.parents[call], ast.Expr)
