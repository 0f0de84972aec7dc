"""What calls of torch, numpy and torch's distributions do: the only table, which all analyses and rules read.

A row holds for each of its names and each of their owners. Modules and optimizers, which are made first and called
later, have their own tables. A name without a row is unknown and must not be assumed harmless.
`tests/facts/test_torch_api.py` calls everything that is listed here and checks the results.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

from transformer.facts.libraries import library_does, module_methods
from transformer.facts.rows import named, says

Kind: TypeAlias = Literal["tensor", "array", "distribution", "torch", "functional", "linalg", "numpy"]
"""The owner of a name: a method of tensors, arrays or distributions; a function of torch, torch.nn.functional,
torch.linalg or numpy."""
METHODS: tuple[Kind, ...] = ("tensor", "array", "distribution")

Memory: TypeAlias = Literal["new", "shared", "in place", "number"]
"""new: shares memory with no argument; shared: may be an argument or a view of one, and changes nothing; in place:
changes its argument; number: an object on the host, such as a number, a list or a size."""
Rows: TypeAlias = Literal["element", "broadcast", "row", "inner", "mixed"]
"""element: each element of the result comes from one element of each argument, and all shapes are equal; broadcast: the
same, but arguments may be broadcast; row: each row of a batch independently; inner: the same, if called along a
dimension other than the first; mixed: unknown. The last bits may still differ: see `exact`."""
Dtype: TypeAlias = Literal["kept", "cast", "default", "bool", "integer", "given", "other"]
"""kept: the dtype of its float arguments; cast: as its name or arguments say; default: torch's default dtype; integer:
int64; given: the dtype of the numbers or the array in its arguments. An argument may always name another dtype."""
Waits: TypeAlias = Literal["", "value", "size", "check"]
"""Why the host needs values from the device: to return them, to determine the result's size, or to check them."""
Made: TypeAlias = Literal["", "of host", "on host"]
"""of host: a tensor made from host values; on host: a tensor made on the host, unless a device is given."""
Fills: TypeAlias = Literal["", "sizes", "like"]
"""Where a constant or uninitialized tensor gets its sizes from: the first argument (sizes), or a tensor that is the
first argument (like)."""


@dataclass(frozen=True)
class Row:
    """Facts about callables; `names` and `of` (the owners) are words separated by spaces."""

    names: str
    of: str
    memory: Memory
    rows: Rows = "mixed"
    dtype: Dtype = "other"
    waits: Waits = ""
    made: Made = ""
    reduces: bool = False
    """Whether it reduces all elements to one number, unless given a dimension."""
    draws: bool = False
    """Whether it draws random numbers."""
    graph: bool = True
    """Whether its result may be part of its arguments' autograd graph; True if unknown."""
    fills: Fills = ""
    reorders: bool = False
    """Whether it returns the dimensions in another order."""
    sizes: bool = False
    """Whether the arguments that follow the tensor are sizes."""
    dim: int = 0
    """The index of the dimension among a method's arguments; in functions of torch, the tensor comes before these."""
    pairs: bool = False
    """Whether it returns values and their indices; if it reduces, only when a dimension is given."""
    moves: bool = False
    """Whether it may return a copy on another device."""
    copies: bool = False
    """Whether its result has the same elements in the same places, perhaps with another dtype, device or layout."""
    flat: bool = False
    """Whether, without arguments, its result has one dimension with all elements in order."""
    selects: bool = False
    """Whether its result is new and contains only elements of its first argument."""
    joins: bool = False
    """Whether it joins the tensors of a list."""
    operands: bool = False
    """Whether its result may be a view of any argument, not only of the first."""
    device: bool = False
    """Whether a device may be given for a result made from host values."""
    layout: bool = False
    """Whether its result, or whether it works, depends on the memory's layout."""
    inplace: int = 0
    """The index of `inplace` among a function's arguments; 0 if there is none."""
    dtype_at: int = 0
    """The index of the dtype among the arguments of a function that makes an array; 0 if it is not known."""
    exact: int = 0
    """The number of operands with which it is exactly rounded (with no other arguments): it copies, selects by a
    condition, or computes what IEEE 754 fully determines. Its bits are the same on every processor and anywhere in a
    tensor. All other functions may compute differently inside a vector and in its remainder: max(0.0, -0.0) is
    either."""


