"""Take host reads and logging out of the part of the minibatch loop that computes."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from transformer.conversion import TransformInfo
from transformer.dataflow import access, statements
from transformer.kinds import Kinds
from transformer.script import Script, names_in
from transformer.source import Edits
from transformer.transforms.base import Skip, Transform

INFO = TransformInfo(
    name="deferred-sync",
    summary="take .item() and logging out of the computation of a minibatch",
    safety=(
        "The same values are read, after the optimizer's step instead of before it; nothing in between changes them. "
        "A list of numbers becomes a list of tensors that is turned into the same Python floats where it is used, so "
        "a mean over it is the mean of the same floats."
    ),
    needs=(),
    before="clipfracs += [clipped.float().mean().item()]\n...\noptimizer.step()\n...\nnp.mean(clipfracs)",
    after=(
        "clipfrac = clipped.float().mean()\n...\noptimizer.step()\nclipfracs += [clipfrac]\n...\n"
        "np.mean(torch.stack(clipfracs).tolist())"
    ),
)


def apply(script: Script) -> str:
    """Rewrite the body of the minibatch loop.

    Raises:
        Skip: nothing in it reads a tensor on the host.
    """
    work = Deferral(script)
    for stmt in work.computing:
        work.visit(stmt)
    after = script.finish(work.edits)
    if after == script.code:
        raise Skip(work.reasons[0] if work.reasons else "the minibatch loop reads no tensor on the host")
    script.notes.extend(work.reasons)
    return after


class Deferral:
    """The edits of one minibatch loop."""

    def __init__(self, script: Script) -> None:
        self.script, self.source = script, script.source
        self.edits = Edits(script.source)
        self.kinds = Kinds(script)
        self.reasons: list[str] = []
        loop = script.minibatch_loop
        last = max(
            i for i, s in enumerate(loop.body) for n in ast.walk(s) if any(n is step for step in script.optimizer_steps)
        )
        self.loop, self.last = loop, loop.body[last]
        self.computing = loop.body[: last + 1]

    def visit(self, stmt: ast.stmt) -> None:
        """Defer what can be deferred in a statement and in `with` blocks below it."""
        if isinstance(stmt, ast.With):
            for inner in stmt.body:
                self.visit(inner)
            return
        if not (self._collects(stmt) or self._reads_number(stmt) or self._sinks(stmt)):
            if any(_item(n) for n in ast.walk(stmt)):
                self.reasons.append(f"line {stmt.lineno} still reads a tensor on the host")
                self.script.warn(stmt, "LC101", "a tensor is read on the host in every minibatch")

    # numbers collected in a list

    def _collects(self, stmt: ast.stmt) -> bool:
        found = _appended(stmt)
        if found is None:
            return False
        name, value = found
        tensor = _item(value)
        if tensor is None or not self._is_plain_list(name):
            return False
        single = self.script.names.fresh(name[:-1] if name.endswith("s") and len(name) > 2 else f"{name}_value")
        text = self.source.text(tensor)
        if not _is_scalar(tensor):
            text = f"{text}.reshape(())"
        if not self._in_no_grad(stmt):
            text = f"{text}.detach()"
        self.edits.replace(stmt, f"{single} = {text}")
        self.edits.after(self.last, self.source.splice(stmt, [(value, single)]))
        stack = "torch.stack"
        for use in self._uses(name):
            self.edits.substitute(use, f"{stack}({name}).tolist()")
        return True

    def _is_plain_list(self, name: str) -> bool:
        """A list that starts empty, grows only by single tensors' numbers, and is otherwise only read."""
        definitions = list(self.script.assignments(name))
        if not definitions or not all(isinstance(d.value, ast.List) and not d.value.elts for d in definitions):
            return False
        for stmt in statements(self.script.scope.body):
            grown = _appended(stmt)
            if grown and grown[0] == name:
                inside = stmt in list(statements(self.computing)) and self._unconditional(stmt)
                if not inside or _item(grown[1]) is None:
                    return False
        for use in self._uses(name):
            if isinstance(self.source.parents[use], ast.Attribute):
                return False
            if any(isinstance(n, ast.JoinedStr) for n in self.source.ancestors(use)):
                return False
            if use.lineno <= (self.last.end_lineno or 0) and use.lineno >= self.loop.lineno:
                return False
        return True

    def _unconditional(self, stmt: ast.stmt) -> bool:
        for outer in self.source.ancestors(stmt):
            if outer is self.loop:
                return True
            if not isinstance(outer, ast.With):
                return False
        return False

    def _uses(self, name: str) -> list[ast.Name]:
        """Reads of a list's value; growing it is none."""
        growing = {id(n) for s in statements(self.script.scope.body) if _appended(s) for n in ast.walk(_grown(s))}
        return [
            n
            for n in ast.walk(self.script.scope)
            if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and id(n) not in growing
        ]

    # a number kept under a name

    def _reads_number(self, stmt: ast.stmt) -> bool:
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.targets[0], ast.Name):
            return False
        tensor, name = _item(stmt.value), stmt.targets[0].id
        if tensor is None or len(list(self.script.assignments(name))) != 1:
            return False
        reads = [
            n
            for n in ast.walk(self.script.tree)
            if isinstance(n, ast.Name) and n.id == name and n is not stmt.targets[0]
        ]
        for read in reads:
            computing = self.loop.lineno <= read.lineno <= (self.last.end_lineno or 0)
            quoted = any(isinstance(n, ast.JoinedStr) for n in self.source.ancestors(read))
            if computing or quoted or not isinstance(read.ctx, ast.Load):
                return False
        text = self.source.text(tensor)
        self.edits.replace(stmt, f"{name} = {text}" if self._in_no_grad(stmt) else f"{name} = {text}.detach()")
        for read in reads:
            self.edits.substitute(read, f"{name}.item()")
        return True

    def _in_no_grad(self, stmt: ast.stmt) -> bool:
        return any(
            isinstance(n, ast.With) and any(self.script.calls(i.context_expr, "torch.no_grad") for i in n.items)
            for n in self.source.ancestors(stmt)
        )

    # logging

    def _sinks(self, stmt: ast.stmt) -> bool:
        """Move a statement that only reports below the optimizer's step."""
        if stmt not in self.computing or stmt is self.last or not self._reports(stmt):
            return False
        following = self.computing[self.computing.index(stmt) + 1 :]
        rebound = {n for s in statements(following) for n in access(s).binds}
        reads = {n.id for n in ast.walk(stmt) if isinstance(n, ast.Name)}
        if reads & rebound or reads & self._changed_in_place(following):
            return False
        for node in ast.walk(stmt):
            if isinstance(node, ast.Name) and node.id in self.script.modules:
                return False  # parameters are not what they were after the step
        self.edits.after(self.last, [self.edits.move(stmt)])
        return True

    def _changed_in_place(self, body: Iterable[ast.stmt]) -> set[str]:
        changed: set[str] = set()
        for stmt in body:
            for node in ast.walk(stmt):
                if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                    changed |= names_in([node.value])
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    if node.func.attr.endswith("_") and not node.func.attr.endswith("__"):
                        changed |= names_in([node.func.value])
        return changed

    def _reports(self, stmt: ast.stmt) -> bool:
        if isinstance(stmt, ast.If):
            return all(self._reports(s) for s in (*stmt.body, *stmt.orelse)) and not any(
                self.kinds.tensor(n) for n in ast.walk(stmt.test) if isinstance(n, ast.expr)
            )
        if not isinstance(stmt, ast.Expr) or not isinstance(stmt.value, ast.Call):
            return False
        func = stmt.value.func
        if isinstance(func, ast.Name):
            return func.id == "print"
        known = ("add_scalar", "add_scalars", "add_histogram", "add_text", "log", "info", "debug", "warning", "write")
        return isinstance(func, ast.Attribute) and func.attr in known and not self.kinds.tensor(func.value)


