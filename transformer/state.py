"""One state of a script: its tree, its recognised roles, and what earlier transforms have recorded."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import replace

import libcst as cst

from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.imports import add_imports
from transformer.syntax.rewrite import Edits, Source
from transformer.syntax.tree import Tree

ALIKE = 0.75
"""The share of text that two lines must have in common to count as one changed line."""


class State:
    """One state of a script, which transforms read. It is immutable.

    Analyses take its tree or its roles, not the state itself.
    """

    def __init__(self, source: Source, history: History) -> None:
        self.tree = source.tree
        self.source = source
        self.history = history
        self.roles = Roles(self.tree, history)

    @classmethod
    def first(cls, code: str, width: int) -> State:
        """A script before all transforms; emitted lines may take `width` columns.

        Raises:
            SyntaxError, ValueError: the text is not Python.
        """
        return cls(Source(Tree(code), width), History(original=code))

    def after(self, edits: Edits, history: History | None = None) -> State:
        """The state after edits, perhaps this same one; `history` replaces what is recorded.

        Raises:
            SyntaxError: the emitted text is not Python.
        """
        if self.tree.imports.get("torch") != "torch" and edits.emits("torch."):
            add_imports(self.tree.root, edits, "import torch")
        code, module = edits.apply()
        after = self if code == self.tree.code else self.rewritten(code, module)
        return after.knowing(history or self.history)

    def rewritten(self, code: str, module: cst.Module | None = None) -> State:
        """The state with another text, and its LibCST tree if there is one already."""
        return State(Source(Tree(code), self.source.width, module), self.history)

    def knowing(self, history: History) -> State:
        """The same text with another history."""
        return self if history is self.history else State(self.source, history)

    def warning(self, node: ast.stmt, code: str, message: str) -> Diagnostic:
        """A diagnostic at the line of the original script that `node` came from."""
        return Diagnostic(self.origin(node.lineno), node.col_offset + 1, code, message)

    def origin(self, lineno: int) -> int:
        """The line of the original script that a line of this state came from; for a new line the nearest above, or the
        one below it if that is gone.

        Lines are matched by their text: of several equal lines, the n-th here is the n-th there. A line that a
        transform changed matches the most similar one.
        """
        here = [line.strip() for line in self._as_named(self.tree.code).splitlines()]
        there = [line.strip() for line in self.history.original.splitlines()]
        if here[lineno - 1 : lineno] and here[lineno - 1] not in there:
            alike = difflib.get_close_matches(here[lineno - 1], there, n=1, cutoff=ALIKE)
            if alike:
                return there.index(alike[0]) + 1
        for at_line in range(min(lineno, len(here)), 0, -1):
            text = here[at_line - 1]
            same = [i for i, line in enumerate(there, 1) if line == text]
            if text and same:
                found = same[min(here[:at_line].count(text), len(same)) - 1]
                below = next((i for i, line in enumerate(there[found:], found + 1) if line and line[0] != "#"), found)
                return below if at_line < lineno and there[below - 1] not in here else found
        return 1

    def placed(self, found: Diagnostic) -> Diagnostic:
        """A diagnostic of this state, moved to the corresponding line and column of the original script."""
        line = self.origin(found.line)
        here, there = (
            code.splitlines()[n - 1 : n] for code, n in ((self.tree.code, found.line), (self.history.original, line))
        )
        moved = 0
        if here and there and here[0].strip() == there[0].strip():
            moved = here[0].index(here[0].strip()) - there[0].index(there[0].strip())
        return replace(found, line=line, column=max(1, found.column - moved), message=self.in_original(found.message))

    def in_original(self, message: str) -> str:
        """A message with the line numbers and names of this state replaced by those of the original script.

        Messages that an earlier state recorded in the history already say "original line".
        """
        return re.sub(
            r"\b(original )?line (\d+)",
            lambda m: f"line {m[2] if m[1] else self.origin(int(m[2]))}",
            self._as_named(message),
        )

    def _as_named(self, text: str) -> str:
        """A text with the buffers' own names instead of the expressions that replaced them."""
        for holder in filter(None, (self.history.storage, self.history.transition)):
            text = re.sub(rf"\b{re.escape(holder)}\[(['\"])(\w+)\1\]", r"\2", text)
        return text
