import textwrap

import pytest
from cases import NoOp, Rewrite
from scripts import PARTS, edited


def network(added: str) -> dict[str, str]:
    """A value head whose result a method adds something to."""
    return {
        "agent": edited(
            "agent", "(self, x):\n        return self.critic(x)", f"(self, x):\n    return self.critic(x) + {added}"
        )
    }


def loss(*lines: str) -> dict[str, str]:
    """A minibatch with more lines above its loss."""
    first, rest = PARTS["minibatch"].split("\n", 1)
    return {"minibatch": "\n".join([first, *lines, rest])}


REWRITES = [
    Rewrite(
        "a mask that is cast",
        loss("mask = (b_returns[mb_inds] > 0).type(torch.FloatTensor).to(device)", "print(mask.mean())"),
        loss("mask = (b_returns[mb_inds] > 0).to(device, torch.float32)", "print(mask.mean())"),
    ),
    Rewrite(
        "constants",
        loss(
            "one = torch.tensor([1.0], device=device)",
            "two = torch.tensor([[2]]).to(device)",
            "low = torch.tensor(-1e8, dtype=torch.float64).to(one.device)",
            "yes = torch.tensor(True).to(device)",
        ),
        loss(
            "one = torch.full((1,), 1.0, device=device)",
            "two = torch.full((1, 1), 2, device=device)",
            "low = torch.full((), -1e8, dtype=torch.float64, device=one.device)",
            "yes = torch.full((), True, device=device)",
        ),
    ),
    Rewrite(
        "filled tensors",
        loss("a = torch.zeros(3).to(device)", "b = torch.ones((3, 4,), dtype=torch.long).to(device)"),
        loss("a = torch.zeros(3, device=device)", "b = torch.ones((3, 4,), dtype=torch.long, device=device)"),
    ),
    Rewrite(
        "written-to lists of indices",
        loss("b = b_obs[mb_inds]", "b[:, [0, 1]] /= 255.0", "b[[2]] = 0.0"),
        loss("b = b_obs[mb_inds]", "b[:, 0:2] /= 255.0", "b[2:3] = 0.0"),
    ),
    Rewrite("a network", network("torch.tensor(0.5).to(x.device)"), network("torch.full((), 0.5, device=x.device)")),
]

MASKED = """
    class Masked(Categorical):
        def __init__(self, logits):
            super().__init__(logits=torch.where(logits < 5, logits, {}))


"""
MAKES = edited("agent", "Categorical(logits=self.actor(x))", "Masked(self.actor(x))")
MASKS = textwrap.dedent(MASKED).removeprefix("\n") + MAKES
REWRITES.append(
    Rewrite(
        "a distribution of the file",
        {"agent": MASKS.replace("{}", "torch.tensor(-1e8).to(logits.device)")},
        {"agent": MASKS.replace("{}", "torch.full((), -1e8, device=logits.device)")},
    )
)

NOOPS = [
    NoOp("nothing", {}, "make nothing on the host", kind="not needed"),
    *(
        NoOp(title, loss(made), "makes a tensor on the host", kind="not needed")
        for title, made in (
            ("random numbers", "noise = torch.rand(3).to(device)"),
            ("several numbers", "low = torch.tensor([0.0, 1.0]).to(device)"),
        )
    ),
    NoOp(
        "a variable",
        loss("step = torch.tensor(global_step).to(device)"),
        "makes a tensor on the host",
    ),
    NoOp("a dtype", loss("a = torch.zeros(3).to(torch.float64)"), "make nothing on the host", kind="not needed"),
    NoOp("a list that is read", loss("a = b_obs[:, [0, 1]]", "a += 1"), "make nothing on the host", kind="not needed"),
    NoOp("a list with a gap", loss("b_obs[:, [0, 2]] = 1.0"), "make nothing on the host", kind="not needed"),
    NoOp("a list in another order", loss("b_obs[:, [1, 0]] = 1.0"), "make nothing on the host", kind="not needed"),
    NoOp("two lists", loss("b_obs[[0, 1], [0, 1]] = 1.0"), "make nothing on the host", kind="not needed"),
    NoOp(
        "a list that is not all known", loss("b_obs[:, [0, step]] = 1.0"), "make nothing on the host", kind="not needed"
    ),
    NoOp("negative indices", loss("b_obs[:, [-1, 0]] = 1.0"), "make nothing on the host", kind="not needed"),
    NoOp("a list of truths", loss("b_obs[:, [False, True]] = 1.0"), "make nothing on the host", kind="not needed"),
    NoOp(
        "a gradient",
        loss("a = torch.tensor(1.0, requires_grad=True).to(device)"),
        "makes a tensor on the host",
    ),
    NoOp(
        "a cast that stays",
        loss("a = b_returns.type(torch.FloatTensor)"),
        "make nothing on the host",
        kind="not needed",
    ),
    NoOp(
        "the constructor",
        {"agent": edited("agent", "super().__init__()", "super().__init__()\nself.low = torch.tensor(1.0).to(device)")},
        "make nothing on the host",
        kind="not needed",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("on-device")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("on-device")
