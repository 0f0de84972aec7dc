"""What modules beside torch and numpy do with what their functions and objects are given, by the module's name.

A module that is in no row is not known: its functions may keep what they are given, change it, and call it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["plain", "reports", "options", "tensors", "environments", "bases", "progress"]
"""plain: its functions and objects compute, and keep and change nothing that they are given. reports: so do these,
which print, log and write. options: its results are options, whose attributes are numbers and texts. tensors: what it
is given is in what it returns, and in the object that is called, and nowhere else; it may change that. environments:
its objects keep what they are made of, and call it back. bases: classes that are derived from, which do nothing
themselves. progress: gives back the values of what it is given."""


@dataclass(frozen=True)
class Module:
    """Facts about modules, whose names are given as words; they hold for the modules inside."""

    names: str
    role: Role


ROWS = (
    Module("time math os os.path sys datetime platform getpass uuid socket pathlib re string json pprint warnings "
           "subprocess shutil glob tempfile hashlib struct textwrap signal traceback resource psutil gc distutils",
           "plain"),
    Module("gym.wrappers.normalize.RunningMeanStd gymnasium.wrappers.normalize.RunningMeanStd "
           "gymnasium.wrappers.utils.RunningMeanStd", "plain"),
    Module("statistics operator.itemgetter fractions decimal", "plain"),
    Module("torch.utils.tensorboard tensorboard tensorboardX wandb logging loguru mlflow comet_ml neptune swanlab "
           "matplotlib", "reports"),
    Module("tyro argparse simple_parsing", "options"),
    Module("torch numpy tensordict einops scipy", "tensors"),
    Module("gym gymnasium envpool procgen stable_baselines3.common.atari_wrappers", "environments"),
    Module("abc typing typing_extensions enum dataclasses", "bases"),
    Module("tqdm rich.progress", "progress"),
)  # fmt: skip

_OF = {name: row.role for row in ROWS for name in row.names.split()}


def role(qualified: str) -> Role | None:
    """What is known of the module that a dotted name begins with, the longest that has a row; None if nothing is."""
    while qualified:
        if qualified in _OF:
            return _OF[qualified]
        qualified = qualified.rpartition(".")[0]
    return None


TRAINERS = {
    "stable_baselines3": "Stable-Baselines3", "sb3_contrib": "SB3-Contrib", "tianshou": "Tianshou", "ray": "RLlib",
    "rllib": "RLlib", "torchrl": "TorchRL", "trl": "TRL", "d3rlpy": "d3rlpy", "pfrl": "PFRL", "skrl": "skrl",
    "rl_games": "rl_games", "rsl_rl": "RSL-RL", "spinup": "Spinning Up", "elegantrl": "ElegantRL", "xuance": "XuanCe",
}  # fmt: skip
"""Packages whose own code holds the training loop of a script that uses them, each with its name for readers."""


ModuleGives: TypeAlias = Literal["itself", "a view", "nothing"]


@dataclass(frozen=True)
class OfModules:
    """Facts about methods of torch's base class of modules, whose names are given as words."""

    names: str
    gives: ModuleGives
    """itself: the module; a view: something through which its parameters can be got at."""
    changes: bool = False
    keeps: bool = False
    """Whether the module holds afterwards what it was given."""
    keeps_if: str = ""
    """An option under which it does, too."""


MODULES = (
    OfModules("parameters named_parameters buffers named_buffers modules named_modules children named_children "
              "state_dict get_submodule get_parameter", "a view"),
    OfModules("eval train", "itself"),
    OfModules("to cuda cpu float double half bfloat16 type requires_grad_ apply share_memory", "itself", changes=True),
    OfModules("zero_grad", "nothing", changes=True),
    OfModules("load_state_dict", "nothing", changes=True, keeps_if="assign"),
    OfModules("register_buffer register_parameter add_module register_module", "nothing", changes=True, keeps=True),
)  # fmt: skip

_OF_MODULES = {name: row for row in MODULES for name in row.names.split()}


def of_modules(name: str) -> OfModules | None:
    """The row of a method of modules; None if it is not known."""
    return _OF_MODULES.get(name)


LOGS_VALUES = frozenset("add_scalar add_scalars add_histogram log_metric log_metrics wandb.log".split())
"""Functions and methods of what reports that take the values of tensors, and show nothing else of them."""
