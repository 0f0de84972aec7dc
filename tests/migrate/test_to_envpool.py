# ruff: noqa: E501
"""From gymnasium's Atari wrappers to envpool: what is written, and what is refused."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from transformer import convert
from transformer.migrate.to_envpool import Migration, migrate

SCRIPT = (Path(__file__).parent / "data" / "atari_wrappers.py").read_text(encoding="utf-8")
RUN = ["--num-envs", "2", "--num-steps", "40", "--update-epochs", "1", "--total-timesteps", "320"]
FIVE = "frame, reward, terminated, truncated, infos = games.step(action.cpu().numpy())"
OLD = {
    "import gymnasium as gym": "import gym",
    "def game(name, index,": "def game(name, seed, index,",
    "        return env\n": "        env.seed(seed)\n        env.action_space.seed(seed)\n        return env\n",
    "game(args.env_id, i,": "game(args.env_id, args.seed + i, i,",
    "frame, _ = games.reset(seed=args.seed)": "frame = games.reset()",
    FIVE: "frame, reward, over, infos = games.step(action.cpu().numpy())",
    "            done = np.logical_or(terminated, truncated)\n": "",
    "torch.Tensor(done)": "torch.Tensor(over)",
    '            if "final_info" in infos:\n                for info in infos["final_info"]:': (
        "            if True:\n                for info in infos:"
    ),
    'if info and "episode" in info:': 'if "episode" in info.keys():',
}
"""The script as it would be for gym."""


def edited(*changes: tuple[str, str], script: str = SCRIPT) -> str:
    for old, new in changes:
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return script


def lines_changed(migration: Migration) -> tuple[set[str], set[str]]:
    before, after = ({x.strip() for x in text.splitlines()} for text in (migration.original, migration.source))
    return before - after, after - before


def test_the_migrated_script() -> None:
    migration = migrate(SCRIPT)
    assert migration.migrated, migration.diagnostics
    source = migration.source
    assert (
        """\
    if args.capture_video:
        raise SystemExit("envpool renders no frames: record videos with the script that has gymnasium's wrappers")
    games = RecordEpisodeStatistics(
        envpool.make(
            args.env_id,
            env_type="gymnasium",
            num_envs=args.num_envs,
            episodic_life=True,
            reward_clip=True,
            seed=args.seed,
        )
    )
    agent = Agent(games)"""
        in source
    )
    assert "import envpool\nimport gymnasium as gym\n" in source
    assert 'default="Breakout-v5"' in source
    assert "frame, _ = games.reset()\n" in source
    for gone in ("def game", "atari_wrappers", "SyncVectorEnv", "NoFrameskip"):
        assert gone not in source
    # The statistics are provided as the script reads them
    begin = SCRIPT.index('            if "final_info" in infos:')
    assert SCRIPT[begin:] in source
    assert migrate(SCRIPT).source == source


def test_the_migrated_script_for_gym() -> None:
    migration = migrate(edited(*OLD.items()))
    assert migration.migrated, migration.diagnostics
    _, added = lines_changed(migration)
    assert {
        "import gymnasium as gym",
        "seed=args.seed,",
        "frame = games.reset()[0]",
        "frame, reward, terminations, truncations, infos = games.step(action.cpu().numpy())",
        "over = np.logical_or(terminations, truncations)",
        'for info in infos.get("final_info", ()):',
    } <= added
    assert "import gym\n" not in migration.source


def test_other_names_and_line_ends() -> None:
    renamed = SCRIPT.replace("import numpy as np", "import numpy").replace("np.", "numpy.").replace("\n", "\r\n")
    source = migrate(renamed.replace("RecordEpisodeStatistics(env)", "RecordEpisodeStatistics(env)")).source
    assert "self.returns = numpy.zeros(self.num_envs, dtype=numpy.float32)\r\n" in source
    assert "\n" not in source.replace("\r\n", "")
    taken = edited(("def parse_args", "class RecordEpisodeStatistics:\n    pass\n\n\ndef parse_args"))
    assert "games = RecordEpisodeStatistics_1(\n" in migrate(taken).source


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        # parameters
        ("noop_max=30", "noop_max=1", "NoopResetEnv is given 1, but the chain has noop_max=30"),
        ("skip=4", "skip=3", "MaxAndSkipEnv is given 3"),
        ("skip=4", "4, 4", "MaxAndSkipEnv is given something other"),
        ("(84, 84)", "(96, 96)", "ResizeObservation is given (96, 96)"),
        ("FrameStack(env, 4)", "FrameStack(env, 8)", "FrameStack is given 8"),
        ("FrameStack(env, 4)", "FrameStack(env)", "FrameStack is given something other"),
        ("FrameStack(env, 4)", "FrameStack(env, 4, lz4_compress=True)", "FrameStack is given something other"),
        ("GrayScaleObservation(env)", "GrayScaleObservation(env, keep_dim=True)", "GrayScaleObservation is given"),
        ("ClipRewardEnv(env)", "ClipRewardEnv(gym.make(name))", "ClipRewardEnv is given something other"),
        ("env = gym.make(name)\n", "env = gym.make(name, frameskip=2)\n", "not made from just an id that is passed in"),
        ("env = gym.make(name)\n", 'env = gym.make("Pong-v4")\n', "not made from just an id that is passed in"),
        # wrappers
        ("        env = ClipRewardEnv(env)\n", "", "ClipRewardEnv is missing"),
        (
            "        env = ClipRewardEnv(env)\n",
            "        env = gym.wrappers.NormalizeReward(env)\n        env = ClipRewardEnv(env)\n",
            "gym.wrappers.NormalizeReward is not one of the chain's wrappers",
        ),
        (
            "        env = MaxAndSkipEnv(env, skip=4)\n        env = EpisodicLifeEnv(env)\n",
            "        env = EpisodicLifeEnv(env)\n        env = MaxAndSkipEnv(env, skip=4)\n",
            "EpisodicLifeEnv is here, but the chain has MaxAndSkipEnv",
        ),
        ("    MaxAndSkipEnv,\n", "", "MaxAndSkipEnv is not one of the chain's wrappers"),
        ("        env = ClipRewardEnv(env)\n", "        if index:\n            env = ClipRewardEnv(env)\n", "not part of the chain"),
        ("        return env\n", "        env.spec.max_episode_steps = 9\n        return env\n", "not part of the chain"),
        ('if "FIRE" in', 'if "FIRE" not in', "not part of the chain"),
        ("    return make\n", "    return lambda: make()\n", "is not made of one function that it returns"),
        # games
        ("BreakoutNoFrameskip-v4", "BreakoutNoFrameskip-v0", "is not an Atari game"),
        ("BreakoutNoFrameskip-v4", "ALE/Breakout-v5", "is not an Atari game"),
        ("BreakoutNoFrameskip-v4", "CartPole-v1", "'CartPole-v1' is not an Atari game"),
        ('default="BreakoutNoFrameskip-v4", ', "", "which game args.env_id is by default is not known"),
        (
            "    random.seed(args.seed)\n",
            '    if args.env_id == "PongNoFrameskip-v4":\n        args.gamma = 1.0\n    random.seed(args.seed)\n',
            "a game's id is here too",
        ),
        # the vector environment
        ("gym.vector.SyncVectorEnv", "gym.vector.VectorEnv", "no SyncVectorEnv or AsyncVectorEnv"),
        ("for i in range(args.num_envs)]", "for i in [0, 1]]", "the arguments of each environment are not known"),
        ("game(args.env_id, i,", "game(args.env_id[i], i,", "the environments differ in more than their seeds"),
        ("agent = Agent(games)", "games = Twice(games)\n    agent = Agent(games)", "envpool is not known to be the same"),
        ("games.close()", "games.close()\n    print(games.envs[0])", "envpool is not known to be the same"),
        ("games.close()", "games.close()\n    test = game(args.env_id, 0, False, folder)()", "game() is used for something"),
        ("games.close()", 'games.close()\n    gym.make("CartPole-v1")', "gymnasium.make is used outside of game()"),
        ("games.single_action_space.n", "games.action_space.nvec[0]", "envpool is not known to be the same"),
        ("games.reset(seed=args.seed)", "games.reset(seed=[1, 2])", "envpool takes one number for a seed"),
        ("games.reset(seed=args.seed)", "games.reset()", "made and reset without a seed"),
        ("frame, _ = games.reset(seed=args.seed)", "frame = games.reset(seed=args.seed)[0]", "is not unpacked into"),
        ("        with torch.no_grad():\n            next_value", "        frame, _ = games.reset()\n        with torch.no_grad():\n            next_value", "reset a second time"),
        # infos
        ("            if \"final_info\" in infos:\n", "            last = infos[\"final_observation\"]\n            if \"final_info\" in infos:\n", "no counterpart of infos['final_observation']"),
        ('writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)', 'print(info["episode"]["t"])', "return and length, not info['episode']"),
        ('writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)', 'print(info["lives"])', "return and length, not info['lives']"),
        ('for info in infos["final_info"]:', 'for info in list(infos["final_info"]):', "not read by a loop"),
    ],
)  # fmt: skip
def test_refusals(old: str, new: str, reason: str) -> None:
    script = edited((old, new))
    migration = migrate(script)
    assert migration.source == script
    assert any(reason in d.message for d in migration.diagnostics), migration.diagnostics
    assert {d.code for d in migration.diagnostics} == {"LC201"}
    assert all(0 < d.line <= script.count("\n") + 1 for d in migration.diagnostics)


def test_all_findings_are_reported_with_their_lines() -> None:
    script = edited(("noop_max=30", "noop_max=1"), ("FrameStack(env, 4)", "FrameStack(env, 8)"))
    lines = script.splitlines()
    found = [lines[d.line - 1].strip() for d in migrate(script).diagnostics]
    assert found == ["env = NoopResetEnv(env, noop_max=1)", "env = gym.wrappers.FrameStack(env, 8)"]


@pytest.mark.parametrize("text", ["", "x = (", "import jax\nimport jax.numpy\nx = 1\n"])
def test_other_scripts_are_refused(text: str) -> None:
    assert not migrate(text).migrated


def test_a_migrated_script_converts() -> None:
    conversion = convert(migrate(SCRIPT).source)
    applied = {s.transform.name for s in conversion.steps if s.applied}
    assert {"storage", "rollout", "gae", "update", "one-graph", "compile"} <= applied
    assert ast.parse(conversion.source)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, OLD], ids=["gymnasium", "gym"])
def test_a_migrated_script_runs_and_its_conversion_is_equal(changes: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    path = tmp_path / "ppo.py"
    path.write_text(migrate(edited(*changes.items())).source)
    run = [sys.executable, path, *RUN[:-1], "2400"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "episodic_return=" in done.stdout
    refused = subprocess.run([*run, "--capture-video"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert refused.returncode == 1 and "envpool renders no frames" in refused.stderr
    verify = [sys.executable, "-m", "transformer", "verify", path, "--up-to", "flags-on", "--", *RUN]
    done = subprocess.run(verify, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
