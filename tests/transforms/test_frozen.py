"""Networks that are frozen while gradients of another network's loss are computed."""

from pathlib import Path

import pytest
from agent_script import FREEZE, THAW, agent_script
from cases import converted_by, turn
from compiled import compiled_check

from transformer import Applied, Skipped, convert


def one_graph(changes: dict[str, str]) -> tuple[Applied | Skipped, str]:
    step = turn("one-graph", agent_script(changes), ("inline", "tensor-lr"))
    assert isinstance(step.outcome, (Applied, Skipped))
    return step.outcome, step.after


CRITIC_ADAM = "        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)\n"
THIRD = {
    CRITIC_ADAM: f"{CRITIC_ADAM}        self.log_scale = torch.zeros(1, requires_grad=True)\n"
    "        self.scale_optimizer = torch.optim.Adam([self.log_scale], lr=1e-3)\n",
    "<thaw>": f"{THAW}\n        scale_loss = (self.log_scale.exp() * reward).mean()\n"
    "        self.scale_optimizer.zero_grad()\n        scale_loss.backward()\n        self.scale_optimizer.step()",
}
"""A third optimizer's pass follows: the network is frozen and thawed within one function."""
MOVED = """
        for x, y in zip(self.critic.parameters(), self.critic_target.parameters()):
            y.data.copy_(0.01 * x.data + 0.99 * y.data)"""
MADE, LEARNS = "    agent = Agent(3, 1)\n", "            agent.learn(replay)\n"
TARGET = "        self.critic_target = copy.deepcopy(self.critic)\n"


