"""Scripts that get --env-workers, and scripts that do not, as their environments may share something."""

import ast
import textwrap
from pathlib import Path

import pytest
from golden import converted

from transformer import Applied, Skipped, convert

SOURCE = (Path(__file__).parent.parent.parent / "fixtures" / "target_kl.py").read_text()
LIST = "[make_env(args.env_id) for _ in range(args.num_envs)]"
MADE = f"    envs = gym.vector.SyncVectorEnv({LIST})\n"
MAKES = "        return gym.wrappers.RecordEpisodeStatistics(PaidByDistance(gym.make(env_id)))\n"
END = "    writer.close()\n"
NETWORK = "        features = "
SELECTED = {"flags", "async-envs"}


def script(
    made: str = f"gym.vector.SyncVectorEnv({LIST})",
    *,
    given: str = LIST,
    make: str = "gym.make(env_id)",
    module: str = "",
    factory: str = "",
    thunk: str = "",
    above: str = "",
    below: str = "",
    network: str = "",
    end: str = "",
) -> str:
    """The fixture, its environments made in another way.

    Args:
        made: the expression for the vector environment.
        given: the list of functions that it gets.
        make: the expression for one environment.
        module: statements at the top of the file.
        factory: statements of the function that makes those functions.
        thunk: statements of those functions.
        above: statements above the environments.
        below: statements below them.
        network: statements of the network, which gets the environments.
        end: statements at the end of training.
    """
    changed = {
        MADE: block(above, 4) + f"    envs = {made.replace(LIST, given)}\n" + block(below, 4),
        MAKES: block(thunk, 8) + MAKES.replace("gym.make(env_id)", make),
        "def make_env(env_id):\n": block(module, 0) + "def make_env(env_id):\n" + block(factory, 4),
        NETWORK: block(network, 8) + NETWORK,
        END: block(end, 4) + END,
    }
    source = SOURCE
    for old, new in changed.items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    ast.parse(source)
    return source


def block(code: str, column: int) -> str:
    return textwrap.indent(code, " " * column) + "\n" * bool(code)


def outcome(source: str) -> Applied | Skipped:
    conversion = convert(source, select=SELECTED)
    assert conversion.steps, conversion.diagnostics
    return next(s.outcome for s in conversion.steps if s.transform.name == "async-envs")


def test_what_is_written() -> None:
    written = converted(SOURCE, workers=True).source
    chosen = "WorkerVectorEnv(env_fns, args.env_workers) if args.env_workers else gym.vector.SyncVectorEnv(env_fns)"
    assert f"    env_fns = {LIST}\n    envs = {chosen}\n" in written
    assert "    env_workers: int = 0" in written
    assert written.count("import numpy as np\n") == 1
    assert written.index("class WorkerVectorEnv") < written.index("class Args")
    emitted = written[written.index("def wait_for") : written.index("@dataclass")].splitlines()
    assert len([line for line in emitted if line.strip()]) <= 126, "so short that somebody would keep it"


def test_only_on_request() -> None:
    conversion = converted(SOURCE)
    assert "Worker" not in conversion.source
    assert "env_workers" not in dict(conversion.options)
    assert dict(converted(SOURCE, workers=True).options)["env_workers"] == "--env-workers"


def test_a_flag_without_effect_is_not_added() -> None:
    assert "env_workers" not in convert(script(below="envs.envs[0]"), select=SELECTED).source


def test_twice_is_refused() -> None:
    assert not convert(converted(SOURCE, workers=True).source, workers=True).converted


def test_arguments_of_argparse() -> None:
    fixture = Path(__file__).parent.parent.parent / "fixtures" / "gym_classic_discrete.py"
    written = convert(fixture.read_text(), select=SELECTED).source
    assert '"--env-workers", type=int, default=0' in written
    assert "return results if" in written, "infos are a list in this gym"


OWN = "class Own(gym.Wrapper):\n    "
STEP = "def step(self, action):\n        {}\n        return self.env.step(action)"
APPLIED = {
    "a lambda": script(given="[lambda: gym.make(args.env_id) for _ in range(args.num_envs)]"),
    "one function for all": script(given="[make_env(args.env_id)] * args.num_envs"),
    "a list by its name": script(given="makers", above="makers = [make_env(args.env_id)] * args.num_envs"),
    "a wrapper of gym's around them": script(below="envs = gym.wrappers.RecordEpisodeStatistics(envs)"),
    "wrapped at once": script(f"gym.wrappers.NormalizeReward(gym.vector.SyncVectorEnv({LIST}))"),
    "a number from above": script(above="n = 2 * args.num_steps", given="[lambda: gym.make(args.env_id, n=n)] * 4"),
    "a text from above": script(above='name = f"{args.env_id}"', given="[make_env(name), make_env(name)]"),
    "a folder's name": script(above="import os\n\nname = os.path.join('a', 'b')", given="[make_env(name)] * 4"),
    "a class of the script": script(
        module=OWN + "metadata = {}\n    SCALE = 2.0\n\n    " + STEP.format("self.seen = self.SCALE"),
        make="Own(gym.make(env_id))",
    ),
    "an object made for each of them": script(factory="seen = []", make="gym.make(env_id, modes=seen)"),
    "an option's name for its own": script(
        module=OWN + STEP.format("self.seed = 1"),
        make="Own(gym.make(env_id))",
    ),
}


