"""A recorded run: every action, logged scalar, printed line and optimizer step, as values to compare."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from transformer.verify.call_error import CallError
from transformer.verify.numpy_later import np

Array: TypeAlias = "np.ndarray[Any, Any]"


class Moment(NamedTuple):
    """A moment in a run: the number of steps of the environment and of all optimizers before it."""

    env_steps: int
    optimizer_steps: int


@dataclass(frozen=True)
class Action:
    """One action sent to the environment: its arrays (one, unless it is a dictionary or tuple)."""

    moment: Moment
    arrays: tuple[Array | None, ...]
    """None for arrays after the space for values was used up."""


@dataclass(frozen=True)
class Scalar:
    """One logged scalar, as passed to the logger, with its value widened to float64."""

    moment: Moment
    tag: str
    step: int | None
    value: float


@dataclass(frozen=True)
class Print:
    """One line that the script wrote to standard output, without its line end."""

    moment: Moment
    line: str


@dataclass(frozen=True)
class Tensor:
    """A tensor's contents at one moment: always a digest, and the values as long as there was space for them.

    bfloat16, which numpy lacks, is widened to float32; the values of a float8 are not kept.
    """

    digest: str
    values: Array | None
    elements: int


@dataclass(frozen=True)
class OptimizerStep:
    """The state after one step of an optimizer. The moment includes the step itself."""

    moment: Moment
    optimizer: int
    permutations: int
    """The number of permutations served before: two steps with the same number are in one epoch."""
    gradient_norm: float
    """L2 norm of all gradients at the step (after clipping), float64."""
    numbers: Mapping[str, float]
    """Hyperparameters by param group, and state of one element (Adam's `step`), as float64."""
    tensors: Mapping[str, Tensor]
    """Parameters by name (`Agent.actor.0.weight`), and their state (`Agent.actor.0.weight: exp_avg`)."""


@dataclass(frozen=True)
class Site:
    """A site: a place in the training code with several possible outcomes, and the outcomes that were seen."""

    kind: str
    """condition, clip, choice, where, norm, parts or block."""
    line: int
    text: str
    leaves: str
    """Which of break, continue, return and raise are under a condition."""
    outcomes: tuple[str, ...]
    seen: frozenset[str]
    """The outcomes that were seen; `reached` if a call was made."""
    guard: tuple[int, str] | None
    """The innermost condition around it, by its index among the sites, and the outcome that leads here."""
    amounts: tuple[float, float] | None
    """Kind parts: the number of elements divided, and the size of a part. Kind norm: the smallest and the largest."""


@dataclass(frozen=True)
class Recording:
    """Everything recorded of one run of one script."""

    actions: tuple[Action, ...]
    scalars: tuple[Scalar, ...]
    prints: tuple[Print, ...]
    texts: tuple[Print, ...]
    """Lines of the texts passed to a logger, each below its tag and step."""
    events: tuple[Print, ...]
    """Resets of environments, creations of writers, and all calls of close()."""
    optimizers: tuple[str, ...]
    """Class names, in the order of their first steps."""
    steps: tuple[OptimizerStep, ...]
    final: Mapping[str, Tensor]
    """Parameters of every optimizer, and the buffers of their modules, when the run ended."""
    random: tuple[tuple[Moment, Mapping[str, str]], ...]
    """Digests of the global generators' states, at the first optimizer step of each iteration and at the end."""
    files: tuple[str, ...]
    """Files that the script left in its working directory, sorted; event files of one folder count as one."""
    iterations: int
    """Iterations of rollout and update that ran."""
    seconds: float
    """Wall-clock time of the script itself, imports included."""
    versions: Mapping[str, Any]
    others: tuple[tuple[Moment, Mapping[str, str]], ...] = ()
    """Digests of the parameters that no optimizer holds, by class and attribute, at each iteration's first optimizer
    step and at the end; only if an iteration is one environment step."""
    sites: tuple[Site, ...] = ()
    """The watched places of the training code, if watching was requested."""
    regrouped: tuple[str, ...] = ()
    """The transforms that compute something in another order on purpose; the script got the result of the original's
    order."""
    regrouped_errors: tuple[CallError, ...] = ()
    """The distances of those results from the script's own, if these were computed as well."""
    handed: tuple[str, ...] | None = None
    """What the script passed to torch.compile and CudaGraphModule, if these return it unchanged; otherwise None."""
    forks: int = 0
    """The number of processes that the script forked while it trained."""
    peers: tuple[Recording, ...] = ()
    """The recordings of the other processes of a torchrun launch, from rank 1 on. Files are listed only for rank 0."""

    @property
    def has_logs(self) -> bool:
        """Whether anything was logged or printed."""
        return bool(self.scalars or self.prints)

    @property
    def ranks_part(self) -> bool:
        """Whether its processes step their optimizers at different times, because each decides alone when to stop.

        Then they receive what was sent for another step.
        """
        moments = [[step.moment for step in recording.steps] for recording in (self, *self.peers)]
        return any(other != moments[0] for other in moments)


def load(folder: Path, files: tuple[str, ...]) -> Recording:
    """Read what the harness wrote into `folder`. The values are mapped, so `folder` may then be deleted.

    Raises:
        OSError: the harness did not get to write its journal.
    """
    journal = json.loads((folder / "journal.json").read_text())
    read = _reader(folder)

    def read_torch(dtype: str, shape: list[int], offset: int | None) -> Array | None:
        if dtype == "bfloat16":
            upper_half = read("uint16", shape, offset)
            return None if upper_half is None else (upper_half.astype(np.uint32) << 16).view(np.float32)
        return None if dtype.startswith("float8") else read(dtype, shape, offset)

    def tensors(described: dict[str, tuple[str, list[int], str, int | None]]) -> dict[str, Tensor]:
        return {
            name: Tensor(digest, read_torch(dtype, shape, offset), math.prod(shape))
            for name, (dtype, shape, digest, offset) in described.items()
        }

    return Recording(
        actions=_actions(journal, read),
        scalars=_scalars(journal),
        prints=_prints(journal, "prints"),
        texts=_prints(journal, "texts"),
        events=_prints(journal, "events"),
        optimizers=tuple(name for _, name in journal["optimizers"]),
        steps=tuple(
            OptimizerStep(Moment(*m), number, served, norm, numbers, tensors(described))
            for m, number, served, norm, numbers, described in journal["steps"]
        ),
        final=tensors(journal["final"][0][1]),
        random=tuple((Moment(*m), states) for m, states in journal["random"]),
        files=files,
        others=tuple((Moment(*m), digests) for m, digests in journal["others"]),
        iterations=journal["iterations"],
        seconds=journal["seconds"],
        versions=journal["versions"],
        sites=tuple(map(_site, journal["sites"])),
        regrouped=tuple(name for _, name in journal["regrouped"]),
        regrouped_errors=tuple(CallError(*entry) for _, *entry in journal["calls"]),
        handed=next((tuple(names) for _, names in journal["handed"]), None),
        forks=len(journal["forks"]),
    )


@dataclass(frozen=True)
class Log:
    """The logs and prints of a script, and its recorded actions."""

    scalars: tuple[Scalar, ...]
    prints: tuple[Print, ...]
    actions: tuple[Action, ...]


def load_log(folder: Path) -> Log:
    """Read only the log, which is all that a run in log mode records.

    Raises:
        OSError: the harness did not get to write its journal.
    """
    journal = json.loads((folder / "journal.json").read_text())
    return Log(_scalars(journal), _prints(journal, "prints"), _actions(journal, _reader(folder)))


Reader: TypeAlias = Callable[[str, list[int], int | None], "Array | None"]


def _reader(folder: Path) -> Reader:
    """A function that reads an array of a journal by dtype, shape and offset; it returns None if it was not kept."""
    path = folder / "values.bin"
    values = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)

    def read(dtype: str, shape: list[int], offset: int | None) -> Array | None:
        if offset is None:
            return None
        array: Array = np.ndarray(tuple(shape), np.dtype(dtype), values.data, offset)
        return array

    return read


def _actions(journal: dict[str, Any], read: Reader) -> tuple[Action, ...]:
    return tuple(Action(Moment(*m), tuple(read(*leaf) for leaf in leaves)) for m, leaves in journal["actions"])


def _site(entry: list[Any]) -> Site:
    _, kind, line, text, leaves, outcomes, seen, guard, amounts = entry
    under = None if guard is None else (guard[0], guard[1])
    known = None if amounts is None else (amounts[0], amounts[1])
    return Site(kind, line, text, leaves, tuple(outcomes), frozenset(seen), under, known)


def _scalars(journal: dict[str, Any]) -> tuple[Scalar, ...]:
    return tuple(Scalar(Moment(*moment), *rest) for moment, *rest in journal["scalars"])


def _prints(journal: dict[str, Any], kind: str) -> tuple[Print, ...]:
    return tuple(Print(Moment(*moment), line) for moment, line in journal[kind])
