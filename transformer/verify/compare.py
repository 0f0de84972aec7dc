"""Compares two recorded runs bit by bit.

Two floats are equal if they have the same bits, so 0.0 and -0.0 differ; all NaNs are equal to one another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeAlias

from transformer.verify.bits import differing, distance, distances, same_number
from transformer.verify.difference import LACKING, ORDER, Difference, Quantity
from transformer.verify.numpy_later import np
from transformer.verify.recording import Action, Array, Moment, OptimizerStep, Print, Recording, Scalar, Tensor

Timed: TypeAlias = Action | Scalar | Print | OptimizerStep


def compare(left: Recording, right: Recording) -> tuple[Difference, ...]:
    """Compare two runs, the original's first; returns the differences in the order in which they arose.

    Each quantity and name (tag, parameter) has at most one difference, at the first place. No differences means the
    same actions, scalars, printed lines, logged texts, resets and closings, optimizer steps, final parameters, random
    states and files, in every process of the runs.
    """
    found = _Findings()
    _compare_actions(found, left, right)
    _compare_scalars(found, left, right)
    _compare_lines(found, "print", left.prints, right.prints)
    _compare_lines(found, "text", left.texts, right.texts)
    _compare_lines(found, "event", left.events, right.events)
    _compare_steps(found, left, right)
    end = Moment(max(len(left.actions), len(right.actions)), max(len(left.steps), len(right.steps)))
    _compare_tensors(found, "final parameter", end, "the end", left.final, right.final)
    _compare_digests(found, "random state", left.random, right.random)
    _compare_digests(found, "other network", left.others, right.others)
    for name in sorted(set(left.files) ^ set(right.files)):
        sides = ("written", LACKING) if name in left.files else (LACKING, "written")
        found.add(end, "file", name, "the end", sides)
    differences = list(found.sorted())
    for rank, (ours, theirs) in enumerate(zip(left.peers, right.peers, strict=True), start=1):
        differences += [replace(d, where=f"{d.where} of rank {rank}") for d in compare(ours, theirs)]
    return tuple(sorted(differences, key=_order))


class _Findings:
    """Differing entries, gathered by quantity and name."""

    def __init__(self) -> None:
        self._first: dict[tuple[Quantity, str], tuple[Moment, str, tuple[str, str]]] = {}
        self._count: Counter[tuple[Quantity, str]] = Counter()
        self._errors: defaultdict[tuple[Quantity, str], list[float]] = defaultdict(list)

    def add(
        self,
        moment: Moment,
        quantity: Quantity,
        name: str,
        where: str,
        values: tuple[str, str],
        error: float | None = None,
    ) -> None:
        """Add a differing entry; entries of one quantity and name must be added in the order of their moments."""
        key = (quantity, name)
        self._first.setdefault(key, (moment, where, values))
        self._count[key] += 1
        if error is not None:
            self._errors[key].append(error)

    def sorted(self) -> tuple[Difference, ...]:
        """The findings, causes before effects: by iteration, then by phase, then by moment."""
        differences = [
            Difference(moment, *key, where, *values, self._count[key], max(self._errors[key], default=None))
            for key, (moment, where, values) in self._first.items()
        ]
        return tuple(sorted(differences, key=_order))


_AFTER_UPDATE = ("scalar", "print", "text", "event", "final parameter", "file")


def _order(difference: Difference) -> tuple[int, int, int, int]:
    """Rollout, then the optimizer's steps, then the logs about them."""
    quantity = difference.quantity
    phase = 0 if quantity in ("action", "random state", "other network") else 2 if quantity in _AFTER_UPDATE else 1
    return difference.moment.env_steps, phase, difference.moment.optimizer_steps, ORDER.index(quantity)


def _compare_actions(found: _Findings, left: Recording, right: Recording) -> None:
    for i, (a, b) in enumerate(zip_longest(left.actions, right.actions)):
        where = f"action {i}"
        if a is None or b is None:
            found.add(_moment(a, b), "action", "", where, _presence(a, b, "sent"))
        elif len(a.arrays) != len(b.arrays):
            found.add(a.moment, "action", "", where, (f"{len(a.arrays)} arrays", f"{len(b.arrays)} arrays"))
        else:
            for x, y in zip(a.arrays, b.arrays, strict=True):
                if x is not None and y is not None:
                    _compare_arrays(found, a.moment, "action", "", where, x, y)


def _compare_scalars(found: _Findings, left: Recording, right: Recording) -> None:
    ours, theirs = keyed(left.scalars), keyed(right.scalars)
    for key in {**ours, **theirs}:
        a, b = ours.get(key), theirs.get(key)
        tag, step, _ = key
        where = "no step" if step is None else f"step {step}"
        if a is None or b is None:
            found.add(_moment(a, b), "scalar", tag, where, _presence(a, b))
        elif not same_number(a.value, b.value):
            found.add(a.moment, "scalar", tag, where, (repr(a.value), repr(b.value)), distance(a.value, b.value))


def keyed(scalars: Iterable[Scalar]) -> dict[tuple[str, int | None, int], Scalar]:
    """Scalars by tag, step, and the number of earlier scalars with that tag and step."""
    seen: Counter[tuple[str, int | None]] = Counter()
    keyed = {}
    for scalar in scalars:
        tag, step = scalar.tag, scalar.step
        keyed[tag, step, seen[tag, step]] = scalar
        seen[tag, step] += 1
    return keyed


