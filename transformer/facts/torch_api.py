"""What calls of torch, numpy and torch's distributions do: the one table that all analyses and rules read.

A row holds for each of its names, for each kind of object that the names belong to. Modules and optimizers, which are
made first and called later, have their own tables. Anything without a row is unknown, and must not be assumed harmless.
`tests/facts/test_torch_api.py` calls what is listed here and checks the results.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

from transformer.facts.rows import named, says

Kind: TypeAlias = Literal["tensor", "array", "distribution", "torch", "functional", "numpy"]
"""The owner of a name: a method of tensors, arrays or distributions; a function of torch, torch.nn.functional or
numpy."""
METHODS: tuple[Kind, ...] = ("tensor", "array", "distribution")

Memory: TypeAlias = Literal["new", "shared", "in place", "number"]
"""new: shares memory with no argument; shared: may be an argument or a view of it, and changes nothing; in place:
changes its argument; number: an object on the host, such as a number, a list or a size."""
Rows: TypeAlias = Literal["element", "broadcast", "row", "inner", "mixed"]
"""element: each element of the result comes from one of each argument's, and the result has their shape; broadcast:
likewise, but any of the arguments may be larger; row: each row of a batch independently; inner: likewise, if called
along a dimension other than the first; mixed: not known. This does not cover the last bits: see `exact`."""
Dtype: TypeAlias = Literal["kept", "cast", "default", "bool", "other"]
"""kept: the dtype of its float arguments; cast: as its name or arguments say; default: torch's default dtype; in all
cases an argument may name another."""
Waits: TypeAlias = Literal["", "value", "size", "check"]
"""Why the host needs the device's values: to return them, to determine the result's size, or to check them."""
Made: TypeAlias = Literal["", "of host", "on host"]
"""of host: a tensor made from host values; on host: a tensor made on the host, unless a device is given."""
Fills: TypeAlias = Literal["", "sizes", "like"]
"""Where a tensor filled with one number, or uninitialized, gets its sizes: from the first argument, or from that
tensor."""


@dataclass(frozen=True)
class Row:
    """Facts about callables, whose names and owners are given as words."""

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
    """Whether its result may be part of its arguments' autograd graph; if not known, it may."""
    fills: Fills = ""
    reorders: bool = False
    """Whether it returns the dimensions in another order."""
    sizes: bool = False
    """Whether the arguments that follow the tensor are sizes."""
    dim: int = 0
    """The index of the dimension among a method's arguments; functions of torch have the tensor before these."""
    inplace: int = 0
    """The index of `inplace` among a function's arguments; 0 for others."""
    exact: int = 0
    """The number of operands with which, and no other arguments, it is exactly rounded: it copies, selects by a
    condition, or computes what IEEE 754 fully determines. Its bits are the same on every processor, at any position in
    a tensor. All others may compute differently inside a vector and in its remainder: max(0.0, -0.0) is either."""


