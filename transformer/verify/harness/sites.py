"""Finds places in training with several possible outcomes, and routes them through hooks, without moving a line."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from .instrument import HOOKS_NAME
from .training import training_code

CONDITION = "the condition"
"""The hook of a condition: takes the site's number and the value, returns its truth."""
CALL = "a watched call"
"""The hook of a call: takes the site's number and the function, returns the function to call instead."""
REACHED = "a block"
"""The hook of a block: takes the site's number."""

_LOWER, _UPPER = "lower bound", "upper bound"
_CLIPS = frozenset("clamp clamp_ clip clip_ clamp_min clamp_min_ clamp_max clamp_max_ relu relu_".split())
_BOUNDS = (frozenset({"min", "a_min"}), frozenset({"max", "a_max"}))
_CHOICES = frozenset("max min maximum minimum".split())
_NORMS = frozenset("clip_grad_norm_ clip_grad_value_".split())
_LEAVE = (ast.Break, ast.Continue, ast.Return, ast.Raise)
_LONGEST = 90
"""The maximum length of a site's text."""


@dataclass
class Site:
    """One place and its possible outcomes."""

    kind: str
    """condition, clip, choice, where, norm, parts or block."""
    line: int
    text: str
    """The code there, shortened."""
    outcomes: tuple[str, ...]
    """The possible outcomes."""
    guard: tuple[int, str] | None
    """The innermost condition around it, by its number, and the outcome that leads here."""
    leaves: str = ""
    """Which of break, continue, return and raise are under a condition."""
    method: bool = False
    """Whether the call is to a method of the first operand."""
    seen: set[str] = field(default_factory=set)
    """The outcomes that were seen; `reached` if a call was made."""
    amounts: tuple[float, float] | None = None
    """Kind parts: the number of elements divided, and the size of a part. Kind norm: the smallest and the largest."""


def route_sites(tree: ast.Module) -> list[Site]:
    """Route the sites of the training code through the hooks of this module; returns the sites by number.

    A script that passes functions to a compiler is left alone, because hooks would change what is compiled.
    """
    if any(isinstance(node, ast.Attribute) and ast.unparse(node) in _COMPILERS for node in ast.walk(tree)):
        return []
    router = _Router(training_code(tree), _imported(tree))
    router.visit(tree)
    return router.sites


_COMPILERS = frozenset(("torch.compile", "torch.jit.script", "torch.jit.trace", "torch.vmap", "torch.func.vmap"))


def _imported(tree: ast.Module) -> frozenset[str]:
    """The names that imports bind."""
    imports = (n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)))
    return frozenset(alias.asname or alias.name.partition(".")[0] for n in imports for alias in n.names)


