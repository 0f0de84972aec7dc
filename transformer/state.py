"""One state of a script: its tree, what is recognised in it, and what the transforms before it have left to know."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import libcst as cst

from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.imports import add_imports
from transformer.syntax.rewrite import Edits, Source
from transformer.syntax.tree import Tree


class State:
    """One state of a script, which a transform reads and edits.

    Analyses do not take it: they take its tree, or its roles.

    Raises:
        SyntaxError, ValueError: the text is not Python.
    """

    def __init__(self, code: str, width: int, history: History | None = None, module: cst.Module | None = None) -> None:
        self.tree = Tree(code)
        self.history = History(original=code) if history is None else history
        self.roles = Roles(self.tree, self.history)
        self.source = Source(self.tree, width, module)
        self.notes: list[str] = []
        """What a transform has to tell of its application."""
        self.warnings: list[Diagnostic] = []
        self.edited: cst.Module | None = None
        """The LibCST tree that the edits of this state have made."""

    def after(self, code: str) -> State:
        """The state that a transform made of this one; what is known of the script is carried on."""
        return State(code, self.source.width, self.history, self.edited)

    def finish(self, edits: Edits) -> str:
        """Apply `edits`; the new text. The edited LibCST tree is kept, so that the next state need not parse."""
        if self.tree.imports.get("torch") != "torch" and edits.emits("torch."):
            add_imports(self.tree.root, edits, "import torch")
        code, self.edited = edits.apply()
        return code

    def warn(self, node: ast.stmt, code: str, message: str) -> None:
        """Note a finding at the line of the original script that `node` came from."""
        self.warnings.append(Diagnostic(self.origin(node.lineno), node.col_offset + 1, code, message))

    def origin(self, lineno: int) -> int:
        """The line of the original script that a line of this state came from; the nearest above, for a new line.

        Lines are found again by their text: of several with one text, the n-th here is the n-th there.
        """
        here = [line.strip() for line in self.tree.code.splitlines()]
        there = [line.strip() for line in self.history.original.splitlines()]
        for at_line in range(min(lineno, len(here)), 0, -1):
            text = here[at_line - 1]
            same = [i for i, line in enumerate(there, 1) if line == text]
            if text and same:
                return same[min(here[:at_line].count(text), len(same)) - 1]
        return 1

    def placed(self, found: Diagnostic) -> Diagnostic:
        """A finding in this state, at the line and column of the original script that its own came from."""
        line = self.origin(found.line)
        here, there = (
            code.splitlines()[n - 1 : n] for code, n in ((self.tree.code, found.line), (self.history.original, line))
        )
        moved = 0
        if here and there and here[0].strip() == there[0].strip():
            moved = here[0].index(here[0].strip()) - there[0].index(there[0].strip())
        return replace(found, line=line, column=max(1, found.column - moved), message=self.in_original(found.message))

    def in_original(self, message: str) -> str:
        """A message whose line numbers are this state's, with those of the original script.

        What an earlier state found, and facts keep, says "original line" already.
        """
        return re.sub(
            r"\b(original )?line (\d+)", lambda m: f"line {m[2] if m[1] else self.origin(int(m[2]))}", message
        )
