"""What functions and objects of modules other than torch and numpy do with their arguments, by module name.

A module without a row is unknown: its functions may keep their arguments, change them, and call them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["plain", "reports", "options", "tensors", "environments", "bases", "progress"]
"""plain: its functions and objects compute, and neither keep nor change their arguments. reports: likewise, but they
print, log and write. options: its results are options, whose attributes are numbers and texts. tensors: arguments are
held only by the result and by the called object, which may change them. environments: its objects keep what they are
made from, and call it back. bases: base classes that do nothing themselves. progress: returns the values of its
argument."""


@dataclass(frozen=True)
class Module:
    """Facts about modules, whose names are given as words; they also hold for submodules."""

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
    """The role of the module that a dotted name begins with, by the longest match with a row; None if there is none."""
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
"""Packages whose own code contains the training loop of scripts that use them, each with its display name."""


ModuleGives: TypeAlias = Literal["itself", "a view", "nothing"]


@dataclass(frozen=True)
class OfModules:
    """Facts about methods of nn.Module, whose names are given as words."""

    names: str
    gives: ModuleGives
    """itself: the module; a view: an object that gives access to its parameters."""
    changes: bool = False
    keeps: bool = False
    """Whether the module keeps its arguments."""
    keeps_if: str = ""
    """An option with which it does."""


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
    """The row of a method of nn.Module; None if it is not known."""
    return _OF_MODULES.get(name)


LOGS_VALUES = frozenset("add_scalar add_scalars add_histogram log_metric log_metrics wandb.log".split())
"""Functions and methods of loggers that use only the values of tensors."""
