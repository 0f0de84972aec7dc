"""The text of a LibCST tree, generated once for each statement: most are the same from state to state.

LibCST generates a whole tree anew, each time. Here the blocks of a compound statement are filled with stand-ins for
its statements, which give the text that is known for the same statement at the same indentation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

STATEMENTS = 1 << 12
"""So many statements' texts are kept: those of some scripts."""


def text_of(module: cst.Module) -> str:
    """What `module.code` is."""
    if not module.has_trailing_newline:
        return module.code
    newline, indent = module.default_newline, module.default_indent
    return "".join(_text(line, (), newline, indent) for line in (*module.header, *module.body, *module.footer))


@lru_cache(maxsize=STATEMENTS)
def _text(line: cst.CSTNode, indents: tuple[str, ...], newline: str, indent: str) -> str:
    state = CodegenState(default_indent=indent, default_newline=newline)
    for tokens in indents:
        state.increase_indent(tokens)
    (_with_known(line) if isinstance(line, cst.BaseCompoundStatement) else line)._codegen(state)
    return "".join(state.tokens)


class _Known:
    """Stands for a statement in a block."""

    def __init__(self, line: cst.CSTNode) -> None:
        self._line = line

    def _codegen(self, state: CodegenState) -> None:
        text = _text(self._line, tuple(state.indent_tokens), state.default_newline, state.default_indent)
        state.add_token(text)


def _with_known(node: Any) -> Any:
    """A compound statement, or a part of one (`else`, a handler, a case), with stand-ins in its blocks."""
    changes: dict[str, Any] = {}
    if isinstance(getattr(node, "body", None), cst.IndentedBlock):
        changes["body"] = node.body.with_changes(body=[_Known(line) for line in node.body.body])
    for name in ("orelse", "finalbody"):
        if isinstance(part := getattr(node, name, None), cst.CSTNode):
            changes[name] = _with_known(part)
    for name in ("handlers", "cases"):
        if parts := getattr(node, name, ()):
            changes[name] = [_with_known(part) for part in parts]
    return node.with_changes(**changes) if changes else node