ROWS = (
    # elementwise, exactly rounded
    Row("abs absolute ceil floor nan_to_num neg", "tensor torch", "new", "element", "kept", exact=1),
    Row("round sign sqrt square trunc", "tensor torch", "new", "element", "kept", exact=1),
    Row("add div divide mul multiply sub subtract", "tensor torch", "new", "broadcast", "kept", exact=2),
    Row("isfinite isinf isnan logical_not", "tensor torch", "new", "element", "bool", graph=False, exact=1),
    Row("eq ge gt le lt ne", "tensor torch", "new", "broadcast", "bool", graph=False, exact=2),
    Row("logical_and logical_or logical_xor", "tensor torch", "new", "broadcast", "bool", graph=False, exact=2),
    Row("bitwise_and bitwise_or", "tensor torch", "new", "broadcast", exact=2),
    Row("bitwise_not", "tensor torch", "new", "element", exact=1),
    Row("full_like ones_like zeros_like", "torch", "new", "element", "kept", graph=False, fills="like"),
    Row("where", "torch", "new", "broadcast", "kept", exact=3),
    Row("clone", "tensor torch", "new", "element", "kept", copies=True, exact=1),
    Row("bool", "tensor", "shared", "element", "cast", graph=False, copies=True, exact=1),
    Row("double float half", "tensor", "shared", "element", "cast", copies=True, exact=1),
    Row("contiguous", "tensor", "shared", "element", "kept", copies=True, exact=1),
    Row("cuda", "tensor", "shared", "element", "kept", moves=True, copies=True, exact=1),
    Row("cpu", "tensor", "shared", "element", "kept", waits="value", moves=True, copies=True, exact=1),
    Row("detach", "tensor torch", "shared", "element", "kept", graph=False, copies=True, exact=1),
    # elementwise, except for the last bits
    Row("clamp clip cos exp expm1 log log10 log1p log2 sin", "tensor torch", "new", "element", "kept"),
    Row("relu sigmoid tanh", "tensor torch", "new", "element", "kept"),
    Row("addcmul logaddexp maximum minimum pow", "tensor torch", "new", "broadcast", "kept"),
    Row("gelu logsigmoid sigmoid softplus tanh", "functional", "new", "element", "kept"),
    Row("mish relu silu", "functional", "new", "element", "kept", inplace=1),
    Row("elu leaky_relu", "functional", "new", "element", "kept", inplace=2),
    Row("byte int long short", "tensor", "shared", "element", "cast", graph=False, copies=True),
    Row("to", "tensor", "shared", "element", "cast", moves=True, copies=True),
    Row("type type_as", "tensor", "shared", "element", "cast", copies=True),  # type() of nothing is a string
    # along a dimension, or over all
    Row("cumsum logsumexp", "tensor torch", "new", "inner", "kept"),
    Row("amax amin mean prod sum", "tensor torch", "new", "inner", "kept", reduces=True),
    Row("std var", "tensor torch", "new", dtype="kept", reduces=True),  # row-wise only approximately along a dimension
    Row("log_softmax softmax", "tensor torch functional", "new", "inner", "kept"),
    Row("norm", "tensor torch", "new", "inner", "kept", reduces=True, dim=1),
    Row("quantile", "tensor torch", "new"),
    Row("histc", "tensor torch", "new", graph=False),
    Row("nanmean", "tensor torch", "new", reduces=True),
    Row("argmax argmin", "tensor torch", "new", "inner", "integer", reduces=True, graph=False),
    Row("argsort", "tensor torch", "new", "inner", "integer", graph=False),
    Row("max median min", "tensor torch", "new", "inner", reduces=True, pairs=True),
    Row("cummax cummin mode", "tensor torch", "new", "inner", pairs=True),
    Row("kthvalue topk", "tensor torch", "new", "inner", pairs=True, dim=1),
    Row("sort", "torch", "new", "inner", pairs=True),  # lists have another sort()
    Row("all any", "tensor torch", "new", "inner", "bool", reduces=True, graph=False),
    # other shapes of the same values
    Row("squeeze unsqueeze", "tensor torch", "shared", "inner", "kept"),
    Row("expand", "tensor", "shared", dtype="kept", sizes=True),
    Row("view", "tensor", "shared", dtype="kept", sizes=True, layout=True),
    Row("as_strided", "tensor torch", "shared", dtype="kept", layout=True),
    Row("reshape", "tensor torch", "shared", dtype="kept", sizes=True),
    Row("expand_as", "tensor", "shared", "broadcast", "kept"),
    Row("reshape_as unfold view_as", "tensor", "shared", dtype="kept"),
    Row("flatten ravel", "tensor torch", "shared", dtype="kept", flat=True),
    Row("t", "tensor torch", "shared", dtype="kept"),
    Row("moveaxis movedim permute swapaxes transpose", "tensor torch", "shared", dtype="kept", reorders=True),
    Row("flip gather index_select roll", "tensor torch", "new", dtype="kept", selects=True),
    Row("masked_fill", "tensor torch", "new", dtype="kept"),
    Row("repeat", "tensor", "new", dtype="kept", sizes=True, selects=True),
    Row("broadcast_to chunk narrow select split unbind", "tensor torch", "shared"),
    Row("cat concat concatenate hstack stack vstack", "torch", "new", joins=True),
    # products, losses, layers
    Row("bmm matmul mm outer", "torch", "new"),
    Row("einsum", "torch", "shared", operands=True),  # of one tensor it may be a view: "ij->ji"
    Row("binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss kl_div", "functional", "new"),
    Row("l1_loss layer_norm linear mse_loss nll_loss", "functional", "new"),
    Row("max_pool2d normalize smooth_l1_loss unfold", "functional", "new"),
    Row("one_hot", "functional", "new", dtype="integer", graph=False),
    Row("bucketize searchsorted", "torch", "new", dtype="integer", graph=False),
    Row("dropout", "functional", "shared", draws=True, inplace=3),
    # host values
    Row("item tolist", "tensor", "number", waits="value", graph=False),
    Row("numpy", "tensor", "shared", waits="value", graph=False),
    Row("dim element_size ndimension numel size", "tensor", "number", graph=False),
    Row("data_ptr", "tensor", "number", graph=False, layout=True),
    Row("is_contiguous stride", "tensor", "number", graph=False, layout=True),
    Row("storage untyped_storage", "tensor", "shared", graph=False, layout=True),
    Row("allclose equal", "tensor torch", "number", waits="value", graph=False),
    Row("argwhere nonzero", "tensor torch", "new", dtype="integer", waits="size", graph=False),
    Row("bincount masked_select unique unique_consecutive", "tensor torch", "new", waits="size"),
    Row("det inverse svd", "torch", "new", waits="check"),
    Row("cholesky", "torch", "new", waits="check"),
    Row("inv", "linalg", "new", waits="check"),
    Row("matrix_norm norm vector_norm", "linalg", "new", dtype="kept"),
    # new tensors
    Row("empty ones zeros", "torch", "new", dtype="default", made="on host", graph=False, fills="sizes"),
    Row("full", "torch", "new", dtype="given", made="on host", graph=False, fills="sizes"),
    Row("eye linspace logspace", "torch", "new", dtype="default", made="on host", graph=False),
    Row("arange", "torch", "new", dtype="given", made="on host", graph=False),
    Row("rand randn", "torch", "new", dtype="default", made="on host", draws=True, graph=False),
    Row("randint randperm", "torch", "new", dtype="integer", made="on host", draws=True, graph=False),
    Row("normal", "torch", "new", waits="check", made="on host", draws=True),
    Row("bernoulli", "torch", "new", draws=True),
    Row("rand_like randn_like", "torch", "new", draws=True, graph=False),
    Row("multinomial", "torch", "new", dtype="integer", waits="check", draws=True, graph=False),
    Row("empty_like", "torch", "new", dtype="kept", graph=False, fills="like"),
    Row("tensor", "torch", "new", dtype="given", made="of host", graph=False, device=True),
    Row("from_numpy", "torch", "shared", dtype="given", made="of host", graph=False),
    Row("as_tensor asarray", "torch", "shared", dtype="given", made="of host", device=True),
    Row("BoolTensor ByteTensor CharTensor IntTensor", "torch", "shared", dtype="cast", made="of host", graph=False),
    Row("LongTensor ShortTensor", "torch", "shared", dtype="cast", made="of host", graph=False),
    Row("DoubleTensor FloatTensor HalfTensor Tensor", "torch", "shared", dtype="cast", made="of host"),
    # in place
    Row("add_ clamp_ clip_ copy_ div_ fill_ lerp_ mul_ requires_grad_ sub_ zero_", "tensor", "in place"),
    Row("normal_ uniform_", "tensor", "in place", draws=True),
    # distributions
    Row("entropy log_prob", "distribution", "new", "row"),
    Row("rsample", "distribution", "new", "row", draws=True),
    Row("sample", "distribution", "new", "row", draws=True, graph=False),
    # numpy
    Row("clip", "array", "new", "element", "kept"),
    Row("copy", "array", "new", "element", "kept", exact=1),
    Row("round", "array", "shared", "element", "kept", exact=1),  # numpy 2.2 returns integers as they are
    Row("astype", "array", "new", "element", "cast"),
    Row("all any argmax argmin max mean min prod std sum var", "array", "new", reduces=True),
    Row("item", "array", "number", reduces=True),
    Row("tolist", "array", "number"),
    Row("flatten repeat", "array", "new"),
    Row("ravel reshape squeeze transpose", "array", "shared"),
    Row("abs absolute ceil clip exp expm1 floor isfinite isnan log log10", "numpy", "new", "element"),
    Row("log1p log2 logical_not nan_to_num sign sqrt square tanh", "numpy", "new", "element"),
    Row("round", "numpy", "shared", "element"),
    Row("add bitwise_or divide logical_and logical_or logical_xor", "numpy", "new", "broadcast"),
    Row("maximum minimum multiply power subtract where", "numpy", "new", "broadcast"),
    Row("all any argmax argmin average max mean median min nanmean prod std sum var", "numpy", "new", reduces=True),
    Row("percentile quantile", "numpy", "new", reduces=True),
    Row("full_like ones_like zeros_like", "numpy", "new"),
    Row("array", "numpy", "new", made="of host", dtype_at=1),
    Row("arange", "numpy", "new", dtype="given", dtype_at=3),
    Row("concatenate full hstack stack vstack", "numpy", "new"),
    Row("empty ones zeros", "numpy", "new", dtype_at=1),
    Row("linspace", "numpy", "new", dtype_at=5),
    Row("asarray", "numpy", "shared", made="of host", dtype_at=1),
    Row("ascontiguousarray atleast_1d atleast_2d expand_dims", "numpy", "shared"),
)  # fmt: skip