@pytest.mark.parametrize("source", APPLIED.values(), ids=APPLIED)
def test_applied(source: str) -> None:
    assert isinstance(found := outcome(source), Applied), found


SHARE = "the environments may share"
COUNTER = "made = 0"
HELD_BACK = {
    "single environments": (script(below="print(envs.envs[0])"), "uses envs.envs"),
    "a method of theirs": (script(below='envs.call("render")'), "uses envs.call"),
    "attributes of theirs": (script(below='envs.set_attr("x", 1)'), "uses envs.set_attr"),
    "kept elsewhere": (script(below="both = [envs, 1]"), "uses envs"),
    "a network that looks inside": (script(network="print(envs.envs)"), "uses envs.envs"),
    "handed to a package": (script(below="torch.save(envs, 'x')"), "uses envs"),
    "a wrapper of the script's own": (
        script(module=OWN + "def __init__(self, env):\n        super().__init__(env)", below="envs = Own(envs)"),
        "uses env",
    ),
    "another argument": (script(f"gym.vector.SyncVectorEnv({LIST}, copy=False)"), "more than a list"),
    "a list that grows": (script(given="makers", above="makers = []\nmakers.append(make_env('x'))"), "as a plain list"),
    "a list used again": (script(given="makers", above="makers = [make_env('x')]\nprint(makers)"), "as a plain list"),
    "an environment made above": (script(given="[lambda: env] * 4", above="env = gym.make(args.env_id)"), SHARE),
    "a list that they close over": (script(given="[lambda: gym.make('x', a=seen)] * 4", above="seen = []"), SHARE),
    "a generator": (
        script(given="[lambda: gym.make('x', a=rng.random())] * 4", above="rng = np.random.default_rng(1)"),
        SHARE,
    ),
    "a list handed to each": (script(given="[make_env(seen) for _ in range(4)]", above="seen = []"), SHARE),
    "one closure for all": (
        script(factory="seen = []", make="gym.make(env_id, modes=seen)", given="[make_env(args.env_id)] * 4"),
        SHARE,
    ),
    "a global counter": (script(module=COUNTER, thunk="global made\nmade += 1"), SHARE),
    "a counter of the factory": (script(factory=COUNTER, thunk="nonlocal made\nmade += 1"), SHARE),
    "a list of the module": (script(module="seen = []", thunk="seen.append(env_id)"), SHARE),
    "an option": (script(thunk="args.seed += 1"), SHARE),
    "an option by another name": (script(thunk="env_id.seed = 1", given="[make_env(args)] * 4"), SHARE),
    "a module's attribute": (script(thunk="np.seed = 1"), SHARE),
    "a class's attribute": (script(module=f"class Own:\n    {COUNTER}", thunk="Own.made += 1"), SHARE),
    "a class's list": (script(module=OWN + "seen = []", make="Own(gym.make(env_id))"), SHARE),
    "a class's counter": (
        script(module=OWN + f"{COUNTER}\n\n    " + STEP.format("type(self).made += 1"), make="Own(gym.make(env_id))"),
        SHARE,
    ),
    "a class's counter by its name": (
        script(module=OWN + STEP.format("self.__class__.made = 1"), make="Own(gym.make(env_id))"),
        SHARE,
    ),
    "a number that training changes": (
        script(above="level = 1", given="[lambda: gym.make('x', level=level)] * 4", end="level += 1"),
        SHARE,
    ),
    "a number that training rebinds": (
        script(above="level = 1", given="[lambda: gym.make('x', level=level)] * 4", end="level = 2"),
        SHARE,
    ),
    "options that training changes": (script(end="args.env_id = 1"), SHARE),
    "a mutable default": (script(given="[lambda seen=[]: gym.make('x', a=seen)] * 4"), SHARE),
    "a run that is logged to": (script(module="import wandb", thunk="wandb.log({})"), SHARE),
    "a decorated function": (script(module="import functools\n\n\n@functools.cache"), SHARE),
    "a name that is taken": (script(above="signal = 1"), "the name signal has another meaning"),
}


@pytest.mark.parametrize(("source", "reason"), HELD_BACK.values(), ids=HELD_BACK)
def test_held_back(source: str, reason: str) -> None:
    found = outcome(source)
    assert isinstance(found, Skipped) and found.kind == "left as it was", found
    assert reason in found.reason
    assert "line " in found.reason or "the name" in found.reason


NOT_NEEDED = {
    "one environment": script(given="[make_env(args.env_id)]"),
    "processes of their own already": script(f"gym.vector.AsyncVectorEnv({LIST})"),
}


@pytest.mark.parametrize("source", NOT_NEEDED.values(), ids=NOT_NEEDED)
def test_not_needed(source: str) -> None:
    found = outcome(source)
    assert isinstance(found, Skipped) and found.kind == "not needed", found