def _compare_lines(found: _Findings, quantity: Quantity, left: Iterable[Print], right: Iterable[Print]) -> None:
    for i, (a, b) in enumerate(zip_longest(left, right), start=1):
        if _line(a) != _line(b):
            found.add(_moment(a, b), quantity, "", f"line {i}", (_line(a), _line(b)))


def _line(printed: Print | None) -> str:
    return LACKING if printed is None else repr(printed.line)


def _compare_steps(found: _Findings, left: Recording, right: Recording) -> None:
    end = Moment(max(len(left.actions), len(right.actions)), 0)
    for number, (a, b) in enumerate(zip_longest(left.optimizers, right.optimizers)):
        if a != b:
            found.add(end, "optimizer", f"optimizer {number}", "its first step", (a or LACKING, b or LACKING))
        prefix = "" if number == 0 else f"optimizer {number}: "
        ours, theirs = _placed(left.steps, number), _placed(right.steps, number)
        for i, place in enumerate(sorted(ours.keys() | theirs.keys()), start=1):
            x, y = ours.get(place), theirs.get(place)
            where = f"optimizer step {i}"
            if x is None or y is None:
                found.add(_moment(x, y), "optimizer", f"{prefix}step", where, _presence(x, y, "taken"))
            else:
                _compare_step(found, prefix, where, x, y)


def _placed(steps: Iterable[OptimizerStep], optimizer: int) -> dict[tuple[int, int, int], OptimizerStep]:
    """One optimizer's steps, keyed by the environment steps and permutations before them, and their number since then.

    With these keys, a step that is missing in one epoch does not shift the steps of the next.
    """
    since: Counter[tuple[int, int]] = Counter()
    placed = {}
    for step in steps:
        if step.optimizer == optimizer:
            epoch = step.moment.env_steps, step.permutations
            placed[epoch[0], epoch[1], since[epoch]] = step
            since[epoch] += 1
    return placed


def _compare_step(found: _Findings, prefix: str, where: str, x: OptimizerStep, y: OptimizerStep) -> None:
    if not same_number(x.gradient_norm, y.gradient_norm):
        error = distance(x.gradient_norm, y.gradient_norm)
        found.add(
            x.moment, "gradient norm", prefix.rstrip(": "), where, (repr(x.gradient_norm), repr(y.gradient_norm)), error
        )
    for name in {**x.numbers, **y.numbers}:
        a, b = x.numbers.get(name), y.numbers.get(name)
        quantity: Quantity = "optimizer state" if ": " in name else "hyperparameter"
        if a is None or b is None:
            found.add(x.moment, quantity, prefix + name, where, _presence(a, b, "there"))
        elif not same_number(a, b):
            found.add(x.moment, quantity, prefix + name, where, (repr(a), repr(b)), distance(a, b))
    _compare_tensors(found, "parameter", x.moment, where, x.tensors, y.tensors, prefix)


def _compare_tensors(
    found: _Findings,
    quantity: Quantity,
    moment: Moment,
    where: str,
    left: Mapping[str, Tensor],
    right: Mapping[str, Tensor],
    prefix: str = "",
) -> None:
    for name in {**left, **right}:
        a, b = left.get(name), right.get(name)
        kind: Quantity = "optimizer state" if ": " in name else quantity
        if a is None or b is None:
            found.add(moment, kind, prefix + name, where, _presence(a, b))
        elif a.digest != b.digest:
            if a.values is None or b.values is None:
                found.add(moment, kind, prefix + name, where, (f"digest {a.digest}", f"digest {b.digest}"))
            else:
                _compare_arrays(found, moment, kind, prefix + name, where, a.values, b.values)


def _compare_digests(
    found: _Findings,
    quantity: Quantity,
    left: Sequence[tuple[Moment, Mapping[str, str]]],
    right: Sequence[tuple[Moment, Mapping[str, str]]],
) -> None:
    for i, (a, b) in enumerate(zip_longest(left, right), start=1):
        if a is None or b is None:
            continue  # fewer iterations, which show in the optimizer steps
        (moment, ours), (_, theirs) = a, b
        where = "the end" if i == len(left) else f"the update of iteration {i}"
        for name in {**ours, **theirs}:
            if ours.get(name) != theirs.get(name):
                sides = ours.get(name, LACKING), theirs.get(name, LACKING)
                found.add(moment, quantity, name, where, sides)


def _compare_arrays(
    found: _Findings, moment: Moment, quantity: Quantity, name: str, where: str, x: Array, y: Array
) -> None:
    if x.dtype != y.dtype or x.shape != y.shape:
        found.add(moment, quantity, name, where, (f"{x.dtype} {x.shape}", f"{y.dtype} {y.shape}"))
        return
    different = differing(x, y)
    if different.any():
        index = tuple(int(i) for i in np.argwhere(different)[0])
        errors = distances(x[different], y[different])
        element = f", element {index}" if index else ""
        found.add(moment, quantity, name, where + element, (repr(x[index].item()), repr(y[index].item())), errors)


def _presence(a: object | None, b: object | None, there: str = "logged") -> tuple[str, str]:
    return (LACKING if a is None else there, LACKING if b is None else there)


def _moment(a: Timed | None, b: Timed | None) -> Moment:
    """The moment of whichever entry exists."""
    there = a or b
    assert there is not None
    return there.moment
