"""Facts about torch and numpy: every row is checked by calling the installed version."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import io
import math
import operator
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from processors import CAPABILITIES, run_under
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, Normal
from torch.optim import swa_utils
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.facts.rows import named
from transformer.facts.torch_api import (
    ARRAYS_LACK,
    ATTRIBUTE_ROWS,
    DRAWING,
    DTYPES,
    EXACT_POWERS,
    FILL,
    HOLDERS,
    LAZY,
    OF,
    OF_DISTRIBUTIONS,
    OF_TYPE,
    OPERATORS,
    OTHERS,
    PRODUCTS,
    SAME_EACH_TIME,
    SPARSE_AT,
    Attribute,
    DtypeRow,
    Kind,
    Row,
    distributions,
    draws,
    holders,
    is_constant,
    layers,
    may_write_itself,
    names,
    of_layers,
    of_optimizers,
    of_parameters,
    optimizers,
    others,
    schedulers,
    sets_computing,
    works_on_host,
)
from transformer.syntax.templates import render

ELSEWHERE = {
    ("tensor", "cuda"): "there is no such device here",
}
"""What is not called, with the reason."""

FLOATS = torch.linspace(0.1, 0.9, 15).reshape(5, 3)
SQUARE = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
INPUTS = {
    "images": torch.arange(32.0).reshape(1, 2, 4, 4),
    "floats": FLOATS,
    "doubles": FLOATS.double(),
    "integers": torch.arange(6).reshape(3, 2),
    "conditions": torch.tensor([[True], [False]]),
    "not contiguous": FLOATS.T,
    "one row": FLOATS[:1],
    "a line": FLOATS[0],
    "one number": torch.tensor(0.5),
    "square": SQUARE,
    "without gradient": FLOATS.clone().requires_grad_(),
    "integers in a line": torch.arange(1, 4),
    "many": torch.rand(67, 33, generator=torch.Generator().manual_seed(1)),
    "matrices": FLOATS[:3].expand(2, 3, 3).clone(),
    **{str(d): torch.ones(2, 2, dtype=d) for d in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16)},
}
"""First arguments to try; no callable accepts all of them."""


def like(x: Any) -> Any:
    """A second argument: a copy of the first."""
    return x.copy() if isinstance(x, np.ndarray) else x.detach().clone()


GIVEN: dict[str, tuple[Callable[[Any], tuple[Any, ...]], ...]] = {
    **dict.fromkeys("add sub mul div divide multiply subtract".split(), (lambda x: (like(x),), lambda x: (1,))),
    **dict.fromkeys("add_ sub_ mul_ div_ fill_".split(), (lambda x: (2,),)),
    **dict.fromkeys(
        "bitwise_and bitwise_or maximum minimum logical_and logical_or logical_xor power".split(),
        (lambda x: (like(x),),),
    ),
    **dict.fromkeys("eq ge gt le lt ne".split(), (lambda x: (like(x),), lambda x: (0,))),
    **dict.fromkeys("allclose equal copy_ expand_as reshape_as type_as view_as".split(), (lambda x: (like(x),),)),
    **dict.fromkeys("huber_loss kl_div l1_loss mse_loss smooth_l1_loss".split(), (lambda x: (like(x),),)),
    **dict.fromkeys("binary_cross_entropy binary_cross_entropy_with_logits".split(), (lambda x: (like(x),),)),
    **dict.fromkeys("logaddexp outer".split(), (lambda x: (like(x),),)),
    **dict.fromkeys("amax amin cummax cummin".split(), (lambda x: (-1,),)),
    **dict.fromkeys("kthvalue topk".split(), (lambda x: (1,), lambda x: (1, -1))),
    **dict.fromkeys("bucketize searchsorted".split(), (lambda x: (torch.linspace(0, 1, 4),), lambda x: (like(x),))),
    "unfold": (lambda x: (0, 1, 1), lambda x: (2,)),
    "roll": (lambda x: (1,),),
    **dict.fromkeys("bmm matmul mm".split(), (lambda x: (like(x),),)),
    **dict.fromkeys("clamp clip clamp_ clip_".split(), (lambda x: (0.2, 0.5), lambda x: (-9, 9))),
    **dict.fromkeys("cumsum log_softmax softmax".split(), (lambda x: (-1,),)),
    **dict.fromkeys("expand reshape view".split(), (lambda x: (x.shape,),)),
    **dict.fromkeys("max min".split(), (lambda x: (), lambda x: (0,), lambda x: (-1,))),
    **dict.fromkeys("mean sum std var prod argmax argmin".split(), (lambda x: (), lambda x: (0,), lambda x: (-1,))),
    **dict.fromkeys("all any median".split(), (lambda x: (), lambda x: (-1,))),
    "addcmul": (lambda x: (like(x), like(x)),),
    "as_strided": (lambda x: (x.shape, x.stride()),),
    "astype": (lambda x: (x.dtype,),),
    "broadcast_to": (lambda x: (x.shape,),),
    "chunk": (lambda x: (2,),),
    **dict.fromkeys("cross_entropy nll_loss".split(), (lambda x: (torch.zeros(len(x), dtype=torch.int64),),)),
    "einsum": (lambda x: ("ij->ji",), lambda x: ("ij,ij->ij", like(x)), lambda x: ("ii->i",)),
    "expand_dims": (lambda x: (0,),),
    "dropout": (lambda x: (0.5, True), lambda x: (0.5, False)),
    "flip": (lambda x: ([0],),),
    "full_like": (lambda x: (1,),),
    "gather": (lambda x: (0, torch.zeros_like(x, dtype=torch.int64)),),
    "index_select": (lambda x: (0, torch.arange(len(x))),),
    "layer_norm": (lambda x: (x.shape[-1:],),),
    "lerp_": (lambda x: (like(x) + 1, 0.5),),
    "linear": (lambda x: (like(x),),),
    "logsumexp": (lambda x: (-1,), lambda x: (())),
    "max_pool2d": (lambda x: (2,), lambda x: (1,)),
    "masked_fill": (lambda x: (x > 0.5, 0),),
    "masked_select": (lambda x: (x > 0.5,),),
    "moveaxis": (lambda x: (0, -1),),
    "movedim": (lambda x: (0, -1),),
    "multinomial": (lambda x: (1,),),
    "narrow": (lambda x: (0, 0, 1),),
    "norm": (lambda x: (), lambda x: (2, 0), lambda x: (1,), lambda x: (2, -1)),
    "one_hot": (lambda x: (9,),),  # without a number of classes, it asks for the largest value
    "permute": (lambda x: (tuple(range(x.ndim)),),),
    "pow": (lambda x: (1,), lambda x: (2,), lambda x: (like(x),)),
    "percentile": (lambda x: (50,),),
    "quantile": (lambda x: (0.5,),),
    "repeat": (lambda x: (1,) * max(x.ndim, 1), lambda x: (1,)),
    "round": (lambda x: (),),
    "select": (lambda x: (0, 0),),
    "split": (lambda x: (1,),),
    "swapaxes": (lambda x: (0, -1),),
    "to": (lambda x: (x.dtype,), lambda x: ("cpu",)),
    "transpose": (lambda x: (0, -1), lambda x: ()),
    "type": (lambda x: (x.dtype,), lambda x: (torch.float64,)),
    "unsqueeze": (lambda x: (-1,),),
    "where": (lambda x: (like(x), like(x)),),
}
"""Further arguments, after the first."""
MAKING: dict[str, tuple[Any, ...]] = {
    "arange": (4,),
    "eye": (3,),
    "full": ((2, 2), 1.0),
    "linspace": (0, 1, 5),
    "logspace": (0, 1, 5),
    "normal": (0.0, 1.0, (3,)),
    "randint": (9, (3,)),
    "randperm": (5,),
}
"""Arguments of functions that make tensors from sizes only."""

REMOVED = {("torch", "cholesky"): (2, 14)}
"""Names that torch removed, with the first version without them."""
CASES = [(kind, name) for kind in OF for name in OF[kind] if (kind, name) not in ELSEWHERE]


def made_distributions() -> list[Any]:
    """One of each kind of distribution that PPO samples actions from."""
    normal = Normal(FLOATS.clone(), FLOATS.clone())
    return [normal, Categorical(logits=FLOATS.clone()), Categorical(probs=FLOATS.clone()), Independent(normal, 1)]


def calls(kind: Kind, name: str, row: Row) -> Iterator[tuple[str, Any, Any]]:
    """The arguments and the result of a callable, for each input that it accepts."""
    if kind == "distribution":
        for made in made_distributions():
            if name == "rsample" and not made.has_rsample:
                continue
            given = [made.sample()] if name == "log_prob" else []
            before = [t.clone() for t in tensors_in(made)]
            yield type(made).__name__, [made, *given], getattr(made, name)(*given)
            assert all(map(torch.equal, tensors_in(made), before))
        return
    if row.made == "on host" or (kind == "numpy" and (name == "full" or (row.dtype_at and not row.made))):
        module: Any = torch if kind == "torch" else np
        yield "sizes", [], getattr(module, name)(*MAKING.get(name, ((2, 3),)))
        return
    for title, tensor in INPUTS.items():
        for given in GIVEN.get(name, (lambda x: (),)):
            x: Any = tensor.detach().clone(memory_format=torch.preserve_format)
            if title == "without gradient" and row.memory != "in place":
                x.requires_grad_()
            if kind in ("array", "numpy") or name == "from_numpy":
                x = x.detach().numpy()
            try:
                arguments = [x > 0.4 if name == "where" else x, *given(x)]
                joins = name in ("cat concat concatenate hstack stack vstack".split())
                passed = [[x], *arguments[1:]] if joins else arguments
                result = function(kind, name)(*passed)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
                continue
            yield title, arguments, result


def function(kind: Kind, name: str) -> Callable[..., Any]:
    """The callable; a method takes its object as the first argument."""
    homes: dict[str, Any] = {
        "tensor": torch.Tensor,
        "array": np.ndarray,
        "torch": torch,
        "functional": torch.nn.functional,
        "linalg": torch.linalg,
        "numpy": np,
    }
    found: Callable[..., Any] = getattr(homes[kind], name)
    return (lambda x, text, *others: found(text, x, *others)) if OF[kind][name].operands else found


def tensors_in(value: Any) -> list[Any]:
    """The tensors and arrays of a result, or of arguments."""
    if isinstance(value, (Tensor, np.ndarray)):
        return [value]
    if isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
        return [
            torch.empty(0, dtype=torch.uint8).set_(
                value if isinstance(value, torch.UntypedStorage) else value._untyped_storage
            )
        ]
    if isinstance(value, torch.distributions.Distribution):
        return [t for v in vars(value).values() for t in tensors_in(v)]
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (list, tuple)) else []


def memory(value: Any) -> set[int]:
    """Start addresses of the memory of all tensors and arrays in a value."""
    found = set()
    for part in tensors_in(value):
        if isinstance(part, np.ndarray):
            while isinstance(part.base, np.ndarray):
                part = part.base
            found.add(part.__array_interface__["data"][0])
        elif part.numel():
            found.add(part.untyped_storage().data_ptr())
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two results have equal bits and equal shapes."""
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    return a.shape == b.shape and torch.equal(torch.nan_to_num(a, nan=7.5), torch.nan_to_num(b, nan=7.5))


