"""--fuse-envs replaces SyncVectorEnv with a class of the same bits and state; which scripts get it."""

import copy
import pickle
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import converted
from same_bits import same
from tiers import slow_but_each

from transformer import Applied, Skipped, convert
from transformer.syntax.templates import render
from transformer.transforms.tuning.fused_envs import WRAPPERS

gym = pytest.importorskip("gymnasium")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
ROOT = Path(__file__).parent.parent.parent
NEWER = not hasattr(gym.wrappers, "normalize")
RMS = (gym.wrappers.utils if NEWER else gym.wrappers.normalize).RunningMeanStd


def emitted(wrappers: Sequence[str] = tuple(WRAPPERS), broken: tuple[str, str] = ("", "")) -> Any:
    """The class as conversions contain it; `broken` replaces a piece of its text."""
    module = types.ModuleType("emitted")
    module.__dict__.update(gym=gym, np=np, types=types)
    chosen = {name: WRAPPERS[name] for name in wrappers}
    moments = any("Normalize" in name for name in wrappers)
    sync = "gym.vector.SyncVectorEnv"
    text = render("fused_envs", name="FusedVectorEnv", gym="gym", sync=sync, wrappers=chosen, moments=moments)
    assert broken[0] in text
    exec(text.replace(*broken) if broken[0] else text, module.__dict__)
    return module.FusedVectorEnv


FusedVectorEnv = emitted()
Maker = Callable[[], Any]


class Walk(gym.Env):  # type: ignore[misc, name-defined]
    """A random walk with infos of many kinds; `form` maps observation and reward to what a step returns."""

    def __init__(self, form: Callable[..., Any] = lambda row, reward: (row, reward)) -> None:
        self.observation_space = gym.spaces.Box(-9, 9, (3,), np.float64)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.form = form

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.age, self.at = 0, self.np_random.normal(size=3)
        return self.form(self.at, 0.0)[0], {"begun": self.at.copy()}

    def step(self, action: Any) -> Any:
        self.age += 1
        self.at = self.at + self.np_random.normal(size=3) * np.sum(action)
        info = {"level": self.age / 2, "kind": "odd", "deep": {"at": self.at}} if self.age % 2 else {}
        row, reward = self.form(self.at, float(self.at[0]))
        return row, reward, bool(self.at[0] > 4), self.age >= 9, info


class Loud(gym.Wrapper):  # type: ignore[misc, name-defined]
    """An unknown wrapper."""

    def step(self, action: Any) -> Any:
        observation, reward, *ends, info = self.env.step(action)
        return observation, 2 * reward, *ends, {**info, "loud": True}


class OwnNormalize(gym.wrappers.NormalizeObservation):  # type: ignore[misc, name-defined]
    """A subclass of a known wrapper."""

    def normalize(self, obs: Any) -> Any:
        return 2 * super().normalize(obs)

    def observation(self, observation: Any) -> Any:  # the method's name since gymnasium 1
        return 2 * super().observation(observation)


def transformed(env: Any, function: Callable[[Any], Any]) -> Any:
    return gym.wrappers.TransformObservation(env, function, *([env.observation_space] if NEWER else []))


def continuous(env: Any) -> Any:
    """cleanrl's chain for continuous actions."""
    if not isinstance(env, Walk):  # it would make everything float64
        env = gym.wrappers.FlattenObservation(env)
    env = gym.wrappers.RecordEpisodeStatistics(env)
    env = gym.wrappers.ClipAction(env)
    env = gym.wrappers.NormalizeObservation(env)
    env = transformed(env, lambda row: np.clip(row, -10, 10))
    env = gym.wrappers.NormalizeReward(env, gamma=0.99)
    return gym.wrappers.TransformReward(env, lambda reward: np.clip(reward, -10, 10))


def recorded(env: Any) -> Any:
    return gym.wrappers.RecordEpisodeStatistics(env)


def formed(form: Callable[..., Any]) -> Maker:
    return lambda: continuous(Walk(form))


def strange(values: Sequence[float]) -> Maker:
    """Observations and rewards that are sometimes one of these values."""

    def form(row: Any, reward: float) -> Any:
        turn = int(abs(row[0]) * 1000)
        value = values[turn % len(values)]
        return np.where([turn % 7 == 0, turn % 5 == 0, False], value, row), value if turn % 3 == 0 else reward

    return formed(form)


