"""Facts about library calls: each row is compared with what the call really does."""

import importlib
import random
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from transformer.facts.libraries import (
    MODULES,
    OF_MODULE,
    OfModules,
    library_does,
    module_methods,
    of_environments,
    role,
)
from transformer.facts.libraries import ROWS as LIBRARIES

ROWS = [(name, row) for row in MODULES for name in row.names.split()]


class Net(nn.Module):
    """A network with a layer, a parameter and a buffer of its own, and gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(2, 2))
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.zeros(1))
        self.scale.grad = torch.ones(2)


GIVEN = nn.Parameter(torch.zeros(2))
PART = nn.Linear(2, 2)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "get_submodule": ("part",),
    "get_parameter": ("scale",),
    "get_buffer": ("count",),
    "train": (False,),
    "to": ("meta",),
    "to_empty": (),
    "type": (torch.float64,),
    "requires_grad_": (False,),
    "apply": (lambda m: m.train(False),),
    "load_state_dict": ({n: v + 1 for n, v in Net().state_dict().items()},),
    "add_module": ("other", PART),
    "register_module": ("other", PART),
    "set_submodule": ("part", PART),
    "register_parameter": ("other", GIVEN),
    "register_buffer": ("other", GIVEN),
}
ABSENT = ("cpu", "cuda", "xpu", "ipu", "mtia", "compile")
"""Methods that need another device or a compiler."""


def held(net: nn.Module) -> dict[str, Any]:
    """A module's state, keyed by the kinds of change that a row may claim."""
    tensors = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    return {
        "mode": [m.training for m in net.modules()],
        "place": [(t.device, t.is_shared()) for t in tensors.values()],
        "dtype": [t.dtype for t in tensors.values()],
        "learning": [t.requires_grad for t in tensors.values()],
        "values": [(t.tolist() if t.device.type == "cpu" else t.shape, t.grad is None) for t in tensors.values()],
        "parts": [*map(id, net.modules())],
        "parameters": [n for n, _ in net.named_parameters() if not n.startswith("part")],
        "buffers": [n for n, _ in net.named_buffers()],
    }


def reached(thing: Any) -> set[str]:
    """The kinds of objects that can be reached through a view."""
    if isinstance(thing, (torch.Tensor, nn.Module)):
        things = [thing]
    else:
        things = [*thing.values()] if isinstance(thing, dict) else [*thing]
    found = set()
    for one in (t[1] if isinstance(t, tuple) else t for t in things):
        kinds = (nn.Parameter, nn.Module, torch.Tensor)
        found.add(next(k.__name__ for k in kinds if isinstance(one, k)))
    return found


FINDS = {"parameters": {"Parameter"}, "buffers": {"Tensor"}, "parts": {"Sequential", "Module"}, "state": {"Tensor"}}


CALLED = [(name, row) for name, row in ROWS if name not in ABSENT]


@pytest.mark.parametrize(("name", "row"), CALLED, ids=[name for name, _ in CALLED])
def test_a_method_does_what_its_row_says(name: str, row: OfModules) -> None:
    net = Net().double() if name == "float" else Net()
    if name == "eval":
        net.train()
    before = held(net)
    options = {"device": "meta"} if name == "to_empty" else {}
    if row.attribute:
        setattr(net, name, False)
        assert {kind for kind in before if before[kind] != held(net)[kind]} == {row.sets}
        return
    result = getattr(net, name)(*ARGUMENTS.get(name, ()), **options)
    after = held(net)
    assert (result is net) == (row.gives == "itself")
    assert (result is None or isinstance(result, str)) == (row.gives == "nothing") or name == "load_state_dict"
    if row.finds:
        assert reached(result) <= FINDS[row.finds]
    changed = {kind for kind in before if before[kind] != after[kind]}
    if row.sets == "anything":
        return
    assert (row.sets in changed) if row.sets else not changed
    assert row.changes or changed <= {"mode"}
    kept = {id(GIVEN), id(PART)} & {id(x) for x in (*net.modules(), *net.parameters(), *net.buffers())}
    assert bool(kept) == row.keeps


@pytest.mark.parametrize("name", [name for name in ABSENT if name != "compile"])
def test_what_moves_to_another_device_gives_the_module_itself(name: str) -> None:
    empty = nn.Module()
    assert getattr(empty, name)() is empty and name in module_methods(gives="itself")


def test_what_is_assigned_is_kept() -> None:
    net, given = Net(), Net()
    net.load_state_dict(given.state_dict(keep_vars=True), assign=True)
    assert net.scale is given.scale


WORKING = {name: row.does for row in LIBRARIES for name in row.names.split() if row.does}
NOT_INSTALLED = ("einops", "numba", "scipy.stats")
STATES = {"numpy.random": lambda: np.random.get_state()[1].tobytes(), "random": random.getstate}


@pytest.mark.parametrize("name", sorted(WORKING.keys() - {*NOT_INSTALLED}))
def test_what_a_library_does(name: str) -> None:
    """The function exists. Draws advance the generator, clocks advance, and modules that compute draw nothing."""
    whole = name.split(".")
    thing: Any = importlib.import_module(whole[0])
    for at, part in enumerate(whole[1:], 2):
        thing = getattr(thing, part) if hasattr(thing, part) else importlib.import_module(".".join(whole[:at]))
    if WORKING[name] == "clock":
        first = thing()
        assert first <= thing()
    if WORKING[name] == "draws":
        before = STATES[name]()
        (thing.random if name == "random" else thing.rand)()
        assert STATES[name]() != before
    assert library_does(f"{name}.anything") == library_does(name) == WORKING[name]


@pytest.mark.parametrize("name", sorted(of_environments()))
def test_what_vectors_of_environments_have(name: str) -> None:
    """In this process and in others: gymnasium's and gym's; what works the same is asked of the vector itself."""
    make = lambda: gymnasium.make("CartPole-v1")  # noqa: E731
    for vector in (gymnasium.vector.SyncVectorEnv([make]), gymnasium.vector.AsyncVectorEnv([make])):
        has = hasattr(vector, name)
        vector.close()
        assert has or (name == "envs" and isinstance(vector, gymnasium.vector.AsyncVectorEnv))


def test_the_longest_name_counts() -> None:
    assert library_does("torch.cuda.amp.GradScaler") == "" and library_does("torch.cuda.empty_cache") == "host"
    assert library_does("numpy.mean") == "computes" and library_does("numpy.random.rand") == "draws"
    assert (
        role("torch.utils.tensorboard.SummaryWriter") == "reports" and role("torch.utils.data.DataLoader") == "tensors"
    )
    assert library_does("unknown.module") == "" and role("random.random") is None


def test_a_view_is_of_the_memory() -> None:
    net = Net()
    net.state_dict()["scale"].zero_()
    assert not net.scale.any()


def test_all_that_a_module_has_is_known() -> None:
    """A new torch may add names; a name without a row counts as unknown."""
    has = {n for n in dir(nn.Module()) if not n.startswith("_") and "hook" not in n and n != "forward"}
    assert OF_MODULE - {"T_destination"} <= has | {"ipu", "mtia"}
    assert {*has} - OF_MODULE <= set()
    assert {"parameters", "named_parameters"} == module_methods(finds="parameters")
