"""Shuffled indices come from a private stream; all other random numbers come from the script's generators."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from transformer.verify.harness.permutations import Permutations, is_permutation
from transformer.verify.harness.randomness import state_digests


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Permutations]:
    for owner, name in [
        (np.random, "shuffle"),
        (np.random, "permutation"),
        (np.random, "default_rng"),
        (torch, "randperm"),
        (random, "shuffle"),
    ]:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # so that it is restored
    permutations = Permutations()
    permutations.install()
    return permutations


def in_place(shuffle: Callable[[Any], None], indices: Any) -> Any:
    shuffle(indices)
    return indices


WAYS: dict[str, Callable[[], Any]] = {
    "np.random.shuffle": lambda: in_place(np.random.shuffle, np.arange(9)),
    "np.random.shuffle of shuffled": lambda: in_place(np.random.shuffle, np.arange(9)[::-1].copy()),
    "np.random.permutation of a number": lambda: np.random.permutation(np.int64(9)),
    "np.random.permutation of indices": lambda: np.random.permutation(np.arange(9)),
    "Generator.permutation": lambda: np.random.default_rng(3).permutation(9),
    "Generator.shuffle": lambda: in_place(np.random.default_rng(3).shuffle, np.arange(9)),
    "random.shuffle": lambda: in_place(random.shuffle, list(range(9))),
    "torch.randperm": lambda: torch.randperm(9),
    "torch.randperm, other dtype": lambda: torch.randperm(9, dtype=torch.int32, device="cpu"),
    "torch.randperm into a tensor": lambda: torch.randperm(9, out=torch.empty(9, dtype=torch.int64)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("stream")
def test_every_way_to_shuffle_gets_the_same_permutations(way: str) -> None:
    before = state_digests()
    expected = [Permutations().next(9)]
    second = Permutations()
    second.next(9)
    expected.append(second.next(9))
    got = [np.asarray(WAYS[way]()) for _ in range(2)]
    np.testing.assert_array_equal(got, expected)
    assert not np.array_equal(*expected)
    assert sorted(expected[0]) == list(range(9))
    assert state_digests() == before


def test_sizes_have_streams_of_their_own(stream: Permutations) -> None:
    first = stream.next(5)
    torch.randperm(7)
    np.testing.assert_array_equal(Permutations().next(5), first)
    assert not np.array_equal(stream.next(5), first)


@pytest.mark.parametrize(
    ("shuffle", "generator"),
    [
        (lambda: np.random.shuffle(np.array([1.0, 0.0, 2.0])), "numpy"),
        (lambda: np.random.shuffle(np.array([0, 1, 1])), "numpy"),
        (lambda: np.random.permutation(np.array([5, 6, 7])), "numpy"),
        (lambda: random.shuffle(["a", "b", "c"]), "python"),
        (lambda: random.shuffle([[0], [1], [2]]), "python"),
        (lambda: torch.rand(3), "torch"),
    ],
)
@pytest.mark.usefixtures("stream")
def test_other_shuffling_advances_its_generator(shuffle: Callable[[], Any], generator: str) -> None:
    before = state_digests()
    shuffle()
    after = state_digests()
    assert [name for name in before if before[name] != after[name]] == [generator]


@pytest.mark.parametrize("indices", [np.array([2, 0, 1]), [1, 0], np.array([0], dtype=np.uint8)])
def test_permutations_are_recognised(indices: Any) -> None:
    assert is_permutation(indices)


@pytest.mark.parametrize(
    "other",
    [np.array([1, 2, 3]), np.array([0, 0]), np.array([[0, 1]]), np.array([]), [], ["a"], [True, False], (0, 1), "ab",
     np.array([0, -1, 1]), np.array([0, 2**40])],
)  # fmt: skip
def test_other_indices_are_not(other: Any) -> None:
    assert not is_permutation(other)
