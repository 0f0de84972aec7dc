"""The training code of a script: the loop around environment and optimizer steps, and the functions it calls."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

_OF_ENVIRONMENTS = frozenset("step reset close render".split())
"""Methods of environments. A file's own environments are not part of training."""
_NETWORKS = (".forward", ".__call__")
"""Methods that run when an object is called."""

_Functions = Mapping[str, list[ast.FunctionDef]]


def training_code(tree: ast.Module) -> set[ast.AST]:
    """All nodes of the loops that both step an environment and run a backward pass, and of the code that they call.

    Functions and methods of the file are followed by name, for any object. Empty if there is no such loop.
    """
    functions = _functions(tree)
    loops = [loop for loop in ast.walk(tree) if isinstance(loop, (ast.For, ast.While)) and _trains(loop, functions)]
    inner = {node for loop in loops for node in ast.walk(loop) if node is not loop}
    called = _with_called([loop for loop in loops if loop not in inner], functions)
    return {node for part in called for node in ast.walk(part)}


def _functions(tree: ast.Module) -> _Functions:
    """The file's functions by name, and its methods by name with a leading dot; a class stands for its constructor."""
    found: defaultdict[str, list[ast.FunctionDef]] = defaultdict(list)
    owners = {stmt: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for stmt in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            owner = owners.get(node)
            found[node.name if owner is None else owner.name if node.name == "__init__" else f".{node.name}"].append(
                node
            )
    return found


def _trains(loop: ast.AST, functions: _Functions) -> bool:
    calls = [call for part in _with_called([loop], functions) for call in _calls(part)]
    steps_environment = any(_called_name(call) == "step" and (call.args or call.keywords) for call in calls)
    return steps_environment and any(_called_name(call) == "backward" for call in calls)


def _with_called(parts: Iterable[ast.AST], functions: _Functions) -> list[ast.AST]:
    """Parts of a script and the functions that they call, directly or through others."""
    found = dict.fromkeys(parts)
    waiting = list(found)
    while waiting:
        for call in _calls(waiting.pop()):
            for function in _functions_called(call, functions):
                if function not in found:
                    found[function] = None
                    waiting.append(function)
    return list(found)


def _calls(part: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(part) if isinstance(node, ast.Call))


def _called_name(call: ast.Call) -> str:
    """The last part of the called name."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _functions_called(call: ast.Call, functions: _Functions) -> Iterator[ast.FunctionDef]:
    name = _called_name(call)
    if isinstance(call.func, ast.Attribute):
        if name in _OF_ENVIRONMENTS:
            return
        name = f".{name}"
    if name in functions:
        yield from functions[name]
    else:
        for method in _NETWORKS:
            yield from functions.get(method, ())
