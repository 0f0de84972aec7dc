"""What a call of a network returns, rows or tensors, if its methods tell."""

from __future__ import annotations

import ast

import pytest
from scripts import PARTS
from states import more, state

from transformer.syntax.tree import Tree
from transformer.values.networks.results import Results, kept_network, loss_called

AGENT = PARTS["agent"]
INIT = "super().__init__()\n"


def results(body: str, call: str = "agent.extra(obs)", kept: str = "") -> Results:
    """A call of an added method of the network, which also has one more attribute."""
    agent = AGENT.replace(INIT, f"{INIT}        self.more = {kept}\n") if kept else AGENT
    inside = body.replace("\n", "\n        ")
    agent += f"\n\n    def extra(self, x, y=None):\n        {inside}\n\n    def same(self, x):\n        return x"
    made = state(agent=agent, report=more("report", f"seen = {call}"))
    (found,) = (n for n in made.tree.of(ast.Call) if ast.unparse(n) == call)
    return Results(made.roles, found)


def test_calls_of_unknown_methods() -> None:
    unknown = results("return x", "unknown(obs)")
    assert unknown.called == (None, None)
    assert unknown.has_rows(None) and unknown.is_tensor(None)
    assert not results("return x", "unknown()").has_rows(None)


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("return x", True),
        ("return self.critic(x)", True),
        ("return x.sum(-1)", True),
        ("return torch.sum(x, -1)", True),
        ("z = x * 2\nreturn z", True),
        ("return x.sum()", False),
        ("return torch.sum(x)", False),
        ("return x.mean() + 1", False),
        ("return x.sum().item()", False),
        ("return self.scale", False),
        ("return 1.0", False),
    ],
)
def test_rows(body: str, rows: bool) -> None:
    assert results(body).has_rows(None) is rows


@pytest.mark.parametrize(
    ("body", "tensor"),
    [
        ("return x", True),
        ("return self.critic(x)", True),
        ("return make(x)", True),
        ("return 1.0", False),
        ("return x, x", False),
        ("return float(x)", False),
        ("return Agent()", False),
        ("return x.item()", False),
        ("return Categorical(logits=x)", False),
        ("z = Categorical(logits=x)\nreturn z", False),
        ("return np.zeros(2)", False),
    ],
)
def test_tensors(body: str, tensor: bool) -> None:
    assert results(body).is_tensor(None) is tensor


@pytest.mark.parametrize(("place", "tensor"), [(0, True), (1, False)])
def test_tensors_among_others(place: int, tensor: bool) -> None:
    assert results("return x, Categorical(logits=x)").is_tensor(place, 2) is tensor
    assert results("return x, Categorical(logits=x), 1").is_tensor(place, 2)  # another number of results: unknown


@pytest.mark.parametrize(
    ("body", "place", "distribution"),
    [
        ("return Categorical(logits=x)", None, True),
        ("d = torch.distributions.Normal(x, 1.0)\nreturn d", None, True),
        ("if y is None:\n    return Categorical(logits=x)\nreturn Categorical(probs=x)", None, True),
        ("return Categorical(logits=x), self.critic(x)", 0, True),
        ("return Categorical(logits=x), self.critic(x)", 1, False),
        ("return Categorical(logits=x), self.critic(x)", None, False),
        ("if y is None:\n    return x\nreturn Categorical(probs=x)", None, False),
        ("d = Categorical(logits=x)\nfor d in y:\n    pass\nreturn d", None, False),
        ("return torch.distributions.kl_divergence(x, y)", None, False),
        ("return y", None, False),
        ("pass", None, False),
    ],
)
def test_a_distribution(body: str, place: int | None, distribution: bool) -> None:
    assert results(body).is_distribution(place, 2) is distribution
    assert not results(body, call="agent.unknown(obs)").is_distribution(place, 2)


