import pytest
from cases import NoOp, Rewrite

HEAD = '"""Optimize the networks on one minibatch of a further training phase."""'


def phase(learn: str) -> dict[str, str]:
    """An auxiliary phase after the policy's: value epochs over minibatches of the same steps."""
    return {"report": "print(iteration, global_step)\n<phase>", "phase": PHASE, "value": learn, "metrics": ""}


PHASE = """
    aux_inds = np.arange(args.batch_size)
    for aux_epoch in range(2):
        np.random.shuffle(aux_inds)
        for i, aux_start in enumerate(range(0, args.batch_size, 4)):
            aux_mb = aux_inds[aux_start : aux_start + 4]
            <value>
"""
TRAIN = """
    value = agent.get_value(b_obs[aux_mb]).view(-1)
    aux_loss = ((value - target) ** 2).mean()
    optimizer.zero_grad()
    aux_loss.backward()
    optimizer.step()
"""
GATHER = "target = b_returns[aux_mb]"
ACCUMULATE = TRAIN.replace("    optimizer.zero_grad()\n", "").replace(
    "    optimizer.step()\n", "    if (i + 1) % 2 == 0:\n        optimizer.step()\n        optimizer.zero_grad()\n"
)
FORWARD, REST = TRAIN.split("\n", 2)[1] + "\n", "\n" + TRAIN.split("\n", 2)[2]
TRY = "try:\n    target = b_returns[aux_mb]\n    <train>\nexcept RuntimeError as e:\n    raise ValueError from e\n"


def function(params: str, ends: str = "") -> dict[str, str]:
    return {"functions": f"def update_auxiliary({params}):\n    {HEAD}\n    <train>\n{ends}\n\n"}


REWRITES = [
    Rewrite(
        "from the first forward pass to the step",
        {**phase(f"{GATHER}\n<train>"), "train": TRAIN},
        {**function("b_obs, aux_mb, target"), "value": f"{GATHER}\nupdate_auxiliary(b_obs, aux_mb, target)"},
    ),
    Rewrite(
        "code that only gathers goes above the call",
        {**phase("<forward>\n" + GATHER + "\n<rest>"), "forward": FORWARD, "rest": REST},
        {
            **function("b_obs, aux_mb, target"),
            "train": TRAIN,
            "value": f"{GATHER}\nupdate_auxiliary(b_obs, aux_mb, target)",
        },
    ),
    Rewrite(
        "computations stay where they are",
        {**phase("<forward>\ntarget = b_returns[aux_mb] * 2\n<rest>"), "forward": FORWARD, "rest": REST},
        {
            **function("b_obs, aux_mb, b_returns"),
            "train": "<forward>\ntarget = b_returns[aux_mb] * 2\n<rest>",
            "value": "update_auxiliary(b_obs, aux_mb, b_returns)",
        },
    ),
    Rewrite(
        "gathered by a function of the file",
        {
            **phase("<forward>\ntarget = rows(b_returns, aux_mb)\n<rest>"),
            "forward": FORWARD,
            "rest": REST,
            "functions": "def rows(x, index):\n    return x[index].reshape(-1)\n\n\n",
        },
        {
            "functions": "def rows(x, index):\n    return x[index].reshape(-1)\n\n\n<new>",
            "new": function("b_obs, aux_mb, target")["functions"],
            "train": TRAIN,
            "value": "target = rows(b_returns, aux_mb)\nupdate_auxiliary(b_obs, aux_mb, target)",
        },
    ),
    Rewrite(
        "inside try, with gradients of several minibatches, and del behind it",
        {**phase(f"{TRY}del target"), "train": ACCUMULATE},
        {
            **function("b_obs, aux_mb, target, i"),
            "value": TRY.replace("<train>", "update_auxiliary(b_obs, aux_mb, target, i)") + "del target",
        },
    ),
    Rewrite(
        "results read afterwards are returned without their graphs",
        {**phase(f"{GATHER}\n<train>"), "train": TRAIN, "phase": PHASE + "    print(aux_loss.item())"},
        {
            **function("b_obs, aux_mb, target", "    return aux_loss.detach()\n"),
            "value": f"{GATHER}\naux_loss = update_auxiliary(b_obs, aux_mb, target)",
        },
    ),
]

NOOPS = [
    NoOp("one phase", {}, "the minibatch loop is the only one that steps an optimizer", kind="not needed"),
    NoOp(
        "no backward",
        phase(f"{GATHER}\noptimizer.step()  # again"),
        "the loop on line {line} steps an optimizer but calls no backward()",
        at="enumerate(range",
    ),
    NoOp(
        "a minibatch may be left before its step",
        {
            **phase(f"{GATHER}\n<train>"),
            "train": TRAIN.replace("    aux_loss =", "    if value.isnan().any():\n        continue\n    aux_loss ="),
        },
        "the continue on line {line} jumps out of the minibatch above ",
        at="continue",
    ),
    NoOp(
        "a state that goes from minibatch to minibatch",
        {
            **phase(f"{GATHER}\n<train>"),
            "train": TRAIN.replace("(value - target)", "(value + mean - target)").replace(
                "    optimizer.step()", "    mean = value.mean()\n    optimizer.step()"
            ),
            "phase": "mean = torch.zeros(())\n" + PHASE.replace("\n    ", "\n").lstrip("\n"),
        },
        "mean is carried from one iteration of the loop on line {line} to the next",
        at="enumerate(range",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("auxiliary-update")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("auxiliary-update")
