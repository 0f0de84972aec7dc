"""Benchmark figures, checked against values computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from transformer.bench.break_even import BreakEven, break_even
from transformer.bench.figures import Spread, figures, spread
from transformer.bench.measure import Measurement, Row


def measurement(
    per_step: float,
    warmup: float,
    *,
    borders: tuple[int, ...] = (2, 5),
    compiled: dict[str, object] | None = None,
    rss: float = 100.0,
) -> Measurement:
    """Five iterations of 10 steps at `per_step` seconds, half of them in the update, after a warm-up."""
    rows = tuple(
        Row(
            warmup + 10 * i * per_step,
            10 * i,
            2.0 * i * per_step,
            {"rollout": 5 * i * per_step, "update": 5 * i * per_step},
        )
        for i in range(6)
    )
    return Measurement(rows, borders, {"functions": compiled or {}}, {"rss_mib": rss}, {}, None)


def counts(compilations: int, graph_breaks: int) -> dict[str, float]:
    return {
        "compilations": compilations,
        "recompilations": 1,
        "recompilations_after_burnin": 0,
        "graph_breaks": graph_breaks,
        "not_compiled": 0,
        "compile_seconds": 1.5,
    }


def test_one_run() -> None:
    found = measurement(0.01, 7.0)
    assert found.seconds_per_step == pytest.approx(0.01)
    assert found.warmup_seconds == pytest.approx(7.0)
    assert (found.iterations, found.steps) == (3, 30)
    assert found.split == pytest.approx({"env_step": 0.002, "rollout": 0.005, "update": 0.005})


def test_steps_that_are_only_stored_are_no_steps_in_steady_state() -> None:
    """Steps with random actions only are not counted: 1000 of them take 0.1 s, and compiling begins with learning."""
    rows = (Row(2.0, 0, 0.0, {}), Row(2.1, 1000, 0.0, {}), Row(40.1, 1100, 0.0, {}), Row(41.1, 1200, 0.0, {}))
    found = Measurement(rows, (2, 3), {"functions": {}}, {"rss_mib": 1.0}, {}, None, only_stored=1)
    assert found.warmup_seconds == pytest.approx(40.1 - 100 * 0.01)
    assert replace(found, only_stored=0).warmup_seconds == pytest.approx(40.1 - 1100 * 0.01)


def test_medians_and_spreads_over_rounds() -> None:
    originals = [measurement(s, 2.0) for s in (0.010, 0.011, 0.020)]
    ours = [measurement(s, w, rss=r) for s, w, r in ((0.005, 30.0, 90.0), (0.005, 32.0, 300.0), (0.008, 31.0, 200.0))]
    found = figures(ours, originals, ours)
    assert found.steps_per_second == Spread(pytest.approx(200), pytest.approx(125), pytest.approx(200))
    assert found.ratio == Spread(pytest.approx(2.2), pytest.approx(2.0), pytest.approx(2.5)), "pairs of one round"
    assert found.warmup_seconds.median == pytest.approx(31.0)
    assert found.peak_mib == {"rss_mib": 300.0}
    assert found.seconds_per_step["update"] == pytest.approx(0.0025)
    assert found.clear
    assert found.break_even == BreakEven(pytest.approx(29 / 0.006), pytest.approx(31 + 29 / 0.006 * 0.005))


def test_ratios_are_of_the_same_turn() -> None:
    """Ratios compare runs of the same turn: the machine halves its speed in the second turn, but the ratio stays 2."""

    def slowing(per_step: float) -> Measurement:
        seconds = (0.0, 10 * per_step, 30 * per_step, 50 * per_step)
        rows = tuple(Row(s, 10 * i, 0.0, {"update": s}) for i, s in enumerate(seconds))
        return Measurement(rows, (0, 1, 2, 3), {"functions": {}}, {"rss_mib": 1.0}, {}, None)

    found = figures([slowing(0.01)], [slowing(0.02)], [slowing(0.01)])
    assert found.ratio == Spread(*[pytest.approx(2.0)] * 3)
    assert found.steps_per_second == Spread(pytest.approx(50), pytest.approx(50), pytest.approx(100))
    assert found.seconds_per_step["update"] == pytest.approx(0.02)


@pytest.mark.parametrize(("count", "cut"), [(1, 0), (2, 0), (5, 0), (6, 0), (9, 1), (10, 1), (20, 5), (100, 39)])
def test_interval_of_the_median(count: int, cut: int) -> None:
    """The ranks are those in published tables of the sign test."""
    assert spread(range(count)) == Spread((count - 1) / 2, cut, count - 1 - cut)


def test_ratios_on_both_sides_of_one_are_not_clear() -> None:
    originals = [measurement(s, 2.0) for s in (0.010, 0.012)]
    assert not figures([measurement(s, 2.0) for s in (0.009, 0.013)], originals, []).clear
    assert figures([measurement(s, 2.0) for s in (0.008, 0.009)], originals, []).clear


def test_phases_are_those_of_the_runs_that_waited() -> None:
    ours = [measurement(0.01, 2.0)]
    assert figures(ours, ours, [measurement(0.02, 2.0)]).seconds_per_step["update"] == pytest.approx(0.01)


def test_original_is_never_ahead_of_itself() -> None:
    ours = [measurement(0.01, 2.0)]
    assert figures(ours, ours, ours, is_original=True).break_even is None


@pytest.mark.parametrize(
    ("ours", "original", "expected"),
    [
        ((40.0, 0.001), (4.0, 0.002), BreakEven(36_000, 76.0)),
        ((4.0, 0.001), (4.0, 0.002), BreakEven(0.0, 4.0)),
        ((2.0, 0.001), (4.0, 0.002), BreakEven(0.0, 2.0)),
        ((40.0, 0.002), (4.0, 0.002), None),
        ((2.0, 0.003), (4.0, 0.002), None),
    ],
)
def test_break_even(ours: tuple[float, float], original: tuple[float, float], expected: BreakEven | None) -> None:
    found = break_even(*ours, *original)
    assert found == (expected and BreakEven(pytest.approx(expected.steps), pytest.approx(expected.seconds)))
    if found is not None and found.steps:
        (w, s), (v, r) = ours, original
        assert w + s * found.steps == pytest.approx(v + r * found.steps), "both are there at the same time"


def test_functions_are_of_the_round_that_compiled_most() -> None:
    ours = [
        measurement(0.01, 2.0, compiled={"update": counts(2, 1), "gae": counts(1, 0)}),
        measurement(0.01, 2.0, compiled={"update": counts(5, 3)}),
    ]
    found = figures(ours, ours, ours).functions
    assert {name: (f.compilations, f.graph_breaks) for name, f in found.items()} == {"update": (5, 3), "gae": (1, 0)}
