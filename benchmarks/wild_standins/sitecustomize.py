"""Lets a script run whose environment or packages are not to be had; Python imports this where it is on PYTHONPATH.

What it does follows from variables:

- `WILD_OBSERVATIONS`, `WILD_ACTIONS`, `WILD_INFOS`: the spaces of an environment that gym or gymnasium cannot make,
  and what else it tells (noise_world.py);
- `WILD_FOLDER`: a folder whose modules come before the script's own;
- `WILD_GYM`: `gym` where gymnasium shall be gym, `gymnasium` for the contrary: scripts written for versions between;
- `WILD_FILES`: paths that are linked into the working directory, as a script reads them from there;
- `WILD_FOLDERS`: folders that are made in the working directory, as a script saves into them;
- `WILD_CPU`: that a script that knows no device but CUDA shall run on the CPU.

Modules that cannot be found are made up (invented.py).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import itertools
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import invented

ASKED = {
    name: os.environ.get(f"WILD_{name}", "")
    for name in ("OBSERVATIONS", "ACTIONS", "FOLDER", "GYM", "CPU", "FILES", "FOLDERS", "INFOS")
}


def stand_in(gym: ModuleType) -> None:
    """Have `make` fall back on an environment of random observations."""
    import noise_world

    make, registered = gym.make, set()
    kind = noise_world.environment(
        gym, ASKED["OBSERVATIONS"] or "Box(6)", ASKED["ACTIONS"] or "Discrete(4)", ASKED["INFOS"].split()
    )

    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            return make(*args, **kwargs)
        except Exception:  # whatever keeps it from being made
            name = str(args[0] if args else kwargs.get("id"))
        shown = {"render_mode": kwargs["render_mode"]} if "render_mode" in kwargs else {}
        if ASKED["OBSERVATIONS"] == "Image(84, 84, 3)" and ("NoFrameskip" in name or "ALE/" in name):
            importlib.import_module("pixel_game").register(gym)
            return make("BreakoutNoFrameskip-v4", **shown)
        if name not in registered:
            try:
                # Limits that no episode reaches, for scripts that read them
                limits = {"max_episode_steps": 10 * noise_world.LENGTH, "reward_threshold": 1e9}
                gym.envs.registration.register(name, entry_point=kind, **limits)
                registered.add(name)
            except Exception:  # no name that can be registered, or one that is there but does not work
                return kind(**kwargs)
        return make(name, **shown)

    gym.make = gym.envs.make = made
    before_gym_0_22(gym)


def before_gym_0_22(gym: ModuleType) -> None:
    """Give gym the names that it has lost, and wrappers that record nothing: what they record is no result.

    Monitor went with version 0.22; RecordVideo, which came in its place, needs a program that makes videos. What
    wrappers define was called `_action` and so on before 0.10.
    """

    class Recorder(gym.Wrapper):  # type: ignore[name-defined, misc]
        """Counts steps and episodes."""

        def __init__(self, env: Any, *_: Any, **__: Any) -> None:
            super().__init__(env)
            self.total, self.rewards = 0, list[float]()

        def reset(self, **kwargs: Any) -> Any:
            self.rewards.append(0.0)
            return self.env.reset(**kwargs)

        def step(self, action: Any) -> Any:
            result = self.env.step(action)
            self.total += 1
            self.rewards[-1] += result[1]
            return result

        def get_total_steps(self) -> int:
            """Steps of all episodes."""
            return self.total

        def get_episode_rewards(self) -> list[float]:
            """The sums of the rewards of the episodes that have ended."""
            return self.rewards[:-1]

    wrappers = importlib.import_module(f"{gym.__name__}.wrappers")
    for name in ("Monitor", "RecordVideo"):
        if not hasattr(wrappers, name) or shutil.which("ffmpeg") is None:
            setattr(wrappers, name, type(name, (Recorder,), {}))
    if not hasattr(gym, "undo_logger_setup"):
        gym.undo_logger_setup = lambda: None
    for kind in (gym.ActionWrapper, gym.ObservationWrapper, gym.RewardWrapper):
        name = kind.__name__.removesuffix("Wrapper").lower()
        setattr(kind, name, lambda self, given, before=f"_{name}": getattr(self, before)(given))


def choose_no_device(torch: ModuleType) -> None:
    """Have a script that also runs without CUDA run where torch was built without it."""
    if not torch.cuda.is_available():
        torch.cuda.set_device = lambda *_: None


def without_cuda(torch: ModuleType) -> None:
    """Have a script find CUDA; the devices that its text names are the CPU (wild_run.py)."""
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *args, **kwargs: self
    for name in ("synchronize", "set_device", "reset_peak_memory_stats", "empty_cache"):
        setattr(torch.cuda, name, lambda *args, **kwargs: None)
    for name in ("max_memory_allocated", "memory_allocated", "memory_reserved"):
        setattr(torch.cuda, name, lambda *args, **kwargs: 0)
    # The truth for torch itself, which would compile for CUDA
    torch.cuda.is_available = lambda: not sys._getframe(1).f_globals.get("__name__", "").startswith("torch.")
    torch.cuda.get_device_properties = lambda *args: SimpleNamespace(name="none", total_memory=2**33)


def settle(numpy: ModuleType) -> None:
    """Seed numpy's generators that are given no seed one after the other, so that two runs draw the same.

    Names of types that earlier versions had mean what they did there.
    """
    seeds = itertools.count(1)
    numpy.random.bit_generator.randbits = lambda bits: next(seeds)
    for name, meant in {"float": float, "int": int, "object": object, "bool8": bool, "float_": float}.items():
        if name not in vars(numpy):
            setattr(numpy, name, meant)


class Watch(importlib.abc.MetaPathFinder):
    """Has a module changed as soon as it has been imported."""

    changes: ClassVar[dict[str, Callable[[ModuleType], None]]] = {
        "gym": stand_in,
        "gymnasium": stand_in,
        "numpy": settle,
        "torch": without_cuda if ASKED["CPU"] else choose_no_device,
    }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The real one, whose loading is followed by the change."""
        if name not in self.changes:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.changes[name](module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class First(importlib.abc.MetaPathFinder):
    """Finds the modules of `WILD_FOLDER`, before any other of their names."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The module of that folder, if it is one."""
        return importlib.machinery.PathFinder.find_spec(name, [ASKED["FOLDER"]]) if "." not in name else None


for path in filter(None, ASKED["FILES"].split(os.pathsep)):
    link = Path(Path(path).name)
    if Path.cwd().name == "work" and not link.exists():  # the folder that a check runs a script in
        link.symlink_to(path)
for path in filter(None, ASKED["FOLDERS"].split(os.pathsep)):
    if Path.cwd().name == "work":
        Path(path).mkdir(parents=True, exist_ok=True)
sys.meta_path.insert(0, Watch())
if ASKED["FOLDER"]:
    sys.meta_path.insert(0, First())
sys.meta_path.append(invented.Finder())
if ASKED["GYM"]:
    given = ASKED["GYM"]
    wanted = "gym" if given == "gymnasium" else "gymnasium"
    importlib.import_module(given)
    for name in [n for n in sys.modules if n == given or n.startswith(f"{given}.")]:
        sys.modules[wanted + name.removeprefix(given)] = sys.modules[name]
