"""The harness's job, as read from its job file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Episodes(NamedTuple):
    """How to truncate the episodes of environments made by gym or gymnasium."""

    truncated: int
    """The number of steps after which an episode is truncated, if it has not ended."""
    barren: int
    """The number of environment steps after which every step gives no reward and ends an episode."""


@dataclass(frozen=True)
class Job:
    """One run of one script. The fields below `output` belong to single modes."""

    mode: str
    """record: record what the script does. log: record only logs and prints. probe: determine how long it would train.
    lockstep: compare compiled functions with the eager ones. by_hand: run the script for several ranks in turns, and
    average their gradients."""
    script: str
    """Path of the script."""
    argv: list[str]
    """The script's own arguments."""
    output: str
    """The folder for `journal.json`, `values.bin` and `progress` (one byte per finished iteration)."""
    together: Sequence[str] = ()
    """Paths of files in other folders whose modules count as the script's own code, like those in its folder."""
    ranks: bool = False
    """Whether torchrun started this process, which then writes into `output`'s folder `rank<RANK>`."""
    iterations: int | None = None
    """End the run after this many iterations of rollout and update; None lets it end by itself."""
    values_limit: int = 0
    """Bytes of array contents to keep; digests are always kept."""
    watch: bool = False
    """record: also record the branches that the training code takes."""
    uncompiled: bool = False
    """record, lockstep: whether torch.compile and CudaGraphModule return the function itself."""
    episodes: Episodes | None = None
    """record: cut episodes short."""
    clock_rate: int = 1
    """record: the milliseconds that a step takes on the script's clock."""
    stepwise: bool = False
    """record: whether each iteration of the training loop steps the environment once. The clock then stops between
    these steps, so all logs of an iteration have the same time."""
    emulated: bool = False
    """Give the script a CUDA device emulated on the CPU."""
    by_hand: int | None = None
    """by_hand: the number of ranks that take turns in this process."""
    share: int | None = None
    """by_hand: the environments of each rank."""
    every: int = 1
    """lockstep: compare every nth call, besides those that always are."""
    in_float32: bool = False
    """record, lockstep: whether the script, or its eager functions, compute in float32, without autocast and TF32."""
