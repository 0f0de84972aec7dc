"""Which scripts get --env-workers, and which are left alone because their environments may share something."""

import ast
from pathlib import Path

import pytest

from transformer import Applied, Skipped, convert

FIXTURE = Path(__file__).parent.parent.parent / "fixtures" / "target_kl.py"
SOURCE = FIXTURE.read_text()
MADE = "    envs = gym.vector.SyncVectorEnv([make_env(args.env_id) for _ in range(args.num_envs)])\n"
THUNK = "        return gym.wrappers.RecordEpisodeStatistics(gym.make(env_id))\n"
MAIN = 'if __name__ == "__main__":\n'
ONLY = {"flags", "async-envs"}


def edited(*edits: tuple[str, str]) -> str:
    """The fixture with some of its text replaced, each piece of which occurs once."""
    source = SOURCE
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    ast.parse(source)
    return source


def outcome(source: str) -> Applied | Skipped:
    conversion = convert(source, select=ONLY)
    assert conversion.steps, conversion.diagnostics
    return next(s.outcome for s in conversion.steps if s.transform.name == "async-envs")


def test_what_is_written() -> None:
    lines = convert(SOURCE, workers=True).source
    assert (
        "    env_fns = [make_env(args.env_id) for _ in range(args.num_envs)]\n"
        "    envs = WorkerVectorEnv(env_fns, args.env_workers) if args.env_workers else gym.vector.SyncVectorEnv(env_fns)\n"
    ) in lines
    assert "    env_workers: int = 0" in lines
    assert lines.count("import numpy as np\n") == 1
    assert lines.index("class WorkerVectorEnv") < lines.index("class Args")
    assert MADE not in lines
    emitted = lines[lines.index("def wait_for") : lines.index("@dataclass")].splitlines()
    assert len([line for line in emitted if line.strip()]) <= 125, "a researcher would keep it"


def test_it_is_asked_for() -> None:
    conversion = convert(SOURCE)
    assert "Worker" not in conversion.source and "env_workers" not in conversion.source
    assert "env_workers" not in dict(conversion.options)
    assert dict(convert(SOURCE, workers=True).options)["env_workers"] == "--env-workers"


def test_a_flag_without_effect_is_not_added() -> None:
    assert "env_workers" not in convert(edited((MADE, MADE + "    envs.envs[0]\n")), workers=True).source


APPLIED = {
    "a lambda": ((MADE, MADE.replace("make_env(args.env_id)", "lambda: gym.make(args.env_id)")),),
    "a list by its name": ((MADE, "    makers = [make_env(args.env_id)] * args.num_envs\n" + MADE.replace("[make_env(args.env_id) for _ in range(args.num_envs)]", "makers")),),
    "a wrapper of gym's around them": ((MADE, MADE + "    envs = gym.wrappers.RecordEpisodeStatistics(envs)\n"),),
    "wrapped at once": ((MADE, MADE.replace("gym.vector", "gym.wrappers.NormalizeReward(gym.vector").replace(")])\n", ")]))\n")),),
    "numbers from above": ((MADE, '    limit = 2 * args.num_steps\n    name = f"{args.env_id}"\n' + MADE.replace("args.env_id", "name")), (THUNK, THUNK.replace("env_id))", "env_id, max_episode_steps=7))"))),
    "a class of the script": ((MAIN, "class Own(gym.Wrapper):\n    metadata = {}\n    SCALE = 2.0\n\n    def step(self, action):\n        self.count = getattr(self, 'count', 0) + 1\n        return self.env.step(action)\n\n\n" + MAIN), (THUNK, THUNK.replace("gym.make(env_id)", "Own(gym.make(env_id))"))),
    "what a function makes for each of them": ((THUNK, THUNK), ("def make_env(env_id):\n", "def make_env(env_id):\n    seen = []\n\n"), ("gym.make(env_id))\n", "gym.make(env_id, render_mode=[*seen, None][-1]))\n")),
}  # fmt: skip


@pytest.mark.parametrize("edits", APPLIED.values(), ids=APPLIED)
def test_applied(edits: tuple[tuple[str, str], ...]) -> None:
    assert isinstance(found := outcome(edited(*edits)), Applied), found


def environments(made: str, above: str = "") -> tuple[tuple[str, str], ...]:
    return ((MADE, above + MADE.replace("[make_env(args.env_id) for _ in range(args.num_envs)]", made)),)


def within(statement: str) -> tuple[tuple[str, str], ...]:
    """A statement in the function that makes an environment."""
    return ((THUNK, f"        {statement}\n{THUNK}"),)


