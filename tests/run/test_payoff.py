"""Whether compiling pays off: what is measured, kept, compared and said."""

from dataclasses import replace
from pathlib import Path

import pytest
from running import Runner

from transformer.run.harness import pace
from transformer.run.harness.pace import Measured, Pace, Warm, compile_with
from transformer.run.harness.program import Facts
from transformer.run.payoff import Circumstances, History, after, before, beside, too_short, warmed, without_option

COMPILED = Measured(warmup=40.0, per_iteration=0.5, iterations=100, steps=512.0)
EAGER = Measured(warmup=4.0, per_iteration=1.0, iterations=100, steps=512.0)


class TestWhatIsSaid:
    def test_before(self) -> None:
        assert before(1000, None, EAGER) == "torch compiles now, usually for about half a minute"
        assert "took 40 s last time; run a few iterations with --eager to learn" in before(1000, COMPILED, None)
        assert before(1000, COMPILED, EAGER) == (
            "torch compiles now, which took 40 s last time; it has paid off after 36,864 steps, 76 s, "
            "of 512,000 steps (9 min; --eager would take about 17 min)"
        )
        assert "it does not pay in 25,600 steps (65 s; --eager takes about 54 s), only after 36,864 steps" in before(
            50, COMPILED, EAGER
        )
        assert "it has paid off after 36,864 steps, 76 s" in before(None, COMPILED, EAGER)
        assert "no faster than with --eager" in before(1000, EAGER, COMPILED)
        cached = Measured(warmup=3.0, per_iteration=0.5, iterations=100, steps=512.0)
        assert before(1000, cached, EAGER) == "torch compiles now, which took 3 s last time, and it paid off at once"

    def test_after(self) -> None:
        assert after(COMPILED, EAGER) == (
            "compiling has paid off: 51,712 steps in 90 s; starting and compiling cost 40 s of it, 1,024 steps per "
            "second after that; --eager takes about 105 s, by one earlier run"
        )
        short = Measured(40.0, 0.5, 20, None)
        assert after(short, EAGER).startswith("compiling has not paid off: 21 iterations in 50 s")
        assert after(short, None).endswith(
            "starting and compiling cost 40 s of it; to see whether compiling pays, run it once with --eager"
        )
        alike = replace(EAGER, per_iteration=0.9)
        assert after(replace(EAGER, warmup=8.0), alike).startswith("compiling made no clear difference: 51,712 steps")

    def test_no_speed_is_told_of_a_second(self) -> None:
        brief = replace(COMPILED, iterations=2)
        assert "after that" not in after(brief, EAGER)
        assert "1,024 steps per second after that" in after(replace(brief, iterations=6), EAGER)

    @pytest.mark.parametrize(
        ("args", "short"),
        [
            (
                ["--total-timesteps", "30_000"],
                "30,000 steps finish sooner without compiling, by earlier runs (63 s, ",
            ),
            (["--total-timesteps=30000"], "30,000 steps finish sooner"),
            (["--total-timesteps", "40000"], None),
            (["--total-timesteps", "40000", "--total_steps", "512"], "512 steps finish sooner"),
            (["--total-timesteps", "30000", "--total-timesteps", "1e9"], None),
            (["--total-timesteps"], None),
            (["--total-episodes", "3"], None),
            ([], None),
        ],
    )
    def test_a_short_run_does_not_compile(self, args: list[str], short: str | None) -> None:
        said = too_short(args, COMPILED, EAGER)
        assert (said is None) == (short is None) and (said or "").startswith(short or "")
        assert too_short(args, None, EAGER) is too_short(args, COMPILED, None) is None
        assert too_short(args, replace(COMPILED, steps=None), EAGER) is None

    def test_options_turned_on_beside_the_flags(self) -> None:
        assert beside([], COMPILED, EAGER) == ""
        assert beside(["fused environments"], COMPILED, None) == ". This run had fused environments"
        assert beside(["fused environments"], COMPILED, EAGER) == (
            ". This run had fused environments, 2.00x the pace of an earlier run without"
        )


