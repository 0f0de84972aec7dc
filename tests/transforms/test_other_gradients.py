"""Gradients computed outside of the minibatches, and parameters that are clipped."""

from __future__ import annotations

import ast

import pytest
from scripts import PARTS
from states import more, state

from transformer.transforms.compiling.other_gradients import held_by, outside

PENALTY = (
    f"{PARTS['optimizer']}\n"
    "penalty = torch.tensor(0.5, requires_grad=True)\n"
    "penalty_optimizer = optim.Adam([penalty], lr=0.1)"
)
LATE = {"optimize": "loss.backward()\noptimizer.step()\noptimizer.zero_grad()"}
"""An update that clears gradients for the next minibatch."""
STEPS = "penalty_optimizer.zero_grad()\n{}.backward()\npenalty_optimizer.step()"


def found(below: str, optimizer: str = PENALTY, functions: str = "", **parts: str) -> str | None:
    """What uses gradients in the training loop, outside of the update."""
    made = state(optimizer=optimizer, flatten=more("flatten", below), functions=functions, **parts)
    roles = made.roles
    update = ast.FunctionDef(name="update", args=ast.arguments(), body=[roles.phases.learn])
    node = outside(roles, [update], next(o for o in roles.optimizers if o.name == "optimizer"))
    return ast.unparse(node) if node is not None else None


APART = {
    "nothing": "pass",
    "a loss of its own": STEPS.format("(-penalty * (float(rewards.mean()) - 0.5))"),
    "of numbers": STEPS.format("(penalty * np.mean(b_inds0) * len(infos) * int(x))"),
    "of options": STEPS.format("(penalty * args.gamma)"),
    "of values without gradients": STEPS.format("(penalty * rewards.detach().mean())"),
    "through torch": STEPS.format("torch.exp(penalty)"),
    "through a name": "price = penalty * 2\n" + STEPS.format("(price + 1)"),
    "through a method": STEPS.format("penalty.exp()"),
}
UNKNOWN = {
    "the network": STEPS.format("(penalty * agent.get_value(obs).mean())"),
    "a call of unknown code": STEPS.format("(penalty * make(rewards))"),
    "a name that nobody binds": STEPS.format("(penalty * unknown)"),
    "a name that a loop binds": "for factor in (1, 2):\n    pass\n" + STEPS.format("(penalty * factor)"),
}
"""Passes that may leave gradients in the network."""
BESIDE = {
    "gradients": "print(penalty.grad)",
    "no optimizer": "(penalty * 2).backward()",
    "another step": "(penalty * 2).backward()\nscaler.step(optimizer)",
    "nothing cleared": "(penalty * 2).backward()\npenalty_optimizer.step()",
    "a minibatch between": STEPS.format("(penalty * agent.get_value(obs).mean())").replace("\n", "\nupdate()\n", 1),
    "the optimizer itself": "optimizer.zero_grad()\n(penalty * 2).backward()\noptimizer.step()",
}


@pytest.mark.parametrize("below", [*APART.values(), *UNKNOWN.values()], ids=[*APART, *UNKNOWN])
def test_passes_that_leave_other_gradients_alone(below: str) -> None:
    assert found(below) is None


@pytest.mark.parametrize("below", BESIDE.values(), ids=BESIDE)
def test_passes_that_may_add_to_other_gradients(below: str) -> None:
    assert found(below) is not None


@pytest.mark.parametrize("below", UNKNOWN.values(), ids=UNKNOWN)
def test_passes_that_may_add_to_an_update_that_clears_late(below: str) -> None:
    assert found(below, **LATE) is not None


def test_passes_whose_gradients_the_update_clips() -> None:
    clips = PARTS["optimize"].replace("agent.parameters()", "[penalty]")
    assert found(UNKNOWN["the network"], optimize=clips) is not None


def test_optimizers_with_unknown_parameters() -> None:
    unknown = PENALTY.replace("optim.Adam([penalty], lr=0.1)", "optim.Adam(**{'params': [penalty]}, lr=0.1)")
    assert found(STEPS.format("(penalty * 2)"), unknown, **LATE) is not None


def test_code_above_the_loop_does_not_count() -> None:
    assert found("pass", before_loop="(penalty * 2).backward()") is None
    below = "def look():\n    print(agent.critic[0].weight.grad)\n\n\n"
    assert found("look()", functions=below) is not None


@pytest.mark.parametrize(
    ("clipped", "held"),
    [
        ("agent.parameters()", True),
        ("agent.actor.parameters()", True),
        ("list(agent.parameters())", True),
        ("[p for p in agent.parameters()]", True),
        ("[p for p in agent.parameters() if p.grad is not None]", True),
        ("filter(lambda p: p.requires_grad, agent.parameters())", True),
        ("filter(big, agent.parameters())", True),
        ("[*agent.actor.parameters(), *agent.critic.parameters()]", True),
        ("list(agent.actor.parameters()) + list(agent.critic.parameters())", True),
        ("itertools.chain(agent.actor.parameters(), agent.critic.parameters())", True),
        ("optimizer.param_groups[0]['params']", True),
        ("params", True),
        ("other.parameters()", False),
        ("agent.parameters() + other.parameters()", False),
        ("[other.weight]", False),
        ("unknown", False),
        ("[]", False),
    ],
)
def test_clipped_parameters_that_the_optimizer_holds(clipped: str, held: bool) -> None:
    made = state(third_party="import itertools", before_loop=f"params = agent.parameters()\nseen = {clipped}")
    (value,) = (s.value for s in made.tree.of(ast.Assign) if ast.unparse(s.targets[0]) == "seen")
    assert held_by(made.roles, value, made.roles.optimizers) is held


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ("agent.parameters()", True),
        ("[p for p in agent.parameters() if p.requires_grad]", True),
        ("filter(lambda p: p.requires_grad, agent.parameters())", True),
        ("[{'params': agent.parameters(), 'lr': 0.1}]", True),
        ("[p for _, p in agent.named_parameters()]", True),
        ("[p for p in agent.parameters() if p.ndim > 1]", False),
        ("filter(big, agent.parameters())", False),
        ("agent.actor.parameters()", False),
    ],
)
def test_parameters_given_to_the_optimizer(given: str, held: bool) -> None:
    made = state(
        optimizer=f"optimizer = optim.Adam({given}, lr=args.learning_rate)", before_loop="seen = agent.parameters()"
    )
    (value,) = (s.value for s in made.tree.of(ast.Assign) if ast.unparse(s.targets[0]) == "seen")
    assert held_by(made.roles, value, made.roles.optimizers) is held


def test_a_networks_own_sample_may_have_a_gradient() -> None:
    functions = "class Policy(nn.Module):\n    def sample(self, x):\n        return x * self.scale\n\n\n"
    below = STEPS.format("(agent.sample(penalty))")
    assert found(below, functions=functions, **LATE) is not None
