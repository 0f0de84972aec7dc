"""Runs a converted script in a fork of this process, on environments without state, and may kill it.

Everything that the run prints and logs is written to a file immediately, so that it survives a kill at any moment, and
each checkpoint leaves a mark there. A run that continues from a checkpoint truncates the file at this mark. At its end,
a run writes the state of its networks, optimizers and random generators.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

HERE = Path(__file__).parent
STANDINS = (HERE / "wild_standins", HERE.parent / "tests" / "support" / "standins")
EVENTS = 6
"""The number of moments in a save at which a run may be killed: before it, with the file half written and written,
between the two steps that put the file in its place, and after each of these steps."""
SCALE = 1 / 16
"""The duration of an environment step on the run's clock, in seconds; its multiples are exact in floating point."""


@dataclass(frozen=True)
class Job:
    """A script to be run repeatedly."""

    text: str
    """The converted script."""
    args: tuple[str, ...]
    variables: dict[str, str]
    """Environment variables, including those that benchmarks/wild_standins reads."""
    folders: tuple[str, ...]
    """Additional folders for imports."""
    ends: int
    """The number of steps of an episode; 0 if episodes have no end."""
    still: bool
    """Whether environments are replaced by stateless ones (`Still`)."""


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    """The exit code; negative if a signal ended the run."""
    seconds: float
    errors: str
    """The last lines of standard error."""
    process: int = 0
    """The process id."""


def start(job: Job, work: Path, every: int, *, kill_after: float | None = None, kill_at: int | None = None) -> Ended:
    """Run the script in `work`, until it ends or is killed.

    Args:
        job: what to run.
        work: the folder to run in, with checkpoints of earlier runs; `log` and `final` are beside it.
        every: iterations from one checkpoint to the next; 0 for no checkpoints.
        kill_after: seconds after which the run is killed.
        kill_at: the moment of saving, counted from 0, at which the run kills itself.
    """
    work.mkdir(parents=True, exist_ok=True)
    (work.parent / "stderr").write_bytes(b"")
    began = time.monotonic()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _become(job, work, every, kill_at)
    limit, killed = began + 180.0, began + kill_after if kill_after is not None else float("inf")
    done = status = 0
    while not done:
        time.sleep(0.005)
        done, status = os.waitpid(process, os.WNOHANG)
        if not done and time.monotonic() > min(limit, killed):
            os.kill(process, signal.SIGKILL)
            done, status = os.waitpid(process, 0)
    with_errors = (work.parent / "stderr").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Ended(os.waitstatus_to_exitcode(status), time.monotonic() - began, "\n".join(with_errors[-4:]), process)


