"""A network that is given a part it has already: compiled code would take the one parameter for two."""

import pytest
from cases import converted_by
from scripts import script

from transformer import Applied, Skipped

PLAIN = {"metrics": "", "report": "print(iteration, global_step)"}
MIDWAY = "if iteration == 2:\n    {}"
HELPER = """
def tie(network, other):
    network[0].weight = other[0].weight


def put(owner, name, value):
    setattr(owner, name, value)


KEPT = []


"""
TIES = {
    "a weight": "agent.actor[0].weight = agent.critic[0].weight",
    "a layer": "agent.actor[0] = agent.critic[0]",
    "a network": "agent.actor = agent.critic",
    "both at once": "agent.actor, agent.critic = agent.critic, agent.critic",
    "by a function": "tie(agent.actor, agent.critic)",
    "registered": "agent.actor[0].register_parameter('weight', agent.critic[0].weight)",
    "added": "agent.add_module('more', agent.critic)",
    "appended": "agent.actor.append(agent.critic[0])",
    "in the dictionary": "agent.actor[0]._parameters['weight'] = agent.critic[0].weight",
    "in a variable": "weight = agent.critic[0].weight\n    agent.actor[0].weight = weight",
    "in a list": "agent.layers = [agent.critic[0], agent.actor[0]]",
    "of a list": "KEPT.append(agent.critic[0].weight)\n    agent.actor[0].weight = KEPT[0]",
}
BY_NAME = {
    "a weight": "setattr(agent.actor[0], 'weight', agent.critic[0].weight)",
    "a weight, by a function": "put(agent.actor[0], 'weight', agent.critic[0].weight)",
    "a layer": "setattr(agent.actor, '0', agent.critic[0])",
    "by object": "object.__setattr__(agent.actor[0], 'weight', agent.critic[0].weight)",
}
OTHERS = {
    "a gradient": "agent.actor[0].weight.grad = torch.zeros(8, 2)",
    "values": "agent.actor[0].weight.data = torch.zeros(8, 2)",
    "a number": "agent.count = 3",
    "a list of numbers": "agent.sizes = [8, 8]",
    "a new layer": "agent.more = nn.Linear(2, 2)",
    "a computed tensor": "agent.scale = torch.exp(torch.zeros(2))",
    "something else's": "args.network = agent.critic",
    "a list's": "KEPT.append(agent.critic)",
    "a dictionary's": "seen = {}\n    seen['agent'] = agent",
}


def update_of(line: str) -> str:
    parts = {**PLAIN, "functions": HELPER, "head": MIDWAY.format(line)}
    conversion = converted_by(script(parts), "update", "compile")
    (outcome,) = (step.outcome for step in conversion.steps if step.transform.name == "compile")
    if isinstance(outcome, Skipped):
        return outcome.reason
    assert isinstance(outcome, Applied)
    return "compiled" if "update = torch.compile(" in conversion.source else " ".join(outcome.notes)


@pytest.mark.parametrize("line", TIES.values(), ids=TIES)
def test_its_update_stays_eager(line: str) -> None:
    assert "may give a network a part that it has, and no guard notices" in update_of(line)


@pytest.mark.parametrize("line", BY_NAME.values(), ids=BY_NAME)
def test_by_a_name(line: str) -> None:
    assert update_of(line) != "compiled"


@pytest.mark.parametrize("line", OTHERS.values(), ids=OTHERS)
def test_other_changes(line: str) -> None:
    assert update_of(line) == "compiled"


def test_above_the_training() -> None:
    tied = {**PLAIN, "before_loop": "agent.actor[0].weight = agent.critic[0].weight"}
    assert "update = torch.compile(" in converted_by(script(tied), "update", "compile").source
