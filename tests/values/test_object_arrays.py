"""Which arrays of numpy hold only numbers, as their dtype shows."""

import ast

import numpy as np
import pytest
import torch

from transformer.syntax.tree import Tree
from transformer.values.effects.object_arrays import holds_numbers

HEAD = "import numpy as np\nimport torch\nx, o = torch.ones(2), [None, 1]\nkw, d = {}, object\n"

NUMBERS = [
    "np.zeros(2)",
    "np.empty((2, 1), np.float32)",
    "np.ones(2, dtype=int)",
    "np.arange(3)",
    "np.linspace(0, 1, 2)",
    "np.array([1.0], np.float64)",
    "np.array([1], dtype='int64')",
    "np.asarray([1, 2], dtype=np.int64)",
    "np.zeros(2).astype(np.float32)",
    "x.numpy()",
    "x.detach().cpu().numpy()",
]
OBJECTS = [
    "np.zeros(2, object)",
    "np.empty(2, dtype='O')",
    "np.ones(2, dtype=d)",
    "np.full(2, None)",
    "np.array(o)",
    "np.array([1.0], object)",
    "np.asarray(o)",
    "np.zeros(2).astype(object)",
    "np.zeros(2, *[object])",
    "np.zeros(1, dtype=[('v', object)])",
    "np.arange(0, 2, 1, object)",
]
UNKNOWN = [
    "np.zeros(2, **kw)",
    "np.array([1.0])",
    "np.concatenate([np.zeros(2)])",
    "np.zeros(2) + 1",
    "np.zeros(2).copy()",
]


def _made(code: str) -> bool:
    tree = Tree(f"{HEAD}made = {code}\n")
    stmt = tree.root.body[-1]
    assert isinstance(stmt, ast.Assign)
    return holds_numbers(tree, stmt.value)


@pytest.mark.parametrize("code", NUMBERS)
def test_an_array_of_numbers(code: str) -> None:
    names: dict[str, object] = {"np": np, "torch": torch}
    exec(f"{HEAD}made = {code}", names)
    assert names["made"].dtype != object  # type: ignore[attr-defined]
    assert _made(code)


@pytest.mark.parametrize("code", OBJECTS)
def test_an_array_of_objects(code: str) -> None:
    names: dict[str, object] = {"np": np, "torch": torch}
    exec(f"{HEAD}made = {code}", names)
    assert names["made"].dtype.hasobject  # type: ignore[attr-defined]
    assert not _made(code)


@pytest.mark.parametrize("code", UNKNOWN)
def test_an_array_that_may_be_either(code: str) -> None:
    assert not _made(code)
