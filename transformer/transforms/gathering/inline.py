"""Replace calls of functions that contain the training, or a phase of it, by the functions' bodies."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile
from typing import cast

import libcst as cst

from transformer.recognition.refusals import Unconvertible
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.query import is_read, is_static, parameters, unparse
from transformer.syntax.refit import Remembering, refit
from transformer.syntax.rewrite import Edits, Line, line_end, lines_of
from transformer.syntax.tree import Tree
from transformer.transforms.base import ALL, NotNeeded, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.gathering.in_a_row import with_one_call
from transformer.transforms.gathering.inlining import Inlining, NotInlined, plan
from transformer.transforms.gathering.known_class import of_known_class
from transformer.transforms.gathering.only_calls import (
    OnlyCall,
    advantages_to_inline,
    call_to_inline,
    computation_to_inline,
    making_to_inline,
    only_calls,
    targets_to_inline,
    training_to_inline,
)
from transformer.transforms.gathering.private_methods import with_plain_names
from transformer.transforms.gathering.shared_steps import with_own_helpers

INFO = TransformInfo(
    name="inline",
    brief="functions of the training are in its loop",
    summary="replace the calls of functions that hold the training, a part of it, or its optimizer by their bodies",
    applies=(
        "to a function whose name is known to be used only for calls: one call, with arguments bound as written, or "
        "several in a row, with constants that differ. It must return at its end, or once earlier by `if x: return` if "
        "its result is not used. It must make nothing that reads its variables and may outlive the call. If an option "
        "chooses the class of the object that trains, and the file has only the default's, the script stops for the "
        "other choices, as a note says"
    ),
    safety=(
        "The function is called only here, with arguments that are written out, and returns only at its end; "
        "statements below `if x: return` are put under the opposite condition. All statements run in the same order, "
        "and names that would clash with others of the script are renamed."
    ),
    costs=(
        "The function keeps its part of the training, and rollout, gae and update are not found in it: they are "
        "searched for in a single loop."
    ),
    needs=(),
    before=(
        "def train(agent, batch):\n    for epoch in range(args.update_epochs):\n        ...\n    return v_loss\n\n"
        "for iteration in range(1, args.num_iterations + 1):\n    ...\n    loss = train(agent, batch)"
    ),
    after=(
        "for iteration in range(1, args.num_iterations + 1):\n    ...\n    for epoch in range(args.update_epochs):\n"
        "        ...\n    loss = v_loss"
    ),
)

ALREADY = "rollout and update are already in one training loop"
MOST = 20
"""The maximum number of calls to replace."""


def apply(state: State) -> Rewrite:
    """Replace calls until environment and optimizer are stepped in one loop.

    Raises:
        Skip: they already are, no call leads to one of them, or a function must stay one.
    """
    gathered, kept = gather(state)
    chosen = None if recognised(gathered.roles) else of_known_class(state)
    if chosen is not None:
        gathered, kept = gather(chosen[0])
    if not recognised(gathered.roles) and kept:
        raise Skip(next(iter(kept.values())))
    if recognised(gathered.roles) and gathered is state:
        raise NotNeeded(ALREADY)
    return Rewrite(gathered, notes=() if chosen is None else chosen[1])


def gather(state: State) -> tuple[State, dict[str, str]]:
    """The state after replacing all calls that can be replaced, and the reasons why functions stay, by name."""
    now, kept, known = state, dict[str, str](), set[str]()

    def calls(known: AbstractSet[str] = frozenset(), *, by_name: bool = True) -> dict[ast.FunctionDef, OnlyCall]:
        found = only_calls(now.roles, by_name=by_name, known=known).items()
        return {f: c for f, c in found if f.name not in kept and not _optimizes(now.roles, c)}

    def next_call() -> OnlyCall | None:
        # What is shown in one state holds in the next, which only moves statements; copied uses are counted anew
        if (found := call_to_inline(now.roles, calls(known))) is None:
            shown = calls(by_name=False)
            known.update(f.name for f in shown if _is_single(now.tree, f.name))
            found = call_to_inline(now.roles, shown)
        return found

    for _ in range(MOST):
        named = calls()
        only = training_to_inline(now.roles, named)
        if only is None and recognised(now.roles):
            only = (
                advantages_to_inline(now.roles, named)
                or computation_to_inline(now.roles, named)
                or targets_to_inline(now.roles, named)
                or making_to_inline(now.roles, named)
            )
        elif only is None:
            only = next_call()
            if only is None and (own := with_one_call(now) or _with_steps_in_place(now)) is not None:
                now = own
                continue
        if only is None:
            break
        try:
            now = inlined(now, only)
        except NotInlined as refused:
            where = f"{only.function.name}() (line {only.function.lineno})"
            kept[only.function.name] = now.recorded(f"{where} cannot replace its call: {refused}")
    return now, kept


def _is_single(tree: Tree, method: str) -> bool:
    """Whether exactly one method has this name, and exactly one expression ends with it."""
    return len(tree.methods(method)) == 1 == sum(n.attr == method for n in tree.of(ast.Attribute))


def _with_steps_in_place(state: State) -> State | None:
    """The state in which the statements of a helper, which steps optimizers that it is given, replace all its calls."""
    own = with_own_helpers(state)
    if own is None:
        return None
    now, names = own
    try:
        for name in names:
            now = inlined(now, next(c for f, c in only_calls(now.roles).items() if f.name == name))
    except (NotInlined, StopIteration):
        return None
    return now


def _optimizes(roles: Roles, only: OnlyCall) -> bool:
    """Whether a method belongs to an optimizer class of the script, which is recognised by its methods."""
    return only.receiver is not None and ast.unparse(only.receiver) in {o.name for o in roles.optimizers}


def recognised(roles: Roles) -> bool:
    """Whether rollout and update are in one training loop."""
    try:
        return roles.kind != "update"
    except Unconvertible:
        return False


def inlined(state: State, only: OnlyCall) -> State:
    """The state with a function's statements instead of its call.

    Raises:
        NotInlined: they would behave differently there, or this cannot be determined.
    """
    if (plain := with_plain_names(state, only.function)) is not None:
        line, state = only.function.lineno, plain
        only = next(c for f, c in only_calls(state.roles, by_name=False).items() if f.lineno == line)
    text = unparse(only.function)
    for rewritten in (_by_itself, _unpacked):
        after = rewritten(state, only)
        if after is not None:
            calls = only_calls(after.roles, by_name=False)
            state, only = after, next(c for f, c in calls.items() if unparse(f) == text)
    try:
        inlining = plan(state, only)
    except NotInlined as why:  # with the line numbers of this state
        why.args = (state.recorded(str(why)),)
        raise
    edits, stmt = Edits(state.source), inlining.stmt
    renamed = _Rename(inlining.names)
    doc = ast.get_docstring(only.function)
    body = _body(state, only.function)
    if doc is not None and isinstance(body[0], cst.SimpleStatementLine):
        rest = body[0].body[1:]  # after a semicolon
        body = [*([body[0].with_changes(body=rest)] if rest else []), *body[1:]]
    # Lines of the body are copies if comments were moved above them; their contents are the same
    named = [state.source.pairs[alias].node for alias in inlining.aliases]
    kept = without(body, lambda s: any(_first(s) is node for node in named) or _declares(s))
    given = state.tree.text(stmt.targets[0]) if isinstance(stmt, ast.Assign) else ""
    tests = [getattr(state.source.pairs[guard].node, "test", None) for guard in inlining.guards]
    places = [i for i, line in enumerate(kept) if isinstance(line, cst.If) and any(line.test is t for t in tests)]
    visited = [cast(Line, line.visit(renamed)) for line in kept]
    shift = stmt.col_offset + 4 * len(only.function.decorator_list)
    fit = partial(refit, before=renamed.before, source=state.source, column=only.function.body[0].col_offset)
    ends = [0, *(place + 1 for place in places), len(visited)]
    parts = [fit(visited[i:j], new_column=shift + 4 * n) for n, (i, j) in enumerate(pairwise(ends))]
    for decorator in only.function.decorator_list:
        ranges = [n for n in state.tree.of(ast.Name) if n.id == "range"]
        apart = all(state.tree.names.builtin(n) == "range" for n in ranges)
        parts = [_under(ast.unparse(decorator), parts[0], apart=apart)]
    above = [f"{name} = {state.tree.text(value)}" for name, value in inlining.bindings]
    lines = _returning(parts[-1], _lines_of_code(_assigning(state.tree, inlining, renamed)))
    for guarding, guard in reversed(list(zip(parts[:-1], inlining.guards, strict=True))):
        early = guard.body[0].value if isinstance(guard.body[0], ast.Return) else None
        otherwise = f"{given} = {_renamed(state.tree, early, renamed) if early else None}" if given else ""
        lines = [
            *guarding[:-1],
            _under_the_opposite(guarding[-1], lines or _lines_of_code("pass"), _lines_of_code(otherwise)),
        ]
    lines = [*_lines_of_code("\n".join(above)), *lines]
    comments = [cst.EmptyLine(comment=cst.Comment(f"# {doc.splitlines()[0]}"))] if doc else []
    # Comments directly above the function move with its statements, unless other comments stand further above
    head = cast(cst.FunctionDef, state.source.pairs[only.function].node).leading_lines
    own = [*takewhile(lambda line: line.comment is not None, head[::-1])]
    if lines and own and len(own) == sum(line.comment is not None for line in head):
        comments = [*own[::-1], *comments]
        edits.move(only.function)
    else:
        edits.remove(only.function)
    if comments and lines:
        lines[0] = lines[0].with_changes(leading_lines=[*comments, *lines[0].leading_lines])
    edits.replace(stmt, lines or "pass")
    words = {*re.findall(r"\w+", state.history.original)}
    fresh = {new: old for old, new in inlining.names.items() if new not in words}
    return state.after(edits, replace(state.history, renamed={**state.history.renamed, **fresh}))


def _under(context: str, lines: Sequence[Line], *, apart: bool) -> list[Line]:
    """Lines in a `with` block; for a loop that steps an environment, only its body, so that the loop is recognised.

    Args:
        context: the context manager.
        lines: the body.
        apart: whether `range` is Python's builtin, so that it may be evaluated outside the context.
    """

    def inside(block: Sequence[Line]) -> Line:
        return cst.With([cst.WithItem(cst.parse_expression(context))], cst.IndentedBlock(block))

    found, rest = list[Line](), list[Line]()
    for line in lines:
        if apart and isinstance(line, cst.For) and isinstance(line.body, cst.IndentedBlock) and _loop_steps_env(line):
            found += [inside(rest)] if rest else []
            body = inside(cast(Sequence[Line], line.body.body))
            found.append(line.with_changes(body=line.body.with_changes(body=[body])))
            rest = []
        else:
            rest.append(line)
    return [*found, inside(rest)] if rest else found


def _loop_steps_env(loop: cst.For) -> bool:
    """Whether a loop over a range of numbers steps an environment."""
    call, code = loop.iter, cst.Module([]).code_for_node(loop.body)
    ranges = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "range"
    return ranges and loop.orelse is None and re.search(r"\.step\(\s*[^)\s]", code) is not None


def _by_itself(state: State, only: OnlyCall) -> State | None:
    """The state in which `losses.append(learn(x))` is `result = learn(x)` and `losses.append(result)`.

    None unless the statement evaluates the call first, as `for k, v in learn(x).items():` does.
    """
    if (begins := _begun_with(state.tree, only.call)) is not None:
        edits, result = Edits(state.source), state.tree.names.fresh("result")
        edits.before(begins, f"{result} = {state.tree.text(only.call)}")
        edits.substitute(only.call, result)
        return state.after(edits)
    outer = state.tree.parents[only.call]
    plain = isinstance(outer, ast.Call) and outer.args == [only.call] and not outer.keywords
    statement = state.tree.parents[outer] if plain else None
    if not isinstance(outer, ast.Call) or not isinstance(statement, ast.Expr):
        return None
    named = outer.func.value if isinstance(outer.func, ast.Attribute) else outer.func
    if not isinstance(named, ast.Name) or named.id in state.tree.declared:  # the function may rebind the name
        return None
    edits, result = Edits(state.source), state.tree.names.fresh("result")
    edits.before(statement, f"{result} = {state.tree.text(only.call)}")
    edits.substitute(only.call, result)
    return state.after(edits)


def _begun_with(tree: Tree, call: ast.Call) -> ast.stmt | None:
    """The statement that evaluates a call first, and uses its result; None for any other place."""
    node: ast.AST = call
    outer = tree.parents[node]
    while isinstance(outer, (ast.Attribute, ast.Subscript, ast.Call)):
        given = [*outer.args, *outer.keywords] if isinstance(outer, ast.Call) else []
        first = outer.func if isinstance(outer, ast.Call) else outer.value
        index = outer.slice if isinstance(outer, ast.Subscript) else ast.Constant(0)
        if first is not node or given or not isinstance(index, ast.Constant):
            return None
        node, outer = outer, tree.parents[outer]
    if node is call:
        return None
    if isinstance(outer, ast.For):
        return outer if outer.iter is node else None
    plain = isinstance(outer, ast.Assign) and all(isinstance(t, ast.Name) for t in outer.targets)
    return outer if plain or isinstance(outer, ast.Expr) else None  # type: ignore[return-value]


def _unpacked(state: State, only: OnlyCall) -> State | None:
    """The state in which `learn(*sample(), rate)` is `obs, action = sample()` and `learn(obs, action, rate)`.

    None if the call has no `*` or several, or the number of unpacked arguments is not known.
    """
    call, own = only.call, only.function.args
    spread = [n for n, value in enumerate(call.args) if isinstance(value, ast.Starred)]
    open_end = own.vararg or own.kwarg or own.defaults or own.kwonlyargs or call.keywords
    if len(spread) != 1 or open_end or is_static(only.function):
        return None
    before, given, after = call.args[: spread[0]], call.args[spread[0]], call.args[spread[0] + 1 :]
    assert isinstance(given, ast.Starred)
    if isinstance(given.value, ast.NamedExpr) or any(isinstance(n, ast.Try) for n in state.tree.ancestors(call)):
        return None  # with too few values, unpacking would raise another error
    own_names = parameters(only.function)[only.receiver is not None :]
    names = own_names[len(before) : len(own_names) - len(after)]
    statement = state.tree.parents[call]
    plain = all(isinstance(v, ast.Constant) or _is_own(state.tree, v) for v in before)
    if not names or not plain or not isinstance(statement, (ast.Assign, ast.Expr)):
        return None
    edits, fresh = Edits(state.source), [state.tree.names.fresh(name) for name in names]
    above = _generated_above(state.tree, given.value, statement)
    if above is not None:
        edits.remove(above)
    made = above.value if above is not None else given.value
    value = state.tree.text(made)
    if isinstance(made, ast.GeneratorExp) and value.startswith("("):  # a list is evaluated at once
        value = f"[{value[1:-1]}]"
    edits.before(statement, f"{', '.join(fresh)}{',' * (len(fresh) == 1)} = {value}")
    arguments = ", ".join([*map(state.tree.text, before), *fresh, *map(state.tree.text, after)])
    edits.substitute(call, f"{state.tree.text(call.func)}({arguments})")
    return state.after(edits)


def _generated_above(tree: Tree, value: ast.expr, stmt: ast.stmt) -> ast.Assign | None:
    """`parts = (t[rows] for t in (obs, actions))` directly above a statement that alone reads `parts`."""
    block = tree.block(stmt)
    above = block[place - 1] if (place := block.index(stmt)) else None
    if not isinstance(above, ast.Assign) or not isinstance(above.value, ast.GeneratorExp):
        return None
    reads = [n for n in tree.of(ast.Name) if isinstance(value, ast.Name) and n.id == value.id and is_read(n)]
    alone = len(above.targets) == 1 and reads == [value] and ast.unparse(above.targets[0]) == ast.unparse(value)
    return above if alone else None


def _is_own(tree: Tree, value: ast.expr) -> bool:
    """Whether a value is a variable that no `global` or `nonlocal` declares: it keeps its value while functions run."""
    return isinstance(value, ast.Name) and value.id not in tree.declared


def _under_the_opposite(guard: Line, lines: list[Line], otherwise: list[Line]) -> Line:
    """Lines under the negated condition of a guard `if x: return`, with the comments of the guard."""
    assert isinstance(guard, cst.If)
    test = guard.test
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        opposite = test.expression
    else:
        bare = isinstance(test, (cst.Comparison, cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or test.lpar
        code = cst.Module([]).code_for_node(test)
        opposite = cst.parse_expression(f"not {code}" if bare else f"not ({code})")
    comments = [cst.EmptyLine(comment=c) for c in _comments(guard.body)]
    orelse = cst.Else(cst.IndentedBlock(otherwise)) if otherwise else None
    block = cst.IndentedBlock(lines, header=cst.TrailingWhitespace(newline=line_end(guard)))
    return cst.If(opposite, block, orelse, leading_lines=[*guard.leading_lines, *comments])


def _comments(node: cst.CSTNode) -> Iterator[cst.Comment]:
    """The comments in a node, in order; libcst.matchers could find them, but takes 0.1 s to import."""
    for part in node.children:
        if isinstance(part, cst.Comment):
            yield part
        yield from _comments(part)


def _body(state: State, function: ast.FunctionDef) -> Sequence[Line]:
    """The function's lines, with the comments beside its `def` line and at its end."""
    node = cast(cst.FunctionDef, state.source.pairs[function].node)
    if isinstance(node.body, cst.IndentedBlock):
        lines = list(cast(Sequence[Line], node.body.body))
        beside = node.body.header.comment
        head = [cst.EmptyLine(comment=beside)] if beside else []
        lines[0] = lines[0].with_changes(leading_lines=[*head, *lines[0].leading_lines])
        end = [line for line in node.body.footer if line.comment]
        lines[-1] = lines[-1].with_changes(leading_lines=[*lines[-1].leading_lines, *end])
        return lines
    return [cst.SimpleStatementLine(cast(cst.SimpleStatementSuite, node.body).body)]


