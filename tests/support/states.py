"""States of the script in scripts.py, and expressions in them, for tests of analyses."""

from __future__ import annotations

import ast

from scripts import PARTS, script

from transformer.conversion.first_state import read, recognise
from transformer.state import State


def state(**parts: str) -> State:
    """The script with some of its parts replaced, after its training loop was found and before any transform."""
    return recognise(read(script(parts), 120))


def more(part: str, lines: str) -> str:
    """A part with more lines below it."""
    return f"{PARTS[part]}\n{lines}"


def valued(state: State, name: str) -> ast.expr:
    """The value that the script assigns to a name with a single assignment."""
    (value,) = (s.value for s in state.tree.of(ast.Assign) if [ast.unparse(t) for t in s.targets] == [name])
    return value