CHAINS: dict[str, Maker] = {
    "CartPole": lambda: recorded(gym.make("CartPole-v1")),
    "CartPole alone": lambda: gym.make("CartPole-v1"),
    "continuous": lambda: continuous(Walk()),
    "float32": formed(lambda row, reward: (row.astype(np.float32), reward)),
    "float16": formed(lambda row, reward: (row.astype(np.float16), reward)),
    "whole numbers": formed(lambda row, reward: (row.astype(np.int64), round(reward))),
    "truths": formed(lambda row, reward: (row > 0, reward)),
    "rewards of float32": formed(lambda row, reward: (row, np.float32(reward))),
    "rewards of float64": formed(lambda row, reward: (row, np.float64(reward))),
    "a strided row": formed(lambda row, reward: (np.repeat(row, 2)[::2], reward)),
    "zeros of either sign": strange([0.0, -0.0]),
    "not finite": strange([np.inf, -np.inf, np.nan]),
    "tiny and huge": strange([5e-324, -1e-310, 1e200, -1.7e308]),
    "unknown, outermost": lambda: Loud(continuous(Walk())),
    "unknown, in the middle": lambda: between(),
    "a subclass": lambda: gym.wrappers.NormalizeReward(OwnNormalize(recorded(Walk()))),
    "one twice": lambda: gym.wrappers.NormalizeObservation(gym.wrappers.NormalizeObservation(Walk())),
    "frames": lambda: stacked(gym.wrappers.NormalizeObservation(recorded(Walk())), 2),
    "a dictionary": lambda: recorded(transformed(dictionary(), lambda row: {"a": row})),
}


def stacked(env: Any, count: int) -> Any:
    return (gym.wrappers.FrameStackObservation if NEWER else gym.wrappers.FrameStack)(env, count)


def between() -> Any:
    env = Loud(gym.wrappers.NormalizeObservation(recorded(Walk())))
    return gym.wrappers.NormalizeReward(Loud(env))


def dictionary() -> Any:
    env = Walk()
    env.observation_space = gym.spaces.Dict({"a": env.observation_space})
    return env


CLOCKS = ("episode_start_times", "episode_start_time", "time_queue")


def kept(envs: Any) -> Iterator[dict[str, Any]]:
    """The attributes of each environment and wrapper."""
    for env in envs.envs:
        while True:
            own = {k: v for k, v in vars(env).items() if k not in ("env", "step", *CLOCKS)}
            own = {k: v for k, v in own.items() if isinstance(v, (int, float, np.ndarray, np.generic, bool, RMS))}
            yield {
                "type": type(env).__name__,
                **{k: vars(v) if isinstance(v, RMS) else v for k, v in own.items()},
                **{k: list(v) for k, v in vars(env).items() if k.endswith("_queue") and k not in CLOCKS},
            }
            if not isinstance(env, gym.Wrapper):
                break
            env = env.env


def run(make: Maker, count: int, fused: Any = FusedVectorEnv, steps: int = 300) -> int:
    """Step both side by side and compare everything after each step. Returns how many episodes ended.

    Raises:
        AssertionError: something differs.
    """
    plain, other = gym.vector.SyncVectorEnv([make] * count), fused([make] * count)
    assert same(plain.reset(seed=3), other.reset(seed=3))
    generator, ended, given = np.random.default_rng(0), 0, []
    for step in range(steps):
        if hasattr(plain.single_action_space, "n"):
            actions = generator.integers(0, plain.single_action_space.n, count)
        else:
            actions = generator.normal(size=plain.action_space.shape).astype(np.float32)
        left, right = plain.step(actions), other.step(actions)
        assert same(left, right), (step, left, right)
        assert all(map(same, kept(plain), kept(other))), (step, list(kept(plain)), list(kept(other)))
        given.append((left[0], right[0], left[1], right[1]))
        ended += int(np.any(right[2] | right[3]))
        if step == steps // 2:
            assert same(plain.reset(), other.reset())
    assert all(same(*g[:2]) and same(*g[2:]) for g in given), "what was given is not written into"
    plain.close()
    other.close()
    return ended