def _become(job: Job, work: Path, every: int, kill_at: int | None) -> NoReturn:
    """Turn this fork into the process of one run."""
    status = 1
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(work.parent / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(2, 1)  # for output that libraries write past Python
        os.chdir(work)
        script = Path("script.py")
        script.write_text(job.text, encoding="utf-8")
        os.environ |= {**job.variables, "WANDB_MODE": "offline"}
        args = [*job.args, *(["--checkpoint-every", str(every)] if every else [])]
        sys.argv = ["script.py", *args]
        sys.orig_argv = ["python", "script.py", *args]
        sys.path[:0] = [str(work), *job.folders]
        log = Log(work.parent / "log")
        _prepare(job, log)
        _watch_saving(log, kill_at)
        _seed(os.getpid() if any(p.suffix in (".pt", ".before") for p in Path("checkpoints").glob("*")) else 0)
        kept = Kept()
        sys.stdout = log
        runpy.run_path(str(script), run_name="__main__")
        (work.parent / "final").write_text(json.dumps(kept.told()), encoding="utf-8")
        status = 0
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        if not status:
            (work.parent / "final").write_text(json.dumps(kept.told()), encoding="utf-8")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _seed(seed: int) -> None:
    """Seed the generators that the script does not seed; differently when it continues, as in a new process."""
    import random

    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Log(io.TextIOBase):
    """Writes prints and logs, each immediately and completely, into a file to which later runs append."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.steps = 0
        """Steps of all single environments since this process began, which determine the run's clock."""

    def tell(self, *what: Any) -> None:
        """Write an entry."""
        os.write(self.file, (json.dumps(what) + "\n").encode())

    def write(self, text: str) -> int:
        """Log printed text."""
        if text.startswith("goes on with iteration"):
            self.tell("goes on with", "begin anew" not in text)
        elif text.strip():  # scripts may print all options; this one differs in the run that saves nothing
            self.tell("print", re.sub(r"checkpoint_every=\d+", "checkpoint_every", text))
        return len(text)

    def writable(self) -> bool:
        """Always True."""
        return True

    def cut(self, iteration: int) -> None:
        """Drop the entries after the last mark of an iteration's checkpoint."""
        content = os.pread(self.file, os.fstat(self.file).st_size, 0)
        mark = (json.dumps(("checkpoint", iteration)) + "\n").encode()
        os.ftruncate(self.file, content.rindex(mark) + len(mark))
        self.tell("goes on", iteration, os.getpid())

    def now(self) -> float:
        """The time on the run's clock, which is the same in every run."""
        return 1.7e9 + SCALE * self.steps


class Kept:
    """The final state of a run: networks, optimizers, random generators."""

    def __init__(self) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self.modules: list[Any] = []
        self.optimizers: list[Any] = []
        self.trains = False
        module, optimizer = torch.nn.Module.__init__, torch.optim.Optimizer.__init__

        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            if not self.trains:  # modules that training makes are new in each iteration
                self.modules.append(this)
            module(this, *args, **kwargs)

        def optimized(this: Any, *args: Any, **kwargs: Any) -> None:
            self.optimizers.append(this)
            optimizer(this, *args, **kwargs)

        def stepped(*_: Any) -> None:
            self.trains = True

        torch.nn.Module.__init__ = made  # type: ignore[method-assign]
        torch.optim.Optimizer.__init__ = optimized  # type: ignore[method-assign]
        register_optimizer_step_pre_hook(stepped)

    def told(self) -> dict[str, str]:
        """A digest or a text of each thing, by its name."""
        import random

        import torch

        found: dict[str, str] = {}
        for i, module in enumerate(self.modules):
            own = f"{type(module).__name__} {i}"
            state = {**module.__dict__.get("_parameters", {}), **module.__dict__.get("_buffers", {})}
            for name, value in state.items():
                found[f"{own} {name}"] = f"{digest(value)} learns: {getattr(value, 'requires_grad', None)}"
            if state:
                found[f"{own} trains"] = str(module.training)
        for i, optimizer in enumerate(self.optimizers):
            for j, group in enumerate(optimizer.param_groups):
                options = {key: digest(value) for key, value in group.items() if key != "params"}
                found[f"optimizer {i} group {j}"] = str(options)
                for k, parameter in enumerate(group["params"]):
                    state = {key: digest(value) for key, value in optimizer.state.get(parameter, {}).items()}
                    found[f"optimizer {i} state {j} {k}"] = str(state)
        name, keys, *rest = np.random.get_state()
        found["torch's generator"] = digest(torch.get_rng_state())
        found["numpy's generator"] = digest(keys) + str(rest)
        found["random's generator"] = hashlib.sha256(repr(random.getstate()).encode()).hexdigest()[:16]
        return found


def digest(value: Any) -> str:
    """A bit-exact representation of a value."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().contiguous().numpy()
    if isinstance(value, np.ndarray):
        content = f"{value.dtype} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes()
        return hashlib.sha256(content).hexdigest()[:16]
    if isinstance(value, (np.generic, float)):
        return float(value).hex()
    return repr(value)


# --- saving ------------------------------------------------------------------------------------------------


def _watch_saving(log: Log, kill_at: int | None) -> None:
    """Mark checkpoints in the log, truncate the log when one is loaded, and kill the process at a moment of saving."""
    import torch

    save, load, replace, fsync = torch.save, torch.load, os.replace, os.fsync
    moments = 0

    def moment() -> bool:
        nonlocal moments
        moments += 1
        return moments - 1 == kill_at

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def saved(state: Any, file: Any, *args: Any, **kwargs: Any) -> Any:
        if not (isinstance(state, dict) and "generators" in state and "run" in state):
            return save(state, file, *args, **kwargs)
        log.tell("checkpoint", state["iteration"])
        if moment():
            die()
        if moment():
            whole = io.BytesIO()
            save(state, whole)
            file.write(whole.getvalue()[: len(whole.getvalue()) // 2])
            file.flush()
            die()
        return save(state, file, *args, **kwargs)

    def loaded(file: Any, *args: Any, **kwargs: Any) -> Any:
        state = load(file, *args, **kwargs)
        if isinstance(state, dict) and "generators" in state and "run" in state:
            log.cut(state["iteration"])
        return state

    def synced(file: int) -> None:
        fsync(file)
        if moment():
            die()

    def replaced(old: str, new: str) -> None:
        if moment():
            die()
        replace(old, new)
        if str(new).endswith(".pt") and moment():
            die()

    torch.save, torch.load, os.replace, os.fsync = saved, loaded, replaced, synced


# --- what scripts run on -----------------------------------------------------------------------------------


def _prepare(job: Job, log: Log) -> None:
    """Replace environments, writers and the clock."""
    for name in ("gym", "gymnasium"):  # as in a new process: stand-ins check which of them is imported
        if not re.search(rf"^\s*(import|from) {name}\b", job.text, re.MULTILINE):
            for module in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
                del sys.modules[module]
    site = importlib.util.spec_from_file_location("wild_site", HERE / "wild_standins" / "sitecustomize.py")
    assert site is not None and site.loader is not None
    standing = importlib.util.module_from_spec(site)
    site.loader.exec_module(standing)
    standing.settle(np)
    if job.variables.get("WILD_CPU"):
        standing.without_cuda(sys.modules["torch"])
    still = Still(log, job.ends, job.still)
    for name in ("gym", "gymnasium"):
        if name in sys.modules:
            standing.stand_in(sys.modules[name])
            still.makes(sys.modules[name])
    for name, kind in (
        {}
        if not job.still
        else {
            "procgen": "ProcgenEnv",
            "isaacgymenvs": "VecTask",
            "supersuit": "pettingzoo_env_to_vec_env_v1",
            "noise_world": "Batch",
        }.items()
    ):
        if name == "noise_world" or re.search(rf"\b{name}\b", job.text):
            still.all_of(vars(importlib.import_module(name))[kind])
    if re.search(r"\benvpool\b", job.text) and importlib.util.find_spec("envpool") is not None:
        still.pool(importlib.import_module("envpool"))
    time.time = time.perf_counter = log.now

    class Writer:
        """A writer for TensorBoard that writes into the log."""

        def __init__(self, folder: str = "runs", *_: Any, **__: Any) -> None:
            """Make only the folder, into which scripts save."""
            Path(folder).mkdir(parents=True, exist_ok=True)

        def add_scalar(self, tag: str, value: Any, step: Any = None, *_: Any, **__: Any) -> None:
            """Log a value exactly."""
            number = float(np.asarray(value).reshape(-1)[0])
            log.tell("scalar", tag, number.hex(), int(step) if step is not None else None)

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_, **__: None

    import torch.utils.tensorboard as board

    board.SummaryWriter = Writer  # type: ignore[misc]
    wandb = ModuleType("wandb")
    wandb.__dict__.update(
        log=lambda values, *_, **__: log.tell("wandb", {k: repr(v) for k, v in values.items()}),
        init=lambda *_, **__: wandb, finish=lambda *_, **__: None, save=lambda *_, **__: None, config={}, run=None,
        watch=lambda *_, **__: None,
    )  # fmt: skip
    sys.modules["wandb"] = wandb


class Still:
    """Makes environments stateless: observations are always those of the first reset, so all episodes are equal.

    The reward depends only on the action. Episodes end every `ends` steps, so that an episode ends with an iteration,
    and the next iteration begins a new one.
    """

    def __init__(self, log: Log, ends: int, still: bool) -> None:
        self.log, self.ends, self.still = log, ends, still

    def makes(self, gym: ModuleType) -> None:
        """Make all environments of `gym.make` stateless, or only count their steps."""
        make, pair = gym.make, gym.__name__ == "gymnasium"

        def made(*args: Any, **kwargs: Any) -> Any:
            env = make(*args, **kwargs)
            if self.still:
                self.hold(env, pair)
            else:
                self.count(type(env.unwrapped))
            return env

        gym.make = made  # type: ignore[attr-defined]

    def count(self, kind: Any) -> None:
        """Advance the clock with each step of the environments of a class."""
        step = kind.step
        if getattr(step, "counts", False):
            return

        def counted(env: Any, action: Any) -> Any:
            self.log.steps += 1
            return step(env, action)

        counted.counts = True  # type: ignore[attr-defined]
        kind.step = counted

    def hold(self, env: Any, pair: bool) -> None:
        """Make one environment stateless."""
        import noise_world

        around = env
        while around is not around.unwrapped:  # no time limit must end an episode
            if hasattr(around, "_max_episode_steps"):
                around._max_episode_steps = 10**9
            around = around.env
        base, first, age = env.unwrapped, None, 0
        reset, infos = base.reset, getattr(base, "_infos", dict)

        def again(*args: Any, **kwargs: Any) -> Any:
            nonlocal first, age
            age = 0
            if first is None:
                first = reset(*args, **kwargs)
            return copy.deepcopy(first)

        def step(action: Any) -> Any:
            nonlocal age
            age += 1
            self.log.steps += 1
            over = bool(self.ends) and age % self.ends == 0
            seen = first[0] if isinstance(first, tuple) else first
            return copy.deepcopy(seen), noise_world.total(action), *((over, False) if pair else (over,)), infos()

        base.reset, base.step = again, step

    def all_of(self, kind: type) -> None:
        """Make all vector environments of a class stateless: every step equals the first, except for the rewards."""
        original, result, begin = kind.step, {}, kind.reset  # type: ignore[attr-defined]

        def reset(env: Any, *args: Any, **kwargs: Any) -> Any:
            if id(env) not in result:
                observed = copy.deepcopy(begin(env, *args, **kwargs))
                result[id(env)] = (env, observed, {})
            return copy.deepcopy(result[id(env)][1])

        def step(env: Any, actions: Any) -> Any:
            _, observed, kept = result[id(env)]
            if not kept:
                kept["step"], kept["age"] = copy.deepcopy(original(env, copy.deepcopy(actions))), 0
            kept["age"] += 1
            self.log.steps += int(env.num_envs)
            over = bool(self.ends) and kept["age"] % self.ends == 0
            _, rewards, *ends, infos = copy.deepcopy(kept["step"])
            seen = observed[0] if isinstance(observed, tuple) else observed
            for i, action in enumerate(actions):
                rewards[i] = float(np.sum(np.cos(np.asarray(action, dtype=np.float64))))
            for i, flags in enumerate(ends):
                flags[:] = over and i == 0
            return copy.deepcopy(seen), rewards, *ends, infos

        kind.reset, kind.step = reset, step  # type: ignore[attr-defined]

    def pool(self, envpool: ModuleType) -> None:
        """Make the pools of `envpool.make` stateless."""
        make, still = envpool.make, self

        class Pool:
            """A pool that repeats the results of its first step."""

            def __init__(self, pool: Any) -> None:
                self.pool, self.age = pool, 0
                self.first, self.num_envs = pool.reset(), pool.config["num_envs"]
                action = np.array([pool.action_space.sample() * 0 for _ in range(self.num_envs)])
                self.one = pool.step(action)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.pool, name)

            def reset(self, *_: Any, **__: Any) -> Any:
                """The first observation."""
                self.age = 0
                return copy.deepcopy(self.first)

            def step(self, actions: Any, *_: Any) -> Any:
                """The first observation, with rewards that depend on the actions."""
                self.age += 1
                still.log.steps += self.num_envs
                over = bool(still.ends) and self.age % still.ends == 0
                _, rewards, *ends, infos = copy.deepcopy(self.one)
                rewards[:] = [float(np.cos(np.asarray(a, dtype=np.float64)).sum()) for a in actions]
                for i, flags in enumerate(ends):
                    flags[:] = over and i == 0
                if isinstance(infos, dict):
                    infos |= {"reward": rewards.copy(), "terminated": np.full(self.num_envs, over)}
                    infos = {k: np.zeros_like(v) if k == "lives" and over else v for k, v in infos.items()}
                seen = self.first[0] if isinstance(self.first, tuple) else self.first
                return copy.deepcopy(seen), rewards, *ends, infos

        envpool.make = lambda *args, **kwargs: Pool(make(*args, **kwargs))  # type: ignore[attr-defined]
