"""--precision: where other arithmetic goes, what stays in float32, and what prevents it."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import NoOp, turn
from golden import converted
from scripts import PARTS, QUICK_COMPILE, edited, script
from torch.utils._python_dispatch import TorchDispatchMode

from transformer import Applied

HEAD = """\
class Head(nn.Linear):
    \"\"\"A network's last layer, which computes in float32 even under autocast.\"\"\"

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), Head(8, 1))
        self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), Head(8, 2))
"""
AUTOCAST = """\
    with torch.autocast(device.type, torch.bfloat16, enabled=args.precision == "bf16"):
        _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])
    ratio ="""
TF32 = """\
    if args.precision == "tf32":  # float32 matrix products may round their inputs to 10 bits
        torch.set_float32_matmul_precision("high")

    for iteration in """

TYRO = {
    "stdlib": "from dataclasses import dataclass",
    "third_party": "import tyro",
    "args": "@dataclass\nclass Args:\n"
    "    seed: int = 1\n    num_iterations: int = 3\n    num_envs: int = 2\n    num_steps: int = 8\n"
    "    update_epochs: int = 2\n    minibatch_size: int = 4\n    learning_rate: float = 3e-2\n"
    "    gamma: float = 0.99\n    gae_lambda: float = 0.95\n    clip_coef: float = 0.2\n    batch_size: int = 0\n",
    "parse": "args = tyro.cli(Args)",
}


def applied(parts: dict[str, str]) -> str:
    step = turn("precision", script(parts))
    assert isinstance(step.outcome, Applied), step.outcome
    return step.after


def agent(old: str, new: str) -> dict[str, str]:
    return {"agent": edited("agent", old, new)}


def test_the_lines() -> None:
    after = applied({})
    flag = 'parser.add_argument("--precision", choices=["fp32", "bf16", "tf32"], default="fp32", help='
    for piece in (HEAD, AUTOCAST, TF32, flag):
        assert after.count(piece) == 1, piece
    assert after.count("torch.autocast(") == 2, "the update's forward pass alone, and what keeps heads out of it"


def test_a_dataclass_of_arguments() -> None:
    after = applied(TYRO)
    assert '    precision: Literal["fp32", "bf16", "tf32"] = "fp32"  #' in after
    assert "from typing import Literal\n" in after


def test_nothing_is_added_unasked() -> None:
    assert "precision" not in converted(script()).source
    assert "--precision" in with_precision()


BODY = {
    "agent": """
        def layer_init(layer, std=1.0):
            torch.nn.init.orthogonal_(layer.weight, std)
            return layer


        def mlp(size):
            return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), layer_init(nn.Linear(8, size)), nn.Tanh())


        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.network = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
                self.critic = layer_init(nn.Linear(2, 1), std=1.0)
                self.actor = mlp(2)

            def features(self, x):
                return self.network(x)

            def get_value(self, x):
                return self.critic(self.network(x))

            def get_action_and_value(self, x, action=None):
                hidden = self.features(x)
                probs = Categorical(logits=self.actor(hidden))
                if action is None:
                    action = probs.sample()
                return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)
    """
}


def test_a_body_stays_and_heads_are_found_in_functions() -> None:
    after = applied(BODY)
    assert "self.network = nn.Sequential(nn.Linear(2, 2), nn.ReLU())" in after
    assert "self.critic = layer_init(Head(2, 1), std=1.0)" in after
    assert "nn.Sequential(nn.Linear(2, 8), nn.Tanh(), layer_init(Head(8, size)), nn.Tanh())" in after


def test_a_layer_whose_result_is_returned_is_a_head() -> None:
    shown = "return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)"
    assert shown in BODY["agent"]
    parts = {"agent": BODY["agent"].replace(shown, shown + " + hidden.mean()")}
    after = applied(parts)
    assert "self.network = nn.Sequential(Head(2, 2), nn.ReLU())" in after


NOOPS = [
    NoOp(
        "autocast of its own",
        {"optimize": "with torch.autocast('cpu'):\n    pass\n" + PARTS["optimize"]},
        "line {line} sets the precision itself: torch.autocast",
        at="torch.autocast",
    ),
    NoOp(
        "TF32 of its own",
        {"setup": PARTS["setup"] + "\ntorch.backends.cuda.matmul.allow_tf32 = True"},
        "line {line} sets the precision itself",
        at="allow_tf32",
    ),
    NoOp(
        "another dtype",
        {"setup": PARTS["setup"] + "\ntorch.set_default_dtype(torch.float64)"},
        "also computes in other precisions than float32",
    ),
    NoOp(
        "a layer that is not known",
        agent("nn.Linear(8, 2)", "nn.Linear(8, 2), nn.PReLU()"),
        "line {line}: what nn.PReLU does under autocast is not known",
        at="nn.PReLU",
    ),
    NoOp(
        "a head that is no linear layer",
        agent("nn.Linear(8, 2))", "nn.Conv1d(8, 2, 1))"),
        "line {line}: the result of actor is not that of a linear layer",
        at="nn.Conv1d",
    ),
    NoOp(
        "a product of its own",
        agent("logits=self.actor(x)", "logits=self.actor(x) @ torch.eye(2)"),
        "line {line} computes a matrix product outside a layer",
        at="@ torch.eye(2)",
    ),
    NoOp(
        "a distribution with a product of its own",
        {
            "third_party": "from torch.distributions import MultivariateNormal",
            **agent(
                "(self, x):\n        return self.critic(x)",
                "(self, x):\n    return MultivariateNormal(self.critic(x), torch.eye(1)).mean",
            ),
        },
        "line {line}: what MultivariateNormal does under autocast is not known",
        at="return MultivariateNormal",
    ),
    NoOp(
        "a property",
        agent(
            "def get_action_and_value(self, x, action=None):",
            "@property\ndef scale(self):\n    return self.actor(torch.ones(1, 2))\n\n"
            "def get_action_and_value(self, x, action=None):\n    x = x * self.scale",
        ),
        "line {line} uses self.scale other than by calling it",
        at="x * self.scale",
    ),
    NoOp(
        "a product in a function",
        {
            **agent("logits=self.actor(x)", "logits=turned(self.actor(x))"),
            "functions": "def turned(x):\n    return x.matmul(torch.eye(2))\n\n",
        },
        "line {line} computes a matrix product outside a layer",
        at="x.matmul",
    ),
    NoOp(
        "layers that are not called by their names",
        agent("logits=self.actor(x)", "logits=list(self.actor)[0](x)"),
        "line {line} uses self.actor other than by calling it",
        at="list(self.actor)",
    ),
    NoOp(
        "a part of a network",
        {"minibatch": edited("minibatch", "newvalue.view(-1)", "agent.critic[0](b_obs[mb_inds]).view(-1)[:4]")},
        "line {line} uses agent other than by calling its methods",
        at="agent.critic[0]",
    ),
    NoOp(
        "heads alone",
        {
            "agent": PARTS["agent"]
            .replace("nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))", "nn.Linear(2, 1)")
            .replace("nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))", "nn.Linear(2, 2)")
        },
        "only the heads compute matrix products",
    ),
    NoOp(
        "a network that is printed",
        {"before_loop": "print(agent)"},
        "line {line} uses agent as a whole, and the classes of its layers with it",
        at="print(agent)",
    ),
    NoOp(
        "a network that is made twice",
        {"before_loop": "agent = Agent().to(device)"},
        "agent is not made exactly once, from a class of this file",
    ),
    NoOp(
        "a base class of another file",
        {"third_party": "from base import Base", **agent("class Agent(nn.Module)", "class Agent(Base)")},
        "Agent is not derived directly from nn.Module",
    ),
    NoOp(
        "another Literal",
        {**TYRO, "stdlib": TYRO["stdlib"] + "\nLiteral = 3"},
        "the name Literal has another meaning",
    ),
]


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("precision")


class Products(TorchDispatchMode):
    """Records the dtype and width of each linear layer's result, and whether gradients are on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = set[tuple[bool, int, torch.dtype]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.addmm.default:
            self.seen.add((result.requires_grad or torch.is_grad_enabled(), result.shape[-1], result.dtype))
        return result