EACH = [(chain, count) for place, chain in enumerate(CHAINS) for count in ((1, 3) if place % 2 else (3, 1))]


@pytest.mark.parametrize("case", slow_but_each(4, EACH), ids=str)
def test_same_bits(case: tuple[str, int]) -> None:
    chain, count = case
    assert run(CHAINS[chain], count) > 5


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", ["Hopper-v4", "HalfCheetah-v4"])
def test_same_bits_of_mujoco(name: str, count: int) -> None:
    pytest.importorskip("mujoco")
    ended = run(lambda: continuous(gym.make(name, **({"max_episode_steps": 50} if "Half" in name else {}))), count)
    assert ended > 3


BREAKS = {
    "the variance of what is not finite": ("(row - row)", "0.0"),
    "the end of an episode": ("if terminated or truncated:\n            return", "if False:\n            return"),
    "the order of the arithmetic": ("delta * delta * moments.count / count", "delta * (delta * moments.count / count)"),
    "the number of rows": ("count = moments.count + 1\n", "count = moments.count + 1.0001\n"),
    "the discount": ("wrapper.gamma * (1 - terminated)", "wrapper.gamma"),
    "the epsilon": ("moments.var + wrapper.epsilon)\n        return np", "moments.var)\n        return np"),
    "a copy": ("batch.copy() if self.copy else batch", "batch"),
    "lengths": ("wrapper.episode_lengths += 1", "pass"),
    **(
        {
            "the step after the last": ("if self._autoreset_envs[i]:", "if False:"),
            "who is over": ("self._terminations | self._truncations", "self._terminations.copy()"),
            "single precision": ("np.float32(row) if FusedVectorEnv.NEWER else row", "row"),
        }
        if NEWER
        else {"the last observation": ('"final_observation": row', '"final_observation": None')}
    ),
    "types of observations": ('row.dtype.kind == "f"', "True"),
    "subclasses": ("type(env) in steps", "isinstance(env, gym.wrappers.NormalizeObservation)"),
}


@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
def test_a_fault_is_seen(broken: tuple[str, str]) -> None:
    faulty = emitted(broken=broken)
    with pytest.raises((AssertionError, KeyError, TypeError, AttributeError)):
        for make in CHAINS.values():
            run(make, 2, faulty, steps=60)


def test_fewer_wrappers() -> None:
    run(CHAINS["continuous"], 2, emitted(["RecordEpisodeStatistics"]))
    run(CHAINS["CartPole"], 2, emitted([]))


def patched(fused: Any, make: Maker) -> list[str]:
    envs, found = fused([make]), []
    (env,) = envs.envs
    while isinstance(env, gym.Wrapper):
        found += [type(env).__name__] if "step" in vars(env) else []
        env = env.env
    return found


def test_known_wrappers_are_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patched(FusedVectorEnv, CHAINS["continuous"]) == [*reversed(WRAPPERS)]
    assert patched(FusedVectorEnv, CHAINS["a subclass"]) == ["NormalizeReward", "RecordEpisodeStatistics"]
    assert patched(FusedVectorEnv, CHAINS["a dictionary"]) == []
    monkeypatch.setattr(gym, "__version__", "1.0.9")
    assert patched(FusedVectorEnv, CHAINS["continuous"]) == []
    assert run(CHAINS["continuous"], 2) > 5


def test_a_step_of_the_script_stays() -> None:
    def make() -> Any:
        env = recorded(Walk())
        whole, env.step = env.step, lambda action: whole(0.5 * action)
        return env

    assert run(make, 2) > 5


