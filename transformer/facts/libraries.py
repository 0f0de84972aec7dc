"""What functions and objects of modules other than torch and numpy do with their arguments, by module name.

A module without a row is unknown: its functions may keep their arguments, change them, and call them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from transformer.facts.rows import named

Role: TypeAlias = Literal["plain", "reports", "options", "tensors", "environments", "bases", "progress"]
"""plain: its functions and objects compute, and neither keep nor change their arguments. reports: the same, but they
print, log and write. options: its results are options, with numbers and strings as attributes. tensors: only the result
and the called object hold the arguments, and may change them. environments: its objects keep what they are made from,
and call it back. bases: base classes that do nothing themselves. progress: returns the values of its argument."""


Activity: TypeAlias = Literal["", "computes", "draws", "settings", "compiles", "host", "processes", "clock", "seeds"]
"""computes: computes with numbers and tensors among its arguments; draws: the same, and draws from numpy's or Python's
generator; settings: sets how torch computes from then on; compiles: turns functions into other code; host: works on the
host; processes: waits for other processes; clock: tells the time; seeds: seeds a generator with its argument."""


@dataclass(frozen=True)
class Module:
    """Facts about modules and everything in them; `names` are words separated by spaces."""

    names: str
    role: Role | None
    does: Activity = ""


ROWS = (
    Module("math", "plain", "computes"),
    Module("time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns time.time time.time_ns", "plain",
           "clock"),
    Module("time os os.path sys datetime platform getpass uuid socket pathlib re string json pprint warnings "
           "subprocess shutil glob tempfile hashlib struct textwrap signal traceback resource psutil gc distutils",
           "plain"),
    Module("gym.wrappers.normalize.RunningMeanStd gymnasium.wrappers.normalize.RunningMeanStd "
           "gymnasium.wrappers.utils.RunningMeanStd", "plain"),
    Module("statistics operator.itemgetter fractions decimal", "plain"),
    Module("torch.utils.tensorboard", "reports", "host"),
    Module("tensorboard tensorboardX wandb logging loguru mlflow comet_ml neptune swanlab matplotlib", "reports"),
    Module("tyro argparse optparse simple_parsing", "options"),
    Module("torch numpy einops", "tensors", "computes"),
    Module("tensordict scipy", "tensors"),
    Module("numpy.random scipy.stats", "tensors", "draws"),
    Module("random", None, "draws"),
    Module("torch.backends torch._dynamo.config torch._inductor.config torch.autograd.anomaly_mode "
           "torch.autograd.set_detect_anomaly torch.autograd.detect_anomaly torch.autograd.set_multithreading_enabled "
           "torch.autograd.set_grad_enabled", "tensors", "settings"),
    Module("torch.compile torch.jit torch._dynamo.optimize torch.export torch.fx", "tensors", "compiles"),
    Module("numba", None, "compiles"),
    Module("torch.cuda torch.multiprocessing torch.profiler torch.utils", "tensors", "host"),
    Module("torch.cuda.amp", "tensors"),
    Module("torch.distributed", "tensors", "processes"),
    Module("random.seed", None, "seeds"),
    Module("numpy.random.seed torch.manual_seed torch.random.manual_seed torch.cuda.manual_seed "
           "torch.cuda.manual_seed_all", "tensors", "seeds"),
    Module("gym gymnasium envpool procgen stable_baselines3.common.atari_wrappers", "environments"),
    Module("abc typing typing_extensions enum dataclasses", "bases"),
    Module("tqdm rich.progress", "progress"),
)  # fmt: skip

_OF = {name: row for row in ROWS for name in row.names.split()}


def _row(qualified: str) -> Module | None:
    while qualified and qualified not in _OF:
        qualified = qualified.rpartition(".")[0]
    return _OF.get(qualified)


def role(qualified: str) -> Role | None:
    """The role of the module that a dotted name starts with, by the longest matching row; None if there is none."""
    row = _row(qualified)
    return None if row is None else row.role


def library_does(qualified: str) -> Activity:
    """The activity of the module that a dotted name starts with, by the longest matching row."""
    row = _row(qualified)
    return "" if row is None else row.does


TRAINERS = {
    "stable_baselines3": "Stable-Baselines3", "sb3_contrib": "SB3-Contrib", "tianshou": "Tianshou", "ray": "RLlib",
    "rllib": "RLlib", "torchrl": "TorchRL", "trl": "TRL", "d3rlpy": "d3rlpy", "pfrl": "PFRL", "skrl": "skrl",
    "rl_games": "rl_games", "rsl_rl": "RSL-RL", "spinup": "Spinning Up", "elegantrl": "ElegantRL", "xuance": "XuanCe",
}  # fmt: skip
"""Packages that run the training loop for the scripts that use them, each with its display name."""
OFFLINE = frozenset({"d4rl", "minari"})
"""Packages of recorded steps, from which scripts learn without an environment."""


@dataclass(frozen=True)
class OfEnvironments:
    """Facts about attributes and methods of vector environments; `names` are words separated by spaces."""

    names: str
    anywhere: bool = True
    """Whether they work the same if the environments are stepped in another process."""


ENVIRONMENTS = (
    OfEnvironments("step reset close num_envs single_observation_space single_action_space observation_space "
                   "action_space"),
    OfEnvironments("envs call get_attr metadata", anywhere=False),
)  # fmt: skip


@cache
def of_environments(**facts: object) -> frozenset[str]:
    """The attributes and methods of vector environments whose rows match all of these facts."""
    return named(ENVIRONMENTS, facts)


ModuleGives: TypeAlias = Literal["itself", "a view", "nothing"]
ModuleFinds: TypeAlias = Literal["", "parameters", "buffers", "parts", "state"]
ModuleSets: TypeAlias = Literal[
    "", "mode", "place", "dtype", "learning", "values", "parts", "parameters", "buffers", "call", "anything"
]


@dataclass(frozen=True)
class OfModules:
    """Facts about methods of nn.Module; `names` are words separated by spaces."""

    names: str
    gives: ModuleGives
    """itself: the module; a view: an object that gives access to its parameters."""
    finds: ModuleFinds = ""
    """What the view gives access to."""
    sets: ModuleSets = ""
    """What it changes: the training mode; the place or the dtype of parameters; which parameters learn; their values or
    gradients; the set of parts, parameters or buffers; or the code that a call runs."""
    changes: bool = False
    """Whether it may change what the module holds; changing the mode does not count."""
    keeps: bool = False
    """Whether the module keeps its arguments."""
    keeps_if: str = ""
    """An option with which the module keeps its arguments."""
    attribute: bool = False
    """Whether it is an attribute rather than a method."""


MODULES = (
    OfModules("named_parameters parameters", "a view", "parameters"),
    OfModules("buffers named_buffers", "a view", "buffers"),
    OfModules("children get_submodule modules named_children named_modules", "a view", "parts"),
    OfModules("state_dict", "a view", "state"),
    OfModules("get_buffer get_parameter", "a view"),
    OfModules("eval train", "itself", sets="mode"),
    OfModules("cpu cuda share_memory to", "itself", sets="place", changes=True),
    OfModules("ipu mtia to_empty xpu", "itself", sets="anything", changes=True),  # it may have other parameters then
    OfModules("bfloat16 double float half type", "itself", sets="dtype", changes=True),
    OfModules("requires_grad_", "itself", sets="learning", changes=True),
    OfModules("apply", "itself", sets="anything", changes=True),
    OfModules("zero_grad", "nothing", sets="values", changes=True),
    OfModules("load_state_dict", "nothing", sets="values", changes=True, keeps_if="assign"),
    OfModules("add_module register_module set_submodule", "nothing", sets="parts", changes=True, keeps=True),
    OfModules("register_parameter", "nothing", sets="parameters", changes=True, keeps=True),
    OfModules("register_buffer", "nothing", sets="buffers", changes=True, keeps=True),
    OfModules("compile", "nothing", sets="call", changes=True),
    OfModules("extra_repr", "nothing"),
    OfModules("training", "nothing", sets="mode", attribute=True),
)

_OF_MODULES = {name: row for row in MODULES for name in row.names.split()}


def of_modules(name: str) -> OfModules | None:
    """The row of a method of nn.Module; None if it is not known."""
    return _OF_MODULES.get(name)


@cache
def module_methods(**facts: object) -> frozenset[str]:
    """The methods of modules whose rows match all of these facts; each fact is a value or a tuple of values."""
    return named(MODULES, facts)


LEAVES_PARTS = module_methods(finds=("parameters", "buffers", "state")) | module_methods(sets=("mode", "values"))
"""Methods that keep a module's parts as they are and where they are; at most, values, gradients and modes change."""
OF_MODULE = module_methods() | frozenset(
    "T_destination call_super_init dump_patches get_extra_state set_extra_state".split()
)
"""Attributes of torch.nn.Module, except its hooks and forward()."""


_OF_VALUES = frozenset("add_histogram add_scalar add_scalars log_metric log_metrics".split())
LOGS_VALUES = _OF_VALUES | {"wandb.log"}
"""Functions and methods of loggers that use only the values of tensors."""
REPORTS = _OF_VALUES | frozenset("add_text critical debug error exception info log warning write".split())
"""Methods of loggers and files that report their arguments."""