class _Router(ast.NodeTransformer):
    def __init__(self, training: set[ast.AST], imported: frozenset[str]) -> None:
        self.sites: list[Site] = []
        self._training = training
        self._imported = imported
        self._guard: tuple[int, str] | None = None

    def _add_site(self, kind: str, node: ast.AST, text: str, outcomes: tuple[str, ...], **more: object) -> int:
        short = " ".join(text.split())
        short = short if len(short) <= _LONGEST else f"{short[: _LONGEST - 3]}..."
        self.sites.append(Site(kind, getattr(node, "lineno", 0), short, outcomes, self._guard, **more))  # type: ignore[arg-type]
        return len(self.sites) - 1

    def _under(self, guard: tuple[int, str], nodes: list[ast.AST]) -> list[ast.AST]:
        before, self._guard = self._guard, guard
        visited = [self.visit(node) for node in nodes]
        self._guard = before
        return visited

    def _condition_site(self, test: ast.expr, text: str, leaves: str = "") -> tuple[int, ast.expr]:
        number = self._add_site("condition", test, text, ("true", "false"), leaves=leaves)
        return number, _hooked(CONDITION, number, [self.visit(test)], test)

    def visit_If(self, node: ast.If) -> ast.AST:
        if node not in self._training:
            return self.generic_visit(node)
        leaving = [type(s).__name__.lower() for s in (*node.body, *node.orelse) if isinstance(s, _LEAVE)]
        number, node.test = self._condition_site(node.test, f"if {ast.unparse(node.test)}", " and ".join(leaving))
        node.body = self._under((number, "true"), list(node.body))  # type: ignore[assignment]
        node.orelse = self._under((number, "false"), list(node.orelse))  # type: ignore[assignment]
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        if node in self._training and not isinstance(node.test, ast.Constant):
            number, node.test = self._condition_site(node.test, f"while {ast.unparse(node.test)}")
            node.body = self._under((number, "true"), list(node.body))  # type: ignore[assignment]
            node.orelse = self._under((number, "false"), list(node.orelse))  # type: ignore[assignment]
            return node
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if node not in self._training:
            return self.generic_visit(node)
        number, node.test = self._condition_site(node.test, f"... if {ast.unparse(node.test)} else ...")
        (node.body,) = self._under((number, "true"), [node.body])  # type: ignore[assignment]
        (node.orelse,) = self._under((number, "false"), [node.orelse])  # type: ignore[assignment]
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        return self._site_of_branch(node, f"except {ast.unparse(node.type) if node.type else ''}")

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        return self._site_of_branch(node, f"case {ast.unparse(node.pattern)}")

    def _site_of_branch(self, node: ast.ExceptHandler | ast.match_case, text: str) -> ast.AST:
        first = node.body[0]
        if first not in self._training:
            return self.generic_visit(node)
        number = self._add_site("block", first if isinstance(node, ast.match_case) else node, text, ("taken",))
        node.body = self._under((number, "taken"), list(node.body))  # type: ignore[assignment]
        node.body.insert(0, ast.copy_location(ast.Expr(_hooked(REACHED, number, [], first)), first))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        found = self._site(node) if node in self._training else None
        self.generic_visit(node)
        if found is not None:
            node.func = _hooked(CALL, found, [node.func], node.func)
        return node

    def _site(self, node: ast.Call) -> int | None:
        """The number of the call's site, if it is watched."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        method = isinstance(node.func, ast.Attribute) and not self._of_module(node.func)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return None
        operands = ([node.func] if method else []) + node.args
        kind, outcomes = _ways(name, node, operands, isinstance(node.func, ast.Name))
        return self._add_site(kind, node, ast.unparse(node), outcomes, method=method) if kind else None

    def _of_module(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._imported


def _ways(name: str, node: ast.Call, operands: list[ast.expr], plain: bool) -> tuple[str, tuple[str, ...]]:
    """The kind of a call's site and its possible outcomes; empty if the call is no site.

    Args:
        name: the last part of the called name.
        node: the call.
        operands: the positional arguments, including the object of a method.
        plain: whether the called name has no dots.
    """
    keywords = {k.arg for k in node.keywords}
    if name in _CLIPS:
        return "clip", _bounds(name, node, operands)
    if name in _CHOICES and len(operands) > 1 and not keywords & {"dim", "axis", "key", "keepdim"}:
        if name in ("max", "min") and not plain and isinstance(operands[1], (ast.Constant, ast.UnaryOp)):
            return "", ()  # along a dimension
        return "choice", tuple(f"argument {i}" for i in range(1, len(operands) + 1))
    if name == "where" and len(operands) == 3:
        return "where", ("true", "false")
    if name in _NORMS:
        return "norm", ("clipped",)
    if (name == "range" and plain and len(operands) == 3) or (name == "split" and len(operands) == 2):
        return "parts", ()
    return "", ()


def _bounds(name: str, node: ast.Call, operands: list[ast.expr]) -> tuple[str, ...]:
    given: list[ast.expr | None] = [None, None]
    for side, keywords in enumerate(_BOUNDS):
        if len(operands) > side + 1:
            given[side] = operands[side + 1]
        given[side] = next((k.value for k in node.keywords if k.arg in keywords), given[side])
    there = [g is not None and not (isinstance(g, ast.Constant) and g.value is None) for g in given]
    if "min" in name or "relu" in name:
        return (_LOWER,)
    if "max" in name:
        return (_UPPER,)
    return tuple(bound for bound, known in zip((_LOWER, _UPPER), there, strict=True) if known)


def _hooked(hook: str, number: int, values: list[ast.expr], place: ast.expr | ast.stmt) -> ast.Call:
    """A call of a hook with a site's number and further values, placed where the replaced node was."""
    function = ast.Subscript(ast.Name(HOOKS_NAME, ast.Load()), ast.Constant(hook), ast.Load())
    return ast.copy_location(ast.Call(function, [ast.Constant(number), *values], []), place)
