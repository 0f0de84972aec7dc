"""Goes through a script with every rule."""

from __future__ import annotations

import ast

from transformer import refusal
from transformer.advice.base import Finding
from transformer.advice.rules import RULES
from transformer.advice.study import LINE_LENGTH, Study
from transformer.diagnostics import at
from transformer.script import Unconvertible, recognise


def advise(code: str) -> tuple[Finding, ...]:
    """What costs time in a script, sorted by position; the script need not be one that can be converted.

    Raises:
        Unconvertible: the text is no Python, or too large or too deeply nested to be read.
    """
    unreadable = refusal.not_python(code)
    if unreadable:
        raise Unconvertible(unreadable)
    try:
        study = Study(code)
        convertible = _is_convertible(code)
        found = {
            Finding(*_position(node), rule.code, message, transform if convertible else None)
            for rule in RULES
            for node, message, transform in rule.find(study)
        }
    except RecursionError:
        raise Unconvertible(at(None, "LC008", "the file is nested too deeply")) from None
    return tuple(sorted(found))


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1


def _is_convertible(code: str) -> bool:
    """Whether the script is recognised as one to convert, so that its transforms can be named."""
    try:
        recognise(code, LINE_LENGTH)
    except Unconvertible:
        return False
    return True