JOINING = "cat concat concatenate hstack stack vstack"
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
    Row("full_like ones_like zeros_like", "torch", "new", "element", "kept", fills="like"),
    Row("where", "torch", "new", "broadcast", "kept", exact=3),
    Row("clone", "tensor torch", "new", "element", "kept", exact=1),
    Row("bool", "tensor", "shared", "element", "cast", graph=False, exact=1),
    Row("double float half", "tensor", "shared", "element", "cast", exact=1),
    Row("contiguous cuda", "tensor", "shared", "element", "kept", exact=1),
    Row("cpu", "tensor", "shared", "element", "kept", waits="value", exact=1),
    Row("detach", "tensor torch", "shared", "element", "kept", graph=False, exact=1),
    # elementwise, except for the last bits
    Row("clamp clip exp expm1 log log10 log1p log2", "tensor torch", "new", "element", "kept"),
    Row("relu sigmoid tanh", "tensor torch", "new", "element", "kept"),
    Row("addcmul maximum minimum pow", "tensor torch", "new", "broadcast", "kept"),
    Row("gelu logsigmoid softplus", "functional", "new", "element", "kept"),
    Row("mish relu silu", "functional", "new", "element", "kept", inplace=1),
    Row("elu leaky_relu", "functional", "new", "element", "kept", inplace=2),
    Row("byte int long short", "tensor", "shared", "element", "cast", graph=False),
    Row("to type type_as", "tensor", "shared", "element", "cast"),  # type() of nothing is a text
    # along a dimension, or over all
    Row("cumsum logsumexp", "tensor torch", "new", "inner", "kept"),
    Row("mean prod sum", "tensor torch", "new", "inner", "kept", reduces=True),
    Row("std var", "tensor torch", "new", dtype="kept", reduces=True),  # along a dimension only approximately
    Row("log_softmax softmax", "tensor torch functional", "new", "inner", "kept"),
    Row("norm", "tensor torch", "new", "inner", "kept", reduces=True, dim=1),
    Row("quantile", "tensor torch", "new"),
    Row("nanmean", "tensor torch", "new", reduces=True),
    Row("argmax argmin", "tensor torch", "new", "inner", reduces=True, graph=False),
    Row("max median min", "tensor torch", "new", "inner", reduces=True),
    Row("all any", "tensor torch", "new", "inner", "bool", reduces=True, graph=False),
    # other shapes of the same values
    Row("squeeze unsqueeze", "tensor torch", "shared", "inner", "kept"),
    Row("expand view", "tensor", "shared", dtype="kept", sizes=True),
    Row("reshape", "tensor torch", "shared", dtype="kept", sizes=True),
    Row("expand_as reshape_as view_as", "tensor", "shared", dtype="kept"),
    Row("flatten ravel t", "tensor torch", "shared", dtype="kept"),
    Row("moveaxis movedim permute swapaxes transpose", "tensor torch", "shared", dtype="kept", reorders=True),
    Row("flip gather index_select masked_fill", "tensor torch", "new", dtype="kept"),
    Row("repeat", "tensor", "new", dtype="kept", sizes=True),
    Row("broadcast_to chunk narrow select split unbind", "torch", "shared"),
    Row(JOINING, "torch", "new"),
    # products, losses, layers
    Row("bmm matmul mm", "torch", "new"),
    Row("cross_entropy huber_loss l1_loss layer_norm linear mse_loss", "functional", "new"),
    Row("max_pool2d normalize one_hot smooth_l1_loss", "functional", "new"),
    Row("dropout", "functional", "shared", draws=True, inplace=3),
    # host values
    Row("item tolist", "tensor", "number", waits="value", graph=False),
    Row("numpy", "tensor", "shared", waits="value", graph=False),
    Row("data_ptr dim element_size is_contiguous ndimension numel size", "tensor", "number", graph=False),
    Row("allclose equal", "tensor torch", "number", waits="value", graph=False),
    Row("argwhere nonzero", "tensor torch", "new", waits="size", graph=False),
    Row("bincount masked_select unique unique_consecutive", "tensor torch", "new", waits="size"),
    Row("det inverse svd", "torch", "new", waits="check"),
    Row("cholesky", "torch", "new", waits="check"),
    # new tensors
    Row("empty ones zeros", "torch", "new", dtype="default", made="on host", fills="sizes"),
    Row("full", "torch", "new", made="on host", fills="sizes"),
    Row("eye linspace logspace", "torch", "new", dtype="default", made="on host"),
    Row("arange", "torch", "new", made="on host"),
    Row("rand randn", "torch", "new", dtype="default", made="on host", draws=True),
    Row("randint randperm", "torch", "new", made="on host", draws=True),
    Row("normal", "torch", "new", waits="check", made="on host", draws=True),
    Row("bernoulli", "torch", "new", draws=True),
    Row("rand_like randn_like", "torch", "new", draws=True, graph=False),
    Row("multinomial", "torch", "new", waits="check", draws=True, graph=False),
    Row("empty_like", "torch", "new", dtype="kept", fills="like"),
    Row("tensor", "torch", "new", made="of host", graph=False),
    Row("from_numpy", "torch", "shared", made="of host", graph=False),
    Row("as_tensor asarray", "torch", "shared", made="of host"),
    Row("BoolTensor ByteTensor CharTensor DoubleTensor", "torch", "shared", dtype="cast", made="of host"),
    Row("FloatTensor HalfTensor IntTensor", "torch", "shared", dtype="cast", made="of host"),
    Row("LongTensor ShortTensor Tensor", "torch", "shared", dtype="cast", made="of host"),
    # in place
    Row("add_ clamp_ copy_ div_ fill_ lerp_ mul_ requires_grad_ sub_ zero_", "tensor", "in place"),
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
    Row("item tolist", "array", "number"),
    Row("flatten repeat", "array", "new"),
    Row("ravel reshape squeeze transpose", "array", "shared"),
    Row("abs absolute clip exp expm1 floor isfinite isnan log log10", "numpy", "new", "element"),
    Row("log1p log2 logical_not nan_to_num sign sqrt square tanh", "numpy", "new", "element"),
    Row("round", "numpy", "shared", "element"),
    Row("add bitwise_or divide logical_and logical_or logical_xor", "numpy", "new", "broadcast"),
    Row("maximum minimum multiply power subtract where", "numpy", "new", "broadcast"),
    Row("all any argmax argmin max mean median min nanmean prod std sum var", "numpy", "new", reduces=True),
    Row("percentile quantile", "numpy", "new"),
    Row("full_like ones_like zeros_like", "numpy", "new"),
    Row("arange array concatenate full hstack linspace ones stack vstack zeros", "numpy", "new"),
    Row("asarray ascontiguousarray atleast_1d atleast_2d expand_dims", "numpy", "shared"),
)  # fmt: skip