def without(lines: Sequence[Line], gone: Callable[[Line], bool]) -> list[Line]:
    """Lines without some simple statements, whose comments move to the next line."""
    kept: list[Line] = []
    above: list[cst.EmptyLine] = []
    for line in lines:
        if isinstance(line, cst.SimpleStatementLine) and gone(line):
            above += [e for e in line.leading_lines if e.comment]
            beside = line.trailing_whitespace.comment
            above += [cst.EmptyLine(comment=beside)] if beside else []
            continue
        kept.append(line.with_changes(leading_lines=[*above, *line.leading_lines]) if above else line)
        above = []
    return kept


def _first(line: Line) -> cst.CSTNode | None:
    """The first statement on a line of simple statements; None for another line."""
    return line.body[0] if isinstance(line, cst.SimpleStatementLine) and line.body else None


def _declares(line: Line) -> bool:
    """Whether a line is a `global` or `nonlocal` declaration."""
    small = line.body if isinstance(line, cst.SimpleStatementLine) else ()
    return bool(small) and all(isinstance(part, (cst.Global, cst.Nonlocal)) for part in small)


def _assigning(tree: Tree, inlining: Inlining, renamed: _Rename) -> str:
    """The text of the statement that uses the results as the statement of the call did."""

    def text(value: ast.expr) -> str:
        return _renamed(tree, value, renamed)

    if inlining.value is not None:
        return text(inlining.value)
    targets = ", ".join(tree.text(t) for t, _ in inlining.results)
    return f"{targets} = {', '.join(text(v) for _, v in inlining.results)}" if targets else ""


