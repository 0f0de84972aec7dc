"""Scripts that store single steps are measured from where they learn on; others are left as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import sleeper

from transformer.bench.bench import Task
from transformer.bench.contenders import Contender
from transformer.bench.phases import find_places
from transformer.bench.warm_up import past_warm_up
from transformer.verify.run import Run
from transformer.verify.verify import STEPS

FIXTURES = Path(__file__).parents[2] / "fixtures"
TWIN = FIXTURES / "twin_critics.py"


@pytest.mark.slow
def test_the_option_is_set_for_all_and_the_burn_in_ends_behind_the_first_update() -> None:
    args = ("--no-cuda", "--learning-starts", "5000")
    lined_up = [Contender("original", Run(TWIN, args)), Contender("compile", Run(TWIN, (*args, "--compile")))]
    task = past_warm_up(Task(lined_up), 7)
    assert [c.run.args for c in task.contenders] == [
        ("--no-cuda", "--learning-starts", "500"),
        ("--no-cuda", "--compile", "--learning-starts", "500"),
    ]
    assert task.length.burnin == 502 + 7  # the first update is in the turn of step 501


@pytest.mark.slow
@pytest.mark.parametrize("starts", [40, 90])
def test_where_it_is_soon_the_arguments_stay(starts: int) -> None:
    args = ("--no-cuda", "--learning-starts", str(starts))
    task = past_warm_up(Task([Contender("original", Run(TWIN, args))]), None)
    assert task.contenders[0].run.args == args
    assert task.length.burnin == starts + 2 + STEPS


def test_rollouts_are_no_warm_up(tmp_path: Path) -> None:
    script = tmp_path / "toy.py"
    script.write_text(sleeper.TOY)
    task = Task([Contender("original", Run(script, ()))])
    assert past_warm_up(task, None) is task


@pytest.mark.parametrize("folder", [FIXTURES, FIXTURES / "converted"], ids=lambda p: p.name)
def test_which_fixtures_train_step_by_step(folder: Path) -> None:
    stepwise = {path.stem for path in folder.glob("*.py") if find_places(path.read_text()).stepwise}
    off_policy = {"acts_and_learns", "deep_q", "distributional", "soft_actor_critic", "tuned_entropy", "twin_critics"}
    merged = {"several_files"} if folder.name == "converted" else set()  # its own loop has no update
    assert stepwise == off_policy | {"acts_into_memory", "one_step_per_turn"} | merged
