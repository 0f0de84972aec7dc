"""The records of one run, in memory until the end, with array contents in one binary file."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from .permutations import Permutations


class Journal:
    """The records of one run.

    A moment in a run is a pair: the numbers of environment steps and of steps of all optimizers before it. Every entry
    has a moment, so that the differences of two runs can be sorted in the order in which they arose.
    """

    def __init__(self, folder: Path, values_limit: int, rank: int = 0) -> None:
        """Write into `folder`; keep at most `values_limit` bytes of array contents in addition to their digests.

        Processes of one launch have different permutations, by `rank`.
        """
        self.folder = folder
        self.room = values_limit
        self._counts = np.frombuffer(mmap.mmap(-1, 32), np.int64)
        """Environment steps, steps of all optimizers, and both at the last environment step.

        In shared memory, because the clocks of forked processes depend on these counts."""
        self.iterations = 0
        self.permutations = Permutations(rank)
        self.entries: dict[str, list[Any]] = {
            kind: []
            for kind in (
                "actions",
                "scalars",
                "prints",
                "texts",
                "events",
                "handed",
                "optimizers",
                "steps",
                "random",
                "others",
                "sites",
                "final",
                "probe",
                "options",
                "functions",
                "calls",
                "faults",
                "compilations",
                "regrouped",
                "forks",
            )
        }
        self._values = (folder / "values.bin").open("wb")
        self._progress = (folder / "progress").open("wb", buffering=0)
        self._updating = False

    @property
    def env_steps(self) -> int:
        """Steps of the environment so far."""
        return int(self._counts[0])

    @property
    def optimizer_steps(self) -> int:
        """Steps of all optimizers so far."""
        return int(self._counts[1])

    @property
    def last_env_step(self) -> tuple[int, int]:
        """The moment of the environment's last step."""
        return int(self._counts[2]), int(self._counts[3])

    def moment(self) -> tuple[int, int]:
        """(environment steps, optimizer steps) so far."""
        return self.env_steps, self.optimizer_steps

    def add(self, kind: str, *fields: Any) -> None:
        """Record an entry of `kind` at this moment. `fields` must be JSON values."""
        self.entries[kind].append([self.moment(), *fields])

    def note_env_step(self) -> None:
        """Count an environment step; the first one after an optimizer step ends an iteration."""
        if self._updating:
            self._updating = False
            self.iterations += 1
            self._progress.write(b".")
        self._counts[0] += 1
        self._counts[2:] = self.moment()

    def note_optimizer_step(self) -> bool:
        """Count an optimizer step; returns whether it is the first one of its iteration."""
        first = not self._updating
        self.note_update()
        self._counts[1] += 1
        return first

    def note_update(self) -> None:
        """Note that the update of this iteration has begun."""
        self._updating = True

    def store(self, array: np.ndarray[Any, Any]) -> int | None:
        """Append the array's bytes to the binary file; returns their offset, or None once the space is used up."""
        if array.nbytes > self.room:
            self.room = 0
            return None
        self.room -= array.nbytes
        offset = self._values.tell()
        self._values.write(np.ascontiguousarray(array).tobytes())
        return offset

    def store_described(self, array: np.ndarray[Any, Any]) -> tuple[str, list[int], int | None]:
        """As `store`, but returns what is needed to read the array back: (dtype, shape, offset)."""
        return array.dtype.str, list(array.shape), self.store(array)

    def close(self, **summary: Any) -> None:
        """Write the entries and `summary` to `journal.json`."""
        if self._updating:
            self._progress.write(b".")
            self.iterations += 1
        self._values.close()
        self._progress.close()
        text = json.dumps({"iterations": self.iterations, **summary, **self.entries})
        (self.folder / "journal.json").write_text(text)
