"""Emitted lines are broken if they are long; the formatter is optional."""

from __future__ import annotations

import sys

import pytest

from transformer.syntax import layout


def test_long_lines_are_broken() -> None:
    assert layout.fit_all((("f(first, second)", 4),), 18) == ("f(\n    first,\n    second,\n)\n",)


def test_pieces_are_formatted_each_for_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = layout._ruff
    monkeypatch.setattr(layout, "_ruff", lambda code, width: asked.append(code) or ask(code, width))
    code = "f(first, second)"
    assert layout.fit_all.__wrapped__(((code, 0), (code, 8)), 18) == (f"{code}\n", "f(\n    first,\n    second,\n)\n")
    assert len(asked) == 1
    layout.fit_all.__wrapped__(((code, 0), (code, 1)), 18)
    assert len(asked) == 3, "the columns of a unit's rest are another width"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("f(\n    first,\n    second,\n)", "f(\n    first,\n    second\n)"),
        ("pair = [\n    (\n        a,\n    ),\n]", None),
        ("x[\n    a,\n]", None),
        ("x, y = (\n    f(a),\n    b,\n)", "x, y = f(a), b"),
        ("x = (\n    f(a)\n)", "x = f(a)"),
        ("x = (\n    a\n    + b\n) * (\n    c\n)", None),
        ('x, y = (\n    a,\n    """b\n"""\n)', None),
        ("f(\n    first,  # of (a, b,\n)", None),
        ('f(\n    """a,\n)""",\n)', None),
    ],
)
def test_commas_that_keep_a_statement_broken(code: str, expected: str | None) -> None:
    assert layout.joined(code) == (expected or code)


def test_nothing_is_changed_without_a_formatter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_binary", lambda: None)
    assert layout.fit_all.__wrapped__((("f(first, second)", 4),), 18) == ("f(first, second)",)


def test_a_formatter_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout._binary.__wrapped__() is not None

    def missing() -> str:
        raise FileNotFoundError

    monkeypatch.setattr("ruff.__main__.find_ruff_bin", missing)
    assert layout._binary.__wrapped__() is None
    monkeypatch.setitem(sys.modules, "ruff.__main__", None)
    assert layout._binary.__wrapped__() is None
