"""The parts of a transform: a description, and a function from a state of the script to a rewrite."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from transformer.recognition.history import History
from transformer.recognition.off_policy import Region
from transformer.recognition.roles import Kind
from transformer.state import State
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.rewrite import Edits

SkipKind: TypeAlias = Literal["not needed", "left as it was"]


@dataclass(frozen=True)
class Rewrite:
    """The result of a transform on a state."""

    edits: Edits | State
    """The edits, or the state after several successive edits."""
    history: History | None = None
    """What later transforms know; if None, it is unchanged."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader."""
    left: tuple[str, ...] = ()
    """The other places that it might have changed but left as they were, with the reasons."""
    warnings: tuple[Diagnostic, ...] = ()
    brief: str = ""
    """The property that the script now has, in at most 50 characters; if empty, that of `TransformInfo.brief`."""
    recommended: bool = True
    """Whether a run should set the flag of this transform, if it has one."""
    headlines: tuple[str, ...] = ()
    """The notes to show first: what is not fast, why, and what to change."""


ON_CPU = "the script names no device but the CPU"
"""Why nothing is captured; shown beside the commands."""
NO_DEVICE = "the script names no device: `--target cpu` says that it trains on a CPU"
"""Why transforms for CPUs only are left out."""
BOTH: tuple[Kind, ...] = ("on-policy", "off-policy")
ALL: tuple[Kind, ...] = (*BOTH, "update")
"""Includes the loops of an update in scripts that step the environment elsewhere."""


class Skip(Exception):
    """Raised by a transform that leaves the script as it was.

    The script may have what the transform changes, but the change is not shown to be safe. The message is the reason
    shown to the user. What the transform has learned anyway (history, warnings, headlines) is kept.
    """

    kind: SkipKind = "left as it was"

    def __init__(
        self,
        reason: str,
        history: History | None = None,
        warnings: Sequence[Diagnostic] = (),
        headlines: Sequence[str] = (),
    ) -> None:
        super().__init__(reason)
        self.headlines = tuple(headlines)
        self.history = history
        self.warnings = tuple(warnings)

    def at(self, place: str, stmts: Sequence[ast.stmt]) -> Skip:
        """The same skip, with the place added to the reason, unless the reason names a line of that place.

        `at("the loop", [loop])` adds "(the loop on line 12)".
        """
        first, last = stmts[0].lineno, stmts[-1].end_lineno or stmts[-1].lineno
        named = any(first <= int(line) <= last for line in re.findall(r"\bline (\d+)\b", str(self)))
        where = "" if named else f" ({place} on line {first})"
        return type(self)(f"{self}{where}", self.history, self.warnings, self.headlines)

    def recorded(self, lines: Callable[[str], str]) -> Skip:
        """The same skip, with its line numbers turned into those of the original by a state's `recorded`."""
        return type(self)(lines(str(self)), self.history, self.warnings, tuple(map(lines, self.headlines)))


class NotNeeded(Skip):
    """Raised by a transform that has nothing to change: the script lacks what it changes, or has the change already."""

    kind: SkipKind = "not needed"


def skipped(places: Sequence[Skip], otherwise: str) -> Skip:
    """The skip of a transform that was skipped at every place: "left as it was" if one place was, else "not needed".

    Args:
        places: the skip at each place that the transform might have changed.
        otherwise: the reason if there are no places.
    """
    reason = "; ".join(dict.fromkeys(map(str, places)))
    held = any(place.kind == "left as it was" for place in places)
    return Skip(reason) if held else NotNeeded(reason or otherwise)


@dataclass(frozen=True)
class TransformInfo:
    """The description of a transform for `--help`, `transforms`, `explain`, the diff view and docs/transforms.md."""

    name: str
    brief: str
    """The property that the script has afterwards, in at most 50 characters, for the report."""
    summary: str
    """One line, imperative, no full stop."""
    applies: str
    """The condition under which it is safe, as the end of a sentence that begins with "Applies"."""
    safety: str
    """Why the results are equal: a short paragraph."""
    costs: str
    """The cost of leaving the script as it was, and what to write instead; shown below the reason."""
    needs: tuple[str, ...]
    """Names of the transforms that must have been applied."""
    before: str
    after: str
    """A small example before and after, as Python source."""
    option: Literal["", "tune", "measure", "distribute", "workers", "checkpoint", "precision", "fuse_envs"] = ""
    """The option that requests it; the core, which speeds up scripts everywhere, needs none."""
    instead_of: str = ""
    """The transform that this one replaces if that did not apply."""
    headline: str = ""
    """What is not fast if the script is left as it was, if that should be shown first."""
    prepares: bool = False
    """Whether it only prepares code that others compile; it is left out if nothing is compiled."""
    regroups: str = ""
    """Arithmetic that it reorders on purpose, so that bits differ under the flags; `verify` patches the script to use
    the original's order, and compares everything else bit by bit."""


@dataclass(frozen=True)
class Transform:
    """A transform: `apply` returns the rewrite of a state, without changing the state.

    It raises :class:`Skip` with the reason if it leaves the script as it was, :class:`NotNeeded` if there is nothing to
    change.
    """

    info: TransformInfo
    apply: Callable[[State], Rewrite]
    kinds: tuple[Kind, ...] = ("on-policy",)
    """The kinds of training to which it applies."""


def still_left(places: Sequence[Skip]) -> tuple[str, ...]:
    """Why a transform that applied left the script as it was at other places that it might have changed."""
    return tuple(dict.fromkeys(str(place) for place in places if place.kind == "left as it was"))


def each_region(state: State, change: Callable[[State, Region], State]) -> State:
    """The state after a change of each update region in turn; a change may leave fewer regions."""
    place = 0
    while place < len(state.roles.phases.regions):
        state, place = change(state, state.roles.phases.regions[place]), place + 1
    return state
