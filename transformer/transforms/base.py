"""What a transform is: a description, and a function from a state of the script to its rewrite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from transformer.recognition.history import History
from transformer.recognition.roles import Kind
from transformer.state import State
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.rewrite import Edits

SkipKind: TypeAlias = Literal["not needed", "left as it was"]


@dataclass(frozen=True)
class Rewrite:
    """What a transform makes of a state, and all that comes of it."""

    edits: Edits | State
    """The edits; or the state that several edits have made, one after the other."""
    history: History | None = None
    """What later transforms know; what they knew before, where None."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader."""
    warnings: tuple[Diagnostic, ...] = ()
    brief: str = ""
    """What the script has then, in at most 50 characters, where that is not what the transform's own words say."""
    recommended: bool = True
    """Whether a run should use the flag behind which it stands, where it is one."""
    headlines: tuple[str, ...] = ()
    """Those of the notes that a reader should see first: what is not fast, why, and what to change."""


ON_CPU = "the script names no device, and computes on the CPU"
"""Why nothing is captured: told beside the commands."""
NO_DEVICE = "the script names no device: `--target cpu` says that it trains on a CPU"
"""Why what is for CPUs alone is left out."""
BOTH: tuple[Kind, ...] = ("on-policy", "off-policy")
ALL: tuple[Kind, ...] = (*BOTH, "update")
"""Also for the loops of an update whose environment is stepped elsewhere."""


class Skip(Exception):
    """Raised by a transform that leaves the script as it was.

    What it is for may be there, and is not known to be right to change.

    Its message is the reason shown to the user. Where it has learned or seen something all the same, that is kept.
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


class NotNeeded(Skip):
    """Raised by a transform for which there is nothing in the script: what it changes is not there, or is done."""

    kind: SkipKind = "not needed"


def skipped(places: Sequence[Skip], otherwise: str) -> Skip:
    """The skip of a transform that was skipped in each place: left as it was where one of them was.

    Args:
        places: the skip of each place that the transform might have changed.
        otherwise: why it is not needed where there are none.
    """
    reason = "; ".join(dict.fromkeys(map(str, places)))
    held = any(place.kind == "left as it was" for place in places)
    return Skip(reason) if held else NotNeeded(reason or otherwise)


@dataclass(frozen=True)
class TransformInfo:
    """What is told of a transform everywhere: `--help`, `transforms`, `explain`, the diff view, docs/transforms.md."""

    name: str
    brief: str
    """What the script has then, in at most 50 characters: the report's words."""
    summary: str
    """One line, imperative, no full stop."""
    applies: str
    """The condition under which it is right, as the end of a sentence that begins with "Applies"."""
    safety: str
    """Why the results stay equal: a short paragraph."""
    costs: str
    """What it costs where the script is left as it was, and what to write instead: told below the reason."""
    needs: tuple[str, ...]
    """Names of the transforms that must be applied before it."""
    before: str
    after: str
    """A small before/after example, Python source."""
    option: Literal["", "tune", "measure", "distribute", "workers", "checkpoint", "precision", "fuse_envs"] = ""
    """The option that asks for it; the core, which makes a script fast anywhere, is applied without one."""
    instead_of: str = ""
    """The transform whose work it does in another way, where that one did not apply."""
    headline: str = ""
    """What is not fast where the script is left as it was, if a reader should see that first."""
    prepares: bool = False
    """Whether it only prepares what others compile, and is left out where nothing is compiled."""
    regroups: str = ""
    """What it computes in another order of arithmetic on purpose, so that bits differ there under the flags; `verify`
    gives the script what the original's order gives, and compares all else bit by bit."""


@dataclass(frozen=True)
class Transform:
    """A transform: `apply` returns the rewrite of a state, which it leaves as it is.

    It raises :class:`Skip` with the reason where it leaves the script as it was, :class:`NotNeeded` where there is
    nothing for it to do.
    """

    info: TransformInfo
    apply: Callable[[State], Rewrite]
    kinds: tuple[Kind, ...] = ("on-policy",)
    """The kinds of training that it is for."""
