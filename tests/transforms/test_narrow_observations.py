import pytest
from cases import NoOp, turn
from scripts import PARTS, edited, script

from transformer import Applied

DIVIDING = {"agent": PARTS["agent"].replace("(x)", "(x / 255.0)")}
BEGIN = """\
    next_obs = torch.as_tensor(envs.reset()).to(device, non_blocking=True, copy=True)
    if next_obs.dtype != torch.uint8:
        next_obs = next_obs.to(torch.float32)
"""
STEP = """\
            next_obs, next_done = torch.as_tensor(next_obs).to(device, non_blocking=True, copy=True), np.array(done)
            if next_obs.dtype != torch.uint8:
                next_obs = next_obs.to(torch.float32)
"""
STACKED = """\
        ).to(device, torch.float32)
        storage["obs"] = torch.stack([t["obs"] for t in transitions])
"""


def applied(parts: dict[str, str], *also: str) -> str:
    step = turn("narrow-observations", script(parts), also)
    assert isinstance(step.outcome, Applied), step.outcome
    return step.after


def test_images_stay_bytes() -> None:
    after = applied(DIVIDING)
    for piece in (BEGIN, STEP, STACKED):
        assert piece in after
    assert 'for k in ("actions", "logprobs", "rewards", "dones", "values")' in after


def agent(old: str, new: str) -> dict[str, str]:
    return {"agent": DIVIDING["agent"].replace(old, new, 1)}


@pytest.mark.parametrize(
    "parts",
    [
        agent("return self.critic(x / 255.0)", "return self.critic(x.permute(0, 1) / 255)"),
        agent("return self.critic(x / 255.0)", "x = x / 255.0\n        return self.critic(x - x.mean())"),
        agent(
            "def get_value(self, x):\n        return self.critic(x / 255.0)",
            "def scaled(self, x):\n        return x / 255.0\n\n"
            "    def get_value(self, x):\n        return self.critic(self.scaled(x))",
        ),
    ],
    ids=["axes in another order", "divided once and for all", "another method divides"],
)
def test_ways_to_divide(parts: dict[str, str]) -> None:
    assert BEGIN in applied(parts)


UNDIVIDED = "line {line} does not divide next_obs by a number first"
NOOPS = [
    NoOp("a network that does not divide", {}, UNDIVIDED, at="get_action_and_value(next_obs)", kind="not needed"),
    NoOp(
        "a method that does not divide",
        agent("return self.critic(x / 255.0)", "return self.critic(x * (1 / 255.0))"),
        UNDIVIDED,
        at="agent.get_value(next_obs)",
    ),
    NoOp(
        "a method that divides once and uses the images too",
        agent("return self.critic(x / 255.0)", "return self.critic(x / 255.0) + x.sum()"),
        UNDIVIDED,
        at="agent.get_value(next_obs)",
    ),
    NoOp(
        "a method that divides too late",
        agent("return self.critic(x / 255.0)", "y = x + 1\n        x = x / 255.0\n        return self.critic(y)"),
        UNDIVIDED,
        at="agent.get_value(next_obs)",
    ),
    NoOp(
        "a method that divides by its argument",
        agent("self.critic(x / 255.0)", "self.critic(x / self.actor[0].bias.sum())"),
        UNDIVIDED,
        at="agent.get_value(next_obs)",
    ),
    NoOp(
        "another default dtype",
        {
            **DIVIDING,
            "setup": PARTS["setup"] + "\ntorch.set_default_dtype(torch.float32)",
            "buffers": PARTS["buffers"].replace(")).to(device)", "), dtype=torch.float32).to(device)"),
        },
        "the script sets a default dtype",
    ),
    NoOp(
        "images that are looked at",
        {**DIVIDING, "head": "print(next_obs.mean())"},
        UNDIVIDED,
        at="print(next_obs.mean())",
    ),
    NoOp(
        "a batch that is looked at",
        {**DIVIDING, "report": "print(b_obs.mean(), clipfracs)"},
        "does not divide b_obs by a number first",
    ),
    NoOp(
        "a batch that is not only flattened",
        {**DIVIDING, "flatten": edited("flatten", "obs.reshape((-1, 2))", "obs.reshape((-1, 2)) + 1")},
        "does more than flatten obs",
    ),
    NoOp(
        "images that begin with another dtype",
        {**DIVIDING, "begin": edited("begin", "torch.Tensor(envs.reset())", "torch.zeros((args.num_envs, 2))")},
        "may make next_obs from something other than the environment's arrays",
    ),
]


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("narrow-observations")
