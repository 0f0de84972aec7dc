"""The list of other people's scripts, and replacements for their environments (benchmarks/wild*)."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    for folder in (BENCHMARKS, BENCHMARKS / "wild_standins"):
        monkeypatch.syspath_prepend(str(folder))
    yield
    for name in set(sys.modules) - before:
        if name in ("wild", "wild_run", "wild_choose", "noise_world", "invented"):
            del sys.modules[name]


LISTS = ("wild", "wild_off_policy", "wild_other", "wild_classes")


def entries(name: str) -> list[dict[str, Any]]:
    return tomllib.loads((BENCHMARKS / "lists" / f"{name}.toml").read_text(encoding="utf-8"))["script"]


@pytest.mark.parametrize("name", LISTS)
def test_the_list_is_as_written(name: str) -> None:
    import wild

    written = wild.listed([wild.Script(**e) for e in entries(name)], name)
    assert written == (BENCHMARKS / "lists" / f"{name}.toml").read_text(encoding="utf-8")


def test_no_script_is_listed_twice() -> None:
    every = [e for name in LISTS for e in entries(name)]
    names = [(e["repository"], e["path"]) for e in every]
    assert len(names) == len(set(names))
    assert all(len(e["commit"]) == 40 for e in every)


def test_options_of_a_script() -> None:
    from wild_run import options

    tyro = "class Args:\n    num_envs: int = 8\n    capture_video: bool = True\nargs = tyro.cli(Args)\n"
    assert options(tyro) == ["--num-envs", "4", "--no-capture-video"]
    assert options(tyro, ["--num-envs", "1"]) == ["--num-envs", "1", "--no-capture-video"]
    argparse = 'parser.add_argument("--num_steps")\nargs = parser.parse_args()\n'
    assert options(argparse) == ["--num_steps", "16"]
    replayed = "class Args:\n    learning_starts: int = 25e3\n    total_timesteps: int = 1\nargs = tyro.cli(Args)\n"
    assert options(replayed) == ["--total-timesteps", "300", "--learning-starts", "60"]
    assert options("print()\n") == []


def test_a_run_of_an_earlier_conversion_is_marked() -> None:
    import wild

    outcome = wild.Outcome("converted", source="now")
    script = wild.Script(repository="a/b", commit="0" * 40, path="ppo.py", ran="equal", conversion=outcome.digest)
    assert "earlier" not in wild.table([script], [outcome])
    assert "ran, equal, earlier version" in wild.table([script], [wild.Outcome("converted", source="then")])


def script(path: str = "ppo.py", **fields: Any) -> Any:
    import wild

    return wild.Script(repository="a/b", commit="0" * 40, path=path, **fields)


def test_failures_come_first_the_newest_on_top() -> None:
    import wild

    scripts = [
        script("fine.py", ran="equal", conversion="12", seen="2026-01-02 aa"),
        script("long.py", failing="2026-01-01 aa"),
        script("new.py", failing="2026-01-03 bb"),
    ]
    outcomes = [wild.Outcome("converted"), wild.Outcome("refused"), wild.Outcome("refused")]
    rows = [line for line in wild.table(scripts, outcomes).splitlines() if line.startswith("| a/b")]
    assert [row.split("`")[3] for row in rows] == ["new.py", "long.py", "fine.py"]
    assert "fails since 2026-01-03 bb" in rows[0] and "2026-01-02 aa" in rows[2]


def test_how_many_conversions_compile_what_acts_and_the_update() -> None:
    import wild

    applied: list[set[str]] = [{"policy", "update", "one-graph"}, {"update", "one-graph"}, {"policy", "update"}]
    outcomes = [wild.Outcome("converted", applied=names) for names in applied]
    told = wild.summary([script()] * 4, [*outcomes, wild.Outcome("refused", applied=applied[0])])
    assert "In 1 of the converted (33%) what acts" in told


def test_since_when_a_script_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    import wild

    monkeypatch.setattr(wild, "version", lambda: "today")
    converted, refused = wild.Outcome("converted"), wild.Outcome("refused")
    assert wild.judged(script(), refused).failing == "today"
    assert wild.judged(script(failing="long ago"), refused).failing == "long ago"
    assert wild.judged(script(failing="long ago"), converted).failing == ""
    assert wild.judged(script(ran="equal", uncompiled="differs"), converted).failing == "today"
    assert wild.judged(script(failing="long ago"), wild.Outcome("missing")).failing == "long ago"
    assert wild.judged(script(holdout="a day"), refused).first == "refused"
    assert wild.judged(script(holdout="a day", first="refused"), converted).first == "refused"


def test_each_script_is_compiled_in_turn() -> None:
    import wild

    scripts = [script(f"{i}.py", ran="equal", compiled_seen=f"2026-01-{i:02}") for i in range(1, 20)]
    scripts[7] = dataclasses.replace(scripts[7], compiled_seen="")
    scripts[0] = dataclasses.replace(scripts[0], ran="not run")
    assert wild.in_turn(scripts) == {("a/b", "8.py"), ("a/b", "2.py")}


def test_a_night_runs_changes_and_compiles_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wild
    from click.testing import CliRunner

    def outcome(path: Path, together: Any = ()) -> Any:
        return wild.Outcome("refused" if path.name == "3.py" else "converted", source=path.name)

    ran = [script(f"{i}.py", ran="equal", conversion=outcome(Path(f"{i}.py")).digest, seen="then") for i in range(6)]
    ran[1] = dataclasses.replace(ran[1], conversion="another")
    ran = [dataclasses.replace(s, compiled="equal", compiled_seen=f"day {i}") for i, s in enumerate(ran)]
    for folder in ("lists", "logs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lists" / "wild.toml").write_text(wild.listed(ran), encoding="utf-8")
    did: list[str] = []
    monkeypatch.setattr(wild, "HERE", tmp_path)
    monkeypatch.setattr(wild, "version", lambda: "now")
    monkeypatch.setattr(wild, "outcome_of", outcome)
    monkeypatch.setattr(
        wild, "ran", lambda s, o, d: did.append(f"ran {s.path}") or dataclasses.replace(s, conversion=o.digest)
    )
    monkeypatch.setattr(
        wild,
        "compiled",
        lambda s, o, d: did.append(f"compiled {s.path}") or dataclasses.replace(s, compiled_seen="now"),
    )
    command = [str(tmp_path), "--run", "--tenth", "--write"]
    result = CliRunner().invoke(wild.main, command)
    assert result.exit_code == 0, result.output
    assert did == ["ran 0.py", "compiled 0.py", "ran 1.py"]
    kept = {s.path: s for s in wild.read_list(tmp_path / "lists" / "wild.toml")}
    assert (kept["0.py"].compiled_seen, kept["3.py"].failing) == ("now", "now")
    did.clear()
    assert CliRunner().invoke(wild.main, command).exit_code == 0
    assert did == ["ran 1.py", "compiled 1.py"]
    page = (tmp_path / "logs" / "wild.md").read_text(encoding="utf-8").splitlines()
    assert "`3.py`" in next(line for line in page if line.startswith("| a/b"))


def test_an_unchanged_run_is_known() -> None:
    import wild

    outcome = wild.Outcome("converted", source="now")
    ran = script(ran="equal", conversion=outcome.digest, seen="2026-01-02 aa")
    assert wild._known(ran, outcome)
    assert not wild._known(ran, wild.Outcome("converted", source="then"))
    assert not wild._known(dataclasses.replace(ran, uncompiled="differs"), outcome)
    assert not wild._known(dataclasses.replace(ran, seen=""), outcome)


def test_scripts_are_chosen_by_what_they_do_and_their_names(tmp_path: Path) -> None:
    import wild_choose

    trains = "import torch\nobs, reward, done, info = envs.step(action)\noptimizer.step()\n"
    texts = {
        "a/one.py": trains + "b_inds, mb_inds, clipfracs = 1, 2, 3\n",
        "b/copy.py": trains + "b_inds,  mb_inds, clipfracs = 1, 2, 3\n\n",
        "c/ppo.py": trains + "ratio = torch.clamp(new / old, 0.8, 1.2)\n",
        "d/dqn.py": trains + "q_network, target_network, learning_starts = 1, 2, 3\n",
        "e/ppo.py": "import jax\nobs, reward, done, info = envs.step(action)\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    found = {name: list(wild_choose.chosen(tmp_path, name, set())) for name in wild_choose.KINDS}
    assert found == {"wild": ["a/one.py"], "wild_off_policy": ["d/dqn.py"], "wild_other": ["c/ppo.py"]}
    assert list(wild_choose.chosen(tmp_path, "wild", {wild_choose.digest(texts["b/copy.py"])})) == []


def test_a_run_with_flags_on_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wild_run

    monkeypatch.setattr(wild_run, "record_run", lambda run, **options: SimpleNamespace(steps=[1], **options))
    monkeypatch.setattr(wild_run, "without_options", lambda recording, options, on: recording)
    monkeypatch.setattr(wild_run, "compare", lambda left, right: ["a scalar"] if right.uncompiled else [])
    path = tmp_path / "ppo.py"
    path.write_text("args = 1\n")
    flagged = "if args.compile:\n    policy = torch.compile(policy)\n"
    told = wild_run.run(path, tmp_path, flagged, wild_run.Setting(), tmp_path)
    assert told == wild_run.Told("equal", "a scalar", "differs")


def test_a_commit_is_fetched_or_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wild

    origin = tmp_path / "origin" / "a" / "b"
    origin.mkdir(parents=True)
    (origin / "ppo.py").write_text("print()\n")
    named = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "--quiet"], ["add", "ppo.py"], [*named, "commit", "--quiet", "--message", "First"]):
        subprocess.run(["git", *command], cwd=origin, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=origin, check=True, capture_output=True, text=True)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{tmp_path}/origin/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    wild.fetch(wild.Script(repository="a/b", commit=head.stdout.strip(), path="ppo.py"), tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "ppo.py").read_text() == "print()\n"
    wild.fetch(wild.Script(repository="a/c", commit=head.stdout.strip(), path="ppo.py"), tmp_path / "a" / "c")
    assert not (tmp_path / "a" / "c").exists()


def test_keeping_one_outcome_leaves_the_other_entries(tmp_path: Path) -> None:
    import wild

    path = tmp_path / "wild.toml"
    scripts = [wild.Script(repository="a/b", commit="0" * 40, path=name) for name in ("one.py", "two.py")]
    path.write_text(wild.listed(scripts), encoding="utf-8")
    ran = dataclasses.replace(scripts[0], ran="equal", conversion="12")
    edited = dataclasses.replace(scripts[0], args=["--seed", "1"])
    path.write_text(wild.listed([edited, scripts[1]]), encoding="utf-8")
    wild.keep(ran, path)
    assert wild.read_list(path) == [dataclasses.replace(edited, ran="equal", conversion="12"), scripts[1]]


def test_the_ending_runs_below_original_and_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wild_run

    ran: list[str] = []

    def recorded(run: Any, **_: Any) -> Any:
        ran.append(run.source)
        return SimpleNamespace(steps=[1])

    monkeypatch.setattr(wild_run, "record_run", recorded)
    monkeypatch.setattr(wild_run, "compare", lambda left, right: [])
    monkeypatch.setattr(wild_run, "without_options", lambda recording, options, on: recording)
    script = tmp_path / "ppo.py"
    script.write_text("class Trainer: ...\n")
    setting = wild_run.Setting(ending="Trainer()")
    assert wild_run.run(script, tmp_path, "class Trainer: pass\n", setting, tmp_path) == wild_run.Told("equal")
    assert ran == ["class Trainer: ...\n\n\nTrainer()\n", "class Trainer: pass\n\n\nTrainer()\n"]


def test_files_that_stand_in_come_before_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wild_run

    root, own = tmp_path / "a" / "b", tmp_path / "wild_standins" / "a+b"
    for folder, names in ((root, ("small.yml", "other.yml")), (own, ("small.yml",))):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
    monkeypatch.setattr(wild_run, "HERE", tmp_path)
    setting = wild_run.Setting(files=["small.yml", "other.yml"])
    with wild_run.environment(root / "ppo.py", root, "", setting, tmp_path):
        assert os.environ["WILD_FILES"].split(os.pathsep) == [str(own / "small.yml"), str(root / "other.yml")]


OLD = """
import gym