@dataclass(frozen=True)
class Layers:
    """Facts about modules of torch.nn, whose names are given as words.

    All of them compute the same in training and evaluation modes and draw no random numbers; recurrent ones without
    dropout, which is an option.
    """

    names: str
    memory: Memory = "new"
    """shared, also if an option makes it work in place."""
    rows: Rows = "mixed"
    """row: each row of a batch independently, at little cost. Convolutions are too costly to compute twice."""
    same_bits: bool = False
    """Whether it computes the same bits with and without gradients. On phones, and on some processors for grouped
    channels, gradients determine which library computes convolutions."""
    inplace: bool = False
    """Whether it can be told to write into what it is given."""
    autocast: Literal["", "product", "kept"] = ""
    """product: computed in autocast's dtype; kept: it takes any dtype, and returns float32 where it is given that."""


LAYERS = (
    Layers("Linear", rows="row", same_bits=True, autocast="product"),
    Layers("GELU LayerNorm LogSigmoid Sigmoid Softplus Softsign Tanh", rows="row", same_bits=True, autocast="kept"),
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
    Layers("BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss L1Loss MSELoss NLLLoss SmoothL1Loss"),
    Layers("Embedding GRU GRUCell GroupNorm LSTM LSTMCell RNN RNNCell"),
)  # fmt: skip
CONTAINERS = frozenset("ModuleDict ModuleList Sequential".split())
"""Modules that hold others, and nothing else."""
HOLDERS = CONTAINERS | frozenset("Module Parameter ParameterDict ParameterList".split())
"""Modules without layers of their own, and parameters."""
PRODUCTS = frozenset(
    "addbmm addmm addmv baddbmm bilinear bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "dot einsum ger inner linear matmul mm multi_dot mv outer scaled_dot_product_attention tensordot".split()
)
"""Functions and methods that compute matrix products."""


@dataclass(frozen=True)
class Optimizers:
    """Facts about classes of torch.optim, whose names are given as words; all accept a tensor as the learning rate."""

    names: str
    capturable: bool = False
    """Whether they have an option for capture in a CUDA graph."""
    traced: bool = False
    """Whether their step(), without its wrappers, is known to be traced without a graph break."""
    counting: bool = False
    """Whether they branch on their step count, which breaks a graph unless they are capturable."""


OPTIMIZERS = (
    Optimizers("Adam AdamW RMSprop", capturable=True, traced=True),
    Optimizers("RAdam", capturable=True, traced=True, counting=True),
    Optimizers("NAdam Adadelta Adamax ASGD Rprop", capturable=True),
    Optimizers("SGD", traced=True),
    Optimizers("Adagrad"),
)


@dataclass(frozen=True)
class OfOptimizers:
    """Facts about what optimizers have, whose names are given as words."""

    names: str
    is_for: Literal["stepping", "saving", "groups", "defaults", "moments"]


OF_OPTIMIZERS = (
    OfOptimizers("step zero_grad", "stepping"),
    OfOptimizers("load_state_dict state_dict", "saving"),
    OfOptimizers("add_param_group param_groups", "groups"),
    OfOptimizers("defaults", "defaults"),
    OfOptimizers("state", "moments"),
)


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
    """The names of any of these kinds whose rows state all of these facts: `names("torch", memory="new", draws=False)`.

    A fact may be a tuple of values, of which the row must state one.
    """
    return named((row for row in ROWS if not {*kinds}.isdisjoint(row.of.split())), facts)


_MODULES = {"torch": "torch", "functional": "torch.nn.functional", "numpy": "numpy"}


@cache
def functions(*kinds: Literal["torch", "functional", "numpy"], **facts: object) -> frozenset[str]:
    """The whole names of functions whose row says all of these facts, as for `names`."""
    return frozenset(f"{_MODULES[kind]}.{name}" for kind in kinds for name in names(kind, **facts))


