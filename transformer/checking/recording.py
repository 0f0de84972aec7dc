"""What a recorded run did: every action, logged scalar, printed line and optimizer step, as values to compare."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Moment(NamedTuple):
    """How far a run was: steps of the environment and of all optimizers done before."""

    env_steps: int
    optimizer_steps: int


@dataclass(frozen=True)
class Action:
    """One action sent to the environment: its arrays (one, unless it is a dictionary or tuple)."""

    moment: Moment
    arrays: tuple[Array | None, ...]
    """None where the space for values was used up."""


@dataclass(frozen=True)
class Scalar:
    """One logged scalar: as given to the logger, its value widened to float64."""

    moment: Moment
    tag: str
    step: int | None
    value: float


@dataclass(frozen=True)
class Print:
    """One line that the script wrote to standard output, without its end."""

    moment: Moment
    line: str


@dataclass(frozen=True)
class Tensor:
    """A tensor's contents at one moment: a digest always, the values while there was space for them.

    bfloat16, which numpy lacks, is widened to float32; the values of a float8 are not kept.
    """

    digest: str
    values: Array | None
    elements: int


@dataclass(frozen=True)
class OptimizerStep:
    """What one step of an optimizer left behind. The moment counts the step itself."""

    moment: Moment
    optimizer: int
    permutations: int
    """How many permutations had been served: two steps with the same number are of one epoch."""
    gradient_norm: float
    """L2 norm of all gradients as the step saw them (after clipping), float64."""
    numbers: Mapping[str, float]
    """Hyperparameters by param group, and state of one element (Adam's `step`), as float64."""
    tensors: Mapping[str, Tensor]
    """Parameters by name (`Agent.actor.0.weight`), and their state (`Agent.actor.0.weight: exp_avg`)."""


@dataclass(frozen=True)
class Recording:
    """Everything recorded of one run of one script."""

    actions: tuple[Action, ...]
    scalars: tuple[Scalar, ...]
    prints: tuple[Print, ...]
    optimizers: tuple[str, ...]
    """Class names, in the order of their first steps."""
    steps: tuple[OptimizerStep, ...]
    final: Mapping[str, Tensor]
    """Parameters of every optimizer, and the buffers beside them, when the run ended."""
    random: tuple[tuple[Moment, Mapping[str, str]], ...]
    """Digests of the global generators' states, at the first optimizer step of each iteration and at the end."""
    files: tuple[str, ...]
    """Files that the script left in its working directory, sorted; event files of one folder count as one."""
    iterations: int
    """Iterations of rollout and update that ran."""
    seconds: float
    """Wall-clock time of the script itself, imports included."""
    versions: Mapping[str, Any]
    peers: tuple[Recording, ...] = ()
    """What the other processes of a torchrun launch did, from rank 1 on. Files are told once, by rank 0."""


def load(folder: Path, files: tuple[str, ...]) -> Recording:
    """Read what the harness wrote into `folder`. The values are mapped, so `folder` may then be deleted.

    Raises:
        OSError: the harness did not get to write its journal.
    """
    journal = json.loads((folder / "journal.json").read_text())
    path = folder / "values.bin"
    values = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)

    def read(dtype: str, shape: list[int], offset: int | None) -> Array | None:
        if offset is None:
            return None
        array: Array = np.ndarray(tuple(shape), np.dtype(dtype), values.data, offset)
        return array

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
        actions=tuple(Action(Moment(*m), tuple(read(*leaf) for leaf in leaves)) for m, leaves in journal["actions"]),
        scalars=_scalars(journal),
        prints=_prints(journal),
        optimizers=tuple(name for _, name in journal["optimizers"]),
        steps=tuple(
            OptimizerStep(Moment(*m), number, served, norm, numbers, tensors(described))
            for m, number, served, norm, numbers, described in journal["steps"]
        ),
        final=tensors(journal["final"][0][1]),
        random=tuple((Moment(*m), states) for m, states in journal["random"]),
        files=files,
        iterations=journal["iterations"],
        seconds=journal["seconds"],
        versions=journal["versions"],
    )


def load_log(folder: Path) -> tuple[tuple[Scalar, ...], tuple[Print, ...]]:
    """Read the scalars and printed lines alone, which is all that a run in log mode writes down.

    Raises:
        OSError: the harness did not get to write its journal.
    """
    journal = json.loads((folder / "journal.json").read_text())
    return _scalars(journal), _prints(journal)


def _scalars(journal: dict[str, Any]) -> tuple[Scalar, ...]:
    return tuple(Scalar(Moment(*moment), *rest) for moment, *rest in journal["scalars"])


def _prints(journal: dict[str, Any]) -> tuple[Print, ...]:
    return tuple(Print(Moment(*moment), line) for moment, line in journal["prints"])