@dataclass(frozen=True)
class Layers:
    """Facts about modules of torch.nn; `names` are words separated by spaces.

    All of them compute the same in training and evaluation mode and draw no random numbers; recurrent layers do so only
    without their option dropout.
    """

    names: str
    memory: Memory = "new"
    """shared: also if only an option makes it work in place."""
    rows: Rows = "mixed"
    """row: each row of a batch independently, at little cost. Convolutions are too costly to compute twice."""
    same_bits: bool = False
    """Whether it computes the same bits with and without gradients. On phones, and on some processors for grouped
    channels, gradients determine which library computes convolutions."""
    inplace: bool = False
    """Whether it has an option to overwrite its argument."""
    dense: bool = False
    """Whether its result is contiguous, whatever the layout of its argument."""
    sequence: bool = False
    """Whether it processes a sequence of steps, and also returns its last state."""
    writes: tuple[str, int] | None = None
    """The option, and its position, with which each call writes into the layer's parameter."""
    autocast: Literal["", "product", "kept"] = ""
    """product: computes in autocast's dtype; kept: accepts any dtype, and returns float32 for float32."""


LAZY = "torch.nn.Lazy"
"""How the names of layers begin whose parameters get their shapes in the first call."""
SPARSE_AT = {
    "torch.nn.Embedding": 6,
    "torch.nn.EmbeddingBag": 6,
    "torch.nn.functional.embedding": 6,
    "torch.nn.functional.embedding_bag": 7,
}
"""The position of the option `sparse` of functions and layers that have it: it makes gradients sparse tensors."""
LAYERS = (
    Layers("Linear", rows="row", same_bits=True, dense=True, autocast="product"),
    Layers("LayerNorm", rows="row", same_bits=True, dense=True, autocast="kept"),
    Layers("GELU LogSigmoid Sigmoid Softplus Softsign Tanh", rows="row", same_bits=True, autocast="kept"),
    Layers("PReLU", rows="row", same_bits=True),
    Layers("CELU ELU LeakyReLU Mish ReLU ReLU6 SELU SiLU", "shared", "row", same_bits=True, inplace=True,
           autocast="kept"),
    Layers("Hardswish Hardtanh", "shared", "row", same_bits=True, inplace=True),
    Layers("Identity", "shared", "row", same_bits=True, autocast="kept"),
    Layers("Conv2d", same_bits=True, autocast="product"),
    Layers("MaxPool2d", same_bits=True, autocast="kept"),
    Layers("Flatten", "shared", same_bits=True, autocast="kept"),
    Layers("LogSoftmax Softmax", same_bits=True),
    Layers("Hardsigmoid", "shared", inplace=True),
    Layers("Unflatten", "shared", autocast="kept"),
    Layers("PixelShuffle Upsample ZeroPad2d", "shared"),
    Layers("Conv1d Conv3d", autocast="product"),
    Layers("AvgPool2d MaxPool1d", autocast="kept"),
    Layers("Bilinear ConvTranspose1d ConvTranspose2d ConvTranspose3d MaxPool3d"),
    Layers("AvgPool1d AvgPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool2d"),
    Layers("BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss KLDivLoss L1Loss MSELoss NLLLoss SmoothL1Loss"),
    Layers("Embedding", writes=("max_norm", 3)),
    Layers("GRUCell GroupNorm LSTMCell RNNCell"),
    Layers("GRU LSTM RNN", sequence=True),
)  # fmt: skip


