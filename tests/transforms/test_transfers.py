import pytest
from cases import NoOp, Rewrite, turn
from scripts import PARTS, script

TENSOR, OBS, DONE = (
    "torch.tensor(reward).to(device)",
    "torch.Tensor(next_obs).to(device)",
    "torch.Tensor(done).to(device)",
)
AFTER = {
    "step": """
        next_obs, reward, done, info = envs.step(action.cpu().numpy())
        rewards[step] = torch.tensor(reward).to(device, non_blocking=True).view(-1)
        next_obs, next_done = (
            torch.as_tensor(next_obs).to(device, torch.float32, non_blocking=True),
            torch.as_tensor(done).to(device, torch.float32, non_blocking=True),
        )
        <elements>
    """,
    "elements": "",
}
FROM_ENV = "next_obs, reward, done, info = envs.step(action.cpu().numpy())\n"


def step(*lines: str) -> dict[str, str]:
    """A step of the environment, and the statements that use its arrays."""
    return {"step": FROM_ENV + "\n".join(lines)}


NEXT = ("rewards[step] = torch.zeros(args.num_envs)", "next_obs, next_done = convert(next_obs), convert(done)")
LOOP = """
    for i, d in enumerate(next_done):
        if d:
            print(global_step, i)
"""

REWRITES = [
    Rewrite("Tensor and tensor", {}, AFTER),
    Rewrite(
        "one statement each",
        step("rewards[step] = torch.Tensor(reward).to(device)", f"next_obs = {OBS}", f"next_done = {DONE}"),
        step(
            "rewards[step] = torch.as_tensor(reward).to(device, torch.float32, non_blocking=True)",
            "next_obs = torch.as_tensor(next_obs).to(device, torch.float32, non_blocking=True)",
            "next_done = torch.as_tensor(done).to(device, torch.float32, non_blocking=True)",
        ),
    ),
    Rewrite(
        "FloatTensor, from_numpy, an expression",
        step(
            "rewards[step] = torch.from_numpy(reward).to(device)",
            f"next_obs = {OBS.replace('Tensor', 'FloatTensor')}",
            "next_done = torch.Tensor(np.logical_or(done, done)).to(device)",
        ),
        step(
            "rewards[step] = torch.from_numpy(reward).to(device, non_blocking=True)",
            "next_obs = torch.as_tensor(next_obs).to(device, torch.float32, non_blocking=True)",
            "next_done = torch.as_tensor(np.logical_or(done, done)).to(device, torch.float32, non_blocking=True)",
        ),
    ),
    Rewrite(
        "an element at a time",
        {"step": PARTS["step"] + "\n<elements>", "elements": LOOP},
        {**AFTER, "elements": LOOP.replace("next_done", "next_done.tolist()")},
    ),
]

NOTHING = "the rollout moves nothing to the device that is known to be an array of the environment's"

NOOPS = [
    NoOp(
        "made on the device",
        step(
            "rewards[step] = torch.tensor(reward, device=device)",
            "next_obs = torch.tensor(next_obs, device=device)",
            "next_done = torch.tensor(done, dtype=torch.float32, device=device)",
        ),
        NOTHING,
        kind="not needed",
    ),
    NoOp(
        "converted by the script's own function",
        {**step(*NEXT), "functions": "def convert(x):\n    return torch.Tensor(x).to(device)\n\n\n"},
        NOTHING,
        kind="not needed",
    ),
    NoOp(
        "with a dtype of its own",
        step(*NEXT, "next_obs = torch.tensor(next_obs).to(device, torch.float64)"),
        NOTHING,
        kind="not needed",
    ),
    NoOp(
        "non-blocking already",
        step(*NEXT, "next_obs = torch.as_tensor(next_obs).to(device, non_blocking=True)"),
        NOTHING,
        kind="not needed",
    ),
    NoOp("to another device", step(*NEXT, 'next_obs = torch.tensor(next_obs).to("cpu")'), NOTHING, kind="not needed"),
    NoOp(
        "a tensor made from a tensor",
        step(*NEXT, "copied = torch.Tensor(action).to(device)"),
        NOTHING,
        kind="not needed",
    ),
    NoOp("a tensor that is moved", step(*NEXT, "action = action.to(device)"), NOTHING, kind="not needed"),
    NoOp("sizes", step(*NEXT, "empty = torch.Tensor(3).to(device)"), NOTHING, kind="not needed"),
    NoOp("sizes under a name", step(*NEXT, "empty = torch.Tensor(2, 3).to(device)"), NOTHING, kind="not needed"),
    NoOp(
        "a size that is computed",
        step(*NEXT, "empty = torch.Tensor(args.num_envs).to(device)"),
        NOTHING,
        kind="not needed",
    ),
    NoOp(
        "the size of a tensor",
        step(*NEXT, "empty = torch.FloatTensor(action.shape).to(device)"),
        NOTHING,
        kind="not needed",
    ),
    NoOp(
        "a size of numpy", step(*NEXT, "empty = torch.Tensor(np.prod([2, 3])).to(device)"), NOTHING, kind="not needed"
    ),
    NoOp(
        "elements of an array",
        step(*NEXT, "for i, d in enumerate(done):\n    if d:\n        print(i)"),
        NOTHING,
        kind="not needed",
    ),
    NoOp(
        "no device",
        {
            **{
                part: PARTS[part].replace(".to(device)", "")
                for part in ("make_agent", "buffers", "begin", "step", "advantages")
            },
            "setup": "",
        },
        NOTHING,
        kind="not needed",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("transfers")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("transfers")


@pytest.mark.parametrize(
    ("body", "listed"),
    [
        ("if d:\n        print(i)", True),
        ("if d:\n        glance(next_done)", True),
        ("print(i, d)", False),
        ("global_step += d", False),
        ("if d:\n        next_done[1 - i] = 0", False),
        ("if d:\n        clear(next_done)", False),
        ("if d:\n        [x.zero_() for x in [next_done[1:]]]", False),
        ("if d:\n        Clearing(next_done).do()", False),
    ],
)
def test_the_elements_of_a_tensor_that_a_loop_tests(body: str, listed: bool) -> None:
    functions = """def glance(x):
    return x * 2


def clear(x):
    x[-1] = 0


class Clearing:
    def __init__(self, x):
        self.x = x

    def do(self):
        self.x.mul_(0)


"""
    loop = f"for i, d in enumerate(next_done):\n    {body}"
    parts = step("rewards[step] = torch.zeros(args.num_envs)", f"next_obs, next_done = {OBS}, {DONE}", loop)
    outcome = turn("transfers", script({**parts, "functions": functions}))
    assert ("in enumerate(next_done.tolist())" in outcome.after) is listed
