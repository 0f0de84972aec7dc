"""What the harness is asked to do, as read from its job file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Episodes(NamedTuple):
    """How the episodes of an environment that gym or gymnasium makes are cut short."""

    truncated: int
    """Steps after which one is truncated, where it does not end before."""
    barren: int
    """Steps of the environment after which each step gives no reward and ends an episode."""


@dataclass(frozen=True)
class Job:
    """One run of one script. The fields below `output` belong to single modes."""

    mode: str
    """record: write down what the script does. log: write down only what it logs and prints. probe: find out how long
    it would train. lockstep: compare compiled functions with the eager ones that they were made from.
    by_hand: run the script for several ranks in turns, and average their gradients."""
    script: str
    """Path of the script."""
    argv: list[str]
    """The script's own arguments."""
    output: str
    """Folder that takes `journal.json`, `values.bin` and `progress` (one byte per finished iteration)."""
    ranks: bool = False
    """Whether torchrun started this process: it then writes into the folder `rank<RANK>` of `output`."""
    iterations: int | None = None
    """End the run after so many iterations of rollout and update; None lets it end by itself."""
    values_limit: int = 0
    """Bytes of array contents to keep; digests are kept of all."""
    watch: bool = False
    """record: write down which ways the training code took, too."""
    uncompiled: bool = False
    """record, lockstep: whether torch.compile and CudaGraphModule hand back the function itself."""
    episodes: Episodes | None = None
    """record: cut episodes short."""
    clock_rate: int = 1
    """record: the milliseconds that a step takes on the script's clock."""
    stepwise: bool = False
    """record: whether each turn of the training loop steps the environment once. The clock then stands still between
    these steps: a turn logs at one moment, wherever in the turn."""
    emulated: bool = False
    """Give the script a CUDA device that is computed on the CPU."""
    by_hand: int | None = None
    """by_hand: so many ranks take turns in this process."""
    share: int | None = None
    """by_hand: the environments of each rank."""
    every: int = 1
    """lockstep: compare every nth call, beside the ones that always are."""
    in_float32: bool = False
    """record, lockstep: whether the script, or its eager functions, compute in float32, without autocast and TF32."""
