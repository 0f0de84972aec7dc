"""The speed page and the README's table, built from result files; and the fixes applied to LeanRL's scripts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import mend_leanrl
import pytest
import speed
import speed_page
from made_up import on_a_cpu
from speed_rows import ROWS

from transformer.bench import plots
from transformer.bench.contenders import RUNGS
from transformer.bench.show import as_json


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(speed_page, "RESULTS", tmp_path)
    return tmp_path


def test_without_results(results: Path) -> None:
    assert speed_page.readme_table().count("not measured yet") == len(speed_page.DEVICES)
    assert "Not measured yet. No CUDA device was at hand." in speed_page.page()


def test_with_results_of_a_cpu(results: Path) -> None:
    measured = as_json(on_a_cpu())
    (results / "speed-cpu.json").write_text(json.dumps({"minutes": 12.3, "rows": {"halfcheetah": measured}}))
    lines = {
        tuple(cell.strip() for cell in line.split("|")[1:3]): line for line in speed_page.readme_table().splitlines()
    }
    assert lines["PPO, HalfCheetah-v4", "CPU"] == (
        "| PPO, HalfCheetah-v4 | CPU | 500 | 1.33x | 0.95x | 2.00x | 40 s | 76 s / 36,000 steps |"
    )
    assert "not measured yet" in lines["all", "GPU"]
    assert "not measured yet" in lines["PPO, CartPole-v1, 4 envs", "CPU"]
    page = speed_page.page()
    for part in (
        "Abacus, 2 cores, 8.0 GiB, Linux; torch 9.9; 2030-01-02. All of it took 12 minutes.",
        "Goal on *compile*: 2, hoped for 2.4 (by hand 1.2); reached: 2.00.",
        "| compile | 1,000 ±0% | 2.00 ±5% | 40.0 | 76 s / 36,000 steps | 100 | 3 |",
        "| LeanRL, mended | 667 ±0% | 1.33 ±0% | 180.0 | 708 s / 350,000 steps | 100 | 1 |",
        "| compile | 1,000.0 | 250.0 | 200.0 | 250.0 | 250.0 | 250.0 | 3 | 2 | 1 |",
        "cudagraphs, not run: there is no CUDA device here.",
        "(../results/speed-cpu-halfcheetah.png)",
    ):
        assert part in page, part


@pytest.mark.parametrize(("status", "ratio"), [("measured", "2.40x"), ("not run", "2.00x")])
def test_where_nothing_can_be_fused_run_is_as_fast_as_compile(results: Path, status: str, ratio: str) -> None:
    measured = as_json(on_a_cpu())
    (plain,) = (r for r in measured["results"] if r["name"] == "compile")
    fused = {**plain, "name": "compile, fused", "status": status, "ratio": {**plain["ratio"], "median": 2.4}}
    measured["results"].append(fused)
    (results / "speed-cpu.json").write_text(json.dumps({"minutes": 12.3, "rows": {"halfcheetah": measured}}))
    assert f"| 2.00x | {ratio} | 40 s |" in speed_page.readme_table()


def test_a_goal_that_is_missed_is_told(results: Path) -> None:
    measured = as_json(on_a_cpu())
    for result in measured["results"]:
        if result["name"] == "compile":
            result["ratio"]["median"] = 1.99
    (results / "speed-cpu.json").write_text(json.dumps({"minutes": 12.3, "rows": {"halfcheetah": measured}}))
    assert "**not reached**: 1.99." in speed_page.page()


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"plot.{ending}"
    plots.draw(on_a_cpu(), path)
    assert path.stat().st_size > 1000


def test_mends_apply_exactly_once(tmp_path: Path) -> None:
    for name, mends in mend_leanrl.MENDS.items():
        script = tmp_path / name
        script.write_text("".join(mend.old if mend.old.endswith("\n") else f"{mend.old}\n" for mend in mends))
        mended = mend_leanrl.mended(script)
        assert "requires_grad_(False)" in mended
        assert "import wandb" not in mended
        script.write_text(script.read_text() * 2)
        with pytest.raises(mend_leanrl.CannotMend, match="2 times, not once"):
            mend_leanrl.mended(script)


@pytest.mark.slow
def test_who_takes_part(tmp_path: Path) -> None:
    row = replace(ROWS[0], script="gymnasium_continuous.py")
    fixtures = Path(__file__).parent.parent.parent / "fixtures"
    names = ["original", *RUNGS, "compile, fused", speed.BY_HAND]
    assert row.leanrl is not None

    without = list(speed.contenders(row, fixtures, None, False, tmp_path))
    assert [c.name for c in without] == names
    assert without[-1].reason == "no checkout of LeanRL was given (--leanrl)"

    script = tmp_path / "leanrl" / row.leanrl
    script.parent.mkdir()
    script.write_text("another version\n")
    last = list(speed.contenders(row, fixtures, tmp_path, False, tmp_path))[-1]
    assert "holds 0 times, not once: import wandb" in last.reason

    script.write_text("".join(f"{mend.old}\n" for mend in mend_leanrl.MENDS[row.leanrl]))
    for cuda, flags in ((False, ("--compile",)), (True, ("--compile", "--cudagraphs"))):
        last = list(speed.contenders(row, fixtures, tmp_path, cuda, tmp_path))[-1]
        assert (last.name, last.reason, last.run.args) == (speed.BY_HAND, "", flags)
        assert last.run.source is not None
        assert "requires_grad_(False)" in last.run.source


def test_without_a_leanrl_script_nothing_stands_against(tmp_path: Path) -> None:
    row = next(r for r in ROWS if r.leanrl is None)
    row = replace(row, script="gym_classic_discrete.py")
    fixtures = Path(__file__).parent.parent.parent / "fixtures"
    assert [c.name for c in speed.contenders(row, fixtures, None, False, tmp_path)] == [
        "original",
        *RUNGS,
        "compile, fused",
    ]


@pytest.mark.slow
def test_with_other_environments(tmp_path: Path) -> None:
    """Worker processes, and what `migrate` makes of the script, on the goal's rung."""
    row = replace(ROWS[0], script="gym_classic_discrete.py", leanrl=None, workers=(1, 2))
    fixtures = Path(__file__).parent.parent.parent / "fixtures"
    names = [c.name for c in speed.contenders(row, fixtures, None, False, tmp_path)]
    assert names == ["original", *RUNGS, "compile, fused", "compile, 1 env worker", "compile, 2 env workers"]
    row = replace(row, script="atari_wrappers.py", workers=(), migrated=("--env-id", "Breakout-v5"))
    atari = Path(__file__).parent.parent / "migrate" / "data"
    *_, last = speed.contenders(row, atari, None, False, tmp_path)
    assert last.name == "compile, migrated to envpool" and last.run.source is not None
    assert "envpool.make(" in last.run.source and last.run.args == (*row.args, *row.migrated, "--compile")
