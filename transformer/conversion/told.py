"""What to report about parts that were left as they were: each fact once, for the most informative transform."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from transformer.conversion.result import Applied, Conversion, Skipped, Step
from transformer.syntax.diagnostics import Diagnostic, Excerpt, excerpts


@dataclass(frozen=True)
class Left:
    """Transforms that might have been applied, and their common reason for leaving the script as it was."""

    names: tuple[str, ...]
    """The names of the transforms; only the first name of alternative ones."""
    reason: str
    places: tuple[Excerpt, ...] = ()
    """The lines of the original that the reason mentions."""
    costs: str = ""
    """The cost of leaving the script as it was, and what to write instead."""


def left_as_it_was(conversion: Conversion) -> list[Left]:
    """What was left as it was, except transforms that only depend on others, and facts that a headline already states.

    If one of several alternative transforms applied, nothing is reported for them. Otherwise they get one reason,
    preferably one that names a line.
    """
    told = [(headline, _mentioned_lines(headline)[:1]) for headline in conversion.first_told]
    found: dict[str, Left] = {}
    for name, ways in _ways(conversion).items():
        for way in ways:
            if isinstance(way.outcome, Applied) and way.outcome.left:
                reason = "; ".join(way.outcome.left)
                places = tuple(excerpts(conversion.original, reason))
                found[reason] = Left((way.transform.name,), reason, places, _elsewhere(way.transform.costs, reason))
        reasons = [(way, way.outcome.reason) for way in ways if _is_left(way) and isinstance(way.outcome, Skipped)]
        if not reasons or any(way.applied for way in ways):
            continue
        way, reason = next(((w, r) for w, r in reasons if _mentioned_lines(r)), reasons[0])
        if any(reason in headline or _mentioned_lines(reason)[:1] == line != [] for headline, line in told):
            continue
        if reason in found:
            found[reason] = replace(found[reason], names=(*found[reason].names, name))
        else:
            places = tuple(excerpts(conversion.original, reason))
            found[reason] = Left((name,), reason, places, in_general(way.transform.costs, reason))
    return list(found.values())


ADVISES = re.compile(r": (append|count|draw|give|index|keep|let|make|move|pass|put|read|store|use|write) ")
"""What a reason that says what to write has in it."""


def in_general(costs: str, reason: str = "") -> str:
    """A transform's costs and advice, marked as general, because they need not fit the reason at hand.

    Without the advice if the reason has its own.
    """
    cost, _, advice = costs.partition(": ")
    if not advice:
        return costs
    return f"{cost}." if ADVISES.search(reason) else f"{cost}. In general: {advice}"


def _elsewhere(costs: str, reason: str) -> str:
    """The costs and advice of a transform that applies to other places of the script."""
    return f"It applies elsewhere in the script; here, {costs[:1].lower()}{in_general(costs, reason)[1:]}"


def as_told(conversion: Conversion, step: Step) -> Step:
    """A step as reports show it: "not needed" if an alternative transform applied."""
    ways = _ways(conversion)[step.transform.instead_of or step.transform.name]
    other = next((way.transform.name for way in ways if way.applied), "")
    if not other or not isinstance(step.outcome, Skipped) or not step.outcome.left_as_it_was:
        return step
    return replace(step, outcome=replace(step.outcome, reason=f"{other} does it instead", kind="not needed"))


def depending(conversion: Conversion) -> list[str]:
    """The transforms that were left out only because another one was, or for the reason of a headline."""
    told = {name for left in left_as_it_was(conversion) for name in left.names}
    first = {s.transform.name for s in conversion.steps if _says_headline(s)}
    return [
        name
        for name, ways in _ways(conversion).items()
        if name not in told | first and not any(way.applied for way in ways)
        if any(isinstance(way.outcome, Skipped) and way.outcome.left_as_it_was for way in ways)
    ]


def unneeded(conversion: Conversion) -> list[str]:
    """The transforms that were selected, but are not needed."""
    skipped = ((s.transform.name, s.outcome) for s in conversion.steps if isinstance(s.outcome, Skipped))
    return [name for name, outcome in skipped if outcome.chosen and not outcome.left_as_it_was]


def counts(conversion: Conversion, *, with_depending: bool = True) -> str:
    """How many transforms were not needed, and how many depend on one that was left out, in words; "" if there are
    none."""
    not_needed, others = len(unneeded(conversion)), len(depending(conversion)) if with_depending else 0
    building = f"{others} {'builds' if others == 1 else 'build'} on one that was left out"
    return ", ".join(filter(None, (f"{not_needed} not needed here" if not_needed else "", building if others else "")))


def _ways(conversion: Conversion) -> dict[str, list[Step]]:
    """The steps of alternative transforms, by the name of the first."""
    groups: dict[str, list[Step]] = {}
    for step in conversion.steps:
        groups.setdefault(step.transform.instead_of or step.transform.name, []).append(step)
    return groups


def _says_headline(step: Step) -> bool:
    """Whether a headline already reports the step."""
    outcome = step.outcome
    return isinstance(outcome, Skipped) and (outcome.headlines != () or step.transform.headline != "")


def needs_another(step: Step) -> bool:
    """Whether a transform was left out only because another one was."""
    outcome = step.outcome
    return isinstance(outcome, Skipped) and outcome.left_as_it_was and outcome.reason.startswith("needs ")


def warnings_told(conversion: Conversion) -> list[Diagnostic]:
    """The warnings, except those on a line that a headline already mentions."""
    named = {line for headline in conversion.first_told for line in _mentioned_lines(headline)}
    return [w for w in conversion.warnings if w.file or str(w.line) not in named]


def _is_left(step: Step) -> bool:
    return isinstance(step.outcome, Skipped) and step.outcome.left_as_it_was and not needs_another(step)


def _mentioned_lines(sentence: str) -> list[str]:
    return re.findall(r"\bline (\d+)\b", sentence)