def test_moments_may_be_loaded_copied_and_saved() -> None:
    """Moments of another kind keep their own update()."""

    class Halves(RMS):  # type: ignore[misc, valid-type]
        def update(self, rows: Any) -> None:
            super().update(rows / 2)

    plain, fused = (cls([lambda: continuous(Walk())]) for cls in (gym.vector.SyncVectorEnv, FusedVectorEnv))
    results = []
    for envs in (plain, fused):
        envs.reset(seed=1)
        found = [envs.step(np.ones((1, 2)))]
        wrapper = envs.envs[0].env.env.env
        assert isinstance(wrapper, gym.wrappers.NormalizeObservation)
        saved = pickle.dumps(wrapper.obs_rms)
        found.append(copy.deepcopy(envs.envs[0]).step(np.ones(2)))
        found += [envs.step(np.ones((1, 2))) for _ in range(3)]
        wrapper.obs_rms = pickle.loads(saved)
        wrapper.obs_rms.mean = wrapper.obs_rms.mean.astype(np.float32)
        found += [envs.step(np.ones((1, 2))) for _ in range(3)]
        wrapper.obs_rms = Halves(shape=(3,))
        found += [envs.step(np.ones((1, 2))) for _ in range(3)]
        results.append((saved, found))
    assert same(*(found for _, found in results))
    assert results[0][0] == results[1][0]


def test_an_error_leaves_the_chain_whole() -> None:
    def already(env: Any) -> Any:
        return recorded(recorded(env))  # the outer one finds the end of an episode already recorded

    for cls in (gym.vector.SyncVectorEnv, FusedVectorEnv):
        envs = cls([lambda: already(Walk())])
        envs.reset(seed=1)
        with pytest.raises((ValueError, AssertionError)):
            for _ in range(20):
                envs.step(np.ones((1, 2)))
        assert isinstance(envs.envs[0].env, gym.wrappers.RecordEpisodeStatistics)


LIST = "[make_env(args.env_id) for _ in range(args.num_envs)]"
MADE = f"    envs = gym.vector.SyncVectorEnv({LIST})\n"
SOURCE = (ROOT / "fixtures" / "target_kl.py").read_text()
assert SOURCE.count(MADE) == 1
END = "    writer.close()\n"


def script(made: str = MADE, *, below: str = "", end: str = "", module: str = "") -> str:
    """The fixture, its environments made or used in another way."""
    source = SOURCE.replace(MADE, made + below).replace(END, end + END)
    return source.replace("def make_env(", module + "def make_env(", 1)


def outcome(source: str) -> Applied | Skipped:
    conversion = convert(source, select={"fused-envs"})
    assert conversion.steps, conversion.diagnostics
    return next(s.outcome for s in conversion.steps if s.transform.name == "fused-envs")


def test_what_is_written() -> None:
    written = converted(SOURCE, fuse_envs=True).source
    assert f"    envs = FusedVectorEnv({LIST})\n" in written
    assert "import types\n" in written and written.count("import numpy as np\n") == 1
    assert written.index("class FusedVectorEnv") < written.index("class Args")
    assert "step_normalized" not in written, "the script names no such wrapper"
    text = render("fused_envs", name="F", gym="gym", sync="gym.vector.SyncVectorEnv", wrappers=WRAPPERS, moments=True)
    assert len([line for line in text.splitlines() if line.strip()]) <= 101, "so short that somebody would keep it"


def test_only_on_request() -> None:
    conversion = converted(SOURCE)
    assert "FusedVectorEnv" not in conversion.source
    (step,) = (s for s in conversion.steps if s.transform.name == "fused-envs")
    assert isinstance(step.outcome, Skipped) and not step.outcome.chosen


def test_twice_is_refused() -> None:
    assert not convert(converted(SOURCE, fuse_envs=True).source, fuse_envs=True).converted


def test_in_workers() -> None:
    """Under --env-workers each process steps its part with the class."""
    written = convert(SOURCE, select={"flags", "async-envs", "fused-envs"}).source
    assert "class EnvChunk(FusedVectorEnv):" in written
    assert written.index("class FusedVectorEnv") < written.index("class EnvChunk")
    chosen = "WorkerVectorEnv(env_fns, args.env_workers) if args.env_workers else FusedVectorEnv(env_fns)"
    assert f"envs = {chosen}\n" in written
    assert written.count("gym.vector.SyncVectorEnv") == 1


