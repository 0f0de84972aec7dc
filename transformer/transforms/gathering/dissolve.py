"""Turn the object that trains into variables and functions, so that networks and buffers are next to the loop."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import cast

import libcst as cst

from transformer.state import State
from transformer.syntax.query import bind_arguments, first_parameter
from transformer.syntax.refit import Remembering, refit
from transformer.syntax.rewrite import Line
from transformer.transforms.base import ALL, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.gathering.inline import gather, inlined, recognised, without
from transformer.transforms.gathering.inlining import NotInlined, Stays
from transformer.transforms.gathering.only_calls import only_calls
from transformer.transforms.gathering.training_object import Dissolved, Kept, training_classes, understand

INFO = TransformInfo(
    name="dissolve",
    brief="the object's attributes and methods are variables",
    summary="turn the attributes and methods of the single object that trains into variables and functions",
    applies=(
        "when the file makes exactly one object of the class that trains, a plain one, every use of the object is an "
        "attribute or a method accessed by its name, and the arguments of `__init__` are written out"
    ),
    safety=(
        "The class has a single instance, which is never passed on and whose attributes are never looked up by name. "
        "So each attribute is one variable and each method one function. The statements of __init__ go where the "
        "object was made."
    ),
    costs=(
        "Attributes that methods set on `self` cannot become parameters and results of functions, so less of the "
        "training may be extracted and compiled."
    ),
    needs=(),
    before=(
        "class Trainer:\n    def __init__(self, args):\n        self.agent = Agent(args)\n\n"
        "    def train(self):\n        self.agent.act()\n\n"
        "trainer = Trainer(args)\ntrainer.train()"
    ),
    after="def train():\n    agent.act()\n\nagent = Agent(args)\ntrain()",
)


WIDTH = 88
"""The line width at which the names of a declaration are wrapped."""


def apply(state: State) -> Rewrite:
    """Dissolve the first class that trains.

    Raises:
        Skip: there is none, its object must stay an object, or no training would be recognised in the object's scope.
    """
    reasons = []
    for cls in training_classes(state.tree):
        try:
            return Rewrite(_dissolved(state, cls))
        except Stays as kept:
            reasons.append(f"the attributes of {cls.name} stay attributes: {kept}")
    if reasons:
        raise Skip("; ".join(reasons))
    raise NotNeeded("no class of this file trains")


def _dissolved(state: State, cls: ast.ClassDef) -> State:
    parts = understand(state.tree, cls)
    split = dissolved(state, parts)
    gathered, kept = gather(split)
    if not recognised(gathered.roles) or getattr(gathered.roles.scope, "name", None) != getattr(
        parts.scope, "name", None
    ):
        if kept:
            raise Stays(next(iter(kept.values())))
        raise Kept("without it no training loop would be known", "step and learn in one loop, where the object is made")
    return split.rewritten(split.source.module, {})  # a new tree, in which no fresh names have been reserved


def dissolved(state: State, parts: Dissolved) -> State:
    """The script without the object.

    Raises:
        NotInlined: the body of `__init__` cannot be moved to where the object was made.
    """
    init = state.tree.names.fresh("init")
    module = _Module(state, parts, init)
    split = state.rewritten(module.changed(), module.made)
    only = next((c for f, c in only_calls(split.roles).items() if f.name == init), None)
    if only is None:
        raise NotInlined("the call of its __init__() is not seen as the only one", "make one object of it, once")
    return inlined(split, only)


class _Module(cst.CSTTransformer):
    """The module in which the object's methods are functions, and its creation is a call of one of them."""

    def __init__(self, state: State, parts: Dissolved, init: str) -> None:
        super().__init__()
        self._state, self._parts, self._init = state, parts, init
        pairs = state.source.pairs
        self._cls = pairs[parts.cls].node
        self._stmt = pairs[parts.stmt].line
        self._scope = pairs[parts.scope].node if isinstance(parts.scope, ast.FunctionDef) else None
        self._inside = 0 if self._scope is None else -1
        self.made: dict[ast.stmt, list[cst.SimpleStatementLine]] = {}
        """New lines, in the place of the statement that makes the object or of the class's constants."""

    def changed(self) -> cst.Module:
        """The new module."""
        return self._state.source.module.visit(self)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        """Enter functions down to the scope that makes the object, and none inside it."""
        if self._inside < 0 and node is self._scope:
            self._inside = 0
            return True
        return self._inside < 0

    def leave_FunctionDef(  # noqa: N802
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Leave the scope that makes the object."""
        if original_node is self._scope:
            self._inside = -1
        return updated_node

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:  # noqa: N802
        """Do not enter classes."""
        return False

    def leave_ClassDef(  # noqa: N802
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        """Replace the class by the functions, if the module makes the object."""
        if original_node is not self._cls:
            return updated_node
        if self._scope is not None:
            return cst.RemoveFromParent()
        return cst.FlattenSentinel(self._methods_as_functions(2))

    def leave_Attribute(  # noqa: N802
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Replace attributes of the object's name."""
        of = original_node.value
        if self._inside == 0 and isinstance(of, cst.Name) and of.value == self._parts.name is not None:
            return _standing_for(original_node.attr.value, self._parts.names, self._parts.properties, updated_node)
        return updated_node

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        """Replace the creation."""
        if original_node is not self._stmt:
            return updated_node
        lines = [*self._unbound(), *self._created()]
        if self._parts.name is None and not (
            isinstance(self._parts.stmt, ast.Expr) and self._parts.stmt.value is self._parts.creation
        ):
            lines.append(updated_node.with_changes(body=[_as_call(updated_node, self._parts)], leading_lines=[]))
        else:
            lines[-1] = lines[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        first, *others = lines
        first = first.with_changes(leading_lines=updated_node.leading_lines)
        self.made[self._parts.stmt] = [first, *others]
        if self._scope is not None:
            return cst.FlattenSentinel([*self._methods_as_functions(1), first, *others])
        return cst.FlattenSentinel([first, *others])

    def _unbound(self) -> list[cst.SimpleStatementLine]:
        """Assignments of None to variables that only inner functions bind; needed if the scope is a function."""
        if self._scope is None:
            return []
        first = self._parts.stored[self._parts.init] | {self._parts.names[p] for p in self._parts.passed}
        others = sorted(frozenset[str]().union(*self._parts.stored.values()) - first)
        return [_line(f"{name} = None") for name in others]

    def _created(self) -> list[cst.SimpleStatementLine]:
        """The evaluation of the arguments, and the call of the former `__init__`."""
        creation, lines = self._parts.creation, []
        variables = {param: self._parts.names[attribute] for attribute, param in self._parts.passed.items()}
        bound = bind_arguments(self._parts.init, creation, creation.func)
        assert bound is not None, "the object was found"
        texts, by_default = [], {p: value for p, value in bound.defaults.items() if p in variables}
        for param, value in [*list(bound.given.items())[1:], *by_default.items()]:
            text = self._state.tree.text(value)
            plain = isinstance(value, ast.Name) or (isinstance(value, ast.Constant) and param not in variables)
            if not plain and variables:
                name = variables.get(param) or self._state.tree.names.fresh(param)
                lines.append(_line(f"{name} = {text}"))
                text = name
            named = param in by_default or any(param == k.arg for k in creation.keywords)
            texts.append(f"{param}={text}" if named else text)
        return [*lines, _line(f"{self._init}({', '.join(texts)})")]

    def _methods_as_functions(self, gap: int) -> list[cst.BaseStatement]:
        """The methods as functions, with the comments of the class above the first."""
        node = cast(cst.ClassDef, self._cls)
        pairs, parts = self._state.source.pairs, self._parts
        made: list[cst.FunctionDef] = []
        for method in (parts.init, *parts.methods):
            own = cast(cst.FunctionDef, pairs[method].node)
            name = self._init if method is parts.init else parts.names[method.name]
            as_function = _Method(self._state, parts, method, name)
            function = cast(cst.FunctionDef, own.visit(as_function))
            column = self._parts.scope.body[0].col_offset if self._scope is not None else 0
            (line,) = refit([function], as_function.before, self._state.source, method.col_offset, column)
            made.append(cast(cst.FunctionDef, line))
            self.made |= as_function.made
        doc = ast.get_docstring(parts.cls)
        words = [cst.EmptyLine(comment=cst.Comment(f"# {line}".rstrip())) for line in (doc or "").splitlines()]
        outside = _Comments()
        node.visit(outside)
        comments = [cst.EmptyLine(comment=comment) for comment in outside.found]
        out = []
        for i, function in enumerate(made):
            above = [*(comments if i == 0 else []), *(words if i == 0 else [])]
            above += [line for line in function.leading_lines if line.comment]
            out.append(function.with_changes(leading_lines=[*[cst.EmptyLine(indent=False)] * gap, *above]))
        return list(out)


class _Comments(cst.CSTVisitor):
    """The comments of a class that are neither in a method nor above one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[cst.Comment] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        """Do not enter methods."""
        return False

    def visit_Comment(self, node: cst.Comment) -> None:  # noqa: N802
        """Note a comment."""
        self.found.append(node)


class _Method(Remembering):
    """A method as a function."""

    def __init__(self, state: State, parts: Dissolved, method: ast.FunctionDef, name: str) -> None:
        super().__init__()
        self._parts, self._name, self._tree = parts, name, state.tree
        self.made: dict[ast.stmt, list[cst.SimpleStatementLine]] = {}
        self._receiver = first_parameter(method)
        self._method = state.source.pairs[method].node
        self._names = dict(parts.names)
        if method is parts.init:
            self._names |= parts.passed
        self._stored = {state.source.pairs[f].node: names for f, names in parts.stored.items()}
        self._keyword = "nonlocal" if isinstance(parts.scope, ast.FunctionDef) else "global"
        self._init = self._method if method is parts.init else None
        self._dropped = set(parts.passed.values()) if method is parts.init else set()

    def leave_Attribute(  # noqa: N802
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Replace attributes of the receiver."""
        of = original_node.value
        if isinstance(of, cst.Name) and of.value == self._receiver:
            return _standing_for(original_node.attr.value, self._names, self._parts.properties, updated_node)
        return updated_node

    def leave_AnnAssign(  # noqa: N802
        self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign
    ) -> cst.BaseSmallStatement | cst.RemovalSentinel:
        """Drop the annotation of an attribute: a variable of another scope cannot have one."""
        target = original_node.target
        if not isinstance(target, cst.Attribute) or not isinstance(target.value, cst.Name):
            return updated_node
        if target.value.value != self._receiver:
            return updated_node
        if updated_node.value is None:
            return cst.RemoveFromParent()
        return cst.Assign([cst.AssignTarget(updated_node.target)], updated_node.value)

    def leave_IndentedBlock(  # noqa: N802
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """Drop statements without effect: `args = args`, and `super().__init__()`."""
        if original_node is not cast(cst.FunctionDef, self._method).body:
            return updated_node
        kept = without(cast(Sequence[Line], updated_node.body), self._is_nothing)
        return updated_node.with_changes(body=kept or [_line("pass")])

    def _is_nothing(self, line: Line) -> bool:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            return False
        code = cst.Module([]).code_for_node(line.body[0])
        return code == "super().__init__()" or code.replace(" ", "") in {f"{param}={param}" for param in self._dropped}

    def leave_FunctionDef(  # noqa: N802
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Declare the variables that the function binds for others, and remove what only methods have."""
        stored = self._stored.get(original_node)
        if stored:
            names = textwrap.wrap(", ".join(sorted(stored)), WIDTH)
            declared = [_line(f"{self._keyword} {part.rstrip(',')}") for part in names]
            lines = list(updated_node.body.body)
            if not isinstance(updated_node.body, cst.IndentedBlock):
                lines = [cst.SimpleStatementLine(cast(Sequence[cst.BaseSmallStatement], lines))]
            place = 1 if updated_node.get_docstring() is not None else 0
            if original_node is self._init:
                for name, value in self._parts.constants.items():
                    line = _line(f"{self._names[name]} = {ast.unparse(value)}")
                    self.made[self._tree.statement(value)] = [line]
                    declared.append(line)
            lines[place:place] = declared
            block = updated_node.body
            block = block if isinstance(block, cst.IndentedBlock) else cst.IndentedBlock([])
            updated_node = updated_node.with_changes(body=block.with_changes(body=lines))
        if original_node is not self._method:
            return updated_node
        params = updated_node.params
        if self._receiver is not None:
            first = "posonly_params" if params.posonly_params else "params"
            rest = list(getattr(params, first))[1:]
            params = params.with_changes(**{first: rest})
            if first == "posonly_params" and not rest:
                params = params.with_changes(posonly_ind=cst.MaybeSentinel.DEFAULT)
        decorators = [d for d in updated_node.decorators if not _is_of_classes(d)]
        return updated_node.with_changes(name=cst.Name(self._name), params=params, decorators=decorators)


def _standing_for(
    attribute: str, names: Mapping[str, str], properties: Collection[str], node: cst.Attribute
) -> cst.BaseExpression:
    """The variable for an attribute, or the call for a former property."""
    name = cst.Name(names[attribute])
    new: cst.Name | cst.Call = cst.Call(name) if attribute in properties else name
    return new.with_changes(lpar=node.lpar, rpar=node.rpar)


def _is_of_classes(decorator: cst.Decorator) -> bool:
    return isinstance(decorator.decorator, cst.Name) and decorator.decorator.value in ("staticmethod", "property")


def _as_call(line: cst.SimpleStatementLine, parts: Dissolved) -> cst.BaseSmallStatement:
    """`Trainer(args).train()` as a call of the function."""
    small = cast("cst.Assign | cst.Expr", line.body[0])
    call = cast(cst.Call, small.value)
    name = parts.names[cast(cst.Attribute, call.func).attr.value]
    return small.with_changes(value=call.with_changes(func=cst.Name(name)))


def _line(code: str) -> cst.SimpleStatementLine:
    return cast(cst.SimpleStatementLine, cst.parse_statement(code))


TRANSFORM = Transform(INFO, apply, ALL)