@pytest.mark.parametrize(
    ("code", "function"),
    [
        ("criterion = nn.MSELoss()\ncriterion(a, b)", "mse_loss"),
        ("criterion: object = 3\ncriterion = nn.SmoothL1Loss(beta=2.0)\ncriterion(a, b)", ""),
        (
            "class A:\n    def __init__(self):\n        self.loss = nn.CrossEntropyLoss()\n\nA().loss(a, b)",
            "cross_entropy",
        ),
        ("loss, other = nn.HuberLoss(), 3\nloss(a, b)", "huber_loss"),
        ("criterion = nn.MSELoss()\ncriterion = nn.MSELoss(reduction='sum')\ncriterion(a, b)", "mse_loss"),
        ("criterion = nn.MSELoss()\ncriterion = nn.L1Loss()\ncriterion(a, b)", ""),
        ("criterion = MSELoss()\ncriterion(a, b)", ""),
        ("criterion = nn.KLDivLoss()\ncriterion(a, b)", "kl_div"),
        ("criterion = nn.GaussianNLLLoss()\ncriterion(a, b)", ""),
        ("criterion = nn.MSELoss()\ndef f(criterion):\n    criterion(a, b)", ""),
        ("criterion = nn.MSELoss()\nfor criterion in many:\n    criterion(a, b)", ""),
        ("class A:\n    def loss(self, a, b): ...\n\nb.loss = nn.MSELoss()\nA().loss(a, b)", ""),
        ("criterion = nn.Linear(2, 1)\ncriterion(a)", ""),
    ],
)
def test_losses_made_by_the_script(code: str, function: str) -> None:
    tree = Tree(f"from torch import nn\n{code}\n")
    (call,) = (n for n in tree.of(ast.Call) if ast.unparse(n).endswith(("(a, b)", "(a)")))
    assert loss_called(tree, call.func) == (f"torch.nn.functional.{function}" if function else "")


@pytest.mark.parametrize(
    ("kept", "more", "known"),
    [
        ("self.critic_net = Agent(envs).to(device)", "", True),
        ("self.critic_net = Agent(envs)", "keeper.critic_net = None", False),
        ("self.critic_net = make()", "", False),
        ("self.critic_net = [Agent(envs)]", "", False),
        ("self.critic_net = envs", "", False),
        ("self.other = Agent(envs)", "", False),
        ("self.critic_net = Keeper", "", False),
    ],
)
def test_a_network_that_an_object_keeps(kept: str, more: str, known: bool) -> None:
    keeper = f"class Keeper:\n    def __init__(self):\n        {kept}\n\n\n"
    made = state(functions=keeper, before_loop=f"keeper = Keeper()\n{more}\nseen = keeper.critic_net(next_obs)")
    (call,) = (n for n in made.tree.of(ast.Call) if ast.unparse(n.func) == "keeper.critic_net")
    cls = kept_network(made.roles, call.func)
    assert (cls is not None and cls.name == "Agent") == known


DRAWN = "probs = Categorical(logits=self.actor(x))\naction = probs.sample() if y is None else y\n"
FLOATS = [
    "return self.critic(x)",
    "return self.critic(x).squeeze(-1) * 2",
    "z = self.actor(x)\nz = z - z.mean()\nreturn torch.exp(z)",
    "z = self.critic(x)\nz += y\nreturn -z[0]",
    f"{DRAWN}return probs.log_prob(action).sum()",
    "return self.get_value(x)",
    "return x.float()",
    "return torch.cat([self.critic(x), y])",
    "x = self.actor(x / 255)\nx = self.critic(x)\nreturn x",
    f"{DRAWN}_, logprob, _, value = self.get_action_and_value(x)\nreturn value, logprob",
]
OTHERS = [
    "return x",
    "return y",
    "return Categorical(logits=self.actor(x)).sample()",
    f"{DRAWN}return action",
    f"{DRAWN}return action.clone()",
    "return self.actor(x).argmax(-1)",
    "return self.actor(x).long()",
    "return self.actor(x) > 0",
    "return torch.multinomial(self.actor(x), 1)",
    "return self.get_action_and_value(x)",
    "return self.same(x)",
    "return torch.cat([x, y])",
    "if y is None:\n    x = self.critic(x)\nreturn x",
    "x = x.view(-1)\nreturn x",
    "x = x.clone()\nx = x * 2\nreturn x",
    "if y is None:\n    return x\nx = self.critic(x)\nreturn x",
    "drawn, *_ = self.get_action_and_value(x)\nreturn drawn",
    "drawn, _, _, _ = self.get_action_and_value(x)\nreturn drawn",
    "with torch.no_grad() as z:\n    pass\nreturn z",
]


@pytest.mark.parametrize(("body", "floating"), [*((b, True) for b in FLOATS), *((b, False) for b in OTHERS)])
def test_results_that_are_floats(body: str, floating: bool) -> None:
    assert results(body).is_floating(None) is floating


def test_the_place_of_a_result_of_floats() -> None:
    """An action, its log-probability, and the value."""
    found = results(f"{DRAWN}return action, probs.log_prob(action), self.critic(x)")
    assert [found.is_floating(place, 3) for place in range(3)] == [False, True, True]
    assert [found.is_floating(place, None) for place in range(3)] == [False, True, True]
    assert not found.is_floating(None) and not found.is_floating(1, 2)
    assert results("return x", "agent.critic(obs)").is_floating(None)
    assert not results("return x", "unknown.same(obs)").is_floating(None)