def nearly(a: Any, b: Any) -> bool:
    """Whether two results have equal shapes, and are equal except for rounding."""
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    if a.shape != b.shape or not a.is_floating_point():
        return same(a, b)
    return torch.allclose(a, b, rtol=1e-2 if a.dtype == torch.float16 else 1e-6, equal_nan=True)


def faults_of_memory(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `memory`."""
    shared = seen = 0
    for title, given, result in calls(kind, name, row):
        seen += 1
        parts = tensors_in(result)
        touched = bool(memory(result) & memory(given))
        shared += touched
        if row.memory == "new" and touched:
            yield f"{title}: the result shares memory"
        if row.memory == "number" and parts:
            yield f"{title}: the result is a tensor"
        if row.memory == "in place" and not any(p is given[0] for p in parts):
            yield f"{title}: the result is something else"
    if not seen:
        yield "it accepts none of the inputs"
    of_old_numpy = name == "round" and kind in ("array", "numpy")
    if row.memory == "shared" and seen and not shared and row.made != "of host" and not of_old_numpy:
        yield "nothing is ever shared"


def faults_of_changes(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's claim that it changes its arguments, or does not."""
    if kind not in ("tensor", "torch", "functional") or row.made:
        return
    changed = 0
    for title, given, _ in calls(kind, name, row):
        changed += any(t._version for t in given if isinstance(t, Tensor))
        if row.memory != "in place" and changed:
            yield f"{title}: it changes what it is given"
    if row.memory == "in place" and not changed and name != "requires_grad_":
        yield "it changes nothing"


def faults_of_rows(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `rows`."""
    if row.rows == "row" and not row.draws:
        for made, one in zip(made_distributions(), map(distribution_of_row, made_distributions()), strict=True):
            drawn = made.sample()
            whole = getattr(made, name)(*([drawn] if name == "log_prob" else []))
            part = getattr(one, name)(*([drawn[2]] if name == "log_prob" else []))
            if not same(whole[2], part):
                yield f"{made}: the rows are mixed"
    if row.rows not in ("element", "broadcast", "inner"):
        return
    seen = 0
    for title, given, result in calls(kind, name, row):
        x = given[0] if given else None
        if not isinstance(x, (Tensor, np.ndarray)) or x.ndim != 2:
            continue
        if row.rows in ("element", "broadcast"):
            if result.shape != x.shape:
                yield f"{title}: the result has another shape"
                continue
            for i in range(0, len(x), 1 + len(x) // 9):
                part = function(kind, name)(*(g[i] if isinstance(g, (Tensor, np.ndarray)) else g for g in given))
                if not nearly(result[i], part):
                    yield f"{title}: a row depends on others"
            for at in ((0, 0), (len(x) - 1, x.shape[1] - 1)):
                cut = [g[at[0]][at[1] : at[1] + 1] if isinstance(g, (Tensor, np.ndarray)) else g for g in given]
                part = function(kind, name)(*cut)
                if not nearly(result[at[0]][at[1] : at[1] + 1], part):
                    yield f"{title}: an element depends on others"
        else:
            before = (2,) * row.dim
            result = function(kind, name)(x, *before, 1)
            for i in range(0, len(x), 1 + len(x) // 9):
                part = function(kind, name)(x[i], *before, 0)
                for whole, one in zip(tensors_in(result), tensors_in(part), strict=True):
                    if len(whole.shape) == 0 or not nearly(whole[i], one):
                        yield f"{title}: a row depends on others"
        seen += 1
    if not seen:
        yield "it accepts no matrix"


SPECIAL = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-42, -1e-42, 0.5, -0.5, 1.5, 2.5, -3.0)
"""Numbers that are often computed in a way of their own: signed zeros, nan and infinities, subnormal numbers."""
COMPUTED_IN = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool)
MANY = 1003
"""Elements: no multiple of what a vector holds, on any processor."""
PIECES = ((1, 29), (3, 53), (13, 97), (67, 201))
"""Sizes of pieces of them, each with how far apart they begin: most offsets are odd."""


def numbers(dtype: torch.dtype, count: int, seed: int) -> list[Tensor]:
    """`count` tensors of MANY elements each, a third of them special values."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        x = torch.randn(MANY, generator=generator) * 3
        if dtype.is_floating_point:
            places = torch.rand(MANY, generator=generator) < 0.3
            x[places] = torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), (int(places.sum()),), generator=generator)]
        found.append(x.to(dtype))
    return found


def bits(x: Any) -> Tensor:
    """A result's bits, including the signs of zeros; all nans are the same."""
    x = torch.as_tensor(x).contiguous()
    if not x.is_floating_point():
        return x
    return torch.where(x.isnan(), torch.full_like(x, float("nan")), x).view((torch.int16, torch.int32, torch.int64)[
        x.element_size() // 4
    ])  # fmt: skip


def differing(call: Callable[..., Any], operands: int) -> Iterator[str]:
    """Pieces of one-dimensional inputs for which an operation computes other bits than for the whole."""
    seen = 0
    for dtype, seed in product(COMPUTED_IN, range(3)):
        given = numbers(dtype, operands, seed)
        try:
            whole = call(*given)
        except (RuntimeError, TypeError):
            continue
        seen += 1
        for size, apart in PIECES:
            for begin in range(0, MANY - size, apart):
                part = call(*(x[begin : begin + size] for x in given))
                if not torch.equal(bits(part), bits(whole[begin : begin + size])):
                    yield f"{dtype}: {size} elements from the {begin}th on differ"
        rows = call(*(x[: 59 * 17].reshape(59, 17).T for x in given))
        if not torch.equal(bits(rows), bits(whole[: 59 * 17].reshape(59, 17).T)):
            yield f"{dtype}: columns differ from rows"
    if not seen:
        yield "it accepts no numbers"