@dataclass(frozen=True)
class OfLayers:
    """Facts about attributes of layers; `names` are words separated by spaces."""

    names: str
    is_a: Literal["parameter", "size"]


OF_LAYERS = (
    OfLayers("bias weight bias_hh_l0 bias_ih_l0 weight_hh_l0 weight_ih_l0", "parameter"),
    OfLayers("hidden_size in_features input_size num_layers out_features", "size"),
)


@cache
def of_layers(**facts: object) -> frozenset[str]:
    """The attributes of layers whose rows state all of these facts."""
    return named(OF_LAYERS, facts)


@dataclass(frozen=True)
class Holders:
    """Facts about classes of torch.nn without layers of their own; `names` are words separated by spaces."""

    names: str
    holds: Literal["modules", "parameters", "itself", "anything"]


HOLDER_ROWS = (
    Holders("ModuleDict ModuleList Sequential", "modules"),
    Holders("ParameterDict ParameterList", "parameters"),
    Holders("Parameter", "itself"),
    Holders("Module", "anything"),
)


@cache
def holders(*holds: str) -> frozenset[str]:
    """The qualified names of the classes of torch.nn that hold one of these."""
    found = named(HOLDER_ROWS, {"holds": holds})
    return frozenset(f"{home}.{name}" for name in found for home in ("torch.nn", *_HOMES.get(name, ())))


_HOMES = {"Parameter": ("torch.nn.parameter",)}
MODULE_CONTAINERS = named(HOLDER_ROWS, {"holds": "modules"})
"""Modules that only hold other modules."""
HOLDERS = named(HOLDER_ROWS, {})
"""Parameters, and modules without layers of their own."""
CALLERS = MODULE_CONTAINERS | frozenset(
    "Container DataParallel Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
    "TransformerEncoderLayer TripletMarginWithDistanceLoss".split()
)
"""Modules of torch.nn that call modules or functions given to them."""
PRODUCTS = frozenset(
    "addbmm addmm addmv baddbmm bilinear bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "dot einsum ger inner linear matmul mm multi_dot mv outer scaled_dot_product_attention tensordot".split()
)
"""Functions and methods that compute matrix products."""


@dataclass(frozen=True)
class OptimizerRow:
    """Facts about classes of torch.optim; `names` are words separated by spaces. All accept a tensor as their rate."""

    names: str
    capturable: bool = False
    """Whether they have an option for capture in a CUDA graph."""
    traced: bool = False
    """Whether their step(), without its wrappers, is known to be traced without a graph break."""
    counts: bool = True
    """Whether they count their steps."""
    counting: bool = False
    """Whether they branch on their step count, which breaks a graph unless they are capturable."""


OPTIMIZERS = (
    OptimizerRow("Adam AdamW RMSprop", capturable=True, traced=True),
    OptimizerRow("RAdam", capturable=True, traced=True, counting=True),
    OptimizerRow("NAdam Adadelta Adamax ASGD Rprop", capturable=True),
    OptimizerRow("SGD", traced=True, counts=False),
    OptimizerRow("Adagrad"),
)


