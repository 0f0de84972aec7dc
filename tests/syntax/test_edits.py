"""Edits of statements: what they change, where comments go, and that all other bytes stay."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.syntax.rewrite import Edits, Source
from transformer.syntax.tree import Tree

CODE = '''\
import os  # the system's


def  train( rate,steps ):
    """Strange spacing is the author's own."""
    # before the loop
    for i in range(steps):
        # halve it
        rate = rate / 2  # each time
        a = 1; b = 2

    if rate:
        c = rate
    elif steps: c = steps
    else:
        try:
            c = None
        finally:
            os.sync( )
    return  rate
'''


def edited(code: str, edit: Callable[[Edits, dict[str, ast.stmt]], None], *, width: int = 100) -> str:
    """The text after edits of statements, each found by the first line of its text."""
    source = Source(Tree(code), width)
    statements = {source.tree.text(n).split("\n")[0]: n for n in ast.walk(source.tree.root) if isinstance(n, ast.stmt)}
    edits = Edits(source)
    edit(edits, statements)
    return edits.apply()[0]


def test_a_replaced_statement_keeps_its_comments() -> None:
    after = edited(CODE, lambda e, s: e.replace(s["rate = rate / 2"], "rate *= 0.5"))
    assert after == CODE.replace("rate = rate / 2", "rate *= 0.5")


def test_comments_of_a_removed_statement_go_to_the_next() -> None:
    after = edited(CODE, lambda e, s: e.remove(s["rate = rate / 2"]))
    assert after == CODE.replace("        rate = rate / 2  # each time\n", "        # each time\n")


def test_a_paragraph_that_is_removed_leaves_its_comment() -> None:
    code = "x = 1\n\n# storage\nobs = 2\n\n# start\ny = 3\n"
    assert edited(code, lambda e, s: e.remove(s["obs = 2"])) == code.replace("obs = 2\n", "")


def test_comments_of_a_moved_statement_go_with_it() -> None:
    def move(edits: Edits, statements: dict[str, ast.stmt]) -> None:
        edits.after(statements["return  rate"], [edits.move(statements["rate = rate / 2"])])

    line = "        # halve it\n        rate = rate / 2  # each time\n"
    assert edited(CODE, move) == CODE.replace(line, "") + line.replace("        ", "    ")


def test_inserts_go_above_comments_and_below_statements() -> None:
    def insert(edits: Edits, statements: dict[str, ast.stmt]) -> None:
        edits.before(statements["for i in range(steps):"], "first = 1\nsecond = 2", gap=1)
        edits.after(statements["rate = rate / 2"], "print(rate)")

    after = CODE.replace("    # before", "    first = 1\n    second = 2\n\n    # before")
    assert edited(CODE, insert) == after.replace("# each time\n", "# each time\n        print(rate)\n")


def test_one_of_two_statements_on_a_line() -> None:
    after = edited(CODE, lambda e, s: e.replace(s["b = 2"], "b = 3"))
    assert after == CODE.replace("        a = 1; b = 2\n", "        a = 1\n        b = 3\n")


def test_the_last_statement_of_a_block_leaves_a_pass() -> None:
    after = edited(CODE, lambda e, s: e.remove(s["c = rate"]))
    assert after == CODE.replace("        c = rate\n", "        pass\n")


def test_a_statement_behind_a_colon() -> None:
    assert edited(CODE, lambda e, s: e.replace(s["c = steps"], "c = 1")) == CODE.replace("c = steps", "c = 1")
    after = edited(CODE, lambda e, s: e.after(s["c = steps"], "d = 1"))
    assert after == CODE.replace("elif steps: c = steps\n", "elif steps:\n        c = steps\n        d = 1\n")


@pytest.mark.parametrize(("old", "new"), [("range(steps)", "reversed(range(steps))"), ("os.sync( )", "os.sync()")])
def test_one_expression(old: str, new: str) -> None:
    def substitute(edits: Edits, statements: dict[str, ast.stmt]) -> None:
        nodes = (n for s in statements.values() for n in ast.walk(s) if isinstance(n, ast.Call))
        edits.substitute(next(n for n in nodes if ast.unparse(n) == ast.unparse(ast.parse(old))), new)

    assert edited(CODE, substitute) == CODE.replace(old, new)


HEADERS = """\
class I(Plain, of(a), metaclass=J):
    i = 1
with open(a) as f, lock(b):
    while f:
        c = 1; d = 2
match kind(a):
    case 1:
        e = 1
try:
    g = 1
except make(Error):
    h = 1
"""


@pytest.mark.parametrize("old", ["lock(b)", "kind(a)", "open(a)", "of(a)"])
def test_an_expression_in_a_header(old: str) -> None:
    def substitute(edits: Edits, statements: dict[str, ast.stmt]) -> None:
        nodes = (n for s in statements.values() for n in ast.walk(s) if isinstance(n, ast.Call))
        edits.substitute(next(n for n in nodes if ast.unparse(n) == old), "new(x)")

    assert edited(HEADERS, substitute) == HEADERS.replace(old, "new(x)")


@pytest.mark.parametrize("old", ["e = 1", "g = 1", "h = 1"])
def test_a_statement_in_a_case_or_a_handler(old: str) -> None:
    assert edited(HEADERS, lambda e, s: e.replace(s[old], "new = 1")) == HEADERS.replace(old, "new = 1")


def test_one_of_two_statements_on_a_line_is_moved() -> None:
    after = edited(HEADERS, lambda e, s: e.after(s["h = 1"], [e.lines_of(s["d = 2"])]))
    assert after == HEADERS + "    d = 2\n"


def test_a_text_that_ends_without_a_newline() -> None:
    assert edited("a = 1\nb = 2", lambda e, s: e.replace(s["b = 2"], "b = 3")) == "a = 1\nb = 3"


def test_a_line_that_grows_too_long_is_broken() -> None:
    code = "def f():\n    total = first + second\n"
    after = edited(code, lambda e, s: e.replace(s["total = first + second"], "total = g(first, second)"), width=20)
    assert after == "def f():\n    total = g(\n        first,\n        second,\n    )\n"


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
@pytest.mark.parametrize("unit", ["  ", "\t", "    "])
def test_the_files_own_newlines_and_indentation(newline: str, unit: str) -> None:
    code = CODE.replace("    ", unit).replace("\n", newline)
    after = edited(code, lambda e, s: e.after(s["return  rate"], "if rate:\n    print(1)"))
    assert after == code + f"{unit}if rate:{newline}{unit}{unit}print(1){newline}"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_other_text_keeps_its_bytes(data: st.DataObject) -> None:
    """Statements are inserted anywhere, also beside non-ASCII text; without them, the text is the original."""
    code = CODE.replace("the author's", "l'été de").replace("\n    if rate", "\n    é = 'ü'\n    if rate")
    source = Source(Tree(code), 100)
    statements = [n for n in ast.walk(source.tree.root) if isinstance(n, ast.stmt)]
    lines = {n.lineno: n for n in statements if not isinstance(n, ast.Expr)}
    chosen = data.draw(st.lists(st.sampled_from(sorted(lines)), unique=True))
    edits = Edits(source)
    for lineno in chosen:
        edits.before(lines[lineno], "inserted = 1")
    text, module = edits.apply()
    assert module.code == text
    assert text.count("inserted = 1\n") == len(chosen)
    kept = [line.replace(" ", "").replace(";", "\n") for line in text.split("\n") if "inserted" not in line]
    assert "".join(kept).replace("\n", "") == code.replace(" ", "").replace(";", "").replace("\n", "")