def _renamed(tree: Tree, value: ast.expr, renamed: _Rename) -> str:
    """The text of a function's expression, with its names replaced."""
    code = tree.text(value) if value in tree.parents else ast.unparse(value)
    return cst.Module([]).code_for_node(cast(cst.BaseExpression, cst.parse_expression(code).visit(renamed)))


def _lines_of_code(code: str) -> list[Line]:
    return lines_of(cst.parse_module(code)) if code else []


def _returning(lines: list[Line], last: list[Line]) -> list[Line]:
    """Lines whose last statement, also inside trailing `with` blocks, is replaced if it is a return."""
    if not lines:
        return last
    end = lines[-1]
    if isinstance(end, cst.With) and isinstance(end.body, cst.IndentedBlock) and _ends_with_return(end):
        inner = _returning(list(cast(Sequence[Line], end.body.body)), last) or _lines_of_code("pass")
        return [*lines[:-1], end.with_changes(body=end.body.with_changes(body=inner))]
    if isinstance(end, cst.SimpleStatementLine) and isinstance(end.body[-1], cst.Return):
        kept = [end.with_changes(body=end.body[:-1])] if len(end.body) > 1 else []
        if last and not kept:
            last = [last[0].with_changes(leading_lines=end.leading_lines), *last[1:]]
        return [*lines[:-1], *kept, *last]
    return [*lines, *last]