@dataclass(frozen=True)
class OfOptimizers:
    """Facts about attributes and methods of optimizers; `names` are words separated by spaces."""

    names: str
    is_for: Literal["stepping", "saving", "groups", "new groups", "defaults", "moments", "rates"]
    of: Literal["optimizer", "scheduler", "scaler"] = "optimizer"


OF_OPTIMIZERS = (
    OfOptimizers("step zero_grad", "stepping"),
    OfOptimizers("load_state_dict state_dict", "saving"),
    OfOptimizers("param_groups", "groups"),
    OfOptimizers("add_param_group", "new groups"),
    OfOptimizers("defaults", "defaults"),
    OfOptimizers("state", "moments"),
    OfOptimizers("step", "stepping", "scheduler"),
    OfOptimizers("load_state_dict state_dict", "saving", "scheduler"),
    OfOptimizers("get_last_lr", "rates", "scheduler"),
    OfOptimizers("step unscale_", "stepping", "scaler"),  # the optimizer is their argument
)


@dataclass(frozen=True)
class Schedulers:
    """Facts about classes of torch.optim.lr_scheduler; `names` are words separated by spaces."""

    names: str
    momentum: bool = False
    """Whether they also change momentum, or Adam's betas, unless an option turns that off."""


SCHEDULERS = (
    Schedulers("OneCycleLR CyclicLR", momentum=True),
    Schedulers("ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts ExponentialLR LambdaLR LinearLR MultiStepLR "
               "MultiplicativeLR PolynomialLR StepLR"),
)  # fmt: skip


@cache
def schedulers(**facts: object) -> frozenset[str]:
    """The qualified names of schedulers whose rows match all of these facts."""
    return frozenset(f"torch.optim.lr_scheduler.{name}" for name in named(SCHEDULERS, facts))


@dataclass(frozen=True)
class OfParameters:
    """Facts about functions that accept parameters or networks; `names` are qualified names separated by spaces."""

    names: str
    of: Literal["gradients", "values", "whole"]
    """What they use of the parameters: gradients, values, or anything."""
    copies: bool = False
    """Whether the result is a copy that shares nothing, or a file, and the arguments stay unchanged."""


OF_PARAMETERS = (
    OfParameters("torch.nn.utils.clip_grad_norm torch.nn.utils.clip_grad_norm_ torch.nn.utils.clip_grad_value_ "
                 "torch.nn.utils.clip_grads_with_norm_ torch.nn.utils.get_total_norm", "gradients"),
    OfParameters("torch.nn.utils.parameters_to_vector", "values", copies=True),
    OfParameters("torch.nn.utils.vector_to_parameters", "values"),
    OfParameters("torch.save copy.deepcopy torch.optim.swa_utils.AveragedModel", "whole", copies=True),
)  # fmt: skip


FILL = frozenset(
    f"torch.nn.init.{name}_"
    for name in "constant dirac eye kaiming_normal kaiming_uniform normal ones orthogonal sparse trunc_normal uniform "
    "xavier_normal xavier_uniform zeros".split()
)
"""Functions that fill their first argument, a parameter, in place, and return it."""


@cache
def of_parameters(**facts: object) -> frozenset[str]:
    """The qualified names of functions that accept parameters and whose rows match all of these facts."""
    return named(OF_PARAMETERS, facts)


