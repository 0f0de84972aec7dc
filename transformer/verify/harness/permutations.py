"""A private stream of permutations, which replaces those that scripts shuffle their minibatches with.

The original shuffles an index array with numpy, and the converted script calls `torch.randperm`; when they ask for the
k-th permutation of n, both get the same. The generators of torch, numpy and Python are neither read nor advanced.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]


class Permutations:
    """Permutations determined by the rank of the process, by n, and by the number served before for this n."""

    def __init__(self, rank: int = 0) -> None:
        self._rank = rank
        self._served: Counter[int] = Counter()

    @property
    def served(self) -> int:
        """The number of permutations served."""
        return self._served.total()

    def next(self, n: int) -> Array:
        """The next permutation of range(n): int64, shape (n,)."""
        number = self._served[n]
        self._served[n] += 1
        key = (self._rank << 112) | (n << 64) | number
        permutation: Array = np.random.Generator(np.random.Philox(key=key)).permutation(n)
        return permutation

    def install(self) -> None:
        """Serve shuffles of indices by numpy, torch and Python from this stream; other shuffles stay unchanged."""
        self._install_numpy()
        self._install_generator()
        self._install_torch()
        self._install_python()

    def _shuffled(self, x: Any) -> Array | None:
        """The next permutation instead of shuffling x; None if x contains anything but 0 .. n-1."""
        return self.next(len(x)) if is_permutation(x) else None

    def _permuted(self, x: Any) -> Array | None:
        """The next permutation if x is a number n, or the indices 0 .. n-1; otherwise None."""
        return self.next(int(x)) if isinstance(x, (int, np.integer)) else self._shuffled(x)

    def _install_numpy(self) -> None:
        shuffle, permutation = np.random.shuffle, np.random.permutation

        def served_shuffle(x: Any) -> None:
            served = self._shuffled(x)
            if served is None:
                shuffle(x)
            else:
                x[:] = served

        def served_permutation(x: Any) -> Any:
            served = self._permuted(x)
            return permutation(x) if served is None else served

        np.random.shuffle, np.random.permutation = served_shuffle, served_permutation

    def _install_generator(self) -> None:
        stream, default_rng = self, np.random.default_rng

        class ServedGenerator(np.random.Generator):
            def shuffle(self, x: Any, axis: int = 0) -> None:
                served = stream._shuffled(x)
                if served is None:
                    super().shuffle(x, axis)
                else:
                    x[:] = served

            def permutation(self, x: Any, axis: int = 0) -> Any:
                served = stream._permuted(x)
                return super().permutation(x, axis) if served is None else served

        np.random.default_rng = lambda seed=None: ServedGenerator(default_rng(seed).bit_generator)

    def _install_torch(self) -> None:
        randperm, modes = torch.randperm, torch._C._len_torch_dispatch_stack()

        def served_randperm(
            n: int, *, out: torch.Tensor | None = None, dtype: Any = torch.int64, device: Any = None, **others: Any
        ) -> torch.Tensor:
            if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > modes:
                # torch.compile traces the operation itself, which has no values yet
                return randperm(n, out=out, dtype=dtype, device=device, **others)
            served = torch.tensor(self.next(n), dtype=dtype, device=device)
            return served if out is None else out.resize_(n).copy_(served)

        torch.randperm = served_randperm

    def _install_python(self) -> None:
        shuffle = random.shuffle

        def served_shuffle(x: Any) -> None:
            served = self._shuffled(x)
            if served is None:
                shuffle(x)
            else:
                x[:] = served.tolist()

        random.shuffle = served_shuffle  # type: ignore[assignment]


def is_permutation(x: Any) -> bool:
    """Whether x is a one-dimensional array or list that contains each of 0 .. n-1 once."""
    if not isinstance(x, (np.ndarray, list)) or len(x) == 0:
        return False
    if isinstance(x, list) and type(x[0]) is not int:
        return False
    array = np.asarray(x)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        return False
    return bool(array.min() == 0 and array.max() == len(array) - 1 and (np.bincount(array) == 1).all())