@pytest.mark.parametrize(
    ("changes", "hidden"),
    [
        ({}, 1),
        ({"<freeze>": "self.critic.requires_grad_(False)", "<thaw>": "self.critic.requires_grad_()"}, 1),
        ({"<freeze>": FREEZE.replace("requires_grad = False", "requires_grad_(False)")}, 1),
        ({"<thaw>": THAW + MOVED}, 1),
        ({TARGET: f"{TARGET}        {FREEZE.replace('critic', 'critic_target')}\n"}, 1),
        (THIRD, 2),
    ],
    ids=["loops", "methods", "a method each", "targets move", "frozen targets", "a third pass"],
)
def test_a_frozen_network(changes: dict[str, str], hidden: int) -> None:
    outcome, source = one_graph(changes)
    assert isinstance(outcome, Applied), outcome
    assert source.count("    if not torch.compiler.is_compiling():\n        for p in agent.critic") == hidden or (
        source.count("    if not torch.compiler.is_compiling():\n        agent.critic.requires_grad_(") == hidden
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"<thaw>": ""},  # it stays frozen
        {"<thaw>": THAW.replace("critic", "actor")},
        {"<thaw>": "if action.sum() > 0:\n            " + THAW.replace("\n", "\n    ")},
        {"Adam(self.actor.parameters()": "Adam([*self.actor.parameters(), *self.critic.parameters()]"},
        {"<freeze>": FREEZE + "\n        if obs.sum() > 100:\n            return"},
        {"<freeze>": FREEZE + "\n        kept = copy.deepcopy(self.critic)"},
        {"<freeze>": FREEZE + "\n        print(self.critic.body[0].weight)"},
        {"<freeze>": FREEZE + "\n        print(actor_loss.grad_fn if step else None)"},
        {"<thaw>": THAW + "\n        print(sum(p.numel() for p in self.critic.parameters() if p.requires_grad))"},
        {"<thaw>": THAW + "\n        print(p)"},
        {"class Net(": "BODY = nn.Linear(32, 32)\n\n\nclass Net(", "nn.ReLU(), nn": "nn.ReLU(), BODY, nn"},
        {MADE: f"{MADE}    agent.critic.body[0].weight.requires_grad = False\n"},
        {MADE: f"{MADE}    agent.actor.body = agent.critic.body\n"},
        {CRITIC_ADAM: f"        self.actor.body[0] = self.critic.body[0]\n{CRITIC_ADAM}"},
        {CRITIC_ADAM: f"        a, c = self.actor, self.critic\n        a.body = c.body\n{CRITIC_ADAM}"},
        {CRITIC_ADAM: f"        setattr(self.actor, 'bo' + 'dy', self.critic.body)\n{CRITIC_ADAM}"},
        {CRITIC_ADAM: f"        self.actor.load_state_dict(self.critic.state_dict(), assign=True)\n{CRITIC_ADAM}"},
        {CRITIC_ADAM: f"        tie(self.actor, self.critic)\n{CRITIC_ADAM}",
         "class Walk": "def tie(a, b):\n    a.body = b.body\n\n\nclass Walk"},
        {"class Net(": "@functools.lru_cache\ndef middle():\n    return nn.Linear(32, 32)\n\n\nclass Net(",
         "nn.ReLU(), nn": "nn.ReLU(), middle(), nn", "import copy\n": "import copy\nimport functools\n"},
        {"class Net(": "KEPT = {}\n\n\nclass Net(",
         "nn.ReLU(), nn": "nn.ReLU(), KEPT.setdefault('m', nn.Linear(32, 32)), nn"},
        {"class Net(nn.Module):\n": "class Net(nn.Module):\n    middle = nn.Linear(32, 32)\n\n",
         "nn.ReLU(), nn": "nn.ReLU(), self.middle, nn"},
        {"size_out, squash)": "size_out, squash, middle=nn.Linear(32, 32))", "nn.ReLU(), nn": "nn.ReLU(), middle, nn"},
        {"        x = self.body(x)\n": "        if not getattr(self.body[0].weight, 'requires' + '_grad'):\n"
         "            x = 2 * x\n        x = self.body(x)\n"},
        {"self.actor_optimizer.zero_grad()\n": "print(actor_loss)\n        self.actor_optimizer.zero_grad()\n"},
        {"    def forward(self, x):\n": "    def limit(self):\n        for p in self.parameters():\n"
         "            p.clamp_(-1, 1)\n\n    def forward(self, x):\n",
         "<freeze>": FREEZE + "\n        self.critic.limit()"},
        {LEARNS: f"{LEARNS}            agent.critic.requires_grad_(step < 200)\n"},
    ],
)  # fmt: skip
def test_a_network_whose_freezing_may_have_an_effect(changes: dict[str, str]) -> None:
    outcome, _ = one_graph(changes)
    assert isinstance(outcome, Skipped), changes


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, THIRD], ids=["two passes", "three"])
def test_a_frozen_network_compiled(changes: dict[str, str], tmp_path: Path) -> None:
    source = agent_script(changes)
    assert compiled_check(tmp_path, source, convert(source).source)["status"] == "equal"


@pytest.mark.parametrize(
    ("made", "held"),
    [
        ("torch.zeros(1, requires_grad=True)", False),
        ("torch.tensor(-2.0, requires_grad=True)", False),
        ("torch.tensor([-2.0], dtype=float, requires_grad=True)", True),
        ("torch.tensor(np.log(0.1), requires_grad=True)", True),
        ("torch.tensor(np.log(0.1), dtype=torch.float32, requires_grad=True)", False),
        ("torch.tensor(-2.0, dtype=torch.float64, requires_grad=True)", True),
        ("nn.Parameter(torch.tensor(np.log(0.1)))", True),
    ],
)
def test_a_trained_number_in_float64(made: str, held: bool) -> None:
    """torch.compile takes it for a Python number and never trains it (seen with torch 2.13)."""
    changes = {key: text.replace("torch.zeros(1, requires_grad=True)", made) for key, text in THIRD.items()}
    conversion = converted_by(agent_script(changes), "inline", "tensor-lr", "one-graph", "compile")
    assert any("trains a number in float64" in str(s.outcome) for s in conversion.steps) == held
    assert ("update = torch.compile(update" in conversion.source) != held