def _index() -> dict[Kind, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in ROWS:
        for kind in row.of.split():
            for name in row.names.split():
                if name in found[kind]:
                    raise ValueError(f"{name} of {kind} is in two rows")
                found[kind][name] = row
    return {kind: found[kind] for kind in get_args(Kind)}


OF: Mapping[Kind, Mapping[str, Row]] = _index()
"""The row of each name, by owner."""


@cache
def names(*kinds: Kind, **facts: object) -> frozenset[str]:
    """The names with any of these owners whose rows match all facts: `names("torch", memory="new", draws=False)`.

    A fact may be a tuple of values; the row must then have one of them.
    """
    return named((row for row in ROWS if not {*kinds}.isdisjoint(row.of.split())), facts)


_MODULES = {"torch": "torch", "functional": "torch.nn.functional", "linalg": "torch.linalg", "numpy": "numpy"}


@cache
def functions(*kinds: Literal["torch", "functional", "linalg", "numpy"], **facts: object) -> frozenset[str]:
    """The qualified names of functions whose rows match all of these facts, as for `names`."""
    return frozenset(f"{_MODULES[kind]}.{name}" for kind in kinds for name in names(kind, **facts))


@cache
def methods(**facts: object) -> frozenset[str]:
    """The names of methods for which the facts hold for every owner."""
    others = (row for row in ROWS if not {*METHODS}.isdisjoint(row.of.split()) and not says(row, facts))
    return names(*METHODS, **facts) - {name for row in others for name in row.names.split()}


@cache
def layers(**facts: object) -> frozenset[str]:
    """The modules of torch.nn whose rows state all of these facts, as for `names`."""
    return named(LAYERS, facts)


def may_write_itself(layer: str, call: ast.AST | None) -> bool:
    """Whether a layer may write into its parameter when it is called.

    Args:
        layer: the layer's name in torch.nn.
        call: the call that made it.
    """
    option = next((row.writes for row in LAYERS if layer in row.names.split()), None)
    if option is None or not isinstance(call, ast.Call):
        return option is not None
    name, place = option
    spread = any(isinstance(a, ast.Starred) for a in call.args)
    return spread or len(call.args) > place or any(k.arg in (name, None) for k in call.keywords)


@dataclass(frozen=True)
class Attribute:
    """Facts about attributes; `names` and `of` (their owners) are words separated by spaces."""

    names: str
    of: str
    """tensor, array, distribution; pair: a result of values and indices."""
    memory: Literal["number", "shared", "graph"]
    """number: an object on the host; shared: memory, the tensor's own or other; graph: part of the graph."""
    graph: bool = False
    """Whether gradients flow through it."""
    tells: bool = False
    """Whether it reveals gradients."""
    method: Literal["", "runs", "asks"] = ""
    """Whether it is a method that computes gradients (runs), or requests them (asks)."""
    settable: bool = False
    """Whether it can be set."""
    sizes: bool = False
    """Whether it depends on the number of rows."""
    reorders: bool = False
    """Whether it has the dimensions in another order."""


ATTRIBUTE_ROWS = (
    Attribute("device dtype is_cuda itemsize layout ndim", "tensor array", "number"),
    Attribute("nbytes shape", "tensor array", "number", sizes=True),
    Attribute("size", "array", "number", sizes=True),
    Attribute("is_leaf", "tensor", "number", tells=True),
    Attribute("requires_grad", "tensor", "number", tells=True, settable=True),
    Attribute("backward", "tensor", "graph", tells=True, method="runs"),
    Attribute("register_hook requires_grad_ retain_grad", "tensor", "graph", tells=True, method="asks"),
    Attribute("grad_fn", "tensor", "graph", tells=True),
    Attribute("H T mH mT", "tensor array", "shared", graph=True, reorders=True),
    Attribute("imag real", "tensor", "shared", graph=True, settable=True),
    Attribute("data", "tensor array", "shared", settable=True),
    Attribute("grad", "tensor", "shared", tells=True, settable=True),
    Attribute("values", "pair", "shared", graph=True),
    Attribute("indices", "pair", "shared"),
    Attribute("loc logits mean mode probs scale stddev variance", "distribution", "shared", graph=True),
)


@cache
def attributes(of: Kind | Literal["pair"] = "tensor", **facts: object) -> frozenset[str]:
    """The attributes of an owner whose rows match all of these facts, as for `names`."""
    return named((row for row in ATTRIBUTE_ROWS if of in row.of.split()), facts)


ATTRIBUTES = attributes("tensor", memory="number") | attributes("array", memory="number")
"""Attributes of tensors and arrays that are numbers."""
VIEWS_OF_IT = attributes(memory="shared")
"""Attributes that are memory: the tensor's, or memory of their own."""
GRADIENTS = attributes(tells=True)
"""Attributes and methods of tensors that depend on gradients."""


def tells_values(name: str) -> bool:
    """Whether an attribute or method of tensors is known, and reveals only values or their kind, not their memory."""
    return name in OF["tensor"].keys() | ATTRIBUTES | VIEWS_OF_IT and name != "data_ptr"


@cache
def of_optimizers(*is_for: str, of: str = "optimizer") -> frozenset[str]:
    """The attributes and methods of optimizers, schedulers or gradient scalers for any of these purposes; if none is
    given, for all."""
    return named(OF_OPTIMIZERS, {"of": of, "is_for": is_for} if is_for else {"of": of})


METHODS_OF = {
    "torch.nn.": (module_methods() | {"forward"}) - {"training"},
    "torch.optim.": of_optimizers("stepping", "saving", "new groups"),
}
"""The methods of torch's modules and optimizers, by prefix of the class."""


@cache
def optimizers(**facts: object) -> frozenset[str]:
    """The classes of torch.optim whose rows state all of these facts, as for `names`."""
    return named(OPTIMIZERS, facts)


LOSSES = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CrossEntropyLoss": "cross_entropy",
    "HuberLoss": "huber_loss",
    "L1Loss": "l1_loss",
    "KLDivLoss": "kl_div",
    "MSELoss": "mse_loss",
    "NLLLoss": "nll_loss",
    "SmoothL1Loss": "smooth_l1_loss",
}
"""Losses in torch.nn, and the functions of torch.nn.functional that they compute."""
NEW = methods(memory=("new", "number"))
"""Methods whose results never share memory with their object, whatever the object is."""
VIEWS = names("tensor", memory="shared") - {"numpy"}
"""Methods of tensors that may return their object or a view of it, and change nothing."""
REDUCES = names("tensor", reduces=True)
"""Methods of tensors that reduce all elements to one number, unless given a dimension."""
JOINS = names("torch", joins=True)
"""Functions of torch that join tensors."""
MADE = functions("torch", memory="new", made=("of host", "on host"))
"""Functions that make a tensor that shares no memory, by qualified name."""
OF_HOST = functions("torch", made="of host")
"""Functions that make a tensor from host values, by qualified name."""
TYPES = functions("torch", made="of host", dtype="cast")
"""torch's tensor types, by qualified name."""
PLAIN = attributes(memory="number", tells=False) | {"data"}
"""Attributes of tensors that do not depend on gradients."""
_OPERANDS = {"element": 1, "broadcast": 2}


def out_place(name: str, of: Literal["array", "numpy"]) -> int:
    """The first position at which numpy accepts an output array: `np.add(x, y, out)`.

    Its position is after the operands, and after `axis` and `dtype`, which are not arrays.
    """
    operands = 3 if name in ("clip", "where") else _OPERANDS.get(OF[of][name].rows, 1)
    return operands if of == "numpy" else operands - 1


