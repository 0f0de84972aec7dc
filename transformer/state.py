"""One state of a script: its tree, its recognised roles, and the history of earlier transforms."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.imports import add_imports
from transformer.syntax.rewrite import Edits, Line, Source
from transformer.syntax.tree import Tree, first_line

ALIKE = 0.6
"""The share of text that two lines of a statement must have in common to count as the same."""


class State:
    """One immutable state of a script, which transforms read.

    Analyses take its tree or its roles, not the state itself.
    """

    def __init__(self, source: Source, history: History) -> None:
        self.tree = source.tree
        self.source = source
        self.history = history
        self.roles = Roles(self.tree, history)

    @classmethod
    def first(cls, tree: Tree, width: int) -> State:
        """The state of a script before all transforms; emitted lines may be `width` columns long."""
        return cls(Source(tree, width), History(original=tree.code))

    def after(self, edits: Edits, history: History | None = None) -> State:
        """The state after edits; may be this state itself. `history` replaces the history.

        Raises:
            SyntaxError: the emitted text is not Python.
        """
        if self.tree.imports.get("torch") != "torch" and edits.emits("torch."):
            add_imports(self.tree.root, edits, "import torch")
        source = edits.applied()
        after = self if source is self.source else State(source, self.history)
        return after.knowing(history or self.history)

    def rewritten(self, module: cst.Module, new: Mapping[ast.stmt, Sequence[Line]]) -> State:
        """The state with another LibCST tree; the `new` lines are attributed to the origins of these statements."""
        source = self.source
        return State(source.edited(source.texts.of(module), module, new), self.history)

    def knowing(self, history: History) -> State:
        """The same script with another history."""
        return self if history is self.history else State(self.source, history)

    def warning(self, node: ast.stmt, code: str, message: str) -> Diagnostic:
        """A diagnostic at the line of the original script that `node` came from."""
        return Diagnostic(self.origin(node.lineno), node.col_offset + 1, code, message)

    def origin(self, lineno: int) -> int:
        """The line of the original script that a line of this state came from.

        A statement keeps its origin, however it has changed or moved. Lines inside a statement of several lines are
        matched by their text.
        """
        above = [n for n in self.tree.nodes if isinstance(n, ast.stmt) and first_line(n) <= lineno]
        inner = sorted(above, key=lambda n: (lineno <= (n.end_lineno or 0), first_line(n), n.col_offset), reverse=True)
        found = ((here, there) for here in inner if (there := self.source.origin(here)) is not None)
        here, there = next(found, (None, None))  # a new line comes from the line above
        if here is None or there is None or here.lineno == lineno:
            return there.lineno if there is not None else 1
        text = self._as_named(self.tree.code.splitlines()[lineno - 1]).strip()
        first = first_line(there)
        lines = [line.strip() for line in self.history.original.splitlines()[first - 1 : there.end_lineno]]
        alike = difflib.get_close_matches(text, lines, n=1, cutoff=ALIKE)
        return first + lines.index(alike[0]) if alike else there.lineno

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

        Messages that an earlier state recorded already say "original line".
        """
        return re.sub(
            r"\b(original )?line (\d+)",
            lambda m: f"line {m[2] if m[1] else self.origin(int(m[2]))}",
            self._as_named(message),
        )

    def recorded(self, message: str) -> str:
        """The message for a later state: as `in_original`, but with the lines marked as "original line"."""
        return re.sub(r"\bline (?=\d)", "original line ", self.in_original(message))

    def _as_named(self, text: str) -> str:
        """The text with the original's names: buffers instead of their replacements, and variables before renaming."""
        for holder in filter(None, (self.history.storage, self.history.transition)):
            text = re.sub(rf"\b{re.escape(holder)}\[(['\"])(\w+)\1\]", r"\2", text)
        renamed = self.history.renamed
        return re.sub(r"\b\w+\b", lambda found: renamed.get(found[0], found[0]), text) if renamed else text