class Halved(gym.ActionWrapper):
    def _action(self, action):
        return action // 2


env = gym.wrappers.Monitor(Halved(gym.make("None-v0")), "videos", force=True)
for _ in range(2):
    env.reset()
    rewards = [env.step(3)[1] for _ in range(5)]
assert env.get_total_steps() == 10 and env.get_episode_rewards() == [sum(rewards)]
assert "FIRE" in env.unwrapped.get_action_meanings() and env.unwrapped.ale.lives() == 1
"""


def test_what_gym_has_lost_is_there(tmp_path: Path) -> None:
    pytest.importorskip("gym")
    (tmp_path / "old.py").write_text(OLD)
    path = os.pathsep.join([str(BENCHMARKS / "wild_standins"), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "old.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, check=True)


def test_spaces_and_samples() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    import noise_world
    import numpy as np

    spaces = "Dict(image=Image(2, 3), way=Discrete(4))", "MultiDiscrete(3, 2)"
    env = noise_world.environment(gymnasium, *spaces, ["cost"])()
    observation, _ = env.reset(seed=1)
    assert observation["image"].shape == (2, 3) and observation["image"].dtype == np.uint8
    assert env.observation_space.contains(observation)
    ends = [env.step(env.action_space.sample())[2:] for _ in range(noise_world.LENGTH)]
    assert [bool(e[0]) for e in ends] == [False] * (noise_world.LENGTH - 1) + [True]
    assert "cost" in ends[0][2]


def test_missing_modules_are_replaced_for_scripts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import invented

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, invented.Finder()])
    script: dict[str, Any] = {}
    exec(compile("from no_such_simulator.tasks import Walk\nenv = Walk(3).reset()[0]", "ppo.py", "exec"), script)
    assert not script["env"]
    with pytest.raises(ModuleNotFoundError):
        exec(compile("import no_such_package", "/usr/lib/site-packages/gym/__init__.py", "exec"), {})
    for name in ("no_such_simulator", "no_such_simulator.tasks"):
        monkeypatch.delitem(sys.modules, name)
