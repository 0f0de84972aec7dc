"""Which functions CUDA graphs can capture, and what prevents it."""

from __future__ import annotations

import textwrap

import pytest
from scripts import PARTS
from states import more, state

from transformer.values.device.graph_capture import Capture

HEAD = """\
def pick(a, b=None):
    if b is None:
        b = a * 2
    return b


class Mine(Categorical):
    def __init__(self, x):
        self.scale = 2
        super().__init__(logits=x)


class Tool(Base):
    def work(self, x):
        return x


"""
MADE = """\
def layer(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, n_out), nn.Tanh())


def quiet(n_in, n_out):
    layers = [layer(n_in, 8), nn.Linear(8, n_out)]
    return nn.Sequential(*layers)


class Told(nn.Module):
    def forward(self, x):
        print(x)
        return x


def loud(n_in, n_out):
    return nn.Sequential(layer(n_in, n_out), Told())


"""
OPTIMIZER = "head = nn.Linear(2, 1)\noptimizer = optim.Adam([*agent.parameters(), *head.parameters()], lr=0.1)"
STEPPING = f"{PARTS['agent']}\n\n    def step(self, x):\n        return x"


def obstacle(body: str, name: str = "work", **parts: str) -> str | None:
    """What prevents the capture of a function of the script."""
    functions = f"{HEAD}def {name}(x, config, scale=1):\n{textwrap.indent(body, '    ')}\n\n\n"
    made = state(**{"functions": functions, "optimizer": OPTIMIZER, **parts})
    return Capture(made.roles).obstacle(made.tree.definition(name))


@pytest.mark.parametrize(
    "body",
    [
        "return torch.exp(x)",
        "y = torch.zeros_like(x)\ny[0] = 1\nreturn y",
        "made = {}\nmade['a'] = x\nmade.update(b=x)\nreturn made",
        "kept = []\nkept.append(x)\nreturn kept",
        "y: object = x * 2\nreturn y",
        "def inner(y):\n    return y * 2\n\nreturn inner(x)",
        "return pick(x) + pick(x, x * 2) + pick(*x)",
        "return head(x)",
        "return agent.get_value(x)",
        "return Mine(x).entropy()",
        "optimizer.step()",
        "return x * config['scale'] + math.sqrt(2)",
        "return x[:, 0]",
        "if scale is None:\n    raise ValueError(x.item())\nreturn x",
    ],
)
def test_device_code(body: str) -> None:
    assert obstacle(body, stdlib="import math") is None


@pytest.mark.parametrize(
    ("made", "unknown"),
    [
        ("nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))", False),
        ("kept.pop()", True),
        ("register(nn.Linear(2, 3))", True),
        ("nn.DataParallel(nn.Linear(2, 1))", True),
        ("nn.Sequential(nn.Linear(2, 1), kept.pop())", True),
    ],
)
def test_a_part_of_a_network_is_called(made: str, unknown: bool) -> None:
    agent = PARTS["agent"].replace("self.critic = ", f"self.critic = {made}  # ")
    called = {"agent": agent, "optimize": more("optimize", "print(work(b_obs))")}
    assert bool(obstacle("return agent.critic(x)", **called)) is unknown


def test_a_networks_method_named_as_an_optimizers() -> None:
    assert obstacle("optimizer.step()\noptimizer.zero_grad()", agent=STEPPING) is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("global total\ntotal = x", "binds total of an outer scope"),
        ("x.cache = 1", "sets x.cache"),
        ("config['scale'] = x", "sets config['scale']"),
        ("kept.append(x)", "calls kept.append()"),
        ("if x.sum() > 0:\n    x = -x\nreturn x", "branches on x.sum() > 0"),
        ("return x[x > 0]", "selects elements by a condition"),
        ("mask = x > 0\nreturn x[mask]", "selects elements by a condition"),
        ("return x[[0, 1]]", "selects elements by indices copied from the host"),
        ("return x.item()", "reads x on the host"),
        ("return x.to('cpu')", "moves x to the host"),
        ("return obs.to(x.device)", "moves obs, which may be on the host"),
        ("return Categorical(logits=x).sample()", "may read the parameters on the host"),
        ("drawn = torch.distributions.Beta(x, x)\nreturn drawn.rsample()", "only for a Normal made in its function"),
        ("return np.exp(x)", "runs on the host"),
        ("return np.random.rand()", "runs on the host"),
        ("return int(x)", "reads int(x) on the host"),
        ("return unknown(x)", "is not known to run only on the device"),
        ("return obs.what(x)", "is not known to run only on the device"),
        ("return torch.nonzero(x)", "size depends on a tensor's values"),
        ("return x * iteration", "reads iteration, which the training loop binds"),
    ],
)
def test_host_code(body: str, said: str) -> None:
    assert said in (obstacle(body) or "")


def test_values_that_training_changes() -> None:
    limits = {"setup": PARTS["setup"] + "\nlimits = {'a': 1}"}
    assert obstacle("return x * limits['a']", **limits) is None
    assert "reads limits['a'], which line" in (
        obstacle("return x * limits['a']", report=more("report", "limits['a'] = 2"), **limits) or ""
    )
    assert "sets names or attributes that are known only at run time" in (
        obstacle("return x", report=more("report", "setattr(args, name, 1)")) or ""
    )
    assert "reads args.seed, which line" in (
        obstacle("return x * args.seed", report=more("report", "args.seed = 2")) or ""
    )


def test_a_method_of_a_class_with_a_foreign_base() -> None:
    made = state(functions=HEAD, third_party="from other import Base")
    (work,) = (n for n in made.tree.classes["Tool"].body)
    assert "Tool is derived from Base" in (Capture(made.roles).obstacle(work) or "")  # type: ignore[arg-type]


@pytest.mark.parametrize("own", ["self", "this"])
def test_parts_are_analysed_whatever_self_is_called(own: str) -> None:
    part = "class Part(nn.Module):\n    def forward(self, x):\n        return x * x.sum().item()\n\n\n"
    agent = PARTS["agent"].replace("self.critic = nn", "self.part = Part()\n        self.critic = nn")
    agent = (part + agent.replace("return self.critic(x)", "return self.part(x)")).replace("self", own)
    why = obstacle("return agent.get_value(x)", agent=agent)
    assert why is not None and why.endswith("reads x.sum() on the host")


@pytest.mark.parametrize(("maker", "known"), [("quiet", True), ("loud", False), ("Told", False), ("unknown", False)])
def test_a_network_may_be_made_by_a_function_of_the_file(maker: str, known: bool) -> None:
    given = "" if maker == "Told" else "2, 1"
    optimizer = OPTIMIZER.replace("nn.Linear(2, 1)", f"{maker}({given}).to(device)")
    why = obstacle("return head(x)", agent=f"{MADE}{PARTS['agent']}", optimizer=optimizer)
    assert (why is None) == known, why


@pytest.mark.parametrize(
    ("made", "known"),
    [
        ("nn.Parameter(torch.zeros(2, device=device))", True),
        ("nn.Parameter(torch.zeros(2))", False),
        ("nn.Parameter(other)", False),
    ],
)
def test_a_parameter_of_the_script_is_on_the_device(made: str, known: bool) -> None:
    why = obstacle("return x * scales.exp()", optimizer=f"{OPTIMIZER}\nscales = {made}")
    assert (why is None) == known, why