@pytest.mark.skipif(NEWER, reason="--env-workers is for gymnasium 0.29")
def test_same_bits_in_workers() -> None:
    from transformer.transforms.scaling.async_envs import MODULES

    module = types.ModuleType("emitted")
    exec("\n".join(f"import {name}" for name in (*MODULES, "torch")), module.__dict__)
    module.__dict__.update(gym=gym, np=np, FusedVectorEnv=FusedVectorEnv)
    text = render(
        "env_workers", name="WorkerVectorEnv", chunk="EnvChunk", wait="wait_for", sync="FusedVectorEnv",
        vector_env="gym.vector.VectorEnv", listed=False, dtypes="np.float64, np.bool_, np.bool_",
    )  # fmt: skip
    exec(text, module.__dict__)
    make = CHAINS["continuous"]
    plain, workers = gym.vector.SyncVectorEnv([make] * 4), module.WorkerVectorEnv([make] * 4, 1)
    assert same(plain.reset(seed=3), workers.reset(seed=3))
    actions = np.random.default_rng(0).normal(size=(60, 4, 2)).astype(np.float32)
    ended = 0
    for action in actions:
        left, right = plain.step(action), workers.step(action)
        assert same(left, right)
        ended += "final_info" in right[4]
    workers.close()
    assert ended > 5


WRAP = """\
class Own(gym.Wrapper):
    def reset(self, **given):
        self.returns = 0
        return super().reset(**given)


"""
APPLIED = {
    "what wrappers keep is read": script(end="    print(envs.envs[0].obs_rms.mean)\n"),
    "statistics are loaded": script(below="    envs.envs[0].obs_rms = torch.load('x')\n"),
    "a wrapper of the script's own": script(module=WRAP),
    "wrapped": script(MADE.replace("gym.vector", "gym.wrappers.NormalizeReward(gym.vector")[:-1] + ")\n"),
    "SyncVectorEnv by its name": script(MADE.replace("gym.vector.", "")).replace(
        "import gymnasium as gym\n", "import gymnasium as gym\nfrom gymnasium.vector import SyncVectorEnv\n"
    ),
    "options that are set by name": script(below="    setattr(args, 'ste' + 'ps', 1)\n"),
}


@pytest.mark.parametrize("source", APPLIED.values(), ids=APPLIED)
def test_applied(source: str) -> None:
    found = outcome(source)
    assert isinstance(found, Applied), found


HELD_BACK = {
    "handed to a package": (script(below="    torch.save(envs, 'x')\n"), "uses envs"),
    "shown": (script(below="    print(envs)\n"), "uses envs"),
    "their attributes are set": (script(below="    envs.set_attr('step', 1)\n"), "uses envs.set_attr"),
    "an argument more": (script(MADE.replace(f"({LIST})", f"({LIST}, copy=False)")), "more than a list"),
    "two of them": (script(below=MADE.replace("envs =", "tests =")), "one name"),
    "a method that is replaced": (script(below="    envs.envs[0].step = print\n"), "changes envs.envs[0].step"),
    "statistics that are frozen": (
        script(below="    rms = envs.envs[0].obs_rms\n    rms.update = lambda rows: None\n"),
        "changes rms.update",
    ),
    "a package that is changed": (script(module="gym.Wrapper.reset = print\n\n\n"), "changes gym.Wrapper.reset"),
    "a name that is not known": (
        script(below="    for name in ('step', 'reset'):\n        setattr(envs.envs[0], name, print)\n"),
        "may change a wrapper",
    ),
    "a name that is taken": (script(below="    types = 1\n"), "the name types has another meaning"),
}


@pytest.mark.parametrize(("source", "reason"), HELD_BACK.values(), ids=HELD_BACK)
def test_held_back(source: str, reason: str) -> None:
    found = outcome(source)
    assert isinstance(found, Skipped) and found.kind == "left as it was", found
    assert reason in found.reason


NOT_NEEDED = {
    "processes of their own": script(MADE.replace("SyncVectorEnv", "AsyncVectorEnv")),
    "a class of the script's own": script(
        MADE.replace("gym.vector.SyncVectorEnv", "Envs"), module="class Envs(gym.vector.SyncVectorEnv):\n    pass\n\n\n"
    ),
    "the gym before": SOURCE.replace("import gymnasium as gym", "import gym"),
}


@pytest.mark.parametrize("source", NOT_NEEDED.values(), ids=NOT_NEEDED)
def test_not_needed(source: str) -> None:
    found = outcome(source)
    assert isinstance(found, Skipped) and found.kind == "not needed", found


def test_no_warning_more() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        run(CHAINS["continuous"], 2)
