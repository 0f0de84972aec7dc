"""Scripts that step the environment once per turn: how long they train, and how their networks are compared."""

from pathlib import Path

import pytest
from replay_script import changed, learning_first, replay

from transformer import convert
from transformer.verify import compare
from transformer.verify.length import WARM_UP, find_length
from transformer.verify.options import Option
from transformer.verify.other_arguments import draws_at_random
from transformer.verify.record import record_run
from transformer.verify.run import Run


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(replay(), encoding="utf-8")
    return path


def test_length_counts_from_the_first_update_on(script: Path) -> None:
    length = find_length(Run(script))
    assert (length.option, length.unit, length.planned, length.begins) == ("--total-timesteps", 1, 80, 22)
    assert length.stepwise and not length.warm_up
    assert length.shortened(Run(script), 10).args == ("--total-timesteps", "31")
    assert length.shortened(Run(script), 100) == Run(script)


def test_a_long_warm_up_is_shortened(script: Path) -> None:
    run = Run(script, ("--learning-starts", "3000", "--total-timesteps", "9000"))
    length = find_length(run)
    assert length.warm_up == ("--learning-starts", str(WARM_UP))
    assert length.begins == WARM_UP + 2
    shortened = length.shortened(run, 10)
    assert shortened.args == ("--learning-starts", str(WARM_UP), "--total-timesteps", str(WARM_UP + 11))
    recording = record_run(shortened, stepwise=True)
    assert len(recording.steps) == 10


def test_another_move_of_a_target_network_is_found(script: Path) -> None:
    original = record_run(Run(script), stepwise=True)
    assert original.others
    source = replay(follow=changed("follow", "1.0 - args.tau", "1.0 - 1.01 * args.tau"))
    found = compare(original, record_run(Run(script, source=source), stepwise=True))
    assert found[0].quantity == "other network"
    assert compare(original, record_run(Run(script), stepwise=True)) == ()


def test_a_move_after_the_last_update_is_found(script: Path) -> None:
    original = record_run(Run(script), stepwise=True)
    last = "if global_step + 1 == args.total_timesteps:\n    target_network.net[0].bias.data.add_(1)"
    source = replay(follow=changed("follow", "for param", "for param") + last)
    found = compare(original, record_run(Run(script, source=source), stepwise=True))
    assert [d.quantity for d in found] == ["other network"]
    assert found[0].where == "the end"


def test_the_clock_stands_still_within_a_turn(script: Path) -> None:
    log = "print(global_step, time.time() - start_time)"
    above, below = replay(log=log), replay(log="", follow=log)
    for stepwise in (True, False):
        lines = [
            [p.line for p in record_run(Run(script, source=source), stepwise=stepwise).prints]
            for source in (above, below)
        ]
        assert lines[0]
        assert (lines[0] == lines[1]) is stepwise


def test_an_update_above_the_step_of_the_environment(script: Path) -> None:
    source = learning_first(replay())
    plain, conversion = convert(replay()), convert(source)
    assert [s.applied for s in conversion.steps] == [s.applied for s in plain.steps]
    assert sum(s.applied for s in conversion.steps) > 5
    original = record_run(Run(script, source=source), stepwise=True)
    assert compare(original, record_run(Run(script, source=conversion.source), stepwise=True)) == ()
    assert compare(original, record_run(Run(script, source=plain.source), stepwise=True)) != ()


RANDOM = """
    if global_step < args.start_steps:
        actions = np.array([envs.action_space.sample()])
    else:
        q_values = q_network(torch.Tensor(obs).to(device))
        actions = 2 * torch.argmax(q_values, dim=1).cpu().numpy() - 1
"""


def drawing(steps: int, **parts: str) -> str:
    """A script that draws random actions for `steps` steps, unless an option says otherwise."""
    space = "Box = type('Box', (), {'sample': lambda self: random.choice((-1, 1))})\n\n\n"
    space += "class Envs:\n    action_space = Box()\n"
    option = f'    parser.add_argument("--start-steps", type=int, default={steps})\n'
    return (
        replay(act=RANDOM, **parts)
        .replace("class Envs:\n", space)
        .replace("    return parser", f"{option}    return parser")
    )


def test_random_actions_end_when_learning_begins(script: Path) -> None:
    script.write_text(drawing(3000))
    length = find_length(Run(script))
    assert (length.warm_up, length.acts) == ((), ("--start-steps", str(length.begins)))
    shortened = length.shortened(Run(script), 10)
    assert shortened.args == ("--start-steps", "22", "--total-timesteps", "31")
    script.write_text(drawing(10))
    assert find_length(Run(script)).acts == ()


def test_the_option_in_the_condition_around_random_actions() -> None:
    options = [Option("--start-steps", "start_steps", 3000), Option("--tau", "tau", 0.05)]
    assert draws_at_random(drawing(3000), options) == options[:1]
    assert draws_at_random(replay(), options) == []
