import pytest
from cases import FLAGS, INFERENCE, NoOp, Rewrite
from scripts import PARTS, edited

NOT_CAPTURED = "update() is not captured: "
REWRITES = [
    Rewrite("the policy", {}, {}, also=("inference-agent",)),
    Rewrite(
        "policy, gae and update",
        {},
        {},
        also=(
            "tensor-lr",
            "inference-agent",
            "storage",
            "gae-hoist",
            "shuffle",
            "deferred-sync",
            "rollout",
            "gae",
            "update",
        ),
    ),
]

NOOPS = []


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("cudagraphs", FLAGS)


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("cudagraphs")
