"""Before/after pairs: what a transform changes in parts of a script, and when and why it changes nothing."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass

from scripts import edited, script

from transformer import Applied, Conversion, Skipped, Step, all_transforms, convert
from transformer.transforms.base import SkipKind

Parts = Mapping[str, str]

ADDED = """\
parser.add_argument("--compile", action="store_true", help="compile policy and update with torch.compile")
"""
GRAPHS = 'parser.add_argument("--cudagraphs", action="store_true", help="replay {} as CUDA graphs")\n'


def alone(what: str = "policy and update", captured: str = "") -> Parts:
    """The flags, with a help text that names what is compiled, and what is captured if anything is."""
    text = ADDED.replace("compile policy and update", f"compile {what}")
    return {"flags": text + (GRAPHS.format(captured) if captured else "")}


FLAGS: Parts = {"flags": ADDED}
"""The parts that the flags transform adds, for the transforms that need it."""


NAMED: Parts = {
    **FLAGS,
    "copy": "policy = agent.get_action_and_value",
    "act": edited("act", "agent.get_action_and_value", "policy"),
}
"""The parts that change when the policy's call gets a name, and the flags that this needs."""


@dataclass(frozen=True)
class Rewrite:
    """Parts before a transform, and the parts that it changes; all others must stay the same byte for byte."""

    title: str
    before: Parts
    after: Parts
    notes: tuple[str, ...] = ()
    """A piece of each note, in the order of the notes."""
    also: tuple[str, ...] = ()
    """Transforms that are applied before this one although it does not need them."""
    brief: str | None = None
    """The expected `brief` of the outcome: "" for the transform's own, None if it does not matter."""

    def __str__(self) -> str:
        return self.title

    @property
    def source(self) -> str:
        """The script before all transforms."""
        return script(self.before)

    def check(self, transform: str, given: Parts | None = None) -> None:
        """Assert that the transform makes exactly this change; `given` is the result of those that it needs."""
        step = turn(transform, self.source, self.also)
        assert isinstance(step.outcome, Applied), step.outcome
        assert self.brief in (None, step.outcome.brief)
        assert all(map(operator.contains, step.outcome.notes, self.notes)), step.outcome.notes
        assert len(step.outcome.notes) == len(self.notes), step.outcome.notes
        expected = script({**self.before, **(given or {}), **self.after}, spare=True)
        assert step.after.splitlines(keepends=True) == expected.splitlines(keepends=True)


@dataclass(frozen=True)
class NoOp:
    """Parts of a script that a transform leaves alone."""

    title: str
    parts: Parts
    reason: str
    """A piece of the reason; `{line}` in it stands for the line of the script that contains the text `at`."""
    at: str = ""
    also: tuple[str, ...] = ()
    kind: SkipKind = "left as it was"

    def __str__(self) -> str:
        return self.title

    def check(self, transform: str) -> None:
        """Assert that the transform is skipped for this reason, with this kind."""
        source = script(self.parts)
        lines = [number for number, line in enumerate(source.splitlines(), 1) if self.at in line]
        assert len(lines) == 1 or not self.at
        step = turn(transform, source, self.also)
        assert isinstance(step.outcome, Skipped), step.outcome
        assert self.reason.format(line=lines[0]) in step.outcome.reason
        assert step.outcome.kind == self.kind
        assert step.after == step.before


def turn(transform: str, source: str, also: tuple[str, ...] = ()) -> Step:
    """The step of one transform, after the transforms that it needs and those in `also`."""
    conversion = converted_by(source, transform, *also)
    assert conversion.steps, conversion.diagnostics
    return next(s for s in conversion.steps if s.transform.name == transform)


def converted_by(source: str, *transforms: str) -> Conversion:
    """A conversion by these transforms and those that they need; all transforms would take three times as long."""
    needs = {t.name: t.needs for t in all_transforms()}
    chosen, missing = {*transforms}, [*transforms]
    while missing:
        new = set(needs[missing.pop()]) - chosen
        chosen |= new
        missing += new
    return convert(source, select=chosen)
