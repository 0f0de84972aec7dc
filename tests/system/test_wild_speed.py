"""The speeds of other people's scripts: how they are kept and shown (benchmarks/wild_speed.py)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in set(sys.modules) - before:
        if name in ("wild", "wild_run", "wild_speed"):
            del sys.modules[name]


def result(ratio: float) -> dict[str, Any]:
    return {
        "status": "measured",
        "ratio": {"median": ratio, "low": 0.95 * ratio, "high": 1.05 * ratio},
        "steps_per_second": {"median": 1000 * ratio},
        "warmup_seconds": {"median": 20.0},
        "seconds_per_step": {"env_step": 1e-4, "update": 2e-4},
        "functions": {"update": {"recompilations_after_burnin": 0}},
    }


def entry(path: str, off: float, compiled: float) -> dict[str, Any]:
    results = {"original": result(1.0), "flags off": result(off), "compile": result(compiled)}
    return {"repository": "a/b", "path": path, "conversion": "1", "machine": {"load": 0.5}, "results": results}


def test_the_summary_has_the_mean_and_slower_scripts() -> None:
    from wild_speed import summary

    off, compiled = summary([entry("x.py", 0.9, 1.0), entry("y.py", 1.6, 4.0)])
    assert "geometric mean 1.20x" in off
    assert "0.90x to 1.60x; 1 below 1.0x, 1 of them by more than their interval" in off
    assert "geometric mean 2.00x" in compiled
    assert "0 below 1.0x" in compiled


def test_measurements_on_one_core_are_marked() -> None:
    from wild_speed import summary

    one, two = entry("x.py", 1.0, 2.0), entry("y.py", 1.0, 2.0)
    one["machine"]["cores"], two["machine"]["cores"] = 1, 2
    assert not any("core" in line for line in summary([two]))
    assert summary([one, two])[-1].startswith("- 1 scripts were measured on one core")


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b"])
def test_impossible_parts(text: str, tmp_path: Path) -> None:
    import wild_speed
    from click.testing import CliRunner

    ran = CliRunner().invoke(wild_speed.main, [str(tmp_path), "--part", text])
    assert ran.exit_code == 2
    assert f"'{text}' is no part" in ran.output


def test_the_page_is_sorted_and_lists_missing_measurements() -> None:
    from wild_speed import page

    failed = entry("failed.py", 1.1, 1.0)
    failed["results"]["compile"] = {"status": "failed", "reason": "Traceback\nValueError: a|b"}
    stopped = {"repository": "a/b", "path": "stopped.py", "conversion": "1", "reason": "it stops"}
    text = page([stopped, failed, entry("slow.py", 1.0, 1.2), entry("fast.py", 1.0, 3.0)])
    names = ("fast.py", "slow.py", "failed.py", "stopped.py")
    assert sorted(names, key=text.index) == list(names)
    assert "| 3.00 ±5% |" in text
    assert "failed: ValueError: a\\|b" in text
    assert "not measured: it stops" in text
    assert len({line.count(" | ") for line in text.splitlines() if line.startswith("| a/b")}) == 1


def test_classes_are_told_of_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    import wild_speed

    monkeypatch.setattr(wild_speed, "_classes", lambda: frozenset({("a/b", "agent.py")}))
    others, classes = wild_speed.page([entry("agent.py", 1.0, 4.0), entry("ppo.py", 1.0, 2.0)]).split("# Agents as")
    assert "1 scripts: geometric mean 2.00x" in others
    assert "1 scripts: geometric mean 4.00x" in classes
    assert "agent.py" not in others and "ppo.py" not in classes


def test_a_script_below_the_aim_has_its_reasons() -> None:
    from wild_speed import held, page

    slow, fast = entry("slow.py", 1.0, 1.2), entry("fast.py", 1.0, 3.0)
    slow["held_back"] = fast["held_back"] = {"policy": "line 3 hides it", "gae": "no loop was found"}
    slow["results"]["original"]["seconds_per_step"] = {"env_step": 7e-4, "rollout": 8e-4, "update": 1e-4, "other": 1e-4}
    slow["results"]["compile"]["seconds_per_step"] = {"env_step": 7e-4, "rollout": 7.1e-4, "update": 1e-5}
    compiled = "compiled, 84% are the environment's steps"
    assert held(slow) == ["70% of its time are the environment's steps", compiled, "policy: line 3 hides it"]
    assert held(fast) == []
    assert "`slow.py`, 1.20x: 70% of its time" in page([slow, fast])
    slow["results"]["original"]["seconds_per_step"]["other"] = 3e-4
    assert "30% of its time are neither rollout, advantages nor update" in held(slow)


def test_each_repository_is_measured_before_the_second_script_of_any() -> None:
    from wild import Script
    from wild_speed import one_of_each_first

    listed = [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1"), ("c", "2")]
    scripts = [Script(repository=r, commit="", path=p) for r, p in listed]
    ordered = [(s.repository, s.path) for s in one_of_each_first(scripts)]
    assert ordered == [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("c", "2")]


def test_a_known_conversion_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wild
    import wild_speed
    from click.testing import CliRunner

    script = wild.Script(repository="a/b", commit="0" * 40, path="ppo.py", ran="equal")
    outcome = wild.Outcome("converted", source="now")
    calls = []

    def measured(*_: Any) -> dict[str, Any]:
        calls.append(1)
        return {"results": entry("", 1.0, 2.0)["results"]}

    monkeypatch.setattr(wild, "read_list", lambda path: [script] if path.stem == "wild" else [])
    monkeypatch.setattr(wild, "outcome_of", lambda path, together=(): outcome)
    monkeypatch.setattr(wild_speed, "lined_up", lambda *_: nullcontext([]))
    monkeypatch.setattr(wild_speed, "measured", measured)
    monkeypatch.setattr(wild_speed, "RESULTS", tmp_path / "speed.json")
    monkeypatch.setattr(wild_speed, "PAGE", tmp_path / "speed.md")
    monkeypatch.setattr(wild_speed, "PICTURE", tmp_path / "speed.png")
    for _ in range(2):
        ran = CliRunner().invoke(wild_speed.main, [str(tmp_path)])
        assert ran.exit_code == 0, ran.output
    assert len(calls) == 1
    assert [e["conversion"] for e in json.loads((tmp_path / "speed.json").read_text())] == [outcome.digest]
    assert (tmp_path / "speed.png").exists()
    CliRunner().invoke(wild_speed.main, [str(tmp_path), "--again"])
    assert len(calls) == 2


def test_a_script_that_stops_is_kept_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wild
    import wild_speed
    from click.testing import CliRunner

    from transformer.verify.run import RunFailed

    script = wild.Script(repository="a/b", commit="0" * 40, path="ppo.py", ran="equal")
    monkeypatch.setattr(wild, "read_list", lambda path: [script] if path.stem == "wild" else [])
    monkeypatch.setattr(wild, "outcome_of", lambda path, together=(): wild.Outcome("converted", source="now"))

    def stops(*_: Any) -> dict[str, Any]:
        raise RunFailed("it ended", "Traceback\nValueError: no game")

    monkeypatch.setattr(wild_speed, "lined_up", lambda *_: nullcontext([]))
    monkeypatch.setattr(wild_speed, "measured", stops)
    monkeypatch.setattr(wild_speed, "RESULTS", tmp_path / "speed.json")
    monkeypatch.setattr(wild_speed, "PAGE", tmp_path / "speed.md")
    monkeypatch.setattr(wild_speed, "PICTURE", tmp_path / "speed.png")
    CliRunner().invoke(wild_speed.main, [str(tmp_path)])
    assert json.loads((tmp_path / "speed.json").read_text())[0]["reason"] == "ValueError: no game"


def test_a_timeout_is_the_reason_not_the_last_line() -> None:
    from wild_speed import _why

    from transformer.verify.run import RunFailed

    assert _why(RunFailed("the script was still running after 240 s", "a warning\nanother")).endswith("240 s")
    assert _why(RunFailed("the script ended with exit status 1", "Traceback\nValueError: x")) == "ValueError: x"
    assert _why(RunFailed("no training loop was found")) == "no training loop was found"


def test_matrix_products_are_a_reason() -> None:
    from wild_speed import held

    slow = entry("x.py", 1.0, 1.2)
    assert not any("matrix products" in why for why in held(slow))
    slow["results"]["original"]["seconds_per_step"]["products"] = 5e-4
    assert "50% of its time are matrix products and convolutions" in held(slow)


def test_warm_ups_have_a_table() -> None:
    from wild_speed import page

    assert "Warm-up" not in page([entry("x.py", 1.0, 2.0)])
    warmed = {**entry("x.py", 1.0, 2.0), "warm_up": {"cores": 2, "empty": 21.4, "full": None}}
    assert "on 2 idle cores" in page([warmed])
    assert "| a/b `x.py` | 21 |  |" in page([warmed])


def test_one_or_two_iterations_are_too_short() -> None:
    from wild_speed import KEPT, concise, ratio

    from transformer.verify.run import RunFailed

    def told(**turns: int) -> dict[str, Any]:
        return {
            "machine": {},
            "turns": 4,
            "results": [
                {**result(1.5), "name": name.replace("_", " "), "rounds": [{"turns": [1.0] * count}]}
                for name, count in turns.items()
            ],
        }

    kept = concise(told(original=4, flags_off=2, compile=3), KEPT)
    assert (ratio(kept, "flags off"), ratio(kept, "compile")) == (None, 1.5)
    assert kept["results"]["flags off"]["reason"] == "it ended after 2 of 4 turns"
    with pytest.raises(RunFailed, match="after 1 of 4"):
        concise(told(original=1, compile=4), KEPT)


def test_scripts_with_big_networks_have_their_own_summary() -> None:
    from wild_speed import summary

    small, big = entry("x.py", 1.0, 3.0), entry("y.py", 1.0, 1.2)
    small["results"]["original"]["seconds_per_step"]["products"] = 1e-4  # of a step of 1 ms
    big["results"]["original"]["seconds_per_step"]["products"] = 6e-4
    few, many = summary([small, big, entry("z.py", 1.0, 9.0)])[2:]
    assert "less than 40%" in few and "1 scripts: geometric mean 3.00x" in few
    assert "more than 40%" in many and "1 scripts: geometric mean 1.20x" in many
