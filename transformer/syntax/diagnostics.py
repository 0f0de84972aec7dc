"""Diagnostics: what is wrong with a script, where, why, and what to do about it.

Every code is declared once, in :data:`CODES`; `lean-convert explain CODE`, the documentation table and
the tests read it from there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from transformer.syntax.query import parse

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Code:
    """A kind of diagnostic: its number, a one-line title, the reason for it, and what the user can do."""

    code: str
    severity: Severity
    title: str
    reason: str
    advice: str


@dataclass(frozen=True, order=True)
class Diagnostic:
    """One finding at one position of the script. `line` counts from 1, `column` from 1, as editors do."""

    line: int
    column: int
    code: str
    message: str
    file: str = ""
    """The file of the finding, if it is not the script but a file given with it."""

    what_to_do: str = ""
    """Advice for this finding, if it says more than the general advice for the code."""

    @property
    def severity(self) -> Severity:
        """`error` prevents the conversion; `warning` accompanies it."""
        return CODES[self.code].severity

    @property
    def advice(self) -> str:
        """What the user can do about it."""
        return self.what_to_do or CODES[self.code].advice


def at(node: ast.AST | None, code: str, message: str, what_to_do: str = "") -> Diagnostic:
    """Make a diagnostic that points at `node` (line 1, column 1 if there is no node)."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
    return Diagnostic(line, column, code, message, what_to_do=what_to_do)


SHOWN = 60
"""The maximum number of characters of a line quoted in a sentence."""


@dataclass(frozen=True)
class Excerpt:
    """A line of a script and the part of it to point at. `column` and `end` count from 1; `end` is excluded."""

    line: int
    column: int
    end: int
    text: str
    """The line without trailing whitespace."""


def excerpt(source: str, line: int, column: int | None = None, about: str = "") -> Excerpt | None:
    """The excerpt for a line of a script; None if there is no such line, or the line is empty.

    Args:
        source: the script's text.
        line: counts from 1.
        column: the first column of the expression or statement to point at, from 1; None if not known.
        about: the sentence that mentions the line; without a column, points at the longest expression it quotes.
    """
    lines = source.splitlines()
    text = lines[line - 1].rstrip() if 0 < line <= len(lines) else ""
    if not text:
        return None
    begin = len(text) - len(text.lstrip())
    spans = _spans(source).get(line, ())
    if column is not None and column == len(text) + 1:  # something is missing at the end of the line
        return Excerpt(line, column, column + 1, text)
    if column is not None and begin < column <= len(text):
        ends = [min(end, len(text)) for start, end in spans if start == column - 1]
        word = re.match(r"[\w.]+|.", text[column - 1 :])
        return Excerpt(line, column, max(ends, default=column - 1 + len(word[0] if word else "")) + 1, text)
    named = [(s, e) for s, e in spans if e <= len(text) and e - s > 1 and _spells(about, text[s:e])]
    start, end = max(named, key=lambda span: (span[1] - span[0], -span[0]), default=(begin, len(text)))
    return Excerpt(line, start + 1, end + 1, text)


def excerpts(source: str, sentence: str) -> Iterator[Excerpt]:
    """Excerpts for the lines of a script that a sentence mentions ("line 12"), each once; not for other files."""
    for line in dict.fromkeys(re.findall(r"\bline (\d+)\b(?! of [^\s,:;]+\.py\b)", sentence)):
        found = excerpt(source, int(line), about=sentence)
        if found is not None:
            yield found


def with_code(source: str, sentence: str) -> str:
    """The sentence with the code of the first line that it mentions inserted after "line 12", if that is short."""
    found = next(excerpts(source, sentence), None)
    code = found.text.strip() if found is not None else ""
    if (
        found is None
        or not 0 < len(code) <= SHOWN
        or re.search(rf"\b{re.escape(code)} on line {found.line}\b", sentence)
    ):
        return sentence
    return re.sub(rf"\bline {found.line}\b", lambda m: f"{m[0]} (`{code}`)", sentence, count=1)


