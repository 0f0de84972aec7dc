"""The edits of one state of a script: they name `ast` nodes, and are made together on its LibCST tree.

Analyses read the `ast`, which is cheap to build and has positions; LibCST preserves every byte. The two are paired
statement by statement: a transform names an `ast` statement, and the edit is made on the corresponding LibCST
statement.

Statements without edits stay byte for byte the same. Changed statements are traced to statements of the original,
because messages name the original's lines. The newline that ends a statement's first line is a node of its own. Edits
that change, move or copy the statement keep this node, so it identifies the statement.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, cast

import libcst as cst
from libcst._nodes.internal import CodegenState

from transformer.syntax.layout import fit_each, joined
from transformer.syntax.tree import Tree, ast_lines, first_line

Line: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
CstStatement: TypeAlias = cst.BaseStatement | cst.BaseSmallStatement


class Pair(NamedTuple):
    """A statement in LibCST, and its line (the statement itself, if it is compound)."""

    node: CstStatement
    line: Line


class Source:
    """The LibCST form of a tree, which preserves every byte; each statement of the tree has a counterpart."""

    def __init__(
        self,
        tree: Tree,
        width: int,
        module: cst.Module | None = None,
        origins: Mapping[cst.CSTNode, ast.stmt] | None = None,
        texts: Texts | None = None,
    ) -> None:
        self.tree = tree
        self.width = width
        """The maximum width of emitted lines."""
        self._module = module
        self._origins = origins
        self._texts = texts

    @cached_property
    def texts(self) -> Texts:
        """The known texts of statements, including those of earlier states."""
        texts = self._texts
        if texts is None:
            texts = Texts()
            texts.learn(self.tree, self.module)
        return texts

    @cached_property
    def module(self) -> cst.Module:
        """The LibCST tree, built on first use, because a state without edits needs none."""
        return self._module or cst.parse_module(self.tree.code)

    @cached_property
    def pairs(self) -> dict[ast.stmt, Pair]:
        """The LibCST statement of every `ast` statement."""
        pairs: dict[ast.stmt, Pair] = {}
        _pair(self.tree.root.body, self.module.body, pairs)
        return pairs

    @cached_property
    def origins(self) -> Mapping[cst.CSTNode, ast.stmt]:
        """The statements of the original, by the ends of the lines that come from them."""
        if self._origins is not None:
            return self._origins
        return {line_end(pair.line): stmt for stmt, pair in reversed(self.pairs.items())}

    def origin(self, stmt: ast.stmt) -> ast.stmt | None:
        """The statement of the original that a statement comes from; None if that is not known."""
        if self._origins is None:  # this is the original
            return stmt
        return self.origins.get(line_end(self.pairs[stmt].line))

    def edited(self, code: str, module: cst.Module, new: Mapping[ast.stmt, Sequence[Line]]) -> Source:
        """The source after edits. `new` lines get the origin of the statement that they replace or are next to.

        Raises:
            SyntaxError: the new text is not Python.
        """
        return Source(Tree(code), self.width, module, self._origins_with(new), self.texts)

    def _origins_with(self, new: Mapping[ast.stmt, Sequence[Line]]) -> Mapping[cst.CSTNode, ast.stmt]:
        found = dict(self.origins)
        for stmt, lines in new.items():
            if (origin := self.origin(stmt)) is not None:
                for end in (end for line in lines for end in _line_ends(line)):
                    found.setdefault(end, origin)
        return found

    def laid_out(self, code: str, column: int) -> str:
        """Emitted code, broken into lines for a column, with the file's unit of indentation."""
        return self.all_laid_out((code,), column)[0]

    def all_laid_out(self, codes: Sequence[str], column: int) -> list[str]:
        """Several pieces of emitted code for the same column."""
        fitted = fit_each(codes, column, self.width)
        unit = self.module.default_indent
        if unit == "    ":
            return fitted
        return [re.sub(r"^(?:    )+", lambda m: unit * (len(m[0]) // 4), c, flags=re.MULTILINE) for c in fitted]


def _pair(body: Sequence[ast.stmt], lines: Sequence[CstStatement], pairs: dict[ast.stmt, Pair]) -> None:
    flat: list[Pair] = []
    for line in lines:
        if isinstance(line, cst.SimpleStatementLine):
            flat.extend(Pair(small, line) for small in line.body)
        elif isinstance(line, cst.BaseSmallStatement):  # `if x: a; b` on one line
            flat.append(Pair(line, cst.SimpleStatementLine([line])))
        else:
            flat.append(Pair(line, cast(Line, line)))
    for stmt, pair in zip(body, flat, strict=True):
        pairs[stmt] = pair
        if pair.node is pair.line:  # a simple statement has no parts
            _pair_parts(stmt, pair.node, pairs)


def _pair_parts(stmt: Any, node: Any, pairs: dict[ast.stmt, Pair]) -> None:
    if isinstance(getattr(node, "body", None), cst.BaseSuite):
        _pair(stmt.body, node.body.body, pairs)
    orelse = getattr(node, "orelse", None)
    if isinstance(orelse, cst.If):
        pairs[stmt.orelse[0]] = Pair(orelse, orelse)
        _pair_parts(stmt.orelse[0], orelse, pairs)
    elif isinstance(orelse, cst.Else):
        _pair(stmt.orelse, orelse.body.body, pairs)
    for name in ("handlers", "cases"):
        for sub, part in zip(getattr(stmt, name, ()), getattr(node, name, ()), strict=True):
            _pair_parts(sub, part, pairs)
    if isinstance(getattr(node, "finalbody", None), cst.Finally):
        _pair(stmt.finalbody, node.finalbody.body.body, pairs)


def line_end(line: Any) -> cst.Newline:
    """The end of the first line of a statement, or of a part of one such as `else`; it identifies the statement."""
    if isinstance(line, cst.Match):
        ends = line.whitespace_after_colon
    elif isinstance(line, cst.SimpleStatementLine):
        ends = line.trailing_whitespace
    else:
        ends = line.body.header if isinstance(line.body, cst.IndentedBlock) else line.body.trailing_whitespace
    newline: cst.Newline = ends.newline
    return newline


def _line_ends(node: Any) -> Iterator[cst.CSTNode]:
    """The first-line ends of a statement and of all statements inside it."""
    yield line_end(node)
    if isinstance(block := getattr(node, "body", None), cst.IndentedBlock):
        for line in block.body:
            yield from _line_ends(line)
    parts = [getattr(node, "orelse", None), getattr(node, "finalbody", None)]
    for part in (*parts, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        if part is not None:
            yield from _line_ends(part)


class Edits:
    """Edits of one state, applied together by :meth:`apply`.

    Statements and expressions are named by their `ast` nodes. Comments above a statement stay with its
    replacement; comments of a removed statement go to the next statement.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._expressions: dict[ast.stmt, dict[ast.expr, str]] = {}
        self._replaced: dict[ast.stmt, list[Line]] = {}
        self._before: dict[ast.stmt, list[Line]] = {}
        self._after: dict[ast.stmt, list[Line]] = {}
        self._moved: set[ast.stmt] = set()
        self._reworded: dict[ast.stmt, str] = {}
        self._emitted: list[str] = []
        self._gaps: dict[ast.stmt, int] = {}
        self._doing: dict[ast.stmt, list[Line]] = {}

    def __bool__(self) -> bool:
        """Whether anything is edited."""
        return any((self._expressions, self._reworded, self._replaced, self._before, self._after))

    def substitute(self, node: ast.expr, text: str) -> None:
        """Replace an expression by source text; the last replacement of an expression counts."""
        self._expressions.setdefault(self._source.tree.statement(node), {})[node] = text
        self._emitted.append(text)

    def emits(self, text: str) -> bool:
        """Whether any new source text contains `text`."""
        return any(text in emitted for emitted in self._emitted)

    def reword(self, stmt: ast.stmt, text: str) -> None:
        """Give a simple statement another text with the same meaning; the new text stays if the statement moves."""
        self._reworded[stmt] = text

    def replace(self, stmt: ast.stmt, code: str | Sequence[Line]) -> None:
        """Replace a statement; its own comments stay above the first of the new statements."""
        self._replaced[stmt] = self._lines(stmt, code)

    def put_under(self, stmt: ast.stmt, header: str) -> None:
        """Put a statement into a block with this header, such as `with torch.no_grad():`; its comments stay above."""
        block = cst.parse_statement(f"{header}\n    pass\n")
        assert isinstance(block, (cst.With, cst.If))
        moved = self.lines_of(stmt).with_changes(leading_lines=[])
        self.replace(stmt, [block.with_changes(body=cst.IndentedBlock([moved]))])

    def remove(self, stmt: ast.stmt) -> None:
        """Remove a statement; its comments go to the next one."""
        self._replaced[stmt] = []

    def move(self, stmt: ast.stmt, code: str | Sequence[Line] = ()) -> Line:
        """Take out a statement with its comments, to put it elsewhere; `code` replaces it."""
        line = self.lines_of(stmt)
        self._replaced[stmt] = self._lines(stmt, code)
        self._moved.add(stmt)
        return line

    def before(self, stmt: ast.stmt, code: str | Sequence[Line], *, gap: int = 0, does: ast.stmt | None = None) -> None:
        """Insert statements above `stmt` and its comments, with at least `gap` blank lines between them.

        A function among them that comes first gets the same number of blank lines above it. The new statements get the
        origin of the statement whose work they do: `does`, or else `stmt`.
        """
        lines = self._lines(stmt, code)
        self._before.setdefault(stmt, []).extend(lines)
        if does is not None:
            self._doing.setdefault(does, []).extend(lines)
        self._gaps[stmt] = max(gap, self._gaps.get(stmt, 0))

    def after(self, stmt: ast.stmt, code: str | Sequence[Line]) -> None:
        """Insert statements below `stmt`."""
        self._after.setdefault(stmt, []).extend(self._lines(stmt, code))

    def _lines(self, place: ast.stmt, code: str | Sequence[Line]) -> list[Line]:
        """Source text as LibCST lines, formatted for the place of a statement; lines are returned as they are."""
        if not isinstance(code, str):
            return list(code)
        self._emitted.append(code)
        return lines_of(cst.parse_module(self._source.laid_out(code, place.col_offset)))

    def lines_of(self, stmt: ast.stmt) -> Line:
        """`stmt` with the expression edits so far, as a LibCST line, to move it elsewhere."""
        return _Rebuild(self._source, self).line_of(stmt)

    def applied(self) -> Source:
        """The edited script.

        Raises:
            SyntaxError: the new text is not Python.
        """
        code, module = self.apply()
        source = self._source
        if code == source.tree.code:
            return source
        new: dict[ast.stmt, list[Line]] = {}
        for edits in (self._doing, self._replaced, self._before, self._after):
            for stmt, lines in edits.items():
                new.setdefault(stmt, []).extend(lines)
        return source.edited(code, module, new)

    def apply(self) -> tuple[str, cst.Module]:
        """The text of the edited script, and its LibCST tree."""
        if not self:
            return self._source.tree.code, self._source.module
        module = _Rebuild(self._source, self).module()
        text = self._source.texts.of(module)
        if self._source.tree.code.endswith(("\n", "\r")) and not text.endswith(("\n", "\r")):
            text += module.default_newline
        return text, module


def lines_of(module: cst.Module) -> list[Line]:
    """The lines of a module; comments above the first line go with it."""
    lines: list[Line] = list(module.body)
    if lines and module.header:
        header = [h if h.comment else h.with_changes(indent=False) for h in module.header]
        lines[0] = lines[0].with_changes(leading_lines=[*header, *lines[0].leading_lines])
    return lines


class Texts:
    """The texts of statements by their indentation. Most do not change from state to state.

    LibCST generates the text of a whole tree each time. Here the blocks of a compound statement are filled with
    placeholders, which return the known text of the same statement at the same indentation.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[cst.CSTNode, tuple[str, ...]], str] = {}

    def learn(self, tree: Tree, module: cst.Module) -> None:
        """Take the texts of a parsed tree's statements from the file itself."""
        lines = ast_lines(tree.code)
        hidden = any(line.strip() == "\\" for line in lines)  # LibCST counts it to the line below
        if module.body and module.has_trailing_newline and not hidden:
            self._learn_block(tree.root.body, module.body, (), lines, len(lines) - len(module.footer), module)

    def _learn_block(
        self,
        body: Sequence[ast.stmt],
        block: Sequence[CstStatement],
        indents: tuple[str, ...],
        lines: Sequence[str],
        end: int | None,
        module: cst.Module,
    ) -> None:
        """Learn the texts of a block that ends at line `end`; if that is unknown, the last statement is left out."""
        stmts = list(body)
        firsts = []
        for line in block:
            firsts.append(stmts[0])
            del stmts[: len(line.body) if isinstance(line, cst.SimpleStatementLine) else 1]
        above = [len(cast(Line, line).leading_lines) for line in block]
        starts = [first_line(stmt) - 1 - count for stmt, count in zip(firsts, above, strict=True)]
        for stmt, line, start, stop in zip(firsts, block, starts, [*starts[1:], end], strict=True):
            if stop is not None:
                self._known[line, indents] = "".join(lines[start:stop])
            inner: Any = getattr(line, "body", None)
            if isinstance(inner, cst.IndentedBlock):
                parts = (getattr(line, name, None) for name in ("orelse", "finalbody", "handlers"))
                last = None if stop is None or any(parts) else stop - len(inner.footer)
                deeper = (*indents, module.default_indent if inner.indent is None else inner.indent)
                self._learn_block(cast(Any, stmt).body, inner.body, deeper, lines, last, module)

    def of(self, module: cst.Module) -> str:
        """The text of a module; equals `module.code`."""
        if not module.has_trailing_newline:
            return module.code
        newline, indent = module.default_newline, module.default_indent
        lines = (*module.header, *module.body, *module.footer)
        return "".join(self.at(line, (), newline, indent) for line in lines)

    def at(self, line: cst.CSTNode, indents: tuple[str, ...], newline: str, indent: str) -> str:
        """The text of a statement, or of an empty line, below these indentations."""
        text = self._known.get((line, indents))
        if text is None:
            state = CodegenState(default_indent=indent, default_newline=newline)
            for tokens in indents:
                state.increase_indent(tokens)
            (self._with_known(line) if isinstance(line, cst.BaseCompoundStatement) else line)._codegen(state)
            text = self._known[line, indents] = "".join(state.tokens)
        return text

    def _with_known(self, node: Any) -> Any:
        """A compound statement (or an `else`, handler or case) with placeholders in its blocks."""
        changes: dict[str, Any] = {}
        if isinstance(getattr(node, "body", None), cst.IndentedBlock):
            changes["body"] = node.body.with_changes(body=[_Known(line, self) for line in node.body.body])
        for name in ("orelse", "finalbody"):
            if isinstance(part := getattr(node, name, None), cst.CSTNode):
                changes[name] = self._with_known(part)
        for name in ("handlers", "cases"):
            if parts := getattr(node, name, ()):
                changes[name] = [self._with_known(part) for part in parts]
        return node.with_changes(**changes) if changes else node


class _Known:
    """A placeholder for a statement in a block."""

    def __init__(self, line: cst.CSTNode, texts: Texts) -> None:
        self._line = line
        self._texts = texts

    def _codegen(self, state: CodegenState) -> None:
        indents = tuple(state.indent_tokens)
        state.add_token(self._texts.at(self._line, indents, state.default_newline, state.default_indent))


class _Rebuild:
    """Builds the edited tree, entering only blocks with edits."""

    def __init__(self, source: Source, edits: Edits) -> None:
        self._source = source
        self._edits = edits
        self._stmt_of = {pair.node: stmt for stmt, pair in source.pairs.items()}
        self._dirty: set[CstStatement] = set()
        e = edits
        for stmt in (*e._expressions, *e._reworded, *e._replaced, *e._before, *e._after):
            for node in (stmt, *source.tree.ancestors(stmt)):
                if isinstance(node, ast.stmt):
                    self._dirty.add(source.pairs[node].node)

    def module(self) -> cst.Module:
        module = self._source.module
        lines, rest = self._lines(module.body)
        return module.with_changes(body=lines, footer=[*rest, *module.footer])

    def line_of(self, stmt: ast.stmt) -> Line:
        node, line = self._source.pairs[stmt]
        if not isinstance(line, cst.SimpleStatementLine):
            return cast(Line, self._compound(node)) if node in self._dirty else line
        if len(line.body) > 1:
            line = next(one for s, one in self._split(line) if s is stmt)
        return self._expressions(stmt, line)

    def _lines(self, body: Sequence[CstStatement]) -> tuple[list[Line], list[cst.EmptyLine]]:
        """A block's new lines, and the comments of removed statements at its end."""
        out: list[Line] = []
        orphans: list[cst.EmptyLine] = []
        for line in body:
            for stmt, one in self._statements(cast(Line, line)):
                new = self._rebuilt(stmt, one)
                if new and orphans:
                    kept = orphans if any(o.comment for o in orphans) or not _leading_blanks(new[0]) else []
                    new[0] = new[0].with_changes(leading_lines=[*kept, *new[0].leading_lines])
                    orphans = []
                elif not new and stmt not in self._edits._moved:
                    orphans += _comments(one) or ([] if orphans else _leading_blanks(one))
                out += new
        return out, orphans if any(o.comment for o in orphans) else []

    def _statements(self, line: Line) -> Iterator[tuple[ast.stmt | None, Line]]:
        """The statements of a line; `a; b` is split if one of them is edited."""
        if isinstance(line, cst.SimpleStatementLine):
            if not any(small in self._dirty for small in line.body):
                yield None, line
            elif len(line.body) == 1:
                yield self._stmt_of[line.body[0]], line
            else:
                yield from self._split(line)
        else:
            yield (self._stmt_of[line] if line in self._dirty else None), line

    def _split(self, line: cst.SimpleStatementLine) -> list[tuple[ast.stmt, cst.SimpleStatementLine]]:
        parts: list[tuple[ast.stmt, cst.SimpleStatementLine]] = []
        for i, small in enumerate(line.body):
            end = cst.TrailingWhitespace(newline=line.trailing_whitespace.newline)
            body = [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]
            one = cst.SimpleStatementLine(body, trailing_whitespace=end)
            if i == 0:
                one = one.with_changes(leading_lines=line.leading_lines)
            if i == len(line.body) - 1:
                one = one.with_changes(trailing_whitespace=line.trailing_whitespace)
            parts.append((self._stmt_of[small], one))
        return parts

    def _rebuilt(self, stmt: ast.stmt | None, line: Line) -> list[Line]:
        if stmt is None:
            return [line]
        e = self._edits
        if stmt in e._replaced:
            new = list(e._replaced[stmt])
            if new and stmt in e._moved:
                new[0] = new[0].with_changes(leading_lines=[*_leading_blanks(line), *new[0].leading_lines])
            elif new:
                new[0] = new[0].with_changes(leading_lines=[*line.leading_lines, *new[0].leading_lines])
                new = self._with_trailing_comment(stmt, line, new)
        elif isinstance(line, cst.SimpleStatementLine):
            new = [self._expressions(stmt, line)]
        else:
            new = [cast(Line, self._compound(line))]
        before = list(e._before.get(stmt, ()))
        if before and new and not before[0].leading_lines:
            # Blank lines above the statement stay above what is inserted; its comments stay with it.
            blank = _leading_blanks(new[0])
            before[0] = before[0].with_changes(leading_lines=blank)
            new[0] = new[0].with_changes(leading_lines=list(new[0].leading_lines)[len(blank) :])
            if isinstance(before[0], cst.FunctionDef) and self._source.tree.block(stmt)[0] is not stmt:
                before[0] = _with_gap(before[0], e._gaps.get(stmt, 0))
        if before and new:
            new[0] = _with_gap(new[0], e._gaps.get(stmt, 0))
        return [*before, *new, *e._after.get(stmt, ())]

    def _with_trailing_comment(self, stmt: ast.stmt, old: Line, new: list[Line]) -> list[Line]:
        """Put a replaced statement's trailing comment after its replacement, or above it if it no longer fits."""
        trailing = getattr(old, "trailing_whitespace", None)
        if trailing is None or trailing.comment is None:
            return new
        last = new[-1]
        if isinstance(last, cst.SimpleStatementLine) and last.trailing_whitespace.comment is None:
            text = cst.Module([]).code_for_node(last.with_changes(leading_lines=[])).rstrip("\n").split("\n")[-1]
            if stmt.col_offset + len(text) + 2 + len(trailing.comment.value) <= self._source.width:
                return [*new[:-1], last.with_changes(trailing_whitespace=trailing)]
        above = cst.EmptyLine(comment=trailing.comment)
        return [new[0].with_changes(leading_lines=[*new[0].leading_lines, above]), *new[1:]]

    def _expressions(self, stmt: ast.stmt, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        edits, text = self._edits._expressions.get(stmt), self._edits._reworded.get(stmt)
        if not edits and text is None:
            return line
        if text is None:
            text, old = self._source.tree.splice(stmt, (edits or {}).items()), self._source.tree.text(stmt)
            too_long = any(stmt.col_offset + len(part) > self._source.width for part in text.split("\n"))
            if too_long or "\n" in old:
                codes = (text, joined(text), old, joined(old))
                fitted = self._source.all_laid_out(codes, stmt.col_offset)
                new, rejoined, as_was, needed = (code.rstrip("\n") for code in fitted)
                if "\n" in old and needed == old:  # it was only broken to fit the width
                    text = rejoined
                elif too_long or as_was == old:
                    text = new
        parsed = cst.parse_statement(text, config=self._source.module.config_for_parsing)
        assert isinstance(parsed, cst.SimpleStatementLine)
        return line.with_changes(body=parsed.body)

    def _compound(self, node: Any) -> Any:
        """A compound statement (or `else`, handler, case) with the edits inside it applied."""
        changes: dict[str, Any] = {}
        stmt = self._stmt_of.get(node)
        if stmt is not None and stmt in self._edits._expressions:
            changes |= self._header(stmt, [*self._edits._expressions[stmt].items()], node)
        if isinstance(getattr(node, "body", None), cst.BaseSuite):
            changes["body"] = self._suite(node.body)
        for name in ("orelse", "finalbody"):
            part = getattr(node, name, None)
            if part is not None:
                changes[name] = self._compound(part)
        for name in ("handlers", "cases"):
            if getattr(node, name, None):
                changes[name] = [self._compound(part) for part in getattr(node, name)]
        return node.with_changes(**changes)

    def _suite(self, suite: cst.BaseSuite) -> cst.BaseSuite:
        lines, rest = self._lines(
            [cst.SimpleStatementLine(suite.body)] if isinstance(suite, cst.SimpleStatementSuite) else list(suite.body)
        )
        if isinstance(suite, cst.SimpleStatementSuite):
            if len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine) and not rest:
                return suite.with_changes(body=lines[0].body)
            suite = cst.IndentedBlock([])
        assert isinstance(suite, cst.IndentedBlock)
        if not lines:
            lines = [cst.SimpleStatementLine([cst.Pass()])]
        elif not suite.body or lines[0] is not suite.body[0]:
            lines[0] = without_blank_lines(lines[0])
        return suite.with_changes(body=lines, footer=[*rest, *suite.footer])

    def _header(self, stmt: ast.stmt, edits: list[tuple[ast.expr, str]], node: Any) -> dict[str, Any]:
        """Apply edits in a header: a loop's iterable or target, a test, a with item, a base class."""
        source = self._source
        changes: dict[str, Any] = {}
        for name in ("iter", "test", "target", "subject"):
            part = getattr(stmt, name, None)
            inside = [e for e in edits if part is not None and _within(source, e[0], part)]
            if part is not None and inside:
                new = cst.parse_expression(source.tree.splice(part, inside))
                changes[name] = new
        if isinstance(stmt, ast.For) and changes:
            blank = cst.Module([])
            target, iterable = (blank.code_for_node(changes.get(n) or getattr(node, n)) for n in ("target", "iter"))
            line = cst.parse_statement(source.laid_out(f"for {target} in {iterable}:\n    pass\n", stmt.col_offset))
            assert isinstance(line, cst.For)
            changes |= {"target": line.target, "iter": line.iter}
        if isinstance(stmt, (ast.With, ast.AsyncWith)):
            items = list(node.items)
            for i, item in enumerate(stmt.items):
                inside = [e for e in edits if _within(source, e[0], item.context_expr)]
                if inside:
                    new = cst.parse_expression(source.tree.splice(item.context_expr, inside))
                    items[i] = items[i].with_changes(item=new)
                    changes["items"] = items
        if isinstance(stmt, ast.ClassDef):
            bases = list(node.bases)
            for i, base in enumerate(stmt.bases):
                inside = [e for e in edits if _within(source, e[0], base)]
                if inside:
                    bases[i] = bases[i].with_changes(value=cst.parse_expression(source.tree.splice(base, inside)))
                    changes["bases"] = bases
        return changes


def _within(source: Source, node: ast.AST, part: ast.AST) -> bool:
    return node is part or part in source.tree.ancestors(node)


def without_blank_lines(line: Line) -> Line:
    """A line without the blank lines above it and its comments."""
    leading = list(line.leading_lines)
    while leading and leading[0].comment is None:
        leading.pop(0)
    return line.with_changes(leading_lines=leading)


def _with_gap(line: Line, gap: int) -> Line:
    """A line with at least `gap` blank lines above it and its comments."""
    missing = gap - len(_leading_blanks(line))
    padding = [cst.EmptyLine(indent=False)] * max(missing, 0)
    return line.with_changes(leading_lines=[*padding, *line.leading_lines]) if missing > 0 else line


def _leading_blanks(line: Line) -> list[cst.EmptyLine]:
    blanks: list[cst.EmptyLine] = []
    for empty in line.leading_lines:
        if empty.comment is not None:
            break
        blanks.append(empty)
    return blanks


def _comments(line: Line) -> list[cst.EmptyLine]:
    """All comments of a removed statement, as separate lines; blank lines between them stay."""
    lines = list(line.leading_lines)
    while lines and lines[-1].comment is None:
        lines.pop()
    trailing = getattr(line, "trailing_whitespace", None)
    if trailing is not None and trailing.comment is not None:
        lines.append(cst.EmptyLine(comment=trailing.comment))
    return lines