@cache
def methods(**facts: object) -> frozenset[str]:
    """The names of methods for which the facts hold for every kind of object."""
    others = (row for row in ROWS if not {*METHODS}.isdisjoint(row.of.split()) and not says(row, facts))
    return names(*METHODS, **facts) - {name for row in others for name in row.names.split()}


@cache
def layers(**facts: object) -> frozenset[str]:
    """The modules of torch.nn whose rows state all of these facts, as for `names`."""
    return named(LAYERS, facts)


@dataclass(frozen=True)
class Attribute:
    """Facts about attributes, whose names are given as words, as are the kinds of things that have them."""

    names: str
    of: str
    memory: Literal["number", "shared", "graph"]
    """number: an object of the host; shared: memory, that of the tensor or its own; graph: a part of the graph."""
    graph: bool = False
    """Whether gradients flow through it."""
    tells: bool = False
    """Whether it tells of gradients."""
    reorders: bool = False
    """Whether it has the dimensions in another order."""


ATTRIBUTE_ROWS = (
    Attribute("device dtype is_cuda itemsize layout nbytes ndim shape", "tensor array", "number"),
    Attribute("size", "array", "number"),
    Attribute("is_leaf requires_grad", "tensor", "number", tells=True),
    Attribute("grad_fn", "tensor", "graph", tells=True),
    Attribute("H T mH mT", "tensor array", "shared", graph=True, reorders=True),
    Attribute("imag real", "tensor", "shared", graph=True),
    Attribute("data", "tensor array", "shared"),
    Attribute("grad", "tensor", "shared", tells=True),
    Attribute("loc logits mean mode probs scale stddev variance", "distribution", "shared", graph=True),
)


@cache
def attributes(of: Kind = "tensor", **facts: object) -> frozenset[str]:
    """The attributes of a kind of thing whose row says all of these facts, as for `names`."""
    return named((row for row in ATTRIBUTE_ROWS if of in row.of.split()), facts)


ATTRIBUTES = attributes("tensor", memory="number") | attributes("array", memory="number")
"""Attributes of tensors and arrays that are numbers."""
VIEWS_OF_IT = attributes(memory="shared")
"""Attributes that are memory: the tensor's, or their own."""
GRADIENTS = attributes(tells=True) | frozenset("backward register_hook requires_grad_ retain_grad".split())
"""Attributes and methods of tensors that depend on gradients."""


def tells_values(name: str) -> bool:
    """Whether an attribute or method of tensors is known, and reveals only values or their kind, not their memory."""
    return name in OF["tensor"].keys() | ATTRIBUTES | VIEWS_OF_IT and name != "data_ptr"


@cache
def of_optimizers(*is_for: str) -> frozenset[str]:
    """What optimizers have for one of these."""
    return named(OF_OPTIMIZERS, {"is_for": is_for})


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
    "MSELoss": "mse_loss",
    "NLLLoss": "nll_loss",
    "SmoothL1Loss": "smooth_l1_loss",
}
"""Modules of torch.nn that are losses, and the functions of torch.nn.functional that they compute."""
NEW = methods(memory=("new", "number"))
"""Methods whose results never share memory with their object, whatever it is."""
VIEWS = names("tensor", memory="shared") - {"numpy"}
"""Methods of tensors that may return their object or a view of it, and change nothing."""
REDUCES = names("tensor", reduces=True)
"""Methods of tensors that reduce all elements to one number, unless given a dimension."""
JOINS = frozenset(JOINING.split()) & OF["torch"].keys()
"""Functions of torch that join tensors."""
MADE = functions("torch", memory="new", made=("of host", "on host"))
"""Functions that make a tensor that shares memory with nothing, by their whole names."""
OF_HOST = functions("torch", made="of host")
"""Functions that make a tensor from host values, by their full names."""
TYPES = functions("torch", made="of host", dtype="cast")
"""torch's types of tensors, by their whole names."""
MAY_SHARE = OF_HOST - TYPES - {"torch.tensor"}
"""Those of which an array's memory is the tensor's."""
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
    "asks", "random state", "gradients", "settings", "place", "precision", "products", "files", "compiles", "autocast"
]


@dataclass(frozen=True)
class Others:
    """Facts about what of torch computes no tensor, whose names are given as words."""

    names: str
    does: Other
    """asks: it makes or asks for a dtype, a device, a size or another number; random state: it reads or sets one;
    gradients: it says whether they are recorded; settings: it sets what torch does from then on, and among that place
    and precision: where and of which dtype tensors are made; products: how precisely matrices are multiplied."""


