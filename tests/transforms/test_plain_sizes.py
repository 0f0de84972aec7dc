"""plain-sizes: the number of actions, where compiled functions use it as a size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import NoOp, turn
from scripts import edited, script

from transformer import Applied, Skipped
from transformer.transforms.compiling.plain_sizes import INFO

STORED = "        super().__init__()\n        self.n = envs.single_action_space.n\n"
VIEWED = "return self.critic(x).view(-1, self.n // self.n)"


def agent(value: str = "envs.single_action_space.n", read: str = VIEWED) -> str:
    """The network with a number that it reads."""
    body = edited("agent", "        super().__init__()\n", STORED.replace("envs.single_action_space.n", value))
    assert "return self.critic(x)" in body
    return body.replace("return self.critic(x)", read, 1)


NOOPS = [
    NoOp("none", {}, "no network uses a space's number of actions", kind="not needed"),
    NoOp("no size", {"agent": agent(read="return self.critic(x) * self.n")}, "no network uses", kind="not needed"),
    NoOp("a number of its own", {"agent": agent("int(4)")}, "no network uses a space's number", kind="not needed"),
    NoOp("a length", {"agent": agent("len(envs.single_action_space.nvec)")}, "no network uses", kind="not needed"),
    NoOp(
        "read for something else",
        {"agent": agent(read="return self.critic(x).view(-1, self.n) / self.n")},
        "reads self.n other than as a size",
    ),
    NoOp(
        "read by its name",
        {"agent": agent(read=VIEWED + " + getattr(self, 'n') * 0")},
        "by its name",
    ),
]


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    replace(noop, also=("policy", "update")).check(INFO.name)


ONE_HOT = "return self.critic(x) + nn.functional.one_hot(x[..., 0].long() * 0, {}self.n).sum() * 0"


@pytest.mark.parametrize("read", [VIEWED, ONE_HOT.format(""), ONE_HOT.format("num_classes=")])
def test_in_the_network(read: str) -> None:
    step = turn(INFO.name, script({"agent": agent(read=read)}), ("policy",))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "self.n = int(envs.single_action_space.n)" in step.after


GIVEN = "class Agent(nn.Module):\n    def __init__(self, size, actions):\n"


@pytest.mark.parametrize(
    "calls, applied",
    [
        ("Agent(2, envs.single_action_space.n)", True),
        ("Agent(2, actions=count)", True),
        ("Agent(2, 3)", False),
        ("Agent(*[2, 3])", False),
        ("Agent(2, count) if args.seed else Agent(2, 2.0)", False),
        ("[Agent][0](2, count)", False),
    ],
)
def test_given_to_the_constructor(calls: str, applied: bool) -> None:
    """The transform applies only if every call of the class passes such a number."""
    parts = {
        "agent": agent("actions").replace("class Agent(nn.Module):\n    def __init__(self):\n", GIVEN),
        "make_agent": f"count = envs.single_action_space.n\nagent = ({calls}).to(device)",
    }
    outcome = turn(INFO.name, script(parts), ("policy",)).outcome
    assert isinstance(outcome, Applied if applied else Skipped), outcome


@pytest.mark.parametrize("number, breaks", [(np.int64(2), True), (2, False)], ids=["numpy's", "plain"])
def test_torch_compile_breaks_at_a_numpy_size(number: int, breaks: bool) -> None:
    """If the first case compiles one day, the transform is no longer needed."""
    compiled: list[torch.fx.GraphModule] = []

    class Shaped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = number

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).view(len(x), self.n, -1).sum(2)

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        made = torch._dynamo.lookup_backend("aot_eager")(graph, inputs)
        compiled.append(graph)
        return made

    x = torch.arange(8.0).reshape(2, 4)
    expected = Shaped()(x)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(Shaped(), backend=backend)(x), expected)
    called = [str(node.target) for graph in compiled for node in graph.graph.nodes]
    assert ("view" not in called) == breaks
