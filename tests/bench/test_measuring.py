"""The stopwatch, on a script whose times are known because it only sleeps."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import sleeper
from sleeper import edited

from transformer.bench import measure as measuring
from transformer.bench.measure import Length, Measurement, measure
from transformer.bench.phases import find_places
from transformer.verify.run import Run, RunFailed

SHORT = Length(burnin=1, iterations=3, seconds=None, turns=1)
PER_ITERATION = {
    "env_step": sleeper.STEPS * sleeper.ENV,
    "rollout": sleeper.STEPS * (sleeper.ENV + sleeper.POLICY),
    "gae": sleeper.STEPS * sleeper.GAE,
    "update": sleeper.MINIBATCHES * sleeper.UPDATE,
    "other": sleeper.OTHER,
}
STEPS = sleeper.STEPS * sleeper.NUM_ENVS


def timed(folder: Path, source: str, length: Length = SHORT, **options: object) -> Measurement:
    script = folder / "script.py"
    script.write_text(source)
    return measure(Run(script), length, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [sleeper.TOY, sleeper.IN_FUNCTIONS], ids=["in the loop", "in functions"])
def test_every_phase_takes_as_long_as_the_script_sleeps_in_it(tmp_path: Path, source: str) -> None:
    found = timed(tmp_path, source)
    for phase, seconds in found.split.items():
        assert PER_ITERATION[phase] <= seconds * STEPS < 2 * PER_ITERATION[phase] + 0.01, phase
    parts = sum(seconds for phase, seconds in found.split.items() if phase != "env_step")
    assert parts == pytest.approx(found.seconds_per_step, rel=0.01)
    assert set(found.split) == set(PER_ITERATION)


def test_advantages_inside_the_update_have_no_time_of_their_own(tmp_path: Path) -> None:
    head, loop, rest = sleeper.IN_FUNCTIONS.partition("    gae()\n    for minibatch")
    within = f"{head}    for minibatch{rest}".replace(
        "    optimizer.zero_grad()", "    gae()\n    optimizer.zero_grad()"
    )
    found = timed(tmp_path, within)
    assert loop and set(found.split) == set(PER_ITERATION) - {"gae"}
    assert found.split["update"] * STEPS >= PER_ITERATION["gae"] + PER_ITERATION["update"]


def test_steps_are_those_of_all_environments(tmp_path: Path) -> None:
    found = timed(tmp_path, sleeper.TOY)
    assert (found.iterations, found.steps) == (3, 3 * STEPS)
    assert [row.steps for row in found.rows] == [i * STEPS for i in range(5)]


@pytest.mark.parametrize(
    ("reward", "count"), [("[1.0] * 5", 5), ("1.0", 1), ("__import__('array').array('f', [1, 2])", 1)]
)
def test_environments_are_counted_by_rewards(tmp_path: Path, reward: str, count: int) -> None:
    found = timed(tmp_path, edited(f"[1.0] * {sleeper.NUM_ENVS}", reward))
    assert found.steps == 3 * sleeper.STEPS * count


def test_warmup_is_what_steady_state_does_not_take(tmp_path: Path) -> None:
    plain = timed(tmp_path, sleeper.TOY)
    slow_start = timed(tmp_path, edited("    time.sleep(0.016)", "    time.sleep(0.016 if iteration else 2.016)"))
    assert plain.warmup_seconds > sleeper.START
    assert slow_start.warmup_seconds - plain.warmup_seconds == pytest.approx(
        2.0, abs=0.7
    )  # the start-up time of Python varies
    assert slow_start.seconds_per_step == pytest.approx(plain.seconds_per_step, rel=0.3)


def test_seconds_end_the_run_after_a_whole_iteration(tmp_path: Path) -> None:
    found = timed(tmp_path, sleeper.TOY, Length(burnin=2, iterations=None, seconds=0.3, turns=1))
    assert found.rows[-1].seconds - found.rows[2].seconds >= 0.3
    assert found.rows[-2].seconds - found.rows[2].seconds < 0.3
    assert timed(tmp_path, sleeper.TOY, Length(burnin=2, iterations=None, seconds=1e-6, turns=1)).iterations == 1


def test_a_turn_ends_after_whole_iterations(tmp_path: Path) -> None:
    found = timed(tmp_path, sleeper.TOY, Length(burnin=1, iterations=2, seconds=None, turns=3))
    assert (found.borders, found.iterations, found.steps) == ((1, 3, 5, 7), 6, 6 * STEPS)
    assert len(found.turns) == 3
    assert found.seconds_per_step == sorted(found.turns)[1]
    assert min(found.turns) * STEPS > sum(s for phase, s in PER_ITERATION.items() if phase != "env_step")


def test_steps_of_an_evaluation_do_not_count(tmp_path: Path) -> None:
    evaluating = edited("    time.sleep(0.016)\n", "    time.sleep(0.016)\n    obs, reward = envs.step(0)\n")
    found = timed(tmp_path, evaluating)
    assert found.steps == 3 * STEPS
    assert found.split["env_step"] * STEPS == pytest.approx(PER_ITERATION["env_step"], rel=0.5)


def test_an_environment_in_an_environment_is_one(tmp_path: Path) -> None:
    wrapped = edited(
        "class Optimizer",
        "class Wrapper(Envs):\n    def step(self, action):\n        obs, reward = super().step(action)\n"
        "        return obs, reward\n\n\nclass Optimizer",
    )
    found = timed(tmp_path, edited("envs = Envs()", "envs = Wrapper()", wrapped))
    assert found.steps == 3 * STEPS
    assert found.split["env_step"] < found.split["rollout"]


COMPUTES = edited(
    f"        time.sleep({sleeper.UPDATE})\n",
    "        a = torch.ones(300, 300, requires_grad=True)\n        {work}\n",
    sleeper.TOY.replace("import time\n", "import time\nimport torch\n", 1),
)


@pytest.mark.parametrize(
    ("work", "low", "high"),
    [
        pytest.param("[a @ a for _ in range(40)]", 0.5, 2.0, marks=pytest.mark.slow),
        pytest.param("[(a @ a).sum().backward() for _ in range(20)]", 0.5, 2.0, marks=pytest.mark.slow),
        pytest.param(
            "torch.nn.functional.conv2d(a.expand(20, 8, 300, 300)[..., :60, :60], a[:64].reshape(-1, 8, 5, 5)[:16])",
            0.3,
            2.0,
            marks=pytest.mark.slow,
        ),
        ("[torch.sin(a) for _ in range(40)]", 0.0, 0.0),
    ],
    ids=["products", "with gradients", "convolutions", "elementwise"],
)
def test_matrix_products_and_convolutions_are_timed(tmp_path: Path, work: str, low: float, high: float) -> None:
    found = timed(tmp_path, COMPUTES.replace("{work}", work), products=True, threads=1)
    assert found.iterations == 3  # iterations in which products were timed do not count
    assert low <= found.split["products"] / found.split["update"] <= high  # the machine's speed may change
    assert found.products == found.split["products"]


@pytest.mark.slow
def test_of_a_script_that_ends_in_its_turns_no_products_are_told(tmp_path: Path) -> None:
    short = COMPUTES.replace("{work}", "a @ a").replace("default=1000", "default=5")
    found = timed(tmp_path, short, Length(burnin=1, iterations=None, seconds=60.0, turns=1), products=True)
    assert (found.iterations, found.products) == (3, None)
    assert timed(tmp_path, sleeper.TOY, products=True).products is None  # the script does not use torch


UNKNOWN = edited("        optimizer.zero_grad()\n        optimizer.step()\n", f"        time.sleep({sleeper.UPDATE})\n")


def test_without_phases_an_iteration_is_a_number_of_steps(tmp_path: Path) -> None:
    assert not find_places(UNKNOWN).phases
    found = timed(tmp_path, UNKNOWN, steps_per_iteration=STEPS)
    assert (found.iterations, found.steps) == (3, 3 * STEPS)
    assert set(found.split) == {"env_step"}
    whole = sum(seconds for phase, seconds in PER_ITERATION.items() if phase != "env_step")
    assert whole <= found.seconds_per_step * STEPS < 2 * whole


def test_without_phases_or_steps_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="no training loop"):
        timed(tmp_path, UNKNOWN)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def (:\n", "script.py is not Python"),
        ("print('hello')\n", "no environment step was found"),
        (edited("default=1000", "default=2"), "trained for 2 iterations; 3 are needed"),
        (edited("envs = Envs()", "envs = Envs(); raise ValueError('too cold')"), "ValueError: too cold"),
        (edited("envs = Envs()", "raise SystemExit(3)"), "exit status 3"),
        (edited("envs = Envs()", "raise SystemExit(0)"), "trained for 0 iterations"),
        (edited("envs = Envs()", "import os; os.kill(os.getpid(), 9)"), "SIGKILL"),
    ],
)
def test_what_cannot_be_measured(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(RunFailed, match=message) as failure:
        timed(tmp_path, source)
    assert "harness" not in str(failure.value)
    assert str(tmp_path) not in str(failure.value)


def test_a_script_that_hangs_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(edited("envs = Envs()", "envs = Envs(); time.sleep(60)"))
    with pytest.raises(RunFailed, match="still running after 1 s"):
        measure(Run(script, timeout=1.0), SHORT)


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = find_places(sleeper.TOY)
    for broken in (
        places.__class__(((1, 0),), places.phases),
        places.__class__(places.env_steps, {**places.phases, "gae": ((1, 5), (1, 5))}),
    ):
        monkeypatch.setattr(measuring, "find_places", lambda code, broken=broken: broken)
        with pytest.raises(RunFailed, match=r"no environment step at line 1|no statements for gae"):
            timed(tmp_path, sleeper.TOY)


def test_the_script_is_run_as_by_python(tmp_path: Path) -> None:
    asserting = edited(
        "envs = Envs()",
        "import sys, os, beside\n"
        "assert __name__ == '__main__' and sys.modules['__main__'].Envs is Envs\n"
        "assert sys.argv[0] == __file__ and os.path.basename(__file__) == 'script.py'\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules and 'transformer' not in sys.modules\n"
        "assert os.environ['OMP_NUM_THREADS'] == '7'\n"
        "assert not os.listdir(os.path.dirname(os.environ['TRITON_CACHE_DIR']))\n"
        "envs = Envs()",
    )
    (tmp_path / "beside.py").write_text("")
    assert timed(tmp_path, asserting, threads=7).iterations == 3


def test_lines_of_a_traceback_are_those_of_the_script(tmp_path: Path) -> None:
    failing = edited("        advantages[t] = 1.0", "        advantages[t] = 1.0 / t")
    line = failing.splitlines().index("        advantages[t] = 1.0 / t") + 1
    with pytest.raises(RunFailed, match=f'"script.py", line {line}'):
        timed(tmp_path, failing)


def test_the_cache_is_kept_where_asked_for(tmp_path: Path) -> None:
    writing = edited(
        "envs = Envs()",
        "import os, pathlib\n"
        "cache = pathlib.Path(os.environ['TORCHINDUCTOR_CACHE_DIR'])\n"
        "cache.mkdir(parents=True)\n"
        "envs = Envs()",
    )
    kept = tmp_path / "kept"
    timed(tmp_path, writing, cache=kept)
    assert (kept / "inductor").is_dir()
    timed(tmp_path, writing)
    with pytest.raises(RunFailed, match="FileExistsError"):
        timed(tmp_path, writing, cache=kept)


LOOP = sleeper.TOY.partition("for iteration")
ELSEWHERE = f"{sleeper.PARTS}\n\ndef train(args, envs, optimizer):\n" + textwrap.indent("".join(LOOP[1:]), "    ")


def test_what_steps_and_trains_may_stand_in_files_that_were_given(tmp_path: Path) -> None:
    other = tmp_path / "training.py"
    other.write_text(ELSEWHERE)
    script = tmp_path / "script.py"
    script.write_text(
        f"import argparse\nimport time\n\nfrom training import Envs, Optimizer, train\n{sleeper.SETUP}"
        "train(args, envs, optimizer)\n"
    )
    with pytest.raises(RunFailed, match="no environment step"):
        measure(Run(script), SHORT)
    found = measure(Run(script, together=(other,)), SHORT)
    assert (found.iterations, found.steps) == (3, 3 * STEPS)
    for phase, seconds in found.split.items():
        assert PER_ITERATION[phase] <= seconds * STEPS < 2 * PER_ITERATION[phase] + 0.01, phase
    assert set(found.split) == set(PER_ITERATION)
    assert not list(tmp_path.rglob("training*.pyc"))
