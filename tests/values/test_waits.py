"""What calls do on the host, and which values are host numbers, judged by the text alone."""

from __future__ import annotations

import ast

import pytest

from transformer.syntax.tree import Tree
from transformer.values.device.waits import asks_tensor, is_host, is_host_number, is_mask, makes_on_host, of_torch


def parsed(text: str) -> tuple[Tree, ast.expr]:
    tree = Tree(f"import math\nimport torch\nimport numpy as np\n{text}\n")
    stmt = tree.root.body[-1]
    assert isinstance(stmt, ast.Expr)
    return tree, stmt.value


def what(call: str) -> str | None:
    tree, node = parsed(call)
    assert isinstance(node, ast.Call)
    return of_torch(tree, node, tree.qualified(node.func) or "")


@pytest.mark.parametrize(
    "call",
    [
        "torch.exp(x)",
        "torch.zeros(2, device='cuda')",
        "torch.zeros(2, device=x.device)",
        "torch.where(x, y, z)",
        "torch.linalg.vector_norm(x)",
        "torch.cuda.amp.autocast()",
        "torch.no_grad()",
        "torch.nn.functional.max_pool2d(x, 2)",
        "torch.distributions.Normal(x, y)",
    ],
)
def test_device_calls(call: str) -> None:
    assert what(call) is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("torch.tensor(x)", "makes a tensor on the host"),
        ("torch.zeros(2)", "makes a tensor on the host"),
        ("torch.zeros(2, device='cpu')", "makes a tensor on the host"),
        ("torch.zeros(2, device=torch.device('cpu', 0))", "makes a tensor on the host"),
        ("torch.rand(2, device='cuda', generator=g)", "with generator, which the host reads"),
        (
            "torch.nn.utils.clip_grad_norm_(x, 1, error_if_nonfinite=True)",
            "with error_if_nonfinite, which the host reads",
        ),
        ("torch.distributed.all_reduce(x)", "talks to other processes"),
        ("torch.cuda.synchronize()", "works on the host"),
        ("torch.save(x, y)", "works on the host"),
        ("torch.linalg.inv(x)", "to check them"),
        ("torch.distributions.MultivariateNormal(x, y)", "to check them"),
        ("torch.equal(x, y)", "whose result the host reads"),
        ("torch.nonzero(x)", "size depends on a tensor's values"),
        ("torch.where(x)", "size depends on a tensor's values"),
        # For Categoricals it writes where a probability is zero, and waits to know how many there are
        ("torch.distributions.kl_divergence(p, q)", "not known to run only on the device"),
        ("torch.distributions.kl.kl_divergence(p, q)", "not known to run only on the device"),
        ("torch.lobpcg(x)", "not known to run only on the device"),
        ("torch.nn.functional.grid_sample(x, y)", "not known to run only on the device"),
    ],
)
def test_host_calls(call: str, said: str) -> None:
    assert said in (what(call) or "")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("'cpu'", True),
        ("'cpu:0'", True),
        ("'torch.FloatTensor'", True),
        ("torch.FloatTensor", True),
        ("torch.device('cpu')", True),
        ("'cuda'", False),
        ("torch.device('cuda')", False),
        ("torch.float32", False),
        ("device", False),
    ],
)
def test_dtypes_and_devices_of_the_host(text: str, host: bool) -> None:
    assert is_host(*parsed(text)) is host


@pytest.mark.parametrize(
    ("text", "host"),
    [("torch.tensor(x)", True), ("torch.arange(3)", True), ("torch.arange(3, device=d)", False), ("x", False)],
)
def test_tensors_that_stay_on_the_host(text: str, host: bool) -> None:
    assert makes_on_host(*parsed(text)) is host


NUMBERS = (
    "1 f'{x}' x.shape x.shape[0] x.ndim args.gamma np.pi x.size(0) len(x) math.sqrt(x.shape[0]) int(args.n) -args.n "
    "args.n*2 (1,args.n) [1,x.shape[0]] args.n<2"
).split()


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_of_the_host(text: str) -> None:
    assert is_host_number(*parsed(text))


@pytest.mark.parametrize(
    "text", ["x", "x[0]", "self.scale", "f(1)", "x.sum()", "math.sqrt(x)", "x * 2", "(1, x)", "lambda: 1"]
)
def test_no_numbers_of_the_host(text: str) -> None:
    assert not is_host_number(*parsed(text))


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("x.sum() > 1", True),
        ("torch.isfinite(x).all()", True),
        ("not x.isnan()", True),
        ("np.any(x)", False),
        ("x > 1", False),
        ("f(x)", False),
        ("x.split()", False),
    ],
)
def test_conditions_that_depend_on_a_tensor(text: str, asks: bool) -> None:
    assert asks_tensor(*parsed(text)) is asks


@pytest.mark.parametrize(
    ("index", "mask"),
    [("x > 1", True), ("m", True), (":, m", True), ("~y", True), ("y.bool()", True), ("y", False), (":, 0", False)],
)
def test_masks(index: str, mask: bool) -> None:
    _, node = parsed(f"x[{index}]")
    assert isinstance(node, ast.Subscript)
    assert is_mask(node.slice, {"m"}) is mask
