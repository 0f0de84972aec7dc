"""How often code runs: once per environment step or minibatch (hot), once per iteration, or rarely.

Loops are recognised by what they step, as for a conversion, but they need no particular order. A script that trains in
one flat loop, or in functions and methods that call each other, has hot code too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from transformer.recognition.roles import Roles
from transformer.syntax.query import method, names_in, walk
from transformer.syntax.tree import Loop, Tree

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Role = Literal["environment", "update", "inner", "iteration"]


@dataclass(frozen=True)
class Heat:
    """How often a piece of code runs in training."""

    role: Role
    """`iteration` is not hot: it runs once per rollout, or once per epoch."""
    line: int
    """The line of the loop."""
    function: str | None = None
    """The function that contains the code, if the loop is around a call of this function."""

    @property
    def hot(self) -> bool:
        """Whether the code runs once per environment step, per minibatch, or per iteration of an inner loop."""
        return self.role != "iteration"

    @property
    def where(self) -> str:
        """For a message: where the code runs."""
        loop = {
            "environment": "the loop that steps the environment",
            "update": "the minibatch loop",
            "inner": "a loop inside the training loop",
            "iteration": "the training loop",
        }[self.role]
        inside = f"in {self.function}(), called by" if self.function else "in"
        return f"{inside} {loop} (line {self.line})"


class Heats:
    """The heat of every node of a script."""

    def __init__(self, roles: Roles) -> None:
        self._roles, self._tree = roles, roles.tree
        self._known: dict[ast.AST, Heat | None] = {}

    def of(self, node: ast.AST) -> Heat | None:
        """How often `node` is evaluated in training; None if it is not part of training, or runs rarely."""
        if node not in self._known:
            self._known[node] = None if self._seldom(node) else self._heat_around(node)
        return self._known[node]

    def loops(self, node: ast.AST) -> list[Loop]:
        """The loops in the scope of `node` that evaluate it at every iteration, innermost first."""
        return [x for x in self._tree.loops_around(node) if not (isinstance(x, ast.For) and self._heads(x, node))]

    def hot_loops(self) -> Iterator[tuple[Loop, Heat]]:
        """The outermost hot loops, each with its heat."""
        for node in self._tree.nodes:
            if isinstance(node, (ast.For, ast.While)):
                heat = self._loop(node)
                around = self._heat_around(node)
                if heat is not None and heat.hot and not (around is not None and around.hot):
                    yield node, heat

    def functions(self) -> dict[Function, Heat]:
        """The functions of the file that training calls."""
        return self._heat_of_called

    def entered(self, call: ast.Call) -> list[Function]:
        """The functions and methods of the file that a call may enter."""
        return next((entered for one, entered in self._calls_that_enter if one is call), [])

    def calls_of(self, function: Function) -> list[ast.Call]:
        """The calls that may enter a function of the file."""
        return [call for call, entered in self._calls_that_enter if function in entered]

    def _heat_around(self, node: ast.AST) -> Heat | None:
        loops = self.loops(node)
        heats = [h for h in map(self._loop, loops) if h is not None]
        hot = [h for h in heats if h.hot]
        if hot:
            return hot[0]
        function = self._function(node)
        called = self._heat_of_called.get(function) if function is not None else None
        if called is not None and called.hot:
            return called
        return heats[0] if heats else called

    def _loop(self, loop: Loop) -> Heat | None:
        """The heat of a loop's body, judged by the loop and its place."""
        if loop in self._direct["environment"] and self._trains(loop):
            return Heat("environment", loop.lineno)
        if loop in self._direct["update"]:
            return Heat("update", loop.lineno)
        if not self._trains(loop):
            return None
        if loop in self._holding["environment"] or loop in self._holding["update"]:
            return Heat("iteration", loop.lineno)
        return Heat("inner", loop.lineno) if _is_counted(loop) else None

    def _trains(self, loop: Loop) -> bool:
        """Whether a loop is inside a loop that steps an optimizer, or in a function that such a loop calls."""
        if any(x in self._holding["update"] for x in (loop, *self.loops(loop))):
            return True
        function = self._function(loop)
        return function is not None and function in self._in_stepping_loops

    def _seldom(self, node: ast.AST) -> bool:
        """Whether a condition between `node` and its loop is true only occasionally."""
        child = node
        for outer in self._tree.ancestors(node):
            if isinstance(outer, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)):
                if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    return False
            if isinstance(outer, ast.ExceptHandler):
                return True
            if isinstance(outer, ast.If) and child is not outer.test:
                block = outer.body if child in outer.body else outer.orelse
                ends = isinstance(block[-1], (ast.Break, ast.Return, ast.Raise))
                if ends or (block is outer.body and self._is_occasional(outer)):
                    return True
            child = outer
        return False

    def _is_occasional(self, condition: ast.If) -> bool:
        """Whether a condition is true at an episode's end or every few steps, unless training happens under it."""
        if not (_is_periodic(condition.test) or self._at_episode_end(condition.test)):
            return False
        steps = {n for nodes in self._stepping.values() for n, _ in nodes}
        return not any(n in steps for stmt in condition.body for n in walk(stmt))

    def _at_episode_end(self, test: ast.expr) -> bool:
        """Whether a condition tests whether an episode has ended."""
        return any(isinstance(n, ast.Name) and n.id in self._ends for n in walk(test))

    @cached_property
    def _ends(self) -> set[str]:
        """Names of the results of an environment step after the reward, and of their elements in loops."""
        found: set[str] = set()
        for step in self._roles.env_steps:
            stmt = self._tree.parents[step]
            for target in stmt.targets if isinstance(stmt, ast.Assign) else ():
                if isinstance(target, ast.Tuple):
                    found |= {e.id for e in target.elts[2:] if isinstance(e, ast.Name)}
        for node in self._tree.of(ast.For):
            if found & names_in([node.iter]):
                found |= names_in([node.target])
        return found

    @staticmethod
    def _heads(loop: ast.For, node: ast.AST) -> bool:
        return any(n is node for n in walk(loop.iter))

    def _function(self, node: ast.AST) -> Function | None:
        for outer in self._tree.ancestors(node):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return outer
        return None

    # --- what steps what, through calls ----------------------------------------------------------------------

    @cached_property
    def _step_nodes(self) -> dict[str, list[ast.AST]]:
        optimizer: list[ast.AST] = list(self._roles.optimizer_steps)
        if not optimizer:  # the optimizer is made in another file
            optimizer = [n for n in self._tree.of(ast.Call) if method(n) == "backward"]
        return {"environment": list(self._roles.env_steps), "update": optimizer}

    @cached_property
    def _defined(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for node in self._tree.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.setdefault(node.name, []).append(node)
        return found

    def _callees(self, call: ast.Call) -> Iterable[Function]:
        """The functions and methods of the file that a call may enter."""
        func = call.func
        if isinstance(func, ast.Name):
            if func.id in self._networks:
                return self._defined.get("forward", ())
            return [f for f in self._defined.get(func.id, ()) if not self._is_method(f)]
        if isinstance(func, ast.Attribute):
            if call in self._step_nodes["update"] or (
                isinstance(func.value, ast.Name) and func.value.id in self._imported_names
            ):
                return ()
            own = self._class_of(func.value)
            methods = [f for f in self._defined.get(func.attr, ()) if self._is_method(f)]
            return [f for f in methods if own is None or self._tree.parents[f] is own]
        return ()

    @cached_property
    def _imported_names(self) -> set[str]:
        return set(self._tree.imports)

    @cached_property
    def _instances(self) -> dict[str, ast.ClassDef]:
        """Names that are assigned an instance of a class of the file."""
        found: dict[str, ast.ClassDef] = {}
        for node in self._tree.of(ast.Assign):
            if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                made = self._tree.constructor(node.value)
                if made is not None and isinstance(made.func, ast.Name):
                    found[node.targets[0].id] = self._tree.classes[made.func.id]
        return found

    @cached_property
    def _networks(self) -> set[str]:
        return {name for name, kind in self._instances.items() if is_network(self._tree, kind)}

    def _class_of(self, receiver: ast.expr) -> ast.ClassDef | None:
        return self._instances.get(receiver.id) if isinstance(receiver, ast.Name) else None

    def _is_method(self, function: Function) -> bool:
        return isinstance(self._tree.parents[function], ast.ClassDef)

    @cached_property
    def _calls_that_enter(self) -> list[tuple[ast.Call, list[Function]]]:
        """The calls that enter functions of the file."""
        calls = ((n, list(self._callees(n))) for n in self._tree.of(ast.Call))
        return [(call, entered) for call, entered in calls if entered]

    @cached_property
    def _stepping(self) -> dict[str, list[tuple[ast.AST, bool]]]:
        """The nodes that step, and calls of functions that step, each with whether it steps once and not in a loop."""
        found: dict[str, list[tuple[ast.AST, bool]]] = {}
        for role, steps in self._step_nodes.items():
            nodes: dict[ast.AST, bool] = dict.fromkeys(steps, True)
            grown = True
            while grown:
                grown = False
                once: dict[Function, bool] = {}
                for node, direct in nodes.items():
                    holder = self._function(node)
                    if holder is not None:
                        once[holder] = once.get(holder, False) or (direct and not self.loops(node))
                for call, entered in self._calls_that_enter:
                    holding = [f for f in entered if f in once]
                    direct = any(once[f] for f in holding)
                    if holding and nodes.get(call) is not direct and not nodes.get(call, False):
                        nodes[call] = direct
                        grown = True
            found[role] = list(nodes.items())
        return found

    @cached_property
    def _direct(self) -> dict[str, set[Loop]]:
        """Loops that step once at every iteration, not in an inner loop."""
        return {r: {x for n, once in nodes if once for x in self.loops(n)[:1]} for r, nodes in self._stepping.items()}

    @cached_property
    def _holding(self) -> dict[str, set[Loop]]:
        """Loops that step, directly or in an inner loop."""
        return {r: {x for n, _ in nodes for x in self.loops(n)} for r, nodes in self._stepping.items()}

    @cached_property
    def _in_stepping_loops(self) -> set[Function]:
        """Functions that are called, directly or indirectly, in a loop that steps an optimizer."""
        reached: set[Function] = set()
        grown = True
        while grown:
            grown = False
            for call, entered in self._calls_that_enter:
                inside = any(x in self._holding["update"] for x in self.loops(call)) or (
                    self._function(call) in reached
                )
                if inside and not reached.issuperset(entered):
                    reached.update(entered)
                    grown = True
        return reached

    @cached_property
    def _heat_of_called(self) -> dict[Function, Heat]:
        """The functions that training calls, each with the heat of its hottest call."""
        found: dict[Function, Heat] = {}
        self.__dict__["_heat_of_called"] = found  # `of` already reads it while it grows below
        grown = True
        while grown:
            grown = False
            for call, entered in self._calls_that_enter:
                heat = self.of(call)
                if heat is None:
                    continue
                for function in entered:
                    known = found.get(function)
                    if known is None or (heat.hot and not known.hot):
                        found[function] = Heat(heat.role, heat.line, function.name)
                        grown = True
        return found


def is_network(tree: Tree, kind: ast.ClassDef) -> bool:
    """Whether a class of the file derives from torch.nn.Module, directly or through others of the file."""
    seen: set[str] = set()
    stack = [kind]
    while stack:
        one = stack.pop()
        if one.name in seen:
            continue
        seen.add(one.name)
        for base in one.bases:
            if tree.qualified(base) == "torch.nn.Module":
                return True
            if isinstance(base, ast.Name) and base.id in tree.classes:
                stack.append(tree.classes[base.id])
    return False


def _is_counted(loop: Loop) -> bool:
    """Whether a loop is over `range`, forwards or backwards."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return False
    called = loop.iter
    if isinstance(called.func, ast.Name) and called.func.id == "reversed" and called.args:
        return isinstance(called.args[0], ast.Call) and getattr(called.args[0].func, "id", "") == "range"
    return isinstance(called.func, ast.Name) and called.func.id == "range"


def _is_periodic(test: ast.expr) -> bool:
    """Whether a condition is true every few steps (`step % 100 == 0`), or if a key is present (`"x" in info`)."""
    for node in walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return True
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.In) for op in node.ops):
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
                return True
    return False