def faults_of_exact(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `exact`: one element must give the bits it gives among many."""
    if not row.exact:
        return
    call = function(kind, name)

    def called(*given: Tensor) -> Any:
        if name == "where":
            given = (given[0] > 0, *given[1:])
        passed = [x.numpy() for x in given] if kind == "array" else given
        return call(*passed)

    yield from differing(called, row.exact)
    if row.exact == 2 and not name.startswith(("logical", "bitwise")):  # with a number, as the first or the second
        yield from differing(lambda x: call(x, 0.3), 1)
        if kind == "torch":
            yield from differing(lambda x: call(torch.tensor(0.3), x), 1)


def distribution_of_row(made: Any) -> Any:
    """The distribution of the third row alone."""
    if isinstance(made, Independent):
        return Independent(distribution_of_row(made.base_dist), 1)
    if isinstance(made, Normal):
        return Normal(made.loc[2], made.scale[2])
    return Categorical(logits=made.logits[2]) if "logits" in vars(made) else Categorical(probs=made.probs[2])


def faults_of_reducing(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `reduces`: whether it gives a single number when called without arguments."""
    if (not row.reduces and row.memory != "new") or kind not in ("tensor", "torch", "array", "numpy"):
        return
    for x in (FLOATS, FLOATS > 0.5):
        try:
            result = function(kind, name)(x.numpy() if kind in ("array", "numpy") else x)
        except (RuntimeError, TypeError, ValueError):
            continue
        if not isinstance(result, tuple) and (np.ndim(result) == 0) != row.reduces:
            yield f"it makes something of {np.ndim(result)} dimensions"


def faults_of_dtype(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `dtype`."""
    if row.dtype == "default":
        for dtype in (torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            try:
                made = [r.dtype for _, _, r in calls(kind, name, row)]
            finally:
                torch.set_default_dtype(torch.float32)
            if made != [dtype]:
                yield f"with {dtype} as the default it makes {made}"
        return
    for title, given, result in calls(kind, name, row) if row.dtype in ("kept", "bool", "integer", "given") else ():
        x = given[-1] if name == "where" else given[0] if given else None
        for part in tensors_in(result):
            if row.dtype == "kept" and str(x.dtype).rpartition(".")[2].startswith("float") and part.dtype != x.dtype:
                yield f"{title}: {x.dtype} becomes {part.dtype}"
            if row.dtype == "given" and given and part.dtype != torch.as_tensor(x).dtype:
                yield f"{title}: {part.dtype}"
            if row.dtype == "integer" and part.dtype != torch.int64:
                yield f"{title}: {part.dtype}"
            if row.dtype == "bool" and part.dtype not in (torch.bool, np.bool_) and part.dtype != torch.uint8:
                yield f"{title}: {part.dtype}"


def faults_of_given_dtype(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's claim that the result has the dtype of the numbers it is made of."""
    if kind == "numpy" and row.dtype == "given":
        if [function(kind, name)(number).dtype.kind for number in (3, 3.0)] != ["i", "f"]:
            yield "the dtype is not that of what it is given"
    if kind == "torch" and row.made == "on host" and not row.draws:
        sizes = ((2,),) if name == "full" else (1,) if "space" in name else ()
        try:
            found = [function(kind, name)(*sizes, number).dtype for number in (3, 3.0)]
        except TypeError:
            found = []
        if (found == [torch.int64, torch.float32]) != (row.dtype == "given"):
            yield "the dtype is that of what it is given, or it is not"


def faults_of_draws(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `draws`."""
    drew = set()
    made = calls(kind, name, row)
    while True:
        torch.default_generator.manual_seed(1)  # torch.manual_seed keeps the stack of each call for CUDA, which is slow
        before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].tobytes()
        if next(made, None) is None:
            break
        after_numpy = np.random.get_state()[1].tobytes()
        drew.add(not torch.equal(before, torch.get_rng_state()) or before_numpy != after_numpy)
    if True in drew and not row.draws:
        if not (kind == "distribution" and name == "log_prob"):  # it is given a sample, and so need not draw one
            yield "it draws"
    if True not in drew and row.draws:
        yield "it draws nothing"


def faults_of_waits(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `waits`: a "meta" tensor has no values, so a function that reads values fails on it."""
    if kind not in ("tensor", "torch", "functional") or row.made or row.waits == "check":
        return
    worked, failed = [], []
    for title, given, _ in calls(kind, name, row):
        bare = [g.detach().to("meta") if isinstance(g, Tensor) else g for g in given]
        if name in "cat concat concatenate hstack stack vstack".split():
            bare = [bare]
        if any(isinstance(g, str) and g == "cpu" for g in bare):
            continue  # a copy to the host, which the argument asks for
        try:
            function(kind, name)(*bare)
            worked.append(title)
        except (RuntimeError, NotImplementedError, TypeError):
            failed.append(title)
    if row.waits and worked:
        yield f"it works without values: {worked}"
    if not row.waits and failed:
        yield f"it needs values: {failed}"


def faults_of_made(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `made`."""
    if row.made == "on host":
        arguments = MAKING.get(name, ((2, 3),))
        if getattr(torch, name)(*arguments).device.type != "cpu":
            yield "it is made elsewhere"
        if getattr(torch, name)(*arguments, device="meta").device.type != "meta":
            yield "no device can be named"
    if row.made == "of host" and kind == "torch":
        made = getattr(torch, name)(np.ones(3, np.float32) if name == "from_numpy" else [1.0, 2.0])
        if made.device.type != "cpu":
            yield "it is made elsewhere"


def faults_of_fills(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `fills`."""
    if kind != "torch":
        if row.fills:
            yield "it fills no tensor"
        return
    number = (1.0,) if name.startswith("full") else ()
    made: list[bool] = []
    for given in ((4, 5), torch.tensor([[-1.5, 0.0, float("nan"), float("inf")]])):
        try:
            new = [getattr(torch, name)(x, *number) for x in (given, given)]
        except (TypeError, RuntimeError, IndexError, AttributeError, ValueError):
            made.append(False)
            continue
        right = [isinstance(x, Tensor) and x.shape == getattr(given, "shape", given) for x in new]
        alike = all(right) and len({float(e) for e in new[0].flatten()}) == 1
        made.append(all(right) and (alike or name.startswith("empty")))
    if made != [row.fills == "sizes", row.fills == "like"]:
        yield "its sizes come from elsewhere, or its elements differ"


ORDERS: dict[str, tuple[Any, ...]] = {"permute": ((2, 0, 1),), "t": ()}


def faults_of_order(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `reorders`."""
    if kind not in ("tensor", "torch") or (row.memory != "shared" and not row.reorders):
        return
    x = torch.arange(24.0).reshape(2, 3, 4)
    try:
        found = function(kind, name)(x, *ORDERS.get(name, (0, -1)))
    except (TypeError, RuntimeError, IndexError):
        found = None
    reordered = isinstance(found, Tensor) and found.shape != x.shape and sorted(found.shape) == sorted(x.shape)
    reordered = reordered and found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    if reordered != row.reorders:
        yield "the order of the dimensions is another, or it is not"


def faults_of_graph(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `graph`: whether results get a graph from arguments that have one."""
    if row.graph:
        tells = kind in ("tensor", "torch", "functional", "linalg") and row.memory in ("new", "shared")
        for title, given, result in calls(kind, name, row) if tells and not row.made and not row.draws else ():
            floats = [t for t in tensors_in(result) if t.is_floating_point()]
            if floats and given[0].requires_grad and not any(t.requires_grad for t in floats):
                yield f"{title}: the result has no graph"
        return
    if kind == "distribution":
        mean, scale = torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)
        results = [getattr(torch.distributions.Normal(mean, scale), name)(*([mean] if name == "log_prob" else []))]
    else:
        made = row.made or name == "one_hot"  # no input of it can have a graph
        results = [r for _, given, r in calls(kind, name, row) if made or given[0].requires_grad]
    if not results and row.memory != "number" and name != "numpy":  # nor can its input
        yield "it is given nothing that has a graph"
    if any(getattr(t, "requires_grad", False) for t in tensors_in(results)):
        yield "a result has a graph"


def faults_of_pairs(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `pairs`: whether it returns values and their indices."""
    if kind not in ("tensor", "torch") or (row.rows != "inner" and not row.pairs):
        return
    if isinstance(function(kind, name)(FLOATS, *(1,) * row.dim, 1), tuple) != row.pairs:
        yield "it returns a pair, or none"
    if row.pairs and row.reduces and isinstance(function(kind, name)(FLOATS), tuple):
        yield "it returns a pair though it reduces all"


def faults_of_moves(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `moves`: whether it moves a tensor to another device."""
    if kind != "tensor" or row.memory != "shared":
        return
    try:
        moved = function(kind, name)(FLOATS.to("meta"), *(() if name == "cpu" else ("cpu",)))
    except NotImplementedError:  # a meta tensor has no value to move
        moved = FLOATS
    except (RuntimeError, TypeError, ValueError):
        moved = None
    if (isinstance(moved, Tensor) and moved.device.type == "cpu" and name != "numpy") != row.moves:
        yield "it stays, or it is moved"


def faults_of_joining(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `joins`: whether it joins the tensors of a list."""
    if kind == "torch":
        try:
            joined = function(kind, name)([FLOATS, FLOATS])
            joins = isinstance(joined, Tensor) and joined.numel() == 2 * FLOATS.numel()
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
            joins = False
        if joins != row.joins:
            yield "it joins tensors, or it does not"


def faults_of_selecting(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `selects`: whether all results are elements of its argument."""
    for title, given, result in calls(kind, name, row) if row.selects else ():
        if not set(result.flatten().tolist()) <= set(given[0].flatten().tolist()):
            yield f"{title}: an element is another"


def faults_of_copying(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's claim that it keeps elements and their places, or flattens them."""
    if kind != "tensor" or row.memory in ("in place", "number") or row.draws:
        return
    x, seen, other = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), 0, False
    for given in GIVEN.get(name, (lambda x: (),)):
        try:
            result = function(kind, name)(x, *(() if row.flat else given(x)))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            continue
        if isinstance(result, Tensor):
            seen += 1
            other |= result.shape != x.shape or not torch.equal(result.double(), x.double())
            if row.flat and result.tolist() != x.flatten().tolist():
                yield "it is not flat"
    if row.copies and (other or not seen):
        yield "an element is another, or elsewhere"


def faults_of_device(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's `device`: whether an argument chooses the device of the result."""
    if kind == "torch" and row.made == "of host":
        try:
            told = function(kind, name)([1.0], device="meta").device.type == "meta"
        except (RuntimeError, TypeError):
            told = False
        if told != row.device:
            yield "it can be told the device, or it cannot"


def faults_of_layout(kind: Kind, name: str, row: Row) -> Iterator[str]:
    """Faults of a row's claim that the result depends on the memory's layout: equal tensors in two layouts show it."""
    if kind != "tensor" or row.draws or row.memory == "in place":
        return
    x = torch.arange(16.0).reshape(4, 4)
    other, told, seen = x.T.contiguous().T, False, 0
    given = {"view": (lambda x: (-1,),), "as_strided": (lambda x: ((4,), (1,)),)}.get(name, GIVEN.get(name))
    for arguments in given or (lambda x: (),):
        try:
            first = function(kind, name)(x, *arguments(x))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            continue
        seen += 1
        try:
            second = function(kind, name)(other, *arguments(other))
        except RuntimeError:
            told = True
            continue
        told |= str([*first] if "storage" in name else first) != str([*second] if "storage" in name else second)
    if seen and told != row.layout:
        yield "it hangs on the layout, or it does not"


CHECKS = {
    "given dtype": faults_of_given_dtype,
    "joins": faults_of_joining,
    "selects": faults_of_selecting,
    "copies": faults_of_copying,
    "device": faults_of_device,
    "layout": faults_of_layout,
    "pairs": faults_of_pairs,
    "moves": faults_of_moves,
    "graph": faults_of_graph,
    "memory": faults_of_memory,
    "changes": faults_of_changes,
    "rows": faults_of_rows,
    "exact": faults_of_exact,
    "reduces": faults_of_reducing,
    "dtype": faults_of_dtype,
    "draws": faults_of_draws,
    "waits": faults_of_waits,
    "made": faults_of_made,
    "fills": faults_of_fills,
    "order": faults_of_order,
}


@pytest.mark.parametrize("kind, name", CASES, ids=[f"{k}-{n}" for k, n in CASES])
@pytest.mark.filterwarnings("ignore")
def test_row_is_what_torch_does(kind: Kind, name: str) -> None:
    row = OF[kind][name]
    if (kind, name) in REMOVED and tuple(map(int, torch.__version__.split(".")[:2])) >= REMOVED[kind, name]:
        pytest.skip("this version of torch does not have it")
    found = [f"{fact}: {fault}" for fact, check in CHECKS.items() for fault in check(kind, name, row)]
    assert not found, "\n".join(dict.fromkeys(found))


OPERATIONS: dict[str, tuple[type[ast.AST], Callable[..., Any]]] = {
    "+": (ast.Add, operator.add),
    "-": (ast.Sub, operator.sub),
    "*": (ast.Mult, operator.mul),
    "/": (ast.Div, operator.truediv),
    "&": (ast.BitAnd, operator.and_),
    "|": (ast.BitOr, operator.or_),
    "minus": (ast.USub, operator.neg),
    "~": (ast.Invert, operator.invert),
}


def faults_of_operators() -> Iterator[str]:
    """Faults of the exactness that the table gives to operators, with tensors and numbers on either side."""
    for sign, (kind, call) in OPERATIONS.items():
        exact = OF["tensor"][OPERATORS[kind]].exact
        for fault in differing(call, exact):
            yield f"{sign}: {fault}"
        if exact == 2 and kind not in (ast.BitAnd, ast.BitOr):
            for fault in (*differing(lambda x: call(x, 0.3), 1), *differing(lambda x: call(0.3, x), 1)):  # noqa: B023
                yield f"{sign} a number: {fault}"
    for exponent in EXACT_POWERS:
        for call in (operator.pow, torch.pow, Tensor.pow):
            for fault in differing(lambda x: call(x, exponent), 1):  # noqa: B023
                yield f"** {exponent}: {fault}"


def all_faults() -> list[str]:
    """Faults of the table on the processor that torch computes for, except for layers."""
    rows = [(kind, name) for kind, name in CASES if kind in ("tensor", "torch", "functional", "array")]
    checks = {"rows": faults_of_rows, "exact": faults_of_exact}
    found = [f"{k}.{n}: {f}: {w}" for k, n in rows for f, check in checks.items() for w in check(k, n, OF[k][n])]
    return [*found, *faults_of_operators()]


def test_operators_are_the_functions_that_they_call() -> None:
    assert {kind for kind, _ in OPERATIONS.values()} == OPERATORS.keys() - {ast.Pow}
    x, y = torch.arange(1, 4), torch.arange(2, 5)
    for kind, call in (*OPERATIONS.values(), (ast.Pow, operator.pow)):
        name = OPERATORS[kind]
        given = (x, y) if name == "pow" or OF["torch"][name].exact == 2 else (x,)
        assert same(call(*given), getattr(torch, name)(*given))


def test_results_that_depend_on_other_elements_differ() -> None:
    assert any(differing(lambda x: x.cumsum(0), 1))
    assert not any(differing(lambda x: x + 1, 1))


@pytest.mark.slow  # runs all rows once more; test_gae_hoist_on_processors.py has a quick test of another processor
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_bits_are_those_of_every_processor(capability: str) -> None:
    """The table and the layers, in a process with these instructions, whose bits do differ for gelu."""
    code = (
        "import test_torch_api as t, torch, warnings; warnings.simplefilter('ignore')\n"
        "gelu = [] if any(t.differing(torch.nn.functional.gelu, 1)) else ['nothing differs']\n"
        "print(*gelu, *t.all_faults(), *t.faults_of_layers(), sep='\\n')"
    )
    assert run_under(capability, code) == ""


@pytest.mark.parametrize("kind, name", ELSEWHERE, ids="-".join)
def test_functions_that_are_not_called_are_in_the_table(kind: Kind, name: str) -> None:
    assert name in OF[kind]


WRONG: dict[str, tuple[Kind, str, str, dict[str, Any]]] = {
    "a view called new": ("tensor", "view", "memory", {"memory": "new"}),
    "what may be the tensor itself called new": ("tensor", "to", "memory", {"memory": "new"}),
    "a copy called shared": ("tensor", "clone", "memory", {"memory": "shared"}),
    "a tensor called a number": ("tensor", "sum", "memory", {"memory": "number"}),
    "a number called new": ("torch", "squeeze", "memory", {"memory": "new"}),
    "in place called new": ("tensor", "mul_", "changes", {"memory": "new"}),
    "new called in place": ("tensor", "mul", "changes", {"memory": "in place"}),
    "a sum along rows called element by element": ("tensor", "cumsum", "rows", {"rows": "element"}),
    "a product called row by row": ("torch", "matmul", "rows", {"rows": "element"}),
    "the exponent taken for the dimension": ("tensor", "norm", "rows", {"dim": 0}),
    "numbers called one": ("tensor", "exp", "reduces", {"reduces": True}),
    "one number called many": ("tensor", "median", "reduces", {"reduces": False}),
    "a condition called a float": ("tensor", "gt", "dtype", {"dtype": "kept"}),
    "integers called floats": ("torch", "randint", "dtype", {"dtype": "default"}),
    "sizes of another tensor called given ones": ("torch", "zeros_like", "fills", {"fills": "sizes"}),
    "a filled tensor denied": ("torch", "ones", "fills", {"fills": ""}),
    "a diagonal called one number": ("torch", "eye", "fills", {"fills": "sizes"}),
    "another order denied": ("tensor", "movedim", "order", {"reorders": False}),
    "another order invented": ("tensor", "squeeze", "order", {"reorders": True}),
    "a draw denied": ("torch", "randn_like", "draws", {"draws": False}),
    "a draw invented": ("torch", "zeros_like", "draws", {"draws": True}),
    "a wait denied": ("tensor", "item", "waits", {"waits": ""}),
    "a size by values denied": ("torch", "nonzero", "waits", {"waits": ""}),
    "a wait invented": ("tensor", "sum", "waits", {"waits": "value"}),
    "a graph denied": ("tensor", "squeeze", "graph", {"graph": False}),
    "a graph of a density denied": ("distribution", "log_prob", "graph", {"graph": False}),
    "a graph of a draw denied": ("distribution", "rsample", "graph", {"graph": False}),
    "a graph of what is cast denied": ("tensor", "type", "graph", {"graph": False}),
    "a device that cannot be named": ("torch", "from_numpy", "made", {"made": "on host"}),
}


@pytest.mark.parametrize("kind, name, fact, facts", WRONG.values(), ids=WRONG)
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_row_is_found(kind: Kind, name: str, fact: str, facts: dict[str, Any]) -> None:
    row = OF[kind][name]
    assert not list(CHECKS[fact](kind, name, row))
    try:
        found = list(CHECKS[fact](kind, name, replace(row, **facts)))
    except (TypeError, IndexError, RuntimeError):
        return  # the call that the row allows fails outright
    assert found


HAVING = [(row, kind, name) for row in ATTRIBUTE_ROWS for kind in row.of.split() for name in row.names.split()]


def _having(kind: str, name: str) -> list[Any]:
    """Things that have an attribute, and whose tensors have a graph."""
    leaf = torch.rand(2, 3, requires_grad=True)
    graph = leaf * torch.ones(2, 3)
    if kind == "distribution":
        by_probabilities = [Categorical(logits=graph), Bernoulli(probs=torch.sigmoid(graph))]
        return by_probabilities if name in ("logits", "probs") else [Normal(graph, graph.exp())]
    if kind == "array":
        return [leaf.detach().numpy()]
    if kind == "pair":
        return [graph.max(1), graph.sort(0)]
    complex_ = torch.complex(graph, graph)
    leaf.grad = torch.ones(2, 3)
    return [complex_] if name == "imag" else [leaf if name == "grad" else graph]


@pytest.mark.parametrize("row, kind, name", HAVING, ids=[f"{k}-{n}" for _, k, n in HAVING])
def test_an_attribute_is_what_its_row_says(row: Attribute, kind: str, name: str) -> None:
    if row.settable and kind == "tensor":
        for thing in _having(kind, name):
            setattr(thing.detach(), name, True if name == "requires_grad" else getattr(thing, name).detach())
    elif kind == "tensor":
        for thing in _having(kind, name):
            with pytest.raises((AttributeError, RuntimeError)):
                Tensor.__dict__.get(name, getattr(torch._C.TensorBase, name)).__set__(thing, None)
    for thing in _having(kind, name):
        value = getattr(thing, name, None)
        if row.method:
            assert callable(value)
            return
        if value is None and kind == "array":
            return  # only tensors have it
        if row.memory == "number":
            assert not isinstance(value, Tensor)
        elif row.memory == "shared" and kind == "array":
            assert name == "data" or np.shares_memory(thing, value)
        elif kind == "tensor" and row.memory == "shared":
            assert name == "grad" or value.untyped_storage().data_ptr() == thing.untyped_storage().data_ptr()
            assert value.requires_grad == row.graph
        elif kind == "pair":
            assert value.requires_grad == row.graph and value.is_floating_point() == row.graph
        elif kind == "distribution":
            assert isinstance(value, Tensor) and (not row.graph or value.requires_grad)
        plain = thing.detach() if isinstance(thing, Tensor) else thing
        told = kind == "tensor" and str(getattr(plain, name)) != str(value) and row.memory != "shared"
        assert told == (row.tells and row.memory != "shared")
        if row.memory == "number":
            assert (str(getattr(thing[:1], name)) != str(value)) == row.sizes
        if row.reorders and kind == "tensor":
            assert value.shape == thing.shape[::-1]


@pytest.mark.parametrize("name", OF_TYPE)
def test_a_type_of_tensors_has_its_dtype(name: str) -> None:
    assert getattr(torch, name.removeprefix("torch."))([1]).dtype is getattr(torch, OF_TYPE[name])


GIVEN_TO_DRAWS: tuple[tuple[Any, ...], ...] = (
    *((), (2,), (2, 0.5), (1, 2, 3), (3, 2, 2), (2.0, 2.0), ([1, 2],)),
    ([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]]),
)
"""Arguments, some of which fit most functions that draw."""


@pytest.mark.filterwarnings("ignore")
def test_which_layers_have_no_shape_or_sparse_gradients() -> None:
    layers = {f"torch.nn.{name}": cls for name, cls in vars(torch.nn).items() if isinstance(cls, type)}
    lazy = {n for n, cls in layers.items() if issubclass(cls, torch.nn.modules.lazy.LazyModuleMixin)}
    assert lazy == {name for name in layers if name.startswith(LAZY)}
    functions = {
        f"torch.nn.functional.{name}": f for name, f in vars(torch.nn.functional).items() if inspect.isfunction(f)
    }
    places = {}
    for name, one in {**layers, **functions}.items():
        with contextlib.suppress(TypeError, ValueError):
            given = list(inspect.signature(one).parameters)
            places |= {name: given.index("sparse")} if "sparse" in given else {}
    assert places == SPARSE_AT


def test_what_arrays_lack() -> None:
    assert not any(hasattr(np.ndarray, name) for name in ARRAYS_LACK)
    assert all(hasattr(Tensor, name) for name in ARRAYS_LACK)


@pytest.mark.parametrize("name", sorted(name for name, row in OF["numpy"].items() if row.dtype_at))
def test_where_a_function_of_numpy_takes_the_dtype(name: str) -> None:
    row = OF["numpy"][name]
    given = [[1.0]] if row.made else {"arange": [0, 2, 1], "linspace": [0, 1, 2, True, False]}.get(name, [2])
    assert len(given) == row.dtype_at
    make = getattr(np, name)
    assert make(*given, object).dtype == make(*given, dtype=object).dtype == object
    assert make(*given).dtype != object
    assert not row.made or make([None]).dtype == object  # as its contents are


@pytest.mark.parametrize("library", [random, np.random], ids=["random", "numpy"])
def test_what_draws_does_not_set_the_state(library: Any) -> None:
    """A draw sets no state: two different states stay different. What sets the state makes them equal."""
    looks = library.getstate if library is random else lambda: str(np.random.get_state())
    called = 0
    for name in sorted(n for n in DRAWING if hasattr(library, n) and n[0].islower()):
        for given in GIVEN_TO_DRAWS:
            states = []
            for seed in (1, 2):
                library.seed(seed)
                try:
                    getattr(library, name)(*[list(g) if isinstance(g, list) else g for g in given])
                except (TypeError, ValueError):
                    break
                states.append(looks())
            assert len(states) < 2 or states[0] != states[1], name
            called += len(states) == 2
    assert called > 20


@pytest.mark.parametrize("name", sorted(draws(makes=("order", "choice", "integers"))))
@pytest.mark.filterwarnings("ignore")
def test_what_a_draw_makes(name: str) -> None:
    """A draw makes a permutation, elements of its argument, or integers."""
    numbers = [*range(10, 19)]
    if name in draws(of="torch"):
        sampled: Any = torch.randperm(9) + 10 if name == "randperm" else None
        if sampled is None:
            given = numbers if name == "SubsetRandomSampler" else [None] * 19
            sampled = [*getattr(torch.utils.data, name)(given)]
        assert {*numbers} <= {*map(int, sampled)}
        return
    seen = 0
    for library in (random, np.random):
        draw = getattr(library, name, None)
        if draw is None:
            continue
        seen += 1
        if name in draws(makes="order"):
            given = [*numbers]
            assert sorted(draw(given) if name == "permutation" else draw(given) or given) == numbers
        elif name in draws(makes="choice") and not (library is np.random and name == "sample"):
            made = draw(numbers, 2) if name == "sample" else draw(numbers)
            assert {*(made if isinstance(made, list) else [made])} <= {*numbers}
        elif name in draws(makes="integers"):
            made = draw(3, 9) if name == "randint" else draw(9)
            assert isinstance(made, (int, np.integer))
    assert seen


def test_what_sets_the_state_is_not_called_a_draw() -> None:
    assert DRAWING.isdisjoint({"seed", "set_state", "setstate", "set_bit_generator"})


DISTRIBUTIONS = torch.distributions
POSITIVE, REAL, UNIT = torch.tensor([[0.6, 0.5], [0.9, 1.2]]), torch.tensor([[0.3, -0.5], [0.1, 0.2]]), torch.eye(2)


def _normal(**checks: bool) -> Any:
    return DISTRIBUTIONS.Normal(REAL, POSITIVE, **checks)


MADE: dict[str, tuple[Any, ...]] = {
    "Independent": (_normal, 1),
    "LowRankMultivariateNormal": (REAL, torch.ones(2, 2, 1), POSITIVE),
    "MixtureSameFamily": (lambda **checks: DISTRIBUTIONS.Categorical(logits=REAL, **checks), _normal),
    "MultivariateNormal": (REAL, UNIT),
    "TransformedDistribution": (_normal, [DISTRIBUTIONS.TanhTransform()]),
}
"""Parameters of some distributions; the others take logits, or one or two positive parameters."""
BY_LOGITS = (
    "Bernoulli Binomial Categorical ContinuousBernoulli Geometric Multinomial NegativeBinomial OneHotCategorical "
    "OneHotCategoricalStraightThrough RelaxedBernoulli RelaxedOneHotCategorical"
).split()
COUNTED = {
    "Binomial": 3,
    "Multinomial": 3,
    "NegativeBinomial": 3,
    "RelaxedBernoulli": torch.tensor(0.5),
    "RelaxedOneHotCategorical": torch.tensor(0.5),
}


def _kept(distribution: Any) -> dict[str, Any]:
    """The attributes of a distribution and of the distributions that it contains."""
    return {
        name: _kept(value) if isinstance(value, DISTRIBUTIONS.Distribution) else type(value)
        for name, value in vars(distribution).items()
        if name != "_validate_args"
    }


def _check_keeps_nothing(name: str) -> bool:
    kept = [_kept(_make(name, {"validate_args": checks})) for checks in (True, False)]
    return kept[0] == kept[1]


def _make(name: str, checks: dict[str, bool]) -> Any:
    cls = getattr(DISTRIBUTIONS, name)
    if name in BY_LOGITS:
        return cls(*[COUNTED[name]] if name in COUNTED else [], logits=REAL, **checks)
    if name in MADE:
        return cls(*[part(**checks) if callable(part) else part for part in MADE[name]], **checks)
    count = 1 if name in ("Chi2", "Dirichlet", "Exponential", "HalfCauchy", "HalfNormal", "Poisson") else 2
    return cls(*(POSITIVE, POSITIVE + 1)[:count], **checks)


@pytest.mark.parametrize("name", sorted(distributions(checked_alone=True, products=(True, False)) - {"Distribution"}))
def test_checking_a_distribution_keeps_nothing(name: str) -> None:
    assert _check_keeps_nothing(name)


@pytest.mark.parametrize("name", sorted(distributions(checked_alone=False)))
def test_some_checks_keep_what_they_compute(name: str) -> None:
    assert not _check_keeps_nothing(name)


OF_LAYERS: dict[str, tuple[Any, ...]] = {
    "Bilinear": (3, 3, 4),
    "Embedding": (9, 4),
    "Flatten": (),
    "GroupNorm": (2, 4),
    "LayerNorm": (3,),
    "Linear": (3, 4),
    "PixelShuffle": (2,),
    "Unflatten": (1, (1, 3)),
    "Upsample": (None, 2),
    "ZeroPad2d": (1,),
    **{name: (4, 4, 3) for name in layers() if name.startswith("Conv")},
    **{name: (2,) for name in layers() if "Pool" in name},
    **{name: (3, 4) for name in layers() if name.startswith(("LSTM", "GRU", "RNN"))},
    **dict.fromkeys(("Softmax", "LogSoftmax"), (-1,)),
}
"""Constructor arguments of modules."""


def _of_layer(name: str) -> tuple[Tensor, ...]:
    """A batch of nine rows as input of a module."""
    sizes = next((size for size in "123" if name.endswith(f"{size}d")), None)
    if name == "Embedding":
        return (torch.arange(9),)
    if name.endswith("Loss"):
        target = torch.arange(9) % 3 if name == "NLLLoss" else torch.rand(9, 3)
        return (torch.rand(9, 3), target)
    if sizes is not None or name in ("GroupNorm", "PixelShuffle", "Upsample"):
        return (torch.randn(9, 4, *[6] * int(sizes or 2)),)
    return (torch.randn(9, 3),) * (2 if name == "Bilinear" else 1)


def _layer(name: str, **options: Any) -> Any:
    torch.default_generator.manual_seed(1)
    return getattr(torch.nn, name)(*OF_LAYERS.get(name, ()), **options)


def _first(made: Any) -> Tensor:
    while isinstance(made, tuple):
        made = made[0]
    assert isinstance(made, Tensor)
    return made


def _check_layer(name: str, layer: Any) -> None:
    """A layer computes the same in both modes and when repeated, draws nothing, and keeps nothing."""
    given, before = _of_layer(name), {k: v.clone() for k, v in layer.state_dict().items()}
    state = torch.get_rng_state()
    made = [_first(layer.train(mode)(*given)) for mode in (True, True, False)]
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(made[0], other) for other in made[1:])
    assert all(torch.equal(before[k], v) for k, v in layer.state_dict().items())


@pytest.mark.parametrize("name", sorted(layers()))
def test_a_layer(name: str) -> None:
    layer, given = _layer(name), _of_layer(name)
    _check_layer(name, layer)
    whole = _first(layer(*given))
    own = {t.untyped_storage().data_ptr() for t in (*given, *layer.parameters())}
    if name in layers(memory="new"):
        assert whole.untyped_storage().data_ptr() not in own
    options = inspect.signature(type(layer)).parameters
    assert (name in layers(inplace=True)) == ("inplace" in options)
    assert may_write_itself(name, ast.parse(f"{name}(9, 4, None, 1.0)", mode="eval").body) == ("max_norm" in options)
    if name in layers(dense=True):
        assert _first(layer(*(torch.randn(*reversed(t.shape)).T for t in given))).is_contiguous()
    if name in layers(rows="row"):
        for i in range(9):
            torch.testing.assert_close(layer(*(t[i : i + 1] for t in given))[0], whole[i])
    if name in layers(same_bits=True):
        with torch.no_grad():
            assert torch.equal(_first(layer(*given)), whole)


@pytest.mark.parametrize("options", ["None, 1.0", "max_norm=1.0", "*options", "**options"])
def test_a_layer_that_writes_into_its_parameter(options: str) -> None:
    """Renormalizing an embedding changes its weight in each call."""
    layer = torch.nn.Embedding(9, 4, max_norm=0.1)
    before = layer.weight.detach().clone()
    layer(torch.arange(9))
    assert not torch.equal(before, layer.weight)
    assert may_write_itself("Embedding", ast.parse(f"nn.Embedding(9, 4, {options})", mode="eval").body)
    assert not may_write_itself("Embedding", ast.parse("nn.Embedding(9, 4, padding_idx=0)", mode="eval").body)
    assert may_write_itself("Embedding", ast.parse("made", mode="eval").body)


@pytest.mark.parametrize("name", sorted(HOLDERS - {"Parameter", "Sequential"}))
def test_what_holds_others_computes_nothing(name: str) -> None:
    made = getattr(torch.nn, name)()
    with pytest.raises((RuntimeError, TypeError)):
        made(FLOATS)
    assert not made.state_dict()


@pytest.mark.parametrize("name", sorted(layers(autocast=("product", "kept"))))
def test_a_layer_under_autocast(name: str) -> None:
    """What autocast computes in its own dtype returns that; other layers return the float32 that they are given."""
    with torch.autocast("cpu", torch.bfloat16):
        dtype = _first(_layer(name)(*_of_layer(name))).dtype
    assert dtype == (torch.bfloat16 if name in layers(autocast="product") else torch.float32)


PRODUCTS_GIVEN: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    **dict.fromkeys("matmul mm linear".split(), lambda x: (x, x)),
    **dict.fromkeys("mv".split(), lambda x: (x, x[0])),
    **dict.fromkeys("dot inner outer ger".split(), lambda x: (x[0], x[0])),
    **dict.fromkeys("addmm addmv".split(), lambda x: (x[0], x, x)),
    **dict.fromkeys("bmm".split(), lambda x: (x[None], x[None])),
    **dict.fromkeys("addbmm baddbmm".split(), lambda x: (x, x[None], x[None])),
    "addmv": lambda x: (x[0], x, x[0]),
    "bilinear": lambda x: (x, x, x[None]),
    "einsum": lambda x: ("ij,jk->ik", x, x),
    "tensordot": lambda x: (x, x, 1),
    "multi_dot": lambda x: ([x, x, x],),
    "scaled_dot_product_attention": lambda x: (x[None], x[None], x[None]),
    **{f"conv{n}d": lambda x, n=n: (x[0][(None,) * (n + 1)],) * 2 for n in (1, 2, 3)},  # type: ignore[misc]
    **{f"conv_transpose{n}d": lambda x, n=n: (x[0][(None,) * (n + 1)],) * 2 for n in (1, 2, 3)},  # type: ignore[misc]
}


@pytest.mark.parametrize("name", sorted(PRODUCTS))
@pytest.mark.filterwarnings("ignore")
def test_products_sum_products(name: str) -> None:
    """Inputs twice as large give products four times as large: elements are multiplied, and nothing else is added."""
    homes = (torch, torch.nn.functional, torch.linalg)
    call = next(getattr(home, name) for home in homes if hasattr(home, name))
    ones, small = torch.ones(3, 3), torch.full((3, 3), 0.5)
    given = PRODUCTS_GIVEN[name]
    if name == "scaled_dot_product_attention":  # of a softmax
        assert torch.allclose(call(*given(ones)), 2 * call(*given(small)))
        return
    powers = {"bilinear": 3, "multi_dot": 3}.get(name, 2)
    adds = float(name.startswith(("addb", "addm", "badd")))  # the first argument is added
    one, half = call(*given(ones)), call(*given(small))
    assert torch.allclose(one - adds, (half - 0.5 * adds) * 2**powers)


@pytest.mark.parametrize("name", sorted(names("tensor", sizes=True)))
def test_what_is_given_sizes(name: str) -> None:
    x = torch.ones(2, 3)
    assert getattr(x, name)(2, 3).shape == ((4, 9) if name == "repeat" else (2, 3))
    assert getattr(x, name)(torch.Size((2, 3))).shape == getattr(x, name)(2, 3).shape


@pytest.mark.parametrize("name", sorted(others()))
def test_what_computes_no_tensor(name: str) -> None:
    """The function exists. One that asks returns no tensor, whether it is given a tensor or nothing."""
    call = getattr(torch, name)
    if name in others("asks"):
        given = {
            "device": ("cpu",),
            "can_cast": (torch.int, torch.float),
            "finfo": (torch.float,),
            "iinfo": (torch.int,),
        }
        bare = name.startswith("get_") or name == "is_grad_enabled" or name == "Size"
        assert not isinstance(call(*given.get(name, () if bare else (torch.ones(2),))), Tensor)


@pytest.mark.parametrize("name", sorted(others("constants")))
def test_constants_are_numbers(name: str) -> None:
    assert all(
        is_constant(f"{home.__name__}.{name}") and isinstance(getattr(home, name), float) for home in (torch, np, math)
    )
    assert not is_constant(f"numpy.random.{name}") and not is_constant("numpy.sqrt")


@pytest.mark.parametrize("row", DTYPES, ids=[row.names for row in DTYPES])
def test_dtypes(row: DtypeRow) -> None:
    for name in row.names.split():
        dtype = getattr(torch, name)
        assert torch.empty(0, dtype=dtype).element_size() * 8 == row.bits
        assert dtype.is_floating_point == (row.kind == "float") and (dtype is torch.bool) == (row.kind == "bool")


class Products(TorchDispatchMode):
    """Records whether matrices are multiplied or factored."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.seen |= any(part in str(func) for part in ("mm.", "bmm", "cholesky", "triangular", "einsum", "matmul"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", sorted(distributions() - {"Distribution"}))
def test_which_distributions_multiply_matrices(name: str) -> None:
    """Distributions that contain others multiply matrices if those do."""
    with Products() as products:
        made = _make(name, {})
        for call in (made.sample, lambda: made.log_prob(made.sample()), made.entropy):
            with contextlib.suppress(NotImplementedError):
                call()
    of_others = name in ("MixtureSameFamily", "TransformedDistribution", "LogisticNormal")
    assert of_others or products.seen == (name in distributions(products=True))


def test_random_states_are_what_is_seeded() -> None:
    before = torch.get_rng_state()
    torch.manual_seed(3)
    assert torch.initial_seed() == 3 == torch.default_generator.initial_seed()
    first = torch.rand(2)
    torch.set_rng_state(before)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(2), first)
    torch.set_rng_state(before)


def faults_of_layers() -> Iterator[str]:
    """Layers that compute otherwise than their rows say, on the processor that torch computes for."""
    for name in sorted(layers()):
        try:
            test_a_layer(name)
        except AssertionError as fault:
            yield f"{name}: {fault}"


@pytest.mark.parametrize("name", ["BatchNorm2d", "Dropout", "RReLU"])
def test_some_layers_depend_on_their_mode(name: str) -> None:
    assert name not in layers()
    with pytest.raises(AssertionError):
        _check_layer(name, getattr(torch.nn, name)(*(4,) if name == "BatchNorm2d" else ()))


@pytest.mark.parametrize("name", sorted(layers(sequence=True)))
def test_a_layer_goes_through_a_sequence(name: str) -> None:
    layer = _layer(name)
    out, state = layer(torch.rand(5, 3))
    assert len(out) == 5
    last = state[0] if isinstance(state, tuple) else state
    assert torch.equal(out[-1], last[-1])


def test_which_layers_have_these_attributes() -> None:
    made = [torch.nn.LSTM(3, 4), torch.nn.Linear(3, 4)]
    for name in of_layers():
        seen = [getattr(layer, name) for layer in made if hasattr(layer, name)]
        assert seen and any(isinstance(s, torch.nn.Parameter) for s in seen) == (name in of_layers(is_a="parameter"))


@pytest.mark.parametrize("name", sorted(holders("itself", "parameters", "modules", "anything")))
def test_what_holds_what(name: str) -> None:
    home, _, last = name.rpartition(".")
    made = getattr({"torch.nn": torch.nn, "torch.nn.parameter": torch.nn.parameter}[home], last)
    assert issubclass(made, torch.nn.Module) != (name in holders("itself"))
    if name in holders("parameters"):
        assert [*made({"a": torch.ones(1)} if "Dict" in last else [torch.ones(1)]).parameters()]
    if name in holders("modules"):
        part = torch.nn.Linear(1, 1)
        assert part in [*made({"a": part} if "Dict" in last else [part] if "List" in last else part).children()]


SCHEDULED: dict[str, tuple[Any, ...]] = {
    "OneCycleLR": (0.1, 20),
    "CyclicLR": (0.01, 0.1, 4),
    "CosineAnnealingLR": (10,),
    "CosineAnnealingWarmRestarts": (5,),
    "ExponentialLR": (0.9,),
    "LambdaLR": (lambda step: 0.9**step,),
    "MultiplicativeLR": (lambda step: 0.9,),
    "MultiStepLR": ([2],),
    "StepLR": (2,),
}


@pytest.mark.parametrize("name", sorted(schedulers()))
@pytest.mark.filterwarnings("ignore")
def test_schedulers_change_the_rate(name: str) -> None:
    optimizer = torch.optim.Adam([torch.nn.Parameter(FLOATS.clone())], lr=0.1)
    last = name.rpartition(".")[2]
    scheduler, seen = getattr(torch.optim.lr_scheduler, last)(optimizer, *SCHEDULED.get(last, ())), []
    for _ in range(8):
        scheduler.step()
        group = optimizer.param_groups[0]
        seen.append((group["lr"], group["betas"]))
    assert len({rate for rate, _ in seen}) > 1
    assert (len({betas for _, betas in seen}) > 1) == (name in schedulers(momentum=True))


def test_what_schedulers_and_scalers_have() -> None:
    optimizer = torch.optim.Adam([torch.nn.Parameter(FLOATS.clone())], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    assert all(hasattr(scheduler, name) for name in of_optimizers(of="scheduler"))
    for name in of_optimizers(of="scaler"):
        getattr(scaler, name)(optimizer)
    assert optimizer.param_groups[0]["lr"] == scheduler.get_last_lr()[0] == 0.1


@pytest.mark.parametrize("name", sorted(optimizers()))
def test_which_optimizers_count(name: str) -> None:
    parameter = torch.nn.Parameter(FLOATS.clone())
    optimizer = getattr(torch.optim, name)([parameter], lr=0.1)
    parameter.grad = FLOATS.clone()
    optimizer.step()
    assert ("step" in optimizer.state[parameter]) == (name in optimizers(counts=True))


def _called(name: str, *given: Any) -> Any:
    home, _, last = name.rpartition(".")
    homes = {"torch": torch, "copy": copy, "torch.nn.utils": torch.nn.utils, "torch.optim.swa_utils": swa_utils}
    return getattr(homes[home], last)(*given)


@pytest.mark.parametrize("name", sorted(of_parameters()))
@pytest.mark.filterwarnings("ignore")
def test_what_is_given_parameters(name: str) -> None:
    network = torch.nn.Linear(3, 4)
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, 9.0)
    before = {k: v.clone() for k, v in network.state_dict().items()}
    parameters, more = [*network.parameters()], (0.5,)
    if name in of_parameters(of="whole"):
        made = _called(name, network, *((io.BytesIO(),) if name == "torch.save" else ()))
    elif name in of_parameters(of="values"):
        more = (torch.zeros(16),) if "vector_to" in name else ()
        made = _called(name, *more, parameters)
    else:
        more = () if "get_total" in name else more
        more += (torch.tensor(99.0),) if "with_norm" in name else ()
        made = _called(name, [p.grad for p in parameters] if "get_total" in name else parameters, *more)
    changed = any(not torch.equal(before[k], v) for k, v in network.state_dict().items())
    assert changed == (name in of_parameters(of="values", copies=False))
    clipped = any(bool((p.grad != 9).any()) for p in parameters)  # type: ignore[union-attr]
    assert clipped == (name in of_parameters(of="gradients") and "get_total" not in name)
    if name in of_parameters(copies=True):
        held = [*made.parameters()] if isinstance(made, torch.nn.Module) else tensors_in(made)
        assert not memory(held) & memory(parameters)


def test_all_settings_of_torch_are_known() -> None:
    """Functions whose setting lasts after they return are named set_ or use_."""
    known = named(OTHERS, {"sets": True})
    assert {n for n in dir(torch) if n.startswith(("set_", "use_"))} <= known
    assert {n for n in dir(torch.autograd) if n.startswith("set_")} <= {
        n for n in dir(torch.autograd) if sets_computing(f"torch.autograd.{n}")
    }
    assert sets_computing("torch.set_num_threads") and not sets_computing("torch.manual_seed")
    assert works_on_host("torch.set_grad_enabled") and not works_on_host("torch.no_grad")


def test_which_optimizers_can_be_captured() -> None:
    classes = {n: c for n, c in vars(torch.optim).items() if inspect.isclass(c) and n in optimizers()}
    assert {n for n, c in classes.items() if "capturable" in inspect.signature(c).parameters} == optimizers(
        capturable=True
    )


def test_what_optimizers_have() -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.1)
    (2 * weight).sum().backward()
    before = weight.tolist()
    optimizer.step()
    assert weight.tolist() != before and optimizer.state[weight]
    optimizer.zero_grad()
    assert weight.grad is None
    assert of_optimizers("stepping") == {"step", "zero_grad"}
    saved = optimizer.state_dict()
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.load_state_dict(saved)
    assert optimizer.defaults["lr"] == 0.1
    known = of_optimizers()
    has = {n for n in dir(optimizer) if not n.startswith("_") and "hook" not in n and not n.startswith("Optimizer")}
    assert has - {"profile_hook_step", "OptimizerPreHook", "OptimizerPostHook"} == known


def _steps(name: str, rate: float | Tensor) -> Tensor:
    """A parameter after three steps, the last of them at half the rate."""
    parameter = torch.nn.Parameter(FLOATS.clone())
    optimizer = getattr(torch.optim, name)([parameter], lr=rate)
    for step in range(3):
        if step == 2:
            rate = rate.fill_(0.5 * float(rate)) if isinstance(rate, Tensor) else 0.5 * rate
            optimizer.param_groups[0]["lr"] = rate
        parameter.grad = (parameter.detach() - 1) * (step + 1)
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("name", sorted(optimizers()))
def test_optimizers_take_a_tensor_for_the_rate(name: str) -> None:
    assert torch.equal(_steps(name, torch.tensor(0.01, dtype=torch.float64)), _steps(name, 0.01))


def _graphs(name: str, *, capturable: bool) -> int:
    """The number of graphs of eight calls of step() without its wrappers; 0 if a graph breaks."""
    torch._dynamo.reset()
    parameter = torch.nn.Parameter(FLOATS.clone())
    optimizer = getattr(torch.optim, name)([parameter], lr=torch.tensor(0.01, dtype=torch.float64))
    step, graphs = inspect.unwrap(type(optimizer).step), list[Any]()
    parameter.grad = parameter.detach() - 1
    optimizer.step()
    optimizer.param_groups[0]["capturable"] = capturable

    def traced() -> None:
        with torch.no_grad():
            step(optimizer)

    def noted(graph: Any, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph

    compiled, before = torch.compile(traced, backend=noted, fullgraph=True), parameter.detach().clone()
    try:
        for _ in range(8):
            compiled()
    except torch._dynamo.exc.Unsupported:
        return 0
    assert not torch.equal(parameter, before)
    return len(graphs)


@pytest.mark.parametrize("name", sorted(optimizers(traced=True)))
def test_steps_that_can_be_traced(name: str) -> None:
    assert _graphs(name, capturable=name in optimizers(counting=True)) == 1


def _traced_apart(name: str, *, counted: bool, **options: Any) -> float:
    """The largest relative difference between the lengths of traced steps and those of step()."""
    torch._dynamo.reset()
    ours, theirs = (torch.nn.Parameter(FLOATS.clone()) for _ in range(2))
    made = getattr(torch.optim, name)
    optimizer, eager = made([ours], lr=0.01, **options), made([theirs], lr=0.01, **options)
    if counted:
        values = {"optimizer": "optimizer", "group": "group", "p": "p", "flag": "True"}
        exec(render("tensor_lr", **values, changing=False, counting=True), {"torch": torch, "optimizer": optimizer})
    optimizer.param_groups[0]["capturable"] = name in optimizers(counting=True)
    step, apart = inspect.unwrap(type(optimizer).step), 0.0

    def traced() -> None:
        with torch.no_grad():
            step(optimizer)

    compiled = torch.compile(traced, backend="eager", fullgraph=True)
    for count in range(20):
        before = theirs.detach().clone()
        with torch.no_grad():
            ours.copy_(before)
        ours.grad, theirs.grad = (FLOATS - 1 - 0.01 * count for _ in range(2))
        compiled()
        eager.step()
        change = theirs.detach() - before
        apart = max(apart, ((ours.detach() - before - change).norm() / change.norm()).item())
    return apart


LONG = [
    (name, options)
    for name in sorted(optimizers(traced=True))
    for options in ({}, {"betas": (0.9, 0.9999)})
    if options.keys() <= inspect.signature(getattr(torch.optim, name)).parameters.keys()
]


@pytest.mark.parametrize(("name", "options"), LONG)
def test_traced_steps_are_as_long(name: str, options: dict[str, Any]) -> None:
    assert _traced_apart(name, counted=name in optimizers(counting=True), **options) < 5e-4


@pytest.mark.parametrize("name", sorted(optimizers(counting=True)))
def test_counts_in_float32_would_make_them_longer(name: str) -> None:
    assert _traced_apart(name, counted=False) > 1e-3
    assert _traced_apart(name, counted=False, betas=(0.9, 0.9999)) > 0.1


MADE_OF_NUMBERS = (
    torch.distributions.Normal(0.5, 2.0),
    torch.distributions.Categorical(probs=torch.tensor([0.25, 0.75])),
    torch.distributions.Bernoulli(0.25),
    torch.distributions.Beta(2.0, 3.0),
    torch.distributions.Uniform(0.0, 1.0),
    torch.distributions.LogNormal(0.0, 1.0),
    torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)),
    torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), 1.0), 1),
)


@pytest.mark.parametrize("name", sorted(OF_DISTRIBUTIONS))
def test_attributes_of_distributions_are_tensors(name: str) -> None:
    seen = [getattr(one, name, None) for one in MADE_OF_NUMBERS]
    assert any(value is not None for value in seen)
    assert all(value is None or torch.is_tensor(value) for value in seen)


@pytest.mark.parametrize("name", sorted(names("functional")))
def test_the_place_of_inplace(name: str) -> None:
    try:
        given = [*inspect.signature(getattr(torch.nn.functional, name)).parameters]
    except ValueError:  # written in C++, without a signature
        given = []
    assert OF["functional"][name].inplace == (given.index("inplace") if "inplace" in given else 0)


@pytest.mark.parametrize("name", sorted(SAME_EACH_TIME))
def test_what_is_the_same_each_time(name: str) -> None:
    function = operator.attrgetter(name.partition(".")[2])(torch)
    given = ("cpu",) if name == "torch.device" else ()
    one, other = function(*given), function(*given)
    assert one == other and hash(one) == hash(other)
    with pytest.raises((AttributeError, TypeError)):
        one.type = "cuda"


def test_what_fills_a_parameter() -> None:
    """All of torch.nn.init that works in place does: it returns its argument, and keeps nothing else."""
    own = {f"torch.nn.init.{n}" for n in vars(torch.nn.init) if n.endswith("_") and not n.startswith("_")}
    assert own == FILL
    more = {"constant": (0.5,), "sparse": (0.5,)}
    for name in sorted(own):
        short = name.rpartition(".")[2]
        weight = torch.nn.Parameter(torch.full((3, 3, 3) if short == "dirac_" else (3, 3), 7.0))
        before = weight.data_ptr(), set(vars(weight))
        filled = getattr(torch.nn.init, short)(weight, *more.get(short.removesuffix("_"), ()))
        assert filled is weight and (weight.data_ptr(), set(vars(weight))) == before, name
        assert weight.requires_grad and weight.grad_fn is None and (weight != 7).any(), name