class TestHistory:
    def test_the_latest_run_in_the_same_circumstances(self, tmp_path: Path) -> None:
        history = History(tmp_path / "history")
        ours = Circumstances.of(["--compile"], ["--env-id", "x"], [], cuda=False)
        assert history.latest(ours) is None
        history.add(ours, EAGER)
        history.add(ours, COMPILED)
        for other in (
            Circumstances.of([], ["--env-id", "x"], [], cuda=False),
            Circumstances.of(["--compile"], ["--env-id", "y"], [], cuda=False),
            Circumstances.of(["--compile"], ["--env-id", "x"], [], cuda=True),
            Circumstances.of(["--compile"], ["--env-id", "x"], ["fused environments"], cuda=False),
        ):
            assert history.latest(other) is None
            history.add(other, EAGER)
        assert history.latest(ours) == COMPILED

    def test_options_that_do_not_change_the_pace_do_not_count(self) -> None:
        args = [
            "--seed",
            "2",
            "--env-id",
            "x",
            "--total_timesteps=100",
            "--track",
            "--num-envs",
            "4",
            "--exp-name",
            "a",
        ]
        of = Circumstances.of([], args, [], cuda=False)
        assert of.args == ("--env-id", "x", "--num-envs", "4")

    def test_meaningless_lines_are_ignored(self, tmp_path: Path) -> None:
        ours = Circumstances.of([], [], [], cuda=False)
        history = History(tmp_path / "history")
        history.add(ours, COMPILED)
        with (tmp_path / "history").open("a") as stream:
            stream.write('nonsense\n{"circumstances": 3}\n[]\n{"cut of')
        assert history.latest(ours) == COMPILED


LOOPS = """\
total = 0
{loop}
    total += 8
    if total == 16:
        continue
"""


class TestPace:
    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first iteration begins after 30 seconds and takes 10; all others take 2."""
        times = iter([30.0, 40.0, *(42.0 + 2 * n for n in range(100))])
        monkeypatch.setattr(pace.time, "perf_counter", lambda: next(times))

    @pytest.mark.parametrize(
        ("loop", "iterations"),
        [("for i in range(10):", 10), ("while total < 80:", None), ("for i in iter(range(10)):", None)],
    )
    @pytest.mark.parametrize("counter", ["total", None, "missing", "total.missing"])
    def test_a_loop_reports_its_iterations(self, loop: str, iterations: int | None, counter: str | None) -> None:
        begun: list[int | None] = []
        ours = Pace(1.0, begun.append)
        names: dict[str, object] = {}
        exec(compile_with(ours, LOOPS.format(loop=loop).encode(), "x.py", 2, counter), names)
        assert names["total"] == 80
        assert begun == [iterations]
        steady = 9 * 2.0  # nine iterations end at 56 seconds, where the tenth begins
        assert ours.measured() == Measured(56.0 - 1.0 - steady, 2.0, 9, 8.0 if counter == "total" else None)
        assert set(names) <= {"__builtins__", "total", "i"}

    @pytest.mark.parametrize(("counter", "speed"), [("total", (4.0, True)), (None, (0.5, False))])
    def test_it_reports_the_end_of_compiling(self, counter: str | None, speed: tuple[float, bool]) -> None:
        told: list[Warm] = []
        ours = Pace(1.0, lambda _: None, told.append)
        exec(compile_with(ours, LOOPS.format(loop="for i in range(10):").encode(), "x.py", 2, counter), {})
        assert told == [Warm(39.0, *speed)]
        assert warmed(told[0]).startswith(
            f"compiled 39 s after the start; {'4 steps' if speed[1] else '0.5 iterations'} per "
        )

    def test_it_reports_what_is_compiled_later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As the update of a script that first fills its buffer; a slow iteration without compiling is none."""
        seconds = iter([0.0, 20.0, *[0.1] * 8, 30.0, *[0.2] * 8, 9.0, *[0.2] * 8])
        graphs = iter([0, 0, *[1] * 8, 2, *[2] * 8, 2, *[2] * 8])
        now = {"time": 1.0, "graphs": 0}
        monkeypatch.setattr(pace.time, "perf_counter", lambda: now["time"])
        monkeypatch.setattr(pace, "_compiled_graphs", lambda: now["graphs"])
        told: list[Warm] = []
        ours = Pace(1.0, lambda _: None, told.append)
        for steps, (took, compiled) in enumerate(zip(seconds, graphs, strict=True)):
            now.update(time=now["time"] + took, graphs=compiled)
            ours.turn(steps)
        assert [(round(warm.after), round(warm.per_second), warm.again) for warm in told] == [
            (20, 10, False),
            (51, 5, True),
        ]
        assert warmed(told[1]).startswith("more was compiled 51 s after the start; 5 steps per second from then on")

    def test_it_says_nothing_if_nothing_was_compiled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        times = iter([30.0 + 2 * n for n in range(100)])
        monkeypatch.setattr(pace.time, "perf_counter", lambda: next(times))
        told: list[Warm] = []
        ours = Pace(1.0, lambda _: None, told.append)
        for steps in range(20):
            ours.turn(steps)
        assert told == []

    def test_compiling_goes_on_while_iterations_get_faster(self, monkeypatch: pytest.MonkeyPatch) -> None:
        spent = [40.0, 10.0, 5.0, 2.0, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1]
        times = iter([sum(spent[:i]) for i in range(len(spent) + 1)])
        monkeypatch.setattr(pace.time, "perf_counter", lambda: next(times))
        told: list[Warm] = []
        ours = Pace(0.0, lambda _: None, told.append)
        uneven = []
        for steps in range(len(spent) + 1):
            ours.turn(steps)
            uneven.append(ours.measured() is None)
            assert not told or steps >= 9
        assert told == [Warm(pytest.approx(57.5), pytest.approx(10.0), True)]
        assert uneven[5:8] == [True] * 3 and not uneven[-1]

    def test_too_few_iterations(self) -> None:
        ours = Pace(0.0, lambda _: None)
        for _ in range(pace.FEWEST):
            ours.turn()
        assert ours.measured() is None


