"""A script trains for a few iterations by its own option, whatever the name."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_script import agent_script
from toy import edited

from transformer.verify.length import Length, find_length
from transformer.verify.run import Run

TYRO = edited(
    "import argparse\n",
    "import dataclasses\n\nimport tyro\n\n\n@dataclasses.dataclass\nclass Config:\n    frames: int = 4000\n\n\n",
)
TYRO = edited("    parser = argparse.ArgumentParser()\n", "    args = tyro.cli(Config)\n", TYRO)
TYRO = edited('    parser.add_argument("--updates", type=int, default=2)\n    args = parser.parse_args()\n', "", TYRO)
TYRO = edited("    for update in range(args.updates):\n", "    done = 0\n    while done < args.frames:\n", TYRO)
TYRO = edited(" * (1 - update / args.updates)", "", TYRO)
TYRO = edited("obs = torch.tensor(next_obs)\n", "obs = torch.tensor(next_obs)\n            done += 2\n", TYRO)
TYRO = edited('        print(f"update {update}: loss {loss.item()}")\n', "", TYRO)
TYRO = edited("(update + 1) * 8", "done", TYRO)
"""The toy with another parser, and a loop that counts environment steps."""

CONSTANT = edited("range(args.updates)", "range(2000)")
CONSTANT = edited(" * (1 - update / args.updates)", "", CONSTANT)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (edited("default=2", "default=9"), Length("--updates", 1, 9)),
        (TYRO, Length("--frames", 8, 500)),
        (CONSTANT, Length(None, 0, None)),
    ],
    ids=["argparse", "tyro, while", "no option"],
)
def test_the_option_is_found_by_what_it_does(tmp_path: Path, source: str, expected: Length) -> None:
    script = tmp_path / "script.py"
    script.write_text(source)
    found = find_length(Run(script))
    assert (found.option, found.planned) == (expected.option, expected.planned)
    if expected.option is not None:
        assert found.unit == expected.unit


def test_the_option_is_set_once(toy_script: Path) -> None:
    length = Length("--total-steps", 128, 100)
    for given in (["--total-steps", "9999"], ["--total_steps", "9999"], ["--total-steps=9999"], []):
        run = Run(toy_script, ("--a", "1", *given, "--b"))
        assert length.shortened(run, 3).args == ("--a", "1", "--b", "--total-steps", "384")


def test_a_short_run_stays_as_it_is(toy_script: Path) -> None:
    run = Run(toy_script, ("--total-steps", "256"))
    assert Length("--total-steps", 128, 2).shortened(run, 3) is run
    assert Length(None, 0, None).shortened(run, 3) is run


EVALUATED = {
    "    return float(agent.act(np.ones(3, np.float32))[0])\n": """    env, total = Walk(9), 0.0
    obs = env.reset()
    for _ in range(20):
        obs, reward = env.step(agent.act(obs))
        total += reward
    return total
