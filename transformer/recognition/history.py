"""What earlier transforms did that later ones need to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Function:
    """A function that an earlier transform extracted."""

    name: str
    params: tuple[str, ...]
    results: tuple[str, ...]
    others: tuple[str, ...]
    """The parameters that are not known to be tensors, or tuples of them."""
    tensor_results: frozenset[str]
    """The results that are known to be tensors."""
    tuple_results: frozenset[str]
    """The results that are known to be tensors or tuples of tensors."""


@dataclass(frozen=True)
class Asked:
    """What the user asked of the conversion."""

    transforms: frozenset[str] = frozenset()
    """The names of those that are to be applied."""
    target: str = "any"
    """The device that the script is to run on, cpu or cuda; both where any."""
    captures: bool | None = None
    """Whether a CUDA graph holds anything of the script; None where no run has shown it yet."""


@dataclass(frozen=True)
class History:
    """What earlier transforms did that later ones need to know; names, never nodes.

    It is replaced, not written into: `dataclasses.replace(history, storage=name)`.
    """

    functions: Mapping[str, Function] = field(default_factory=dict)
    """By role: rollout, gae, update; further updates by their names."""
    auxiliary: Mapping[str, int] = field(default_factory=dict)
    """Names of further updates, each with the number of its backward passes."""
    in_turns: bool = False
    """On-policy: whether the training loop steps the environment once per turn, and updates in some turns."""
    replay: str | None = None
    """Off-policy: the name of what keeps the environment's steps."""
    moves_samples: str | None = None
    """Off-policy: the function that moves what it gives to the device."""
    updates: Mapping[str, int] = field(default_factory=dict)
    """Off-policy: the functions of the update regions by name, each with the number of its backward passes."""
    target_updates: tuple[str, ...] = ()
    """Off-policy: functions without arguments or results that move the target networks' parameters."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Flag name (compile; cudagraphs, measure_burnin, env_workers, precision if asked for) to its reader (`args.x`)."""
    unsteady: Mapping[str, str] = field(default_factory=dict)
    """Networks that are not known to change in nothing but their parameters' values, each with the reason."""
    restructured: Mapping[str, str] = field(default_factory=dict)
    """Networks whose parameters may become others in training, or cease to need gradients, each with the reason."""
    policy: str | None = None
    """The name for what decides on the actions."""
    policy_target: str | None = None
    """What it stands for: a network, or a method of it, as written."""
    act: str | None = None
    """The function that draws the actions alone, which compiled steps call in the policy's place."""
    policy_others: tuple[str, ...] = ()
    """What it is given and is not known to be a tensor, or a tuple of them; as written."""
    storage: str | None = None
    """The TensorDict that replaced the buffers."""
    transition: str | None = None
    """The dict that a step's values are recorded in."""
    transitions: str | None = None
    """The list of these."""
    storage_steps: str | None = None
    """The number of its rows, as written."""
    storage_dtypes: Mapping[str, str] = field(default_factory=dict)
    """The dtype of each of its entries."""
    storage_sizes: Mapping[str, tuple[list[str], bool]] = field(default_factory=dict)
    """The sizes that each of its entries begins with, as written, and whether they are all of its sizes."""
    on_device: frozenset[str] = frozenset()
    """Functions that earlier transforms wrote, and that wait for nothing where they work on a device."""
    unchecked: bool = False
    """Whether there are no distributions, or they no longer check their arguments under either flag."""
    options: str | None = None
    """The name for what torch.compile is told."""
    drawn: frozenset[str] = frozenset()
    """Expressions, as `ast.unparse` writes them, that draw what a distribution's sample() draws."""
    sampler: str | None = None
    """The one of on_device that draws from distributions."""
    even_minibatches: str | None = None
    """An expression that is true where all minibatches have one size, of names that are bound above the training loop;
    None where unknown."""
    uneven_minibatches: bool = False
    """Whether a smaller last minibatch is possible, and cannot be told from what is bound above the training loop."""
    backwards: int = 0
    """Backward passes in update()."""
    traced: bool = False
    """Whether update() clears gradients, runs backward and steps in a form that torch.compile can trace."""
    static_update: bool = False
    """Whether no control flow of update() hangs on a tensor's value."""
    step_counter: str | None = None
    """The counter of environment steps, once the rollout is extracted."""
    capturable: bool = False
    """Whether every optimizer's step may be captured in a CUDA graph."""
    steady_rates: frozenset[str] = frozenset()
    """The optimizers whose learning rate is a tensor, or never changes."""
    present_rates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Traced functions that update, each with the optimizers whose rates must be in tensors while it runs."""
    single_precision: bool = True
    """Whether the original mentions no other floating-point precision, but in `with autocast` blocks of the training.

    Its networks then compute in float32 outside of those.
    """
    tensor_env: str | None = None
    """The environment, as written, where its steps are known to take and return torch tensors."""
    env_chunk: str | None = None
    """The class that steps one process's part of the environments; None where none has been written."""
    rank: str | None = None
    """The name for the number of this process among those that torchrun started; None where there is one process."""
    asked: Asked = Asked()
    original: str = ""
    """The text of the script before any transform; warnings point into it."""

    @property
    def all_updates(self) -> Mapping[str, int]:
        """update(), or off-policy all functions that update; by name, each with the number of its backward passes."""
        update = self.functions.get("update")
        return self.updates or ({update.name: self.backwards} if update else {})

    @property
    def any_flag(self) -> str:
        """The condition that something is compiled or captured."""
        return " or ".join(self.flags[flag] for flag in ("compile", "cudagraphs") if flag in self.flags)

    def with_function(self, role: str, function: Function) -> History:
        """With a function that was extracted for a role."""
        return replace(self, functions={**self.functions, role: function})
