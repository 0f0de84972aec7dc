"""Compares whole training runs over several seeds: does the fast script learn as well as the plain one?

The test is a two-sided permutation test on the difference of mean final returns, which assumes no distribution.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformer.verify.numpy_later import np
from transformer.verify.recording import Scalar, load_log
from transformer.verify.run import Run
from transformer.verify.verify import Progress

SIGNIFICANCE = 0.05
FEWEST_SEEDS = 4
"""With three seeds per side, no outcome of the test can be significant."""
LAST_SHARE = 0.1
"""A run's final return is the mean over this last share of its episodes."""
_MOST_PERMUTATIONS = 10_000
_POWER_TRIALS = 400
_POWER_RELABELLINGS = 1000
_PRINTED_RETURN = re.compile(r"return\D{0,3}(-?\d+(?:\.\d+)?)")


class NoReturns(Exception):
    """A run logged no episodic return."""


@dataclass(frozen=True)
class SeedsResult:
    """Final returns by seed of both forms of the script, and the result of the test."""

    plain: tuple[float, ...]
    fast: tuple[float, ...]
    p_value: float
    detectable: float
    """The difference, in standard deviations between seeds, that the test finds in four of five cases."""

    @property
    def alike(self) -> bool:
        """Whether no difference was found."""
        return self.p_value >= SIGNIFICANCE

    def describe(self) -> str:
        """The result in words, with the smallest difference that the test can detect."""
        found = "no difference was found" if self.alike else "the returns differ"
        return (
            f"seeds: {found} (permutation test over {len(self.plain)} seeds a side, p = {self.p_value:.3f}); final "
            f"return {np.mean(self.plain):.4g} with flags off, {np.mean(self.fast):.4g} with flags on; a difference of "
            f"{self.detectable:.2g} standard deviations between seeds would be found in 80% of cases, a smaller one "
            "more rarely"
        )

    def as_json(self) -> dict[str, Any]:
        """All numbers."""
        return {
            "flags_off": list(self.plain),
            "flags_on": list(self.fast),
            "p_value": self.p_value,
            "detectable_at_80_percent": self.detectable,
            "alike": self.alike,
        }


def compare_seeds(run: Run, flags: Sequence[str], seeds: int, progress: Progress) -> SeedsResult:
    """Train the converted script to its end, with seeds from 1 on, without and with `flags`.

    Raises:
        NoReturns: no scalar's tag and no printed line names a return.
        RunFailed: a run ended with an error, such as an unknown option --seed.
        OSError: the script or the interpreter cannot be read or started.
    """
    plain, fast = (
        tuple(
            _final_return(replace(run, args=(*run.args, *options, "--seed", str(seed))), f"seed {seed}{name}", progress)
            for seed in range(1, seeds + 1)
        )
        for name, options in (("", ()), (", flags on", tuple(flags)))
    )
    return SeedsResult(plain, fast, permutation_test(plain, fast), detectable_difference(seeds))


def permutation_test(a: Sequence[float], b: Sequence[float]) -> float:
    """The p value of the difference of two means: the share of relabellings that differ at least as much.

    It uses all relabellings, or 10,000 random ones (from a fixed seed) if there are more.
    """
    both = np.array([*a, *b], dtype=np.float64)
    observed = abs(np.mean(a) - np.mean(b))
    first = both[_relabellings(len(a), len(both))].sum(-1)
    differences = np.abs(first / len(a) - (both.sum() - first) / len(b))
    # rounding must not decide whether the observed labelling counts itself
    return float(np.mean(differences >= observed * (1 - 1e-9)))


def detectable_difference(seeds: int, power: float = 0.8) -> float:
    """The shift, in standard deviations of a normal distribution, that the test finds with probability `power`.

    Determined by simulating the test; accurate to about 0.1.
    """
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, _POWER_TRIALS, seeds))
    chosen = random.permutation(_relabellings(seeds, 2 * seeds))[:_POWER_RELABELLINGS]
    for shift in np.arange(0.5, 10, 0.1):
        both = np.concatenate([a, b + shift], axis=1)
        first = both[:, chosen].mean(-1)
        differences = np.abs(2 * (first - both.mean(1, keepdims=True)))
        observed = np.abs(a.mean(1) - b.mean(1) - shift)
        p_values = (differences >= observed[:, None] * (1 - 1e-9)).mean(1)
        if (p_values < SIGNIFICANCE).mean() >= power:
            return float(shift)
    return math.inf


def _relabellings(chosen: int, total: int) -> np.ndarray[Any, Any]:
    """Indices of those that get the first label: shape (relabellings, chosen)."""
    relabellings: np.ndarray[Any, Any]
    if math.comb(total, chosen) <= _MOST_PERMUTATIONS:
        relabellings = np.array(list(itertools.combinations(range(total), chosen)))
    else:
        random = np.random.default_rng(0)
        relabellings = random.permuted(np.tile(np.arange(total), (_MOST_PERMUTATIONS, 1)), axis=1)[:, :chosen]
    return relabellings


def _final_return(run: Run, name: str, progress: Progress) -> float:
    with progress.run(name, None) as on_iteration, run.under_harness("log", on_iteration) as scratch:
        log = load_log(scratch.output)
    returns = _logged_returns(log.scalars) or [float(m[1]) for p in log.prints if (m := _PRINTED_RETURN.search(p.line))]
    if not returns:
        raise NoReturns(f"{name}: no scalar's tag and no printed line names a return")
    return float(np.mean(returns[-max(1, round(LAST_SHARE * len(returns))) :]))


def _logged_returns(scalars: Sequence[Scalar]) -> list[float]:
    """The values of the tag that names an episodic return, or otherwise of the first that names a return."""
    tags = list(dict.fromkeys(s.tag for s in scalars if "return" in s.tag.lower()))
    tags.sort(key=lambda tag: not tag.endswith("episodic_return"))
    return [s.value for s in scalars if tags and s.tag == tags[0]]
