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
    """The parameters that are not known to be tensors or tuples of tensors."""
    tensor_results: frozenset[str]
    """The results that are known to be tensors."""
    tuple_results: frozenset[str]
    """The results that are known to be tensors or tuples of tensors."""


@dataclass(frozen=True)
class Capturable:
    """What the step of an optimizer needs before a CUDA graph can hold it."""

    argument: bool
    """Whether its constructor must be given `capturable`."""
    rate: bool
    """Whether its rate must be on the device."""
    loads: int
    """How often a checkpoint's state is loaded into it."""


@dataclass(frozen=True)
class Asked:
    """What the user requested of the conversion."""

    transforms: frozenset[str] = frozenset()
    """The names of the transforms to apply."""
    target: str = "any"
    """The device that the script will run on, cpu or cuda; None for either."""
    held: Callable[[str], str | None] = field(default=lambda text: None, compare=False)
    """Why a state of the script must not be, if for any reason."""


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
    """On-policy: whether the training loop steps the environment once per turn, and updates in some turns."""
    environment: str | None = None
    """The method that steps the environment, as written, if there are several that do."""
    at_once: bool = False
    """Whether each rollout is learned from in one step, without epochs or minibatches."""
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
    unsteady: Mapping[str, str] = field(default_factory=dict)
    """Networks of which more than the parameters' values may change, each with the reason."""
    restructured: Mapping[str, str] = field(default_factory=dict)
    """Networks whose parameters may be replaced or frozen during training, each with the reason."""
    tied: str | None = None
    """Where training may give a network a part that it has already."""
    policy: str | None = None
    """The name for the function that chooses the actions."""
    policy_target: str | None = None
    """Its meaning: a network, or a method of it, as written."""
    act: str | None = None
    """The function that only draws the actions, which compiled steps call instead of the policy."""
    step_networks: tuple[str, ...] = ()
    """The functions that call other networks in a step."""
    policy_others: tuple[str, ...] = ()
    """Its arguments that are not known to be tensors or tuples of tensors, as written."""
    storage: str | None = None
    """The TensorDict that replaced the buffers."""
    transition: str | None = None
    """The dict that records a step's values."""
    transitions: str | None = None
    """The list of these dicts."""
    storage_dtypes: Mapping[str, str] = field(default_factory=dict)
    """The dtype of each of its entries."""
    storage_sizes: Mapping[str, tuple[list[str], bool]] = field(default_factory=dict)
    """The sizes that each of its entries begins with, as written, and whether these are all."""
    on_device: frozenset[str] = frozenset()
    """Functions written by earlier transforms that do not wait for the host when they run on a device."""
    unchecked: bool = False
    """Whether there are no distributions, or they no longer check their arguments under either flag."""
    options: str | None = None
    """The name for the options of torch.compile."""
    drawn: frozenset[str] = frozenset()
    """Expressions, as by `ast.unparse`, that draw what a distribution's sample() draws."""
    sampler: str | None = None
    """The function of on_device that draws from distributions."""
    backwards: int = 0
    """The number of backward passes in update()."""
    traced: bool = False
    """Whether update() clears gradients, runs backward and steps in a form that torch.compile can trace."""
    untraced: str = ""
    """Why it does not, or only in another form; nothing where that was not asked."""
    small_updates: frozenset[str] = frozenset()
    """The functions that update only tensors which optimizers are given one by one, such as SAC's temperature."""
    static_update: bool = False
    """Whether no control flow of update() depends on a tensor's value."""
    step_counter: str | None = None
    """The counter of environment steps, once the rollout is extracted."""
    capturable: bool = False
    """Whether every optimizer's step may be captured in a CUDA graph, once they are given what they need for it."""
    to_capture: Mapping[str, Capturable] = field(default_factory=dict)
    """The optimizers that need anything for it, by name."""
    reloaded: frozenset[str] = frozenset()
    """The optimizers into which the training loop loads a state, by tensors other than those in a graph."""
    steady_rates: frozenset[str] = frozenset()
    """The optimizers whose learning rate is a tensor, or never changes."""
    present_rates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Traced functions that update, each with the optimizers whose rates must be in tensors while it runs."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The variables of functions whose statements replaced their calls: new names, with those of the original."""
    other_precision: str | None = None
    """Where the original mentions another floating-point precision than float32, except in `with autocast` blocks of
    the training: "line 82 uses double"; None if it mentions none.

    Its networks then compute in float32 outside these.
    """
    tensor_env: str | None = None
    """The environment, as written, if its steps are known to take and return torch tensors."""
    env_chunk: str | None = None
    """The class that steps one process's share of the environments; None if there is none."""
    rank: str | None = None
    """The name for this process's rank under torchrun; None if there is only one process."""
    asked: Asked = Asked()
    original: str = ""
    """The text of the script before any transform; warnings point into it."""

    @property
    def all_updates(self) -> Mapping[str, int]:
        """All functions that update, by name, each with its number of backward passes."""
        update = self.functions.get("update")
        return self.updates or ({update.name: self.backwards} if update else {})

    def with_function(self, role: str, function: Function) -> History:
        """The history with a function that was extracted for a role."""
        return replace(self, functions={**self.functions, role: function})