def _spells(sentence: str, code: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(code)}(?![\w(])", sentence) is not None


@lru_cache(maxsize=4)
def _spans(source: str) -> dict[int, list[tuple[int, int]]]:
    """By line, the columns at which expressions and statements begin and end, counting from 0.

    A node that continues below ends past the last column of the line. Empty for text that is not Python.
    """
    try:
        root = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines = [line.encode() for line in source.splitlines()]
    found: dict[int, list[tuple[int, int]]] = {}
    for node in ast.walk(root):
        if isinstance(node, (ast.expr, ast.stmt)) and node.lineno <= len(lines):
            line = lines[node.lineno - 1]
            start, end = (len(line[:n].decode(errors="replace")) for n in (node.col_offset, node.end_col_offset or 0))
            found.setdefault(node.lineno, []).append((start, end if node.end_lineno == node.lineno else len(line)))
    return found


CODES: dict[str, Code] = {
    c.code: c
    for c in (
        Code(
            "LC001",
            "error",
            "not Python source",
            "The input is empty, binary, or does not parse, so nothing can be proved about it.",
            "Provide a UTF-8 file that the running Python version can parse.",
        ),
        Code(
            "LC002",
            "error",
            "already converted",
            "The script shows signs of an earlier conversion; a second one would wrap functions twice.",
            "Convert the original script, not the converted one.",
        ),
        Code(
            "LC003",
            "error",
            "a JAX script",
            "The script trains with JAX, which already compiles its update; this tool rewrites eager PyTorch.",
            "Convert the PyTorch version of the script.",
        ),
        Code(
            "LC004",
            "error",
            "no known training loop",
            "No loop was found that steps an environment, and then an optimizer over a rollout or over stored steps.",
            "Convert the script with the training loop, with env.step() and optimizer.step() in one loop nest.",
        ),
        Code(
            "LC005",
            "error",
            "a training loop that cannot be understood",
            "Rollout and update are not separate phases of one loop, and the loop does not learn from stored steps "
            "either, so extracting them could change results.",
            "Give each iteration a rollout loop, then the advantages, then epoch and minibatch loops; phases may be "
            "functions that are called in one place and return at their end. A script that learns from stored steps "
            "needs one loop that steps the environment, stores the step, and then updates from stored ones.",
        ),
        Code(
            "LC006",
            "error",
            "no transform applies",
            "Every transform left the script as it was, so the converted script would be the original.",
            "Change the line that the message names first: it blocks most of them.",
        ),
        Code(
            "LC007",
            "error",
            "internal error",
            "A transform failed, or wrote invalid Python. This is a bug in lean-convert, not in the script.",
            "Report it together with the script; until it is fixed, leave the named transform out with --ignore.",
        ),
        Code(
            "LC008",
            "error",
            "too large",
            "The file is longer, or nested deeper, than any training script, and converting it would take very long.",
            "Move anything but training (data, tables, other programs) into other files and import them.",
        ),
        Code(
            "LC009",
            "error",
            "files that cannot be merged safely",
            "--with merges files into the script. In one file, a name might mean something else, or another module or "
            "other code might be executed.",
            "Change the line that is named, or choose other files: those that are not given are imported as before, "
            "and not converted.",
        ),
        Code(
            "LC101",
            "warning",
            "a synchronization remains in the update",
            "The update still reads a tensor's value on the host, which stalls the GPU once per minibatch.",
            "Keep the value as a tensor and read it once after the epochs, or after the optimizer's step.",
        ),
        Code(
            "LC102",
            "warning",
            "only the update is converted",
            "The environment is stepped in another file, or in a function that is not called in the update's loop.",
            "To convert more, put both into one loop. Phases may be functions, or methods of an object that is made "
            "once, if each is called in one place.",
        ),
        Code(
            "LC103",
            "warning",
            "an object may be saved under another module's name",
            "Saving a whole object stores the name of its class's module; a class merged by --with is in the script's.",
            "Save a state_dict(), which names no classes.",
        ),
        Code(
            "LC201",
            "error",
            "not supported by envpool",
            "`lean-convert migrate` supports one chain of Atari wrappers with one value for each parameter, and one "
            "way to read episodes from the infos; anything else could change silently.",
            "Use the wrappers of cleanrl's ppo_atari.py, with the same parameters in the same order, or call envpool "
            "by hand.",
        ),
    )
}