def _ends_with_return(line: cst.With) -> bool:
    last = line.body.body[-1]
    if isinstance(last, cst.With):
        return _ends_with_return(last)
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)


class _Rename(Remembering):
    """Replaces names by other names or expressions."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self._new = {old: cst.parse_expression(new) for old, new in names.items() if old != new}
        self._kept: set[cst.CSTNode] = set()
        """Nodes are kept alive here, because the id of a freed node may be reused."""
        self._quotes: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note names that are not variables."""
        self._kept.update(self._names_of_others(node))
        return super().on_visit(node)

    @staticmethod
    def _names_of_others(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        if isinstance(node, cst.Attribute):
            yield node.attr
        elif isinstance(node, cst.Arg) and node.keyword is not None:
            yield node.keyword
        elif isinstance(node, (cst.Param, cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.NameItem)):
            yield node.name

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:  # noqa: N802
        """Replace a variable's name."""
        new = self._new.get(original_node.value)
        if new is None or original_node in self._kept:
            return updated_node
        return new.deep_clone()

    def visit_FormattedString(self, node: cst.FormattedString) -> None:  # noqa: N802
        """Note the quotes of an f-string."""
        self._quotes.append(node.quote)

    def leave_FormattedString(  # noqa: N802
        self, original_node: cst.FormattedString, updated_node: cst.FormattedString
    ) -> cst.BaseExpression:
        """Forget the quotes."""
        self._quotes.pop()
        return updated_node

    def leave_FormattedStringExpression(  # noqa: N802
        self, original_node: cst.FormattedStringExpression, updated_node: cst.FormattedStringExpression
    ) -> cst.FormattedStringExpression | cst.FlattenSentinel[cst.BaseFormattedStringContent]:
        """Write out the text that `f"{rate=}"` prints, if the names in it change.

        Raises:
            NotInlined: it cannot be written inside the string's quotes.
        """
        equal = original_node.equal
        if equal is None or original_node.expression.deep_equals(updated_node.expression):
            return updated_node
        old, space = cst.Module([]).code_for_node, original_node.whitespace_before_expression
        text = (
            f"{old(space)}{old(original_node.expression)}{old(original_node.whitespace_after_expression)}{old(equal)}"
        )
        if self._quotes[-1] in text or "\\" in text or "\n" in text:
            raise NotInlined(f"an f-string prints the text of {old(original_node.expression)}", "write it without `=`")
        shown = original_node.conversion or ("r" if original_node.format_spec is None else None)
        return cst.FlattenSentinel(
            [
                cst.FormattedStringText(text.replace("{", "{{").replace("}", "}}")),
                updated_node.with_changes(equal=None, conversion=shown),
            ]
        )


TRANSFORM = Transform(INFO, apply, ALL)
