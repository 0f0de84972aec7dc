"""The benchmark table, rendered from made-up figures."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from made_up import benchmark, measurement, on_a_cpu
from rich.console import Console

from transformer.bench.bench import Benchmark
from transformer.bench.show import amount, as_json, print_benchmark


def shown(made: Benchmark) -> str:
    text = io.StringIO()
    print_benchmark(made, Console(file=text, width=100))
    return re.sub(r" +", " ", text.getvalue())


def test_all_of_it() -> None:
    text = shown(on_a_cpu())
    for line in (
        "original 500 ±5% 1.00 ±0% 4.0 100",
        "flags off 476 ±5% 0.95 ±10% 4.0 never? 100",
        "compile 1,000 ±0% 2.00 ±5% 40.0 76 s / 36k steps 100",
        "cudagraphs not run",
        "LeanRL, mended 667 ±0% 1.33 ±0% 180.0",
        "compile 1,000.0 250.0 200.0 250.0 250.0 250.0",
        "LeanRL, mended 1,500.0 not known 300.0 not known not known not known",
        "update 4 2 1 3 1.5",
        "cudagraphs: not run: there is no CUDA device here",
        "2 rounds of 5 turns of 2 s after 3 iterations of burn-in; empty compile cache",
        "no CUDA device; Abacus, 2 cores; torch 9.9.",
    ):
        assert line in text, line
    assert text.endswith("?: the measured speed cannot be told apart from the original's.\n")
    assert "busy" not in text


def test_advantages_that_are_not_apart() -> None:
    parts = measurement(0.001, 4.0, phases=("rollout", "update", "other"))
    text = shown(benchmark(("original", [parts]), ("compile", [measurement(0.001, 40.0)])))
    assert "original 1,000.0 333.3 200.0 not apart 333.3 333.3" in text


def test_what_is_still_compiled_after_the_burn_in_is_said_with_its_guard() -> None:
    guard = "0/3: L['optimizer'].param_groups[0]['betas'][0] == 0.93  # in step"
    again = {"function": "update", "after_burnin": True, "reason": guard}
    first = {**again, "after_burnin": False, "reason": None}
    slow = replace(measurement(0.001, 3.0), compiled={"functions": {}, "compilations": [first, again, again]})
    made = benchmark(("original", [measurement(0.002, 4.0)]), ("compile", [slow]))
    text = shown(made)
    assert "compile: update was still compiled after the burn-in, 2 times" in text
    assert "['betas'][0] == 0.93\n" in text
    _, described = as_json(made)["results"]
    assert len(described["still_compiled"]) == 1
    assert "still compiled" not in shown(on_a_cpu())


def test_turns_that_do_not_tell_the_speeds_apart_get_a_question_mark() -> None:
    made = benchmark(
        ("original", [measurement(s, 4.0) for s in (0.0021, 0.0022)]),
        ("flags off", [measurement(s, 5.0) for s in (0.0019, 0.0023)]),
    )
    assert re.search(r"\dk steps\?", shown(made))
    assert "?: the measured speed cannot be told apart" in shown(made)


def test_on_a_gpu() -> None:
    memory = {"rss_mib": 900.0, "cuda_allocated_mib": 50.0, "cuda_reserved_mib": 70.0}
    made = benchmark(
        ("original", [measurement(0.002, 4.0, memory=memory)]),
        ("compile", [measurement(0.001, 3.0, memory=memory)]),
        cuda="Big GPU",
    )
    text = shown(made)
    assert "at once 900 + GPU 50 (70 reserved)" in text
    assert "Big GPU; Abacus" in text
    assert "which waited for the GPU" in text


def test_matrix_products_are_told_where_they_were_timed() -> None:
    original = replace(measurement(0.002, 4.0), products=0.0005)
    assert "are 500.0 microseconds of an original's step (25%)" in shown(benchmark(("original", [original])))
    assert "Matrix products" not in shown(on_a_cpu())


def test_a_busy_machine_is_told_of() -> None:
    made = benchmark(("original", [measurement(0.002, 4.0)]))
    made.machine["load"] = 3.0
    try:
        assert "The machine was busy at the start (load 3.0)" in shown(made)
    finally:
        made.machine["load"] = 0.1


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0"), (999, "999"), (1_000, "1.0k"), (36_000, "36k"), (2_500_000, "2.5M"), (4e7, "40M")]
)
def test_amounts(number: float, words: str) -> None:
    assert amount(number) == words


def test_json_is_json() -> None:
    found = json.loads(json.dumps(as_json(on_a_cpu())))
    (compile_,) = (r for r in found["results"] if r["name"] == "compile")
    assert compile_["break_even"] == {"steps": pytest.approx(36_000), "seconds": pytest.approx(76)}
    assert compile_["told_apart"]
    assert compile_["functions"]["update"]["graph_breaks"] == 3
    assert len(compile_["rounds"][0]["iteration_starts"]) == 6
