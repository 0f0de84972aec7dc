import pytest
from cases import FLAGS, INFERENCE, NoOp, Rewrite
from scripts import PARTS, edited
from test_compile import compiled

IMPORT = {"third_party": "from tensordict.nn import CudaGraphModule"}
MARK = "if args.cudagraphs:\n    torch.compiler.cudagraph_mark_step_begin()\n"


def captured(*lines: str) -> str:
    """What stands above the training loop, between the compiled functions and the loop."""
    return """\

if args.cudagraphs:
    if torch.device(device).type != "cuda":
        raise SystemExit(f"--cudagraphs needs a CUDA device, but this run is on {device}")
    # Checking a distribution's arguments reads tensors on the host, which no graph can be captured with
    torch.distributions.Distribution.set_default_validate_args(False)
""" + "".join(f"    {line}\n" for line in lines)


POLICY = {
    **INFERENCE,
    "third_party": INFERENCE["third_party"] + "\n" + IMPORT["third_party"],
    "act": MARK + INFERENCE["act"],
    "before_loop": compiled("policy") + captured("policy = CudaGraphModule(policy, warmup=20)") + "\n",
}

# A minibatch that draws its indices on the device, and leaves nothing behind but the parameters.
ON_DEVICE = {
    "minibatches": """
        for epoch in range(args.update_epochs):
            for mb_inds in torch.randperm(args.batch_size, device=device).split(args.minibatch_size):
                <learn>
    """,
    "anneal": "print(iteration)",
    "metrics": "",
    "report": "print(iteration, global_step)",
}
CAPTURABLE = {
    "optimizer": """
        optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5, capturable=args.cudagraphs)
    """
}
CALL = "update(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns)"
UPDATE = {
    **IMPORT,
    **CAPTURABLE,
    "functions": f'''
        def {CALL}:
            """Optimize the networks on one minibatch."""
            <minibatch>


    ''',
    "learn": MARK + CALL,
    "before_loop": compiled("update") + captured("update = CudaGraphModule(update, warmup=20)") + "\n",
}
ONE_SIZE = "# a graph holds one size: not with a smaller last minibatch"
UPDATED = ("tensor-lr", "update")

REWRITES = [
    Rewrite("the policy", {}, POLICY, also=("inference-agent",)),
    Rewrite("the update", ON_DEVICE, UPDATE, also=UPDATED),
    Rewrite(
        "the update, where all minibatches have one size",
        {**ON_DEVICE, "minibatches": edited("minibatches", "clipfracs = []\n", "")},
        {
            **UPDATE,
            "minibatches": ON_DEVICE["minibatches"],
            "before_loop": compiled("update")
            + captured(
                f"if args.batch_size % args.minibatch_size == 0:  {ONE_SIZE}",
                "    update = CudaGraphModule(update, warmup=20)",
            )
            + "\n",
        },
        also=("shuffle", *UPDATED),
    ),
    Rewrite(
        "the policy alone, where the update takes an array",
        {"anneal": "print(iteration)", "metrics": "", "report": "print(iteration, global_step)"},
        {
            **POLICY,
            **CAPTURABLE,
            "functions": UPDATE["functions"],
            "learn": MARK + CALL,
            "before_loop": POLICY["before_loop"].replace(
                "**unguarded})\n", "**unguarded})\n    update = torch.compile(update, options=options)\n"
            ),
        },
        notes=("update() is not captured: not all its inputs are tensors",),
        also=("inference-agent", *UPDATED),
    ),
    Rewrite(
        "the policy alone, where the update branches on a tensor",
        {**ON_DEVICE, "metrics": "if ratio.max() > 100:\n    ratio = ratio.detach()"},
        {
            **POLICY,
            **CAPTURABLE,
            "functions": UPDATE["functions"],
            "learn": MARK + CALL,
            "before_loop": POLICY["before_loop"].replace(
                "**unguarded})\n", "**unguarded})\n    update = torch.compile(update, options=options)\n"
            ),
        },
        notes=("update() is not captured: it branches on a tensor's value",),
        also=("inference-agent", *UPDATED),
    ),
]

NOTHING = "no function has only tensors as inputs"
NO_DEVICE = {
    **{
        part: PARTS[part].replace(".to(device)", "")
        for part in ("make_agent", "buffers", "begin", "step", "advantages")
    },
    "setup": "",
}

NOOPS = [
    NoOp("nothing to compile", {}, "needs compile, which did not apply"),
    NoOp("no device", NO_DEVICE, "the script moves nothing to a device", also=("inference-agent",)),
    NoOp("minibatches of array indices", {"metrics": ""}, NOTHING, also=UPDATED),
    NoOp(
        "an optimizer that cannot be captured",
        {**ON_DEVICE, "optimizer": "optimizer = optim.SGD(agent.parameters(), lr=0.1)"},
        NOTHING,
        also=UPDATED,
    ),
    NoOp(
        "a branch on a tensor",
        {**ON_DEVICE, "metrics": "if ratio.max() > 100:\n    ratio = ratio.detach()"},
        NOTHING,
        also=UPDATED,
    ),
    NoOp(
        "a number that is read",
        {**ON_DEVICE, "metrics": "scale = min(1.0, 1 / ratio.max().item())"},
        NOTHING,
        also=UPDATED,
    ),
    NoOp(
        "a number that is passed in",
        {**ON_DEVICE, "minibatch": edited("minibatch", "0.01 *", "0.01 / iteration *")},
        NOTHING,
        also=UPDATED,
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("cudagraphs", FLAGS)


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("cudagraphs")
