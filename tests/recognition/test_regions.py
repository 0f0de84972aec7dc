"""The update regions of an off-policy training loop: which statements belong to one update."""

from __future__ import annotations

import ast
import re
import textwrap

import pytest
from replay_script import PARTS, replay

from transformer.conversion.first_state import read, recognise
from transformer.recognition.refusals import Unconvertible


def regions(**parts: str) -> list[str]:
    """The statements of each region, as text."""
    made = recognise(read(replay(**parts), 120))
    assert made.roles.kind == "off-policy"
    return ["\n".join(ast.unparse(s) for s in region.statements) for region in made.roles.phases.regions]


def learned(more: str) -> str:
    return textwrap.dedent(PARTS["learn"]) + more


def test_the_region_of_the_script() -> None:
    (region,) = regions()
    assert region.startswith("with torch.no_grad():\n    best")
    assert region.endswith("optimizer.step()")


def test_clearing_below_the_step_belongs_to_the_region() -> None:
    (region,) = regions(learn=learned("optimizer.zero_grad()\nprint(loss)\n"))
    assert region.endswith("optimizer.step()\noptimizer.zero_grad()")


@pytest.mark.parametrize("between", ["if global_step % 2 == 0:\n    <other>", "for _ in range(2):\n    <other>"])
def test_another_region_parts_two_steps(between: str) -> None:
    other = "optimizer.zero_grad()\nq_network(b_obs).mean().backward()\noptimizer.step()"
    inner = between.replace("<other>", other.replace("\n", "\n    "))
    found = regions(
        learn=learned(f"{inner}\noptimizer.zero_grad()\nq_network(b_obs).sum().backward()\noptimizer.step()")
    )
    assert len(found) == 3
    assert [text.count("optimizer.step()") for text in found] == [1, 1, 1]


def test_a_step_outside_of_the_loop() -> None:
    steps = "optimizer.zero_grad()\nq_network(torch.zeros(1, 2)).mean().backward()\noptimizer.step()"
    assert len(regions(make=textwrap.dedent(PARTS["make"]) + steps)) == 1


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("found = envs.step(actions)", True),
        ("for env in [envs]:\n        found = env.step(actions)", True),
        ("for _ in range(9):\n        found = envs.step(actions)", False),
    ],
)
def test_an_environment_that_a_function_steps(body: str, known: bool) -> None:
    step = f"def step_all(envs, actions):\n    {body}\n    return found\n"
    source = replay(network=textwrap.dedent(PARTS["network"]) + "\n" + step)
    called = source.replace("infos = envs.step(actions)", "infos = step_all(envs, actions)")
    assert called != source
    if known:
        roles = recognise(read(called, 120)).roles
        assert (roles.kind, roles.phases.replay) == ("off-policy", "rb")
    else:
        with pytest.raises(Unconvertible):
            recognise(read(called, 120))


@pytest.mark.parametrize("local", [False, True])
def test_steps_that_wait_in_a_queue(local: bool) -> None:
    store = """
def store():
    while len(queue) > 2:
        obs, _, actions, rewards, _ = queue[0]
        rb.add(obs, queue[-1][1], actions, sum(row[3] for row in queue), queue[-1][4])
        queue.pop(0)
"""
    network, made = textwrap.dedent(PARTS["network"]), textwrap.dedent(PARTS["make"]) + "\nqueue = []"
    source = replay(make=made + store) if local else replay(network=network + store, make=made)
    direct = "rb.add(obs, next_obs, actions, rewards, dones)"
    assert direct in source
    source = source.replace(direct, "queue.append((obs, next_obs, actions, rewards, dones))\n        store()")
    roles = recognise(read(source, 120)).roles
    assert (roles.kind, roles.phases.replay) == ("off-policy", "rb")


