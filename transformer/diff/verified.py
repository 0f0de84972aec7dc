"""Reads the output of `lean-convert verify --format json` for the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformer.syntax import header


class NotAVerification(ValueError):
    """A file is not the output of `lean-convert verify --format json`."""


@dataclass(frozen=True)
class Compared:
    """One compared quantity of a check; numbers as text."""

    what: str
    values: int
    largest_difference: str
    where: str
    allowed: str
    equal: bool


@dataclass(frozen=True)
class Check:
    """One check: its status (equal, different, not run, failed), what was compared, and what was found."""

    name: str
    status: str
    reason: str
    findings: tuple[str, ...]
    compared: tuple[Compared, ...]


@dataclass(frozen=True)
class Verified:
    """A verification's result."""

    verdict: str
    summary: str
    """The verdict with what it does not cover; empty if written by an earlier version."""
    iterations: int | None
    versions: Mapping[str, str]
    checks: tuple[Check, ...]
    not_exercised: tuple[str, ...]
    """A sentence for each place in the code of which not all outcomes were seen."""
    notes: tuple[str, ...]
    scripts: Mapping[str, Mapping[str, str]]
    """Name and digest of `original` and `converted`; empty if written by an earlier version."""

    def check_scripts(self, original: str, converted: str) -> None:
        """Check that these texts were verified.

        Raises:
            NotAVerification: others were, or the result does not say which.
        """
        if not self.scripts:
            raise NotAVerification("it does not say which scripts were verified: run lean-convert verify again")
        for role, text in (("original", original), ("converted", converted)):
            seen = self.scripts[role]
            if seen["digest"] == header.digest(text):
                continue
            if role == "original":
                raise NotAVerification(f"it is of another script, {seen['name']}: run lean-convert verify again")
            why = "it was edited, or converted with other options"
            alone = f"`lean-convert verify {self.scripts['original']['name']} --format json` verifies that"
            raise NotAVerification(f"{seen['name']} is not the conversion that is shown here: {why}. {alone}")


def read_verified(text: str) -> Verified:
    """Read a verification's JSON.

    Raises:
        NotAVerification: `text` is something else; the message says what is wrong.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise NotAVerification(f"not JSON: {error}") from None
    if isinstance(data, dict) and "error" in data:
        raise NotAVerification(f"the verification could not run: {data['error']}")
    try:
        return Verified(
            verdict=str(data["verdict"]),
            summary=str(data.get("summary", "")),
            iterations=data.get("iterations"),
            versions={str(k): _version(v) for k, v in data.get("versions", {}).items()},
            checks=tuple(map(_read_check, data["checks"])),
            scripts=data.get("scripts", {}),
            not_exercised=tuple(map(str, data.get("not_exercised", ()))),
            notes=(*map(str, data.get("notes", ())), *_seeds_sentences(data.get("seeds"))),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise NotAVerification(f"not the output of lean-convert verify --format json ({error!r})") from None


def _version(version: str | bool) -> str:
    """A version, or whether something is present, in words."""
    return {True: "available", False: "not available"}[version] if isinstance(version, bool) else version


def _seeds_sentences(data: Mapping[str, Any] | None) -> list[str]:
    """A sentence about training with several seeds, if that was done."""
    if data is None:
        return []
    found = "are alike" if data["alike"] else "differ"
    return [f"Trained to the end with {len(data['flags_on'])} seeds, the returns {found} (p = {data['p_value']:.3f})."]


def _read_check(data: Mapping[str, Any]) -> Check:
    return Check(
        name=str(data["name"]),
        status=str(data["status"]),
        reason=str(data.get("reason") or ""),
        findings=tuple(map(str, data.get("findings", ()))),
        compared=tuple(map(_read_compared, data.get("compared", ()))),
    )


def _read_compared(data: Mapping[str, Any]) -> Compared:
    error, allowed, equal = data["largest_difference"], data["allowed"], bool(data["equal"])
    return Compared(
        what=str(data["what"]),
        values=int(data["values"]),
        largest_difference=("equal" if equal else "different") if error is None else _figure(error),
        where=str(data.get("where") or ""),
        allowed=_figure(allowed) if allowed else "none",
        equal=equal,
    )


def _figure(number: float | str) -> str:
    return number if isinstance(number, str) else f"{number:.3g}"
