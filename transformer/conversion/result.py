"""The result of a conversion: every state of the script, and what each transform did, or why it did nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from transformer.conversion.several_files import SeveralFiles
from transformer.syntax.diagnostics import Diagnostic, with_code
from transformer.syntax.query import parse
from transformer.transforms.base import SkipKind, TransformInfo


@dataclass(frozen=True)
class Applied:
    """The transform changed the script."""

    notes: tuple[str, ...] = ()
    """Notes for the reader about this application, one sentence each."""
    brief: str = ""
    """What the script has now, if that differs from the transform's own `brief`."""
    recommended: bool = True
    """Whether a run should use the flag that enables it, if there is one."""
    headlines: tuple[str, ...] = ()
    """The notes that a reader should see first."""
    left: tuple[str, ...] = ()
    """The notes that say what was left as it was, and why."""

    @property
    def lesser_notes(self) -> tuple[str, ...]:
        """The notes that are neither headlines nor in `left`."""
        return tuple(note for note in self.notes if note not in (*self.headlines, *self.left))


@dataclass(frozen=True)
class Skipped:
    """The transform left the script as it was."""

    reason: str
    kind: SkipKind = "left as it was"
    """Whether the script has nothing to change, or a change is not known to be safe."""
    chosen: bool = True
    """False if --select or --ignore left out the transform, or one that it needs."""
    headlines: tuple[str, ...] = ()
    """What a reader should see first; if empty, the transform's headline with the reason."""

    @property
    def left_as_it_was(self) -> bool:
        """Whether the reason is worth reporting: the transform might have been applied, and was not."""
        return self.chosen and self.kind == "left as it was"

    @property
    def held_back(self) -> bool:
        """The name that `left_as_it_was` had in 0.1; to be removed in the release after that."""
        return self.left_as_it_was


@dataclass(frozen=True)
class Refused:
    """The transform found something that rules out the whole conversion."""

    diagnostics: tuple[Diagnostic, ...]


Outcome: TypeAlias = Applied | Skipped | Refused


@dataclass(frozen=True)
class Step:
    """One transform's turn: the source before and after it (equal unless the outcome is Applied)."""

    transform: TransformInfo
    outcome: Outcome
    before: str
    after: str

    @property
    def applied(self) -> bool:
        """Whether the transform changed the script."""
        return isinstance(self.outcome, Applied)

    @property
    def brief(self) -> str:
        """What the script has after the step, in at most 50 characters, for the report."""
        return (self.outcome.brief if isinstance(self.outcome, Applied) else "") or self.transform.brief


@dataclass(frozen=True)
class Conversion:
    """A script's path through the pipeline.

    `converted` is False if an error was found; then `source` is the original, and `diagnostics` says why.
    """

    original: str
    steps: tuple[Step, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = field(default=())
    """All findings, errors and warnings, ordered by their positions in the ORIGINAL script."""
    options: tuple[tuple[str, str], ...] = ()
    """The added flags and their spelling on the command line: (compile, --compile), ..."""
    brought: tuple[tuple[str, int], ...] = ()
    """If the first step merged files, the origin of each line of its result: the file as the user named it, "" for the
    script itself, and the line number there."""
    beside: tuple[Path, ...] = ()
    """The given files that are not merged, and are imported from where they are."""
    several: SeveralFiles | None = None
    """The converted script and the given files as separate files, if this was requested."""

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that rule out the conversion."""
        return tuple(d for d in self.diagnostics if d.severity == "error")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that accompany a conversion."""
        return tuple(d for d in self.diagnostics if d.severity == "warning")

    @property
    def converted(self) -> bool:
        """Whether there is a converted script."""
        return not self.errors

    def refusal(self, script: str) -> str:
        """Why the script cannot be converted, with one line for each reason; `script` is the name the user gave it."""
        reasons = (f"\n{d.file or script}:{d.line}:{d.column}: {d.code} {d.message}" for d in self.errors)
        return f"the original cannot be converted:{''.join(reasons)}"

    @property
    def source(self) -> str:
        """The converted script (the original if it was refused)."""
        return self.steps[-1].after if self.converted and self.steps else self.original

    @property
    def recommended(self) -> frozenset[str]:
        """The added flags that a run should use, by their names in `options`: all but those that gain little here."""
        slow = {s.transform.name for s in self.steps if isinstance(s.outcome, Applied) and not s.outcome.recommended}
        return frozenset(name for name, _ in self.options) - slow

    @property
    def headlines(self) -> tuple[str, ...]:
        """What a reader should see first: which part of the training is not compiled, and why, with the code there."""
        return tuple(with_code(self.original, sentence) for sentence in self.first_told)

    @cached_property
    def first_told(self) -> tuple[str, ...]:
        """The headlines without the code of the lines that they name."""
        outcomes = {s.transform.name: s.outcome for s in self.steps}
        found: dict[str, None] = {}
        for step in self.steps:
            outcome = step.outcome
            if isinstance(outcome, Applied):
                found |= dict.fromkeys(outcome.headlines)
            elif isinstance(outcome, Skipped) and outcome.left_as_it_was and step.transform.headline:
                needed = (o for n in step.transform.needs if isinstance(o := outcomes.get(n), Skipped))
                why = next((o.reason for o in needed if o.kind == "left as it was"), outcome.reason)
                found |= dict.fromkeys(outcome.headlines or (f"{step.transform.headline}: {why}",))
        return tuple(found)

    @cached_property
    def gone(self) -> tuple[str, ...]:
        """The classes, functions and methods of the original that other files can no longer import from the result."""
        before, after = (_importable(text) for text in (self.original, self.source))
        lost = [name for name in before if name not in after]
        return tuple(name for name in lost if name.partition(".")[0] not in lost or "." not in name)

    @cached_property
    def runs_nothing(self) -> bool:
        """Whether the original only defines what other files import: run by itself, it trains nothing."""
        body = parse(self.original).body
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        defined = {stmt.name for stmt in body if isinstance(stmt, kinds)}
        others = [stmt for stmt in body if not isinstance(stmt, (*kinds, ast.Import, ast.ImportFrom))]
        inside = [node for stmt in others for node in ast.walk(stmt)]
        runs = any(isinstance(n, (ast.For, ast.While)) or (isinstance(n, ast.Name) and n.id in defined) for n in inside)
        return bool(defined) and not runs

    @property
    def states(self) -> tuple[str, ...]:
        """The original, then the script after each applied transform."""
        return (self.original, *(s.after for s in self.steps if s.applied))


def _importable(code: str) -> dict[str, None]:
    """The names of a file's classes and functions at its top level, and of its classes' methods: `PPO.train`."""
    found: dict[str, None] = {}
    for stmt in parse(code).body:
        if isinstance(stmt, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found[stmt.name] = None
            inner = stmt.body if isinstance(stmt, ast.ClassDef) else []
            found |= {f"{stmt.name}.{s.name}": None for s in inner if isinstance(s, ast.FunctionDef)}
    return found