@pytest.mark.parametrize(
    ("drawing", "known"),
    [
        ("for i in np.random.randint(0, len(kept), size=8):\n    row = kept[i]\n    rows.append(row)", True),
        ("for row in random.sample(kept, 8):\n    part = row\n    rows.append(part)", True),
        ("for i in range(8):\n    row = kept[i]\n    others.append(row)\n    rows.append(steps)", False),
    ],
)
def test_steps_that_are_collected_one_by_one(drawing: str, known: bool) -> None:
    made = textwrap.dedent(PARTS["make"]) + "\nsteps = [np.zeros(2)] * 5"
    sample = f"rows, others = [], []\n{drawing}\nb_obs, b_next_obs, b_actions, b_rewards, b_dones = stacked(rows)"
    stacked = "\n\ndef stacked(rows):\n    return [torch.tensor(np.stack(column)) for column in zip(*rows)]\n"
    source = replay(make=made.replace("rb = Replay()", "kept = []"), sample=sample).replace("rb.add(", "kept.append([")
    source = source.replace(
        "kept.append([obs, next_obs, actions, rewards, dones)", "kept.append([obs, next_obs, actions, rewards, dones])"
    )
    source = source.replace("class Replay", f"{stacked}\nclass Replay".lstrip())
    if known:
        roles = recognise(read(source, 120)).roles
        assert (roles.kind, roles.phases.replay) == ("off-policy", "kept")
    else:
        with pytest.raises(Unconvertible):
            recognise(read(source, 120))


LEARNER = """
class Learner:
    def __init__(self):
        self.memory = Replay()
        self.q_network = QNetwork()
        self.target_network = QNetwork()
        self.optimizer = optim.Adam(self.q_network.parameters(), lr=1e-2)
        self.count = 8


"""


def keeping_learner(keeping: str) -> str:
    """The script with a learner that stores the results of the environment's step."""
    text = replay(sample="b_obs, b_next_obs, b_actions, b_rewards, b_dones = learner.memory.sample(learner.count)")
    for name in ("q_network", "target_network", "optimizer"):
        start, end = text.split('if __name__ == "__main__":')
        text = start + 'if __name__ == "__main__":' + re.sub(rf"\b{name}\b", f"learner.{name}", end)
    text = re.sub(r"    learner\.\w+ = .*\n", "", text).replace("envs, rb = Envs(), Replay()", "envs = Envs()")
    text = text.replace("    start_time =", "    learner = Learner()\n    start_time =")
    text = text.replace('if __name__ == "__main__":', LEARNER + 'if __name__ == "__main__":')
    return text.replace(
        "rb.add(obs, next_obs, actions, rewards, dones)",
        keeping + "obs, next_obs, actions, rewards, dones" + ")" * keeping.count("("),
    )


@pytest.mark.parametrize(
    ("keeping", "first"),
    [
        ("learner.memory.add(", "with torch.no_grad():\n    best"),
        ("learner.memory.rows.append((", "with torch.no_grad():\n    best"),
        ("learner.keep(", "loss.backward()"),  # the object stores steps itself: any call of it may
    ],
)
def test_an_object_that_learns_from_its_own_steps(keeping: str, first: str) -> None:
    made = recognise(read(keeping_learner(keeping), 120))
    (region,) = made.roles.phases.regions
    assert "\n".join(ast.unparse(s) for s in region.statements).startswith(first)


@pytest.mark.parametrize("keeping", ["learner.memory.add(", "learner.keep("])
def test_clearing_below_the_step_of_an_object_that_stores_steps(keeping: str) -> None:
    below = "learner.optimizer.step()\n            learner.optimizer.zero_grad()"
    text = keeping_learner(keeping).replace("learner.optimizer.step()", below)
    (region,) = recognise(read(text, 120)).roles.phases.regions
    assert ast.unparse(region.statements[-1]) == "learner.optimizer.zero_grad()"
    assert len(region.steps) == 1


@pytest.mark.parametrize(
    ("keeping", "first"),
    [
        ("trainer.learner.memory.add(", "with torch.no_grad():\n    best"),
        ("trainer.learner.memory.rows.append((", "with torch.no_grad():\n    best"),
        ("trainer.keep(", "loss.backward()"),
    ],
)
def test_an_object_whose_learner_keeps_steps(keeping: str, first: str) -> None:
    """What learns beside the memory, in one object of another, is no memory."""
    text = keeping_learner(keeping.replace("trainer.learner.", "learner."))
    text = re.sub(r"(?<!trainer\.)\blearner\.", "trainer.learner.", text).replace(
        "learner = Learner()", "trainer = Trainer()"
    )
    holder = "class Trainer:\n    def __init__(self):\n        self.learner = Learner()\n\n\n"
    made = recognise(read(text.replace('if __name__ == "__main__":', holder + 'if __name__ == "__main__":'), 120))
    (region,) = made.roles.phases.regions
    assert "\n".join(ast.unparse(s) for s in region.statements).startswith(first)
