from dataclasses import replace

import pytest
from cases import NoOp, turn
from scripts import PARTS, edited, script

from transformer import Applied

CONVOLUTIONS = {
    "agent": PARTS["agent"].replace(
        "        self.critic",
        "        self.images = nn.Sequential(nn.Conv2d(1, 4, (1, 2)), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))\n"
        "        self.critic",
        1,
    ),
    "flatten": edited("flatten", "obs.reshape((-1, 2))", "obs.reshape((-1, 1, 1, 2))"),
}
OF_THE_WEIGHTS = """\
    agent = Agent().to(device)
    channels_last = args.compile and device.type == "cpu"
    if channels_last:  # compiled convolutions then need no copies
        agent.to(memory_format=torch.channels_last)
"""
OF_THE_IMAGES = """\
        if channels_last and b_obs.dim() == 4:
            b_obs = b_obs.contiguous(memory_format=torch.channels_last)
"""


COMPILED = ("deferred-sync",)
"""Without this transform, update() appends to a list and is not compiled."""


def applied(parts: dict[str, str]) -> str:
    """The script after the transform."""
    step = turn("channels-last", script(parts), COMPILED)
    assert isinstance(step.outcome, Applied), step.outcome
    return step.after


def test_weights_and_images() -> None:
    after = applied(CONVOLUTIONS)
    assert OF_THE_WEIGHTS in after
    assert "        b_obs = obs.reshape((-1, 1, 1, 2))\n" + OF_THE_IMAGES in after
    before = turn("channels-last", script(CONVOLUTIONS), COMPILED).before
    added = OF_THE_WEIGHTS.partition("\n")[2] + OF_THE_IMAGES
    assert len(after) == len(before) + len(added), "nothing else changed"


@pytest.mark.parametrize("use", ["x.permute(0, 3, 1, 2)", "x.transpose(1, 3)"])
def test_images_whose_channels_are_last_already(use: str) -> None:
    agent = CONVOLUTIONS["agent"].replace("return self.critic(x)", f"return self.critic({use})", 1)
    after = applied({**CONVOLUTIONS, "agent": agent})
    assert OF_THE_WEIGHTS in after
    assert "b_obs.contiguous" not in after


def test_images_whose_layout_is_used() -> None:
    after = applied({**CONVOLUTIONS, "report": "print(b_obs.view(-1).sum(), clipfracs)"})
    assert OF_THE_WEIGHTS in after
    assert "b_obs.contiguous" not in after


FLAT = "norms = [p.grad.view(-1).norm() for p in agent.parameters()]"
NOOPS = [
    NoOp(
        "no convolutions",
        {},
        "no trained network of a class of this file has convolutions",
        kind="not needed",
    ),
    NoOp(
        "a network that depends on the layout",
        {
            **CONVOLUTIONS,
            "agent": CONVOLUTIONS["agent"].replace("return self.critic(x)", "return self.critic(x.view(-1, 2))", 1),
        },
        "line {line} depends on a tensor's memory layout",
        at="x.view(-1, 2)",
    ),
    NoOp(
        "gradients that are flattened",
        {**CONVOLUTIONS, "optimize": edited("optimize", "optimizer.step()", FLAT + "\noptimizer.step()")},
        "line {line} depends on the memory layout of weights",
        at="p.grad.view(-1)",
    ),
    NoOp(
        "weights as one vector",
        {
            **CONVOLUTIONS,
            "report": "print(len(nn.utils.parameters_to_vector(agent.parameters())))\nprint(clipfracs[0])",
        },
        "line {line} depends on the memory layout of weights",
        at="parameters_to_vector",
    ),
    NoOp(
        "a network that is made again",
        {**CONVOLUTIONS, "before_loop": "agent = Agent().to(device)"},
        "agent is made more than once",
    ),
]


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    replace(noop, also=COMPILED).check("channels-last")
