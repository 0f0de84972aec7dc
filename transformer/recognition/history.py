"""What later transforms need to know of earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Function:
    """A function that an earlier transform extracted."""

    name: str
    params: tuple[str, ...]
    results: tuple[str, ...]
    others: tuple[str, ...]
    """The parameters not known to be tensors or tuples of tensors."""
    tensor_results: frozenset[str]
    """The results known to be tensors."""
    tuple_results: frozenset[str]
    """The results known to be tensors or tuples of tensors."""


@dataclass(frozen=True)
class Capturable:
    """What an optimizer needs before a CUDA graph can capture its step."""

    argument: bool
    """Whether its constructor needs the argument `capturable`."""
    rate: bool
    """Whether its learning rate must be on the device."""
    loads: int
    """How often the state of a checkpoint is loaded into it."""


@dataclass(frozen=True)
class Asked:
    """What the user requested of the conversion."""

    transforms: frozenset[str] = frozenset()
    """The names of the transforms to apply."""
    target: str = "any"
    """The device that the script will run on: cpu, cuda or any."""
    held: Callable[[str], str | None] = field(default=lambda text: None, compare=False)
    """Why a text of the script is not allowed; None if it is."""


@dataclass(frozen=True)
class History:
    """What later transforms need to know of earlier ones: names, never nodes.

    It is replaced, not modified: `dataclasses.replace(history, storage=name)`.
    """

    functions: Mapping[str, Function] = field(default_factory=dict)
    """By role: rollout, gae, update; further updates by name."""
    auxiliary: Mapping[str, int] = field(default_factory=dict)
    """Names of further updates, each with its number of backward passes."""
    in_turns: bool = False
    """On-policy: whether each iteration of the training loop steps the environment once, and some of them update."""
    environment: str | None = None
    """The method that steps the environment, as written, if several methods may."""
    at_once: bool = False
    """Whether one step learns from each rollout, without epochs or minibatches."""
    replay: str | None = None
    """Off-policy: the name of the replay buffer."""
    moves_samples: str | None = None
    """Off-policy: the function that moves its samples to the device."""
    updates: Mapping[str, int] = field(default_factory=dict)
    """Off-policy: the functions of the update regions by name, each with its number of backward passes."""
    target_updates: tuple[str, ...] = ()
    """Off-policy: functions without arguments or results that update the target networks."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """For each flag the expression that reads it: compile; if requested measure_burnin, env_workers, precision; if a
    graph holds anything cudagraphs."""
    too_large: bool = False
    """Whether the analysis of effects gave up on the script; then it does not try again after each transform."""
    unsteady: Mapping[str, str] = field(default_factory=dict)
    """Networks in which more than the values of parameters may change, each with the reason."""
    restructured: Mapping[str, str] = field(default_factory=dict)
    """Networks whose parameters may be replaced or frozen during training, each with the reason."""
    tied: str | None = None
    """Where training may give a network a part that it already has."""
    policy: str | None = None
    """The name of the function that chooses actions."""
    policy_target: str | None = None
    """What that function calls: a network or its method, as written."""
    act: str | None = None
    """The function that only draws actions; compiled steps call it instead of the policy."""
    step_networks: tuple[str, ...] = ()
    """The functions that call other networks in a step."""
    policy_others: tuple[str, ...] = ()
    """The policy's arguments not known to be tensors or tuples of tensors, as written."""
    storage: str | None = None
    """The TensorDict that replaced the buffers."""
    transition: str | None = None
    """The dict that records a step's values."""
    transitions: str | None = None
    """The list of these dicts."""
    storage_dtypes: Mapping[str, str] = field(default_factory=dict)
    """The dtype of each entry of the storage."""
    storage_sizes: Mapping[str, tuple[list[str], bool]] = field(default_factory=dict)
    """The sizes, as written, that start the shape of each entry of the storage, and whether these are all."""
    on_device: frozenset[str] = frozenset()
    """Functions written by earlier transforms that never wait for the device when they run on one."""
    unchecked: bool = False
    """Whether there are no distributions, or they no longer check their arguments under either flag."""
    options: str | None = None
    """The name for the options of torch.compile."""
    drawn: frozenset[str] = frozenset()
    """Expressions, as by `ast.unparse`, that draw the same as a distribution's sample()."""
    sampler: str | None = None
    """The function of on_device that draws from distributions."""
    backwards: int = 0
    """The number of backward passes in update()."""
    traced: bool = False
    """Whether update() clears gradients, runs backward and steps in a form that torch.compile can trace."""
    untraced: str = ""
    """Why update() does not, or only in another form; empty if this was not examined."""
    small_updates: frozenset[str] = frozenset()
    """The functions that update only tensors given to optimizers one by one, such as SAC's temperature."""
    static_update: bool = False
    """Whether no control flow of update() depends on a tensor's value."""
    step_counter: str | None = None
    """The counter of environment steps, once the rollout is extracted."""
    capturable: bool = False
    """Whether every optimizer's step may be captured in a CUDA graph, once `to_capture` is satisfied."""
    to_capture: Mapping[str, Capturable] = field(default_factory=dict)
    """What optimizers need before the capture, by name."""
    reloaded: frozenset[str] = frozenset()
    """The optimizers whose state the training loop loads; loading replaces tensors that a graph holds."""
    steady_rates: frozenset[str] = frozenset()
    """The optimizers whose learning rate is a tensor, or never changes."""
    present_rates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Traced update functions, each with the optimizers whose rates must be in tensors while it runs."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Variables of functions whose statements replaced their calls: new names, each with the original name."""
    other_precision: str | None = None
    """Where the original mentions a floating-point precision other than float32, except in the training's `with
    autocast` blocks: "line 82 uses double"; None if nowhere.

    Outside those blocks, its networks then compute in float32.
    """
    tensor_env: str | None = None
    """The environment, as written, if its steps are known to take and return torch tensors."""
    env_chunk: str | None = None
    """The class that steps one process's share of the environments; None if there is none."""
    rank: str | None = None
    """The name for this process's rank under torchrun; None if there is only one process."""
    asked: Asked = Asked()
    original: str = ""
    """The text of the script before any transform; warnings refer to its lines."""

    @property
    def all_updates(self) -> Mapping[str, int]:
        """All functions that update, by name, each with its number of backward passes."""
        update = self.functions.get("update")
        return self.updates or ({update.name: self.backwards} if update else {})

    def with_function(self, role: str, function: Function) -> History:
        """The history with a function extracted for a role."""
        return replace(self, functions={**self.functions, role: function})
