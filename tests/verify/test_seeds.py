"""The statistics over seeds."""

from __future__ import annotations

import numpy as np
import pytest

from transformer.verify.seeds import FEWEST_SEEDS, SIGNIFICANCE, SeedsResult, detectable_difference, permutation_test


def test_exact_p_values() -> None:
    """Four against four, all larger on one side: 2 of 70 relabellings are as far apart."""
    assert permutation_test([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert permutation_test([5, 6, 7, 8], [1, 2, 3, 4]) == pytest.approx(2 / 70)
    assert permutation_test([1, 2, 3], [1, 2, 3]) == 1.0


def test_fewest_seeds_that_can_be_significant() -> None:
    def best(n: int) -> float:
        return permutation_test(range(n), range(100, 100 + n))

    assert best(FEWEST_SEEDS) < SIGNIFICANCE <= best(FEWEST_SEEDS - 1)


def test_false_alarms_are_as_rare_as_stated() -> None:
    random = np.random.default_rng(5)
    alarms = [permutation_test(*random.standard_normal((2, 5))) < SIGNIFICANCE for _ in range(300)]
    assert 0.01 < np.mean(alarms) < 0.09


def test_more_seeds_see_smaller_differences() -> None:
    few, more = detectable_difference(4), detectable_difference(8)
    assert 1.0 < more < few < 5.0
    random = np.random.default_rng(6)
    found = [
        permutation_test(random.standard_normal(8), random.standard_normal(8) + more) < SIGNIFICANCE for _ in range(40)
    ]
    assert 0.6 < np.mean(found) < 0.95


def test_the_verdict_says_what_could_not_be_seen() -> None:
    result = SeedsResult((1.0, 2.0), (1.5, 2.5), 0.4, 2.5)
    assert result.alike
    assert "2.5 standard deviations" in result.describe()
    assert not SeedsResult((1.0,), (9.0,), 0.01, 2.5).alike