SHARE = "the environments may share"
HELD_BACK = {
    "single environments": (((MADE, MADE + "    print(envs.envs[0])\n"),), "uses envs.envs"),
    "a method of theirs": (((MADE, MADE + '    envs.call("render")\n'),), "uses envs.call"),
    "attributes of theirs": (((MADE, MADE + '    envs.set_attr("x", 1)\n'),), "uses envs.set_attr"),
    "kept elsewhere": (((MADE, MADE + "    both = [envs, 1]\n"),), "uses envs"),
    "handed to a network that looks inside": (((MADE, MADE), ("        features = int(np.prod(envs", "        print(envs.envs)\n        features = int(np.prod(envs")), "uses envs.envs"),
    "handed to a package": (((MADE, MADE + "    torch.save(envs, 'x')\n"),), "uses envs"),
    "a wrapper of the script's own": (((MADE, MADE + "    envs = Own(envs)\n"), (MAIN, "class Own(gym.Wrapper):\n    def __init__(self, env):\n        super().__init__(env)\n\n\n" + MAIN)), "uses env"),
    "a copy that is not made": (((MADE, MADE.replace(")])", ")], copy=False)")),), "more than a list"),
    "a list that grows": (environments("makers", "    makers = []\n    for i in range(args.num_envs):\n        makers.append(make_env(args.env_id))\n"), "no plain list"),
    "a list by its name that is used again": (environments("makers", "    makers = [make_env(args.env_id)]\n    makers.append(make_env(args.env_id))\n"), "no plain list"),
    "an environment made above": (environments("[lambda: env] * args.num_envs", "    env = gym.make(args.env_id)\n"), SHARE),
    "a list of theirs": (environments("[lambda: gym.make(args.env_id, render_mode=found[0]) for _ in range(2)]", "    found = [None]\n"), SHARE),
    "a generator of numbers": (environments("[lambda: gym.make(args.env_id, seed=rng.integers(9)) for _ in range(2)]", "    rng = np.random.default_rng(1)\n"), SHARE),
    "a list handed to each": (((MADE, "    found = []\n" + MADE.replace("args.env_id)", "found)")),), SHARE),
    "one closure for all": (((MADE, MADE.replace("[make_env(args.env_id) for _ in range(args.num_envs)]", "[make_env(args.env_id)] * args.num_envs")), ("def make_env(env_id):\n", "def make_env(env_id):\n    seen = []\n\n"), ("gym.make(env_id))\n", "gym.make(env_id, render_mode=[*seen, None][-1]))\n")), SHARE),
    "a global counter": (((THUNK, f"        global made\n        made += 1\n{THUNK}"), ("def make_env", "made = 0\n\n\ndef make_env")), SHARE),
    "a list of the module": ((*within("MADE.append(env_id)"), ("def make_env", "MADE = []\n\n\ndef make_env")), SHARE),
    "an attribute of the options": (within("args.seed += 1"), SHARE),
    "an attribute of a module": (within("np.seed = 1"), SHARE),
    "an attribute of a class": (((THUNK, f"        Own.made += 1\n{THUNK}"), (MAIN, "class Own:\n    made = 0\n\n\n" + MAIN)), SHARE),
    "a list of a class": (((MAIN, "class Own(gym.Wrapper):\n    seen = []\n\n\n" + MAIN), (THUNK, THUNK.replace("gym.make(env_id)", "Own(gym.make(env_id))"))), SHARE),
    "a counter of a class": (((MAIN, "class Own(gym.Wrapper):\n    made = 0\n\n    def step(self, action):\n        type(self).made += 1\n        return self.env.step(action)\n\n\n" + MAIN), (THUNK, THUNK.replace("gym.make(env_id)", "Own(gym.make(env_id))"))), SHARE),
    "a number that training changes": (((MADE, "    level = 1\n" + MADE.replace("make_env(args.env_id)", "lambda: gym.make(args.env_id, level=level)")), ("    writer.close()\n", "    level += 1\n    writer.close()\n")), SHARE),
    "options that training changes": ((("    writer.close()\n", "    args.env_id = 1\n    writer.close()\n"),), SHARE),
    "a default that is shared": (environments("[lambda found=[]: gym.make(args.env_id) for _ in range(2)]"), SHARE),
    "a name that is taken": (((MADE, "    signal = 1\n" + MADE),), "the name signal stands for something else"),
}  # fmt: skip


@pytest.mark.parametrize(("edits", "reason"), HELD_BACK.values(), ids=HELD_BACK)
def test_held_back(edits: tuple[tuple[str, str], ...], reason: str) -> None:
    found = outcome(edited(*edits))
    assert isinstance(found, Skipped) and found.kind == "held back", found
    assert reason in found.reason and "line " in found.reason + "line " * (reason.startswith("the name"))


NOT_NEEDED = {
    "one": environments("[make_env(args.env_id)]"),
    "none": ((MADE, MADE.replace("SyncVectorEnv", "AsyncVectorEnv")),),
}


@pytest.mark.parametrize("edits", NOT_NEEDED.values(), ids=NOT_NEEDED)
def test_not_needed(edits: tuple[tuple[str, str], ...]) -> None:
    found = outcome(edited(*edits))
    assert isinstance(found, Skipped) and found.kind == "not needed", found


def test_twice_is_refused() -> None:
    assert not convert(convert(SOURCE, workers=True).source, workers=True).converted