OTHERS = (
    Others("Size can_cast device finfo get_default_dtype get_num_threads iinfo is_complex is_floating_point "
           "is_grad_enabled is_tensor numel typename", "asks"),
    Others("Generator get_rng_state initial_seed manual_seed seed set_rng_state", "random state"),
    Others("enable_grad inference_mode no_grad set_grad_enabled", "gradients"),
    Others("set_num_threads set_printoptions use_deterministic_algorithms", "settings"),
    Others("set_default_device", "place"),
    Others("set_default_dtype set_default_tensor_type", "precision"),
    Others("set_float32_matmul_precision", "products"),
    Others("load save", "files"),
    Others("compile", "compiles"),
    Others("autocast set_autocast_enabled", "autocast"),
)  # fmt: skip


@cache
def others(*does: Other) -> frozenset[str]:
    """What of torch does one of these, and computes no tensor; all that computes none if none of these is named."""
    return named(OTHERS, {"does": does} if does else {})


ON_HOST = names("tensor", waits="value") - names("torch")
"""Methods that tensors alone have, and whose results are on the host."""
NO_GRAPH = ON_HOST & names("tensor", graph=False) | {"detach"}
"""Those through whose results no gradient flows. A network may have a sample() or all() of its own, with one."""
DRAWN = NO_GRAPH | names("distribution", "torch", draws=True, graph=False) | {"argmax"}
"""These, and methods and functions that draw or choose: no gradient flows to what they draw from."""
SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler")
DISTRIBUTIONS = "torch.distributions."
"""What the whole names of torch's distributions begin with."""
NO_GRAD = ("torch.no_grad", "torch.inference_mode")
"""What runs code without gradients where it is given nothing, as a context and as a decorator."""
OTHERWISE = frozenset("copy inplace out".split())
"""Keywords with which an otherwise new result may be an argument: `copy=False`, `inplace=True`, `out=x`."""


def may_be_given(call: ast.Call) -> bool:
    """Whether a call with an otherwise new result may return, or write to, its argument."""
    return may_work_in_place(call) or any(k.arg is None or k.arg in OTHERWISE for k in call.keywords)


def may_work_in_place(call: ast.Call) -> bool:
    """Whether a function with an otherwise new result may be called to change its argument instead."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    place = OF["functional"][name].inplace if name in OF["functional"] else 0
    by_place = place and (len(call.args) > place or any(isinstance(a, ast.Starred) for a in call.args))
    return bool(by_place) or any(k.arg in (None, "inplace") for k in call.keywords)


ARRAYS_LACK = frozenset(
    "bool byte clone contiguous cpu cuda detach double float half int long short to unsqueeze".split()
)
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
NEW_TENSORS = (
    OF_TYPE.keys() | {"torch.Tensor"} | {f"torch.{n}" for n in names("torch", memory="new") if OF["torch"][n].made}
)
"""Functions that make a tensor from host values or from nothing, and not a parameter."""
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow",
    ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.USub: "neg", ast.Invert: "bitwise_not",
}  # fmt: skip
"""Operators of tensors, each with the function that it calls."""
EXACT_POWERS = (2, 3, 0.5)
"""Exponents for which torch multiplies or takes the root, which is exactly rounded, instead of calling pow."""
DRAWING = frozenset(
    "beta betavariate binomial bytes choice choices chisquare default_rng dirichlet exponential expovariate f gamma "
    "gammavariate gauss geometric get_state getrandbits getstate gumbel hypergeometric laplace logistic lognormal "
    "lognormvariate logseries multinomial multivariate_normal normal normalvariate pareto permutation poisson power "
    "rand randbytes randint randn random random_integers random_sample randrange ranf rayleigh sample shuffle "
    "standard_cauchy standard_exponential standard_gamma standard_normal standard_t triangular uniform vonmises "
    "vonmisesvariate wald weibull weibullvariate zipf Generator Random RandomState SystemRandom".split()
)
"""Names of numpy.random and random that draw from their state, or have their own state; not those that set it."""
CHECKED_ALONE = frozenset(
    "Bernoulli Beta Binomial Categorical Cauchy Chi2 ContinuousBernoulli Dirichlet Exponential Gamma Geometric Gumbel "
    "HalfCauchy HalfNormal Independent Kumaraswamy Laplace LogNormal LogisticNormal LowRankMultivariateNormal "
    "MixtureSameFamily MultivariateNormal Multinomial NegativeBinomial Normal Pareto Poisson StudentT "
    "TransformedDistribution Uniform VonMises Weibull".split()
)
"""Classes of torch.distributions for which checking the arguments keeps nothing that is computed for the check. Others
keep probabilities, for example, and gradients are then summed in another order than without the check."""