def test_line_numbers_stay() -> None:
    code = "for i in range(2):\n    pass\nfor i in missing:\n    pass\n"
    with pytest.raises(NameError) as error:
        exec(compile_with(Pace(0.0, lambda _: None), code.encode(), "x.py", 3, "steps"), {})
    assert error.traceback[-1].lineno == 2  # tracebacks count from 0


TRAINING = """\
import sys, time
steps = 0
time.sleep(0.3 if "--compile" in sys.argv else 0)
for update in range(6):
    steps += 100
    time.sleep(0.02 if "--compile" in sys.argv else 0.2)
"""


@pytest.mark.slow
def test_runs_know_earlier_ones(runner: Runner) -> None:
    runner.variables["CUDA_VISIBLE_DEVICES"] = ""
    script = runner.write(TRAINING)
    lines = TRAINING.count("\n")
    runner.keep(script, TRAINING, Facts([1] * lines, [None] * lines, {"compile": "--compile"}, 4, "steps"))
    first = runner.run(script).stderr
    assert "torch compiles now, usually" in first
    assert "600 steps in " in first
    assert "--eager" in first
    assert "compiling" not in runner.run(script, "--eager").stderr
    third = runner.run(script, script_args=["--seed", "2"]).stderr
    assert "of 600 steps" in third or "paid off" in third
    assert "--eager" in third
    last = runner.run(script).stderr
    assert "compiling has paid off" in last
    short = runner.run(script, script_args=["--total-timesteps", "100"]).stderr
    assert "100 steps finish sooner without compiling" in short and "runs converted, flags off" in short
    chosen = runner.run(script, "--flags", "--compile", script_args=["--total-timesteps", "100"]).stderr
    assert "finish sooner" not in chosen and "runs converted, --compile" in chosen


class TestWorkers:
    def test_the_fastest_number(self, tmp_path: Path) -> None:
        history, option = History(tmp_path / "history"), "--env-workers"
        ours = Circumstances.of(["--compile"], ["--env-id", "x"], [], cuda=False)
        assert history.fastest(option, ours) is None
        for args, seconds in ((["--env-id", "x"], 1.0), (["--env-workers", "2", "--env-id", "x"], 0.5)):
            assert history.fastest(option, ours) is None, "there is nothing to compare"
            measured = Measured(4.0, seconds, 100, 512.0)
            history.add(Circumstances.of(["--compile"], args, [], cuda=False), measured)
        assert history.fastest(option, ours) == "2"
        history.add(Circumstances.of(["--compile"], ["--env-id", "x", "--env-workers=4"], [], cuda=False), EAGER)
        assert history.fastest(option, ours) == "2"
        history.add(Circumstances.of(["--compile"], ["--env-id", "x", "--env-workers=4"], [], cuda=False), slow(0.1))
        assert history.fastest(option, ours) == "4", "the latest run of a number counts"
        for other in (["--env-id", "y"], ["--env-id", "x", "--num-envs", "8"]):
            assert history.fastest(option, Circumstances.of(["--compile"], other, [], cuda=False)) is None
        history.add(ours, slow(0.01))
        assert history.fastest(option, ours) is None, "the script's own default"

    def test_an_option_is_removed(self) -> None:
        assert without_option(["--a", "1", "--n", "2"], "--n") == (["--a", "1"], "2")
        assert without_option(["--n=3", "--next", "1"], "--n") == (["--next", "1"], "3")
        assert without_option(["--a"], "--n") == (["--a"], None)


def slow(seconds: float) -> Measured:
    """A measurement whose iterations take `seconds` each."""
    return Measured(4.0, seconds, 100, 512.0)