def run(source: str, *args: str) -> tuple[dict[str, Any], str, set[tuple[bool, int, torch.dtype]]]:
    """A script's names at its end, its output, and the results of its linear layers."""
    names, argv = {"__name__": "__main__"}, sys.argv
    sys.argv = ["script.py", *args]
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out, Products() as products:
            exec(compile(source, "script.py", "exec"), names)
    finally:
        sys.argv = argv
    return names, out.getvalue(), products.seen


def with_precision() -> str:
    return converted(script(), precision=True).source


def parameters(names: dict[str, Any]) -> dict[str, torch.Tensor]:
    return dict(names["agent"].named_parameters())


def test_by_default_the_same_bits() -> None:
    plain, before, _ = run(converted(script()).source)
    ours, after, products = run(with_precision())
    assert after == before
    assert all(torch.equal(p, parameters(ours)[name]) for name, p in parameters(plain).items())
    assert {dtype for _, _, dtype in products} == {torch.float32}


def seen_by_bf16(source: str) -> set[tuple[bool, int, torch.dtype]]:
    names, printed, products = run(source, "--precision", "bf16")
    assert printed != run(source)[1], "other arithmetic"
    held = [*parameters(names).values(), *(p.grad for p in parameters(names).values()), names["v_loss"]]
    held += [value for entries in names["optimizer"].state.values() for value in entries.values()]
    assert {tensor.dtype for tensor in held} == {torch.float32}
    return products


FLOAT32 = {(False, 8, torch.float32), (False, 1, torch.float32), (False, 2, torch.float32)}
"""What the rollout computes."""
LEARNING = {(True, 8, torch.bfloat16), (True, 1, torch.float32), (True, 2, torch.float32)}
"""What the update computes: the body, 8 wide, and the heads."""


def test_bf16_is_for_the_bodies_of_the_update_alone() -> None:
    assert seen_by_bf16(with_precision()) == FLOAT32 | LEARNING


def broken(old: str, new: str) -> str:
    assert with_precision().count(old) == 1
    return with_precision().replace(old, new)


def test_a_head_in_bf16_and_autocast_that_is_never_off_are_seen() -> None:
    assert (True, 1, torch.bfloat16) in seen_by_bf16(broken("Head(8, 1)", "nn.Linear(8, 1)"))
    assert run(broken('enabled=args.precision == "bf16"', "enabled=True"))[1] != run(with_precision())[1]


def test_tf32_is_set_where_it_is_asked_for() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        run(with_precision())
        assert torch.get_float32_matmul_precision() == before
        run(with_precision(), "--precision", "tf32")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [[], [str(QUICK_COMPILE)]])
def test_one_graph(compiler: list[str], tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(with_precision(), encoding="utf-8")
    environment = {**os.environ, "TORCH_LOGS": "graph_breaks,recompiles"}
    command = [sys.executable, *compiler, str(path), "--compile", "--precision", "bf16"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Graph break" not in done.stderr and "Recompiling" not in done.stderr, done.stderr[-3000:]