Other: TypeAlias = Literal[
    "asks",
    "random state",
    "gradients",
    "settings",
    "place",
    "precision",
    "products",
    "files",
    "compiles",
    "autocast",
    "constants",
]


@dataclass(frozen=True)
class Others:
    """Facts about names in torch that compute no tensor; `names` are words separated by spaces."""

    names: str
    does: Other
    """asks: makes or asks for a dtype, a device, a size or another number; random state: reads or sets one; gradients:
    sets whether they are recorded; settings: sets what torch does from then on; place and precision: sets the device
    and dtype of new tensors; products: sets how precisely matrices are multiplied."""
    sets: bool = False
    """Whether calling it changes a lasting setting."""


OTHERS = (
    Others("Size can_cast device finfo get_default_dtype get_num_threads iinfo is_complex is_floating_point "
           "is_grad_enabled is_tensor numel typename", "asks"),
    Others("Generator get_rng_state initial_seed", "random state"),
    Others("manual_seed seed set_rng_state", "random state", sets=True),
    Others("enable_grad inference_mode no_grad", "gradients"),
    Others("set_grad_enabled", "gradients", sets=True),
    Others("set_anomaly_enabled set_deterministic_debug_mode set_flush_denormal set_num_interop_threads "
           "set_num_threads set_printoptions set_warn_always use_deterministic_algorithms", "settings", sets=True),
    Others("set_default_device", "place", sets=True),
    Others("set_default_dtype set_default_tensor_type", "precision", sets=True),
    Others("set_float32_matmul_precision", "products", sets=True),
    Others("e inf nan pi", "constants"),
    Others("load save", "files"),
    Others("compile", "compiles"),
    Others("autocast", "autocast"),
    Others("set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype "
           "set_autocast_enabled set_autocast_gpu_dtype set_autocast_ipu_dtype set_autocast_ipu_enabled "
           "set_autocast_xla_dtype set_autocast_xla_enabled", "autocast", sets=True),
)  # fmt: skip


@cache
def others(*does: Other) -> frozenset[str]:
    """The names in torch that compute no tensor and do one of these; if none is given, all of them."""
    return named(OTHERS, {"does": does} if does else {})


SAME_EACH_TIME = frozenset({"torch.device", "torch.cuda.is_available", "torch.backends.mps.is_available"})
"""Functions that always return equal results for equal arguments, whatever has been set."""


@cache
def sets_computing(qualified: str) -> bool:
    """Whether a name is a setting of torch, or a function that changes how torch computes from then on."""
    module, _, name = qualified.rpartition(".")
    lasting = named(OTHERS, {"sets": True}) - others("random state")
    return (module == "torch" and name in lasting) or library_does(qualified) == "settings"


def works_on_host(qualified: str) -> bool:
    """Whether a name is a function of torch that works only on the host, or changes a setting there."""
    module, _, name = qualified.rpartition(".")
    computing = others("asks", "gradients", "autocast", "constants") - named(OTHERS, {"sets": True})
    works = module == "torch" and name in others() - computing
    return works or library_does(qualified) in ("host", "seeds", "settings")


def is_constant(qualified: str) -> bool:
    """Whether a name is a number in torch, numpy or math, such as `numpy.pi`."""
    module, _, name = qualified.rpartition(".")
    return library_does(module) == "computes" and name in others("constants")


@dataclass(frozen=True)
class DtypeRow:
    """Facts about dtypes; `names` are words separated by spaces."""

    names: str
    kind: Literal["float", "integer", "bool"]
    bits: int


DTYPES = (
    DtypeRow("float float32", "float", 32),
    DtypeRow("double float64", "float", 64),
    DtypeRow("bfloat16 float16 half", "float", 16),
    DtypeRow("int8 uint8", "integer", 8),
    DtypeRow("int16 short", "integer", 16),
    DtypeRow("int int32", "integer", 32),
    DtypeRow("int64 long", "integer", 64),
    DtypeRow("bool", "bool", 8),
)


@cache
def dtypes(**facts: object) -> frozenset[str]:
    """The names of dtypes whose rows state all of these facts."""
    return named(DTYPES, facts)


FLOAT32 = frozenset(f"torch.{name}" for name in dtypes(kind="float", bits=32))
"""The qualified names of the default dtype of networks."""


@dataclass(frozen=True)
class Distributions:
    """Facts about classes of torch.distributions; `names` are words separated by spaces."""

    names: str
    checked_alone: bool = True
    """Whether checking the arguments keeps no values computed for the check. Other classes keep probabilities, for
    example; gradients are then summed in another order than without the check."""
    products: bool = False
    """Whether they multiply or factor matrices."""


DISTRIBUTION_ROWS = (
    Distributions("Bernoulli Beta Binomial Categorical Cauchy Chi2 ContinuousBernoulli Dirichlet Distribution "
                  "Exponential Gamma Geometric Gumbel HalfCauchy HalfNormal Independent Kumaraswamy Laplace LogNormal "
                  "Multinomial NegativeBinomial Normal Pareto Poisson StudentT Uniform VonMises Weibull"),
    Distributions("LowRankMultivariateNormal MultivariateNormal", products=True),
    Distributions("LogisticNormal MixtureSameFamily TransformedDistribution", products=True),  # if their parts do
    Distributions("OneHotCategorical RelaxedBernoulli RelaxedOneHotCategorical", checked_alone=False),
)  # fmt: skip


