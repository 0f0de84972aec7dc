"""An update may read what was computed outside of it with a graph."""

from pathlib import Path

import pytest
from agent_script import THAW, agent_script
from cases import turn
from compiled import compiled_check
from scripts import PARTS, edited, script

from transformer import Applied, Skipped, convert

CRITIC_ADAM = "        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)\n"
ACTOR_LOSS = "actor_loss = -self.critic(torch.cat([obs, self.actor(obs)], 1)).mean()"
SCALED = {
    CRITIC_ADAM: f"{CRITIC_ADAM}        self.log_scale = torch.zeros(1, requires_grad=True)\n"
    "        self.scale_optimizer = torch.optim.Adam([self.log_scale], lr=1e-3)\n"
    "        self.scale = 1.0\n",
    ACTOR_LOSS: ACTOR_LOSS.replace("-self", "-self.scale * self"),
    "<thaw>": f"{THAW}\n        scale_loss = (self.log_scale.exp() * reward).mean()\n"
    "        self.scale_optimizer.zero_grad()\n        scale_loss.backward()\n        self.scale_optimizer.step()\n"
    "        self.scale = self.log_scale.exp()",
}
"""A trained temperature: through `scale`, the actor's loss would go back to log_scale."""
READ = "scale = agent.scale.detach() if torch.is_tensor(agent.scale) else agent.scale"
MAKING = "        self.scale_optimizer = torch.optim.Adam([self.log_scale], lr=1e-3)\n        self.scale = 1.0\n"


def one_graph(*changes: tuple[str, str]) -> tuple[Applied | Skipped, str]:
    source = agent_script(SCALED)
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    step = turn("one-graph", source, ("inline", "tensor-lr"))
    assert isinstance(step.outcome, (Applied, Skipped))
    return step.outcome, step.after


def test_it_is_detached_where_its_gradients_are_cleared_unused() -> None:
    outcome, source = one_graph()
    assert isinstance(outcome, Applied), outcome
    assert source.count(READ) == 1
    assert "actor_loss = -scale * agent.critic(" in source


@pytest.mark.parametrize(
    "summed",
    ["sum(s * {} for s in [self.scale])", "sum([s * {} for s in (self.scale,)])"],
)
def test_a_variable_of_an_inner_scope_is_not_read_from_outside(summed: str) -> None:
    loss = SCALED[ACTOR_LOSS].partition(" = ")[2]
    outcome, source = one_graph((loss, "-" + summed.format(loss.partition(" * ")[2])))
    assert isinstance(outcome, Applied), outcome
    assert READ in source and "s.detach()" not in source and "s * agent.critic(" in source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.scale = self.log_scale.exp()", "self.scale = self.log_scale.exp().item()"),
        ("self.scale = self.log_scale.exp()", "self.scale = self.log_scale.detach().exp()"),
        (
            "        self.scale = self.log_scale.exp()",
            "        with torch.no_grad():\n            self.scale = self.log_scale.exp()",
        ),
        ("self.scale = self.log_scale.exp()", "self.scale = torch.tensor(2.0)"),
    ],
    ids=["a number", "detached", "not recorded", "made of numbers"],
)
def test_a_value_without_a_graph_is_read_as_it_is(old: str, new: str) -> None:
    outcome, source = one_graph((old, new))
    assert isinstance(outcome, Applied), outcome
    assert READ not in source


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("self.scale = self.log_scale.exp()", "self.scale = self.actor(obs).mean()", "computed with a graph outside"),
        ("Adam(self.actor.parameters()", "Adam([*self.actor.parameters(), self.log_scale]", ""),
        ("        self.scale_optimizer.zero_grad()\n", "        print(self.log_scale.grad)\n", "gradients"),
        ("        self.scale_optimizer.zero_grad()\n        scale_loss", "        scale_loss", "must run zero_grad()"),
    ],
    ids=["of the actor", "one optimizer of both", "looked at", "never cleared"],
)  # fmt: skip
def test_it_is_not_detached_elsewhere(old: str, new: str, reason: str) -> None:
    outcome, source = one_graph((old, new))
    assert READ not in source
    assert isinstance(outcome, Skipped), source[-1500:]
    assert reason in outcome.reason


@pytest.mark.parametrize("read", ["agent.last", "agent.last[0]"])
def test_what_the_update_itself_sets_is_not_read_from_outside(read: str) -> None:
    """It would be read above the call that sets it."""
    keeps = edited("agent", "Categorical(logits=self.actor(x))", "Categorical(logits=self.kept(x))")
    keeps += "\n\n    def kept(self, x):\n        self.last = self.actor(x)\n        return self.last"
    shows = f"seen = {read}.mean().item()\n{PARTS['optimize']}\nprint(seen)"
    step = turn("one-graph", script({"agent": keeps, "optimize": shows}), ("tensor-lr", "update"))
    assert isinstance(step.outcome, Skipped), step.outcome
    assert "sets .last, and line" in step.outcome.reason


@pytest.mark.slow
def test_it_is_the_same_compiled(tmp_path: Path) -> None:
    source = agent_script(SCALED)
    assert compiled_check(tmp_path, source, convert(source).source)["status"] == "equal"