""",
    "    obs = env.reset()\n    for step": "    print(evaluate(agent))\n    obs = env.reset()\n    for step",
}


@pytest.mark.parametrize("changes", [{}, EVALUATED], ids=["only training", "an evaluation comes first"])
def test_each_turn_steps_the_environment(tmp_path: Path, changes: dict[str, str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(agent_script(changes))
    found = find_length(Run(script))
    assert (found.option, found.unit, found.planned, found.stepwise) == ("--steps", 1, 300, True)


@pytest.mark.parametrize("inner", ["range(args.length)", "range(400)", "while"], ids=str)
def test_episodes_are_no_steps(tmp_path: Path, inner: str) -> None:
    """Fewer episodes would still be long ones, and shorter ones as many: the run is ended from outside."""
    before, loop = agent_script({}).split("    for step in range(args.steps):\n")
    option = '    parser.add_argument("--steps", type=int, default=300)\n'
    options = "".join(
        option.replace("steps", name).replace("300", n) for name, n in (("episodes", "100"), ("length", "400"))
    )
    body = "".join(f"    {line}" for line in loop.splitlines(keepends=True))
    start = f"        for step in {inner}:\n"
    if inner == "while":
        start = "        step = -1\n        while step < args.length:\n            step += 1\n"
    script = tmp_path / "script.py"
    script.write_text(f"{before.replace(option, options)}    for episode in range(args.episodes):\n{start}{body}")
    found = find_length(Run(script))
    assert (found.option, found.stepwise) == (None, True)
    assert found.shortened(Run(script), 240).args == ()


ROLLOUTS = {"        if step > 100:\n": "        if (step + 1) % 150 == 0:\n"}


@pytest.mark.parametrize(
    "changes",
    [
        ROLLOUTS,
        {"        if step > 100:\n": "        if replay.count % 150 == 0:\n"},
        {
            "    for step in range(args.steps):\n": "    step = -1\n    while (step := step + 1) < args.steps:\n",
            **ROLLOUTS,
        },
    ],
    ids=["counted", "the buffer is full", "while"],
)
def test_an_update_after_many_steps_ends_a_rollout(tmp_path: Path, changes: dict[str, str]) -> None:
    """One loop steps the environment and makes updates, but a turn is no iteration."""
    script = tmp_path / "script.py"
    script.write_text(agent_script(changes))
    found = find_length(Run(script, ("--steps", "1000")))
    assert (found.option, found.stepwise) == (None, False)


@pytest.mark.parametrize("evaluates", [False, True], ids=["only training", "an evaluation between"])
def test_the_steps_between_two_updates_are_counted(tmp_path: Path, evaluates: bool) -> None:
    changes = {"        if step > 100:\n": "        if step > 100 and step % 7 == 0:\n"}
    if evaluates:
        changes |= EVALUATED | {"step % 50 == 0": "step % 3 == 0"}
    script = tmp_path / "script.py"
    script.write_text(agent_script(changes))
    found = find_length(Run(script))
    assert (found.option, found.begins > 0, found.apart) == ("--steps", True, 7)


def test_updates_and_steps_between_them() -> None:
    length = Length("--steps", 1, 300, begins=106, apart=7)
    assert (length.updates(130), length.updates(10, 3), length.updates(1)) == (19, 3, 1)
    assert length.shortened(Run(Path("script.py")), 5).args == ("--steps", "140")


@pytest.mark.slow
def test_loops_in_other_files_count(tmp_path: Path) -> None:
    """A loop over episodes, each of which a method of another file runs, is no loop of steps."""
    whole = agent_script({})
    classes, main = whole.split('if __name__ == "__main__":\n')
    before, loop = main.split("    for step in range(args.steps):\n")
    run = f"def episode(env, agent, replay, obs, length):\n    for step in range(length):\n{loop}"
    main = before.replace('"--steps", type=int, default=300', '"--episodes", type=int, default=300')
    main += "    for i in range(args.episodes):\n        episode(env, agent, replay, obs, 200)\n"
    (tmp_path / "episodes.py").write_text(f"{classes}\n\n{run}")
    script = tmp_path / "script.py"
    script.write_text(
        "import argparse\n\nimport numpy as np\nimport torch\nfrom episodes import Agent, Replay, Walk, episode\n\n"
        f'if __name__ == "__main__":\n{main}'
    )
    found = find_length(Run(script))
    assert (found.option, found.stepwise, found.apart) == (None, True, 1)


CHOOSING = """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 1)

    def step(self, obs):
        mean = self.mean(torch.as_tensor(obs))
        return mean.detach().numpy(), mean


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=300)
    args = parser.parse_args()
    env, policy = Walk(1), Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for update in range(args.updates):
        obs = env.reset()
        for _ in range(20):
            action, _ = policy.step(obs)
            obs, reward = env.step(action)
        _, last = policy.step(obs)
        optimizer.zero_grad()
        (last - reward).pow(2).mean().backward()
        optimizer.step()
"""


HOLDING = """
class Chooser:
    def __init__(self):
        self.policy = Policy()

    def parameters(self):
        return self.policy.parameters()

    def step(self, obs):
        return self.policy.step(obs)


if __name__"""


@pytest.mark.parametrize("held", [False, True], ids=["a network", "an agent that has one"])
def test_a_step_that_chooses_actions_is_none_of_an_environment(tmp_path: Path, held: bool) -> None:
    """The last one before the update stands outside the loop of steps."""
    script = tmp_path / "script.py"
    choosing = CHOOSING.replace("if __name__", HOLDING).replace("Walk(1), Policy()", "Walk(1), Chooser()")
    classes = agent_script({}).split('if __name__ == "__main__":\n')[0]
    script.write_text(classes + (choosing if held else CHOOSING))
    found = find_length(Run(script))
    assert (found.option, found.unit, found.planned, found.stepwise) == ("--updates", 1, 300, False)