@cache
def distributions(**facts: object) -> frozenset[str]:
    """The classes of torch.distributions whose rows state all of these facts."""
    return named(DISTRIBUTION_ROWS, facts)


def is_normal(qualified: str) -> bool:
    """Whether a name is torch's normal distribution, by one of its qualified names."""
    return qualified.startswith(DISTRIBUTIONS) and qualified.endswith(".Normal")


ON_HOST = names("tensor", waits="value") - names("torch")
"""Methods that only tensors have, and whose results are on the host."""
NO_GRAPH = ON_HOST & names("tensor", graph=False) | {"detach"}
"""Methods whose results pass no gradient on, without those that a network may define itself, such as sample()."""
DRAWN = NO_GRAPH | names("distribution", "torch", draws=True, graph=False) | {"argmax"}
"""NO_GRAPH, and methods and functions that draw or choose: no gradient flows to what they draw from."""
SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler")
DISTRIBUTIONS = "torch.distributions."
"""The prefix of the qualified names of torch's distributions."""
SETS_CHECKS = ("set_default_validate_args", "_validate_args")
"""The names by which all distributions are told whether to check their arguments."""
NO_GRAD = ("torch.no_grad", "torch.inference_mode")
"""Contexts and decorators that, without arguments, run code without gradients."""
OTHERWISE = frozenset("copy inplace out".split())
"""Keywords with which an otherwise new result may share memory with an argument: `copy=False`, `out=x`."""


def may_be_given(call: ast.Call) -> bool:
    """Whether a call whose result is normally new may return, or write to, its argument."""
    return may_work_in_place(call) or any(k.arg is None or k.arg in OTHERWISE for k in call.keywords)


def may_work_in_place(call: ast.Call) -> bool:
    """Whether a call of a function with a normally new result may change its argument instead."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    place = OF["functional"][name].inplace if name in OF["functional"] else 0
    by_place = place and (len(call.args) > place or any(isinstance(a, ast.Starred) for a in call.args))
    return bool(by_place) or any(k.arg in (None, "inplace") for k in call.keywords)


ARRAYS_LACK = frozenset(
    "bool byte clone contiguous cpu cuda detach double float half int long short to unsqueeze".split()
) | names("tensor", memory="in place")
"""Methods of tensors that arrays do not have."""
OF_DISTRIBUTIONS = attributes("distribution")
"""Attributes of distributions that are tensors."""
MEMORY_LACKS = frozenset("append extend get items keys pop popitem setdefault update".split())
"""Methods of containers that neither tensors nor arrays have."""
OF_TYPE = {
    "torch.FloatTensor": "float32",
    "torch.DoubleTensor": "float64",
    "torch.HalfTensor": "float16",
    "torch.LongTensor": "int64",
    "torch.IntTensor": "int32",
    "torch.ByteTensor": "uint8",
    "torch.BoolTensor": "bool",
}
"""torch's tensor types, each with the name of its dtype."""
SINGLE = frozenset(name for name, dtype in OF_TYPE.items() if dtype == "float32") | {"torch.Tensor"}
"""Tensor types that make float32 unless the default dtype is another."""
NEW_TENSORS = (
    OF_TYPE.keys() | {"torch.Tensor"} | {f"torch.{n}" for n in names("torch", memory="new") if OF["torch"][n].made}
)
"""Functions that make a tensor, but not a parameter, from host values or from nothing."""
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow",
    ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.USub: "neg", ast.Invert: "bitwise_not",
}  # fmt: skip
"""Operators of tensors, each with the function that it calls."""
EXACT_POWERS = (2, 3, 0.5)
"""Exponents for which torch multiplies or takes the root, which is exactly rounded, instead of calling pow."""


@dataclass(frozen=True)
class Draws:
    """Facts about names that draw random numbers; `names` are words separated by spaces."""

    names: str
    makes: Literal["order", "choice", "integers", "numbers", "generator", "state"]
    """order: a permutation; generator: an object with its own state; state: returns a generator's state."""
    of: Literal["numpy random", "torch"] = "numpy random"
    """Where the names are found: in numpy.random and random, or in torch, with submodules."""


DRAWS = (
    Draws("permutation shuffle", "order"),
    Draws("choice choices sample", "choice"),
    Draws("getrandbits randint random_integers randrange", "integers"),
    Draws("beta betavariate binomial bytes chisquare dirichlet exponential expovariate f gamma gammavariate gauss "
          "geometric gumbel hypergeometric laplace logistic lognormal lognormvariate logseries multinomial "
          "multivariate_normal normal normalvariate pareto poisson power rand randbytes randn random random_sample "
          "ranf rayleigh standard_cauchy standard_exponential standard_gamma standard_normal standard_t triangular "
          "uniform vonmises vonmisesvariate wald weibull weibullvariate zipf", "numbers"),
    Draws("Generator Random RandomState SystemRandom default_rng", "generator"),
    Draws("get_state getstate", "state"),
    Draws("randperm RandomSampler SubsetRandomSampler", "order", "torch"),
)  # fmt: skip


@cache
def draws(**facts: object) -> frozenset[str]:
    """The names that draw, and whose rows match all of these facts."""
    return named(DRAWS, facts)


DRAWING = draws(of="numpy random")
"""Names in numpy.random and random that draw from a state or have their own, but not those that set one."""
