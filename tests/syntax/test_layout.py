"""Breaking emitted lines, and doing without a formatter."""

from __future__ import annotations

import sys

import pytest

from transformer.syntax import layout


def test_long_lines_are_broken() -> None:
    assert layout.fit_all((("f(first, second)", 4),), 18) == ("f(\n    first,\n    second,\n)\n",)


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