def _item(node: ast.AST) -> ast.expr | None:
    """The tensor in `tensor.item()`."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "item"
        and not node.args
    ):
        return node.func.value
    return None


def _appended(stmt: ast.stmt) -> tuple[str, ast.expr] | None:
    """List and element of `xs += [x]` or `xs.append(x)`."""
    if isinstance(stmt, ast.AugAssign) and isinstance(stmt.op, ast.Add) and isinstance(stmt.target, ast.Name):
        if isinstance(stmt.value, ast.List) and len(stmt.value.elts) == 1:
            return stmt.target.id, stmt.value.elts[0]
    if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call) and isinstance(stmt.value.func, ast.Attribute):
        func = stmt.value.func
        if func.attr == "append" and isinstance(func.value, ast.Name) and len(stmt.value.args) == 1:
            return func.value.id, stmt.value.args[0]
    return None


def _grown(stmt: ast.stmt) -> ast.AST:
    if isinstance(stmt, ast.AugAssign):
        return stmt.target
    assert isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call)
    return stmt.value.func


def _is_scalar(node: ast.expr) -> bool:
    """Whether a tensor has no dimensions: it ends in a reduction over all of them."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return (
            node.func.attr in ("mean", "sum", "max", "min", "std", "var", "norm")
            and not node.args
            and not node.keywords
        )
    return False


TRANSFORM = Transform(INFO, apply)
