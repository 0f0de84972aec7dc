import pytest
from cases import NoOp, Rewrite
from scripts import PARTS, edited

DOC = '"""Estimate the advantages and returns of the rollout, backwards in time."""'
CALL = "advantages, returns = gae(next_obs, next_done)"
FUNCTION = f"""
    def gae(next_obs, next_done):
        {DOC}
        <advantages>
        return advantages, returns
"""
BOOTSTRAP = "with torch.no_grad():\n    next_value = agent.get_value(next_obs).reshape(1, -1)\n"
SEPARATE = "advantages = torch.zeros_like(rewards)\nlastgaelam = 0\n<gae>\nreturns = advantages + values"

REWRITES = [
    Rewrite("under the main guard", {}, {"functions": FUNCTION + "\n\n", "estimate": CALL}),
    Rewrite(
        "in main()",
        {"main": "def main():", "end": "\n\nmain()"},
        {"closures": FUNCTION + "\n", "estimate": CALL},
    ),
    Rewrite(
        "statements of their own around the loop",
        {"advantages": BOOTSTRAP + SEPARATE},
        {
            "estimate": BOOTSTRAP + "advantages, returns = gae(next_done, next_value)",
            "functions": FUNCTION.replace("next_obs, next_done", "next_done, next_value") + "\n\n",
            "advantages": SEPARATE,
        },
    ),
    Rewrite(
        "the name is taken",
        {"setup": 'gae = "cpu"\ndevice = torch.device(gae)'},
        {
            "functions": FUNCTION.replace("gae(", "compute_gae(") + "\n\n",
            "estimate": CALL.replace("gae", "compute_gae"),
        },
    ),
    Rewrite(
        "only the returns are used",
        {
            "minibatch": edited("minibatch", "b_advantages[mb_inds]", "b_returns[mb_inds]"),
            "flatten": edited("flatten", "\nb_advantages = advantages.reshape(-1)", ""),
        },
        {
            "functions": FUNCTION.replace("return advantages, returns", "return returns") + "\n\n",
            "estimate": CALL.replace("advantages, ", ""),
        },
    ),
    Rewrite(
        "the last value is logged",
        {"report": PARTS["report"] + "\nprint(next_value.mean().item())"},
        {
            "functions": FUNCTION.replace("return advantages", "return next_value, advantages") + "\n\n",
            "estimate": "next_value, " + CALL,
        },
    ),
]

OWN = """
    def estimate(rewards, values):
        returns = rewards.clone()
        for t in reversed(range(len(rewards) - 1)):
            returns[t] += returns[t + 1]
        return returns - values, returns


"""
REWRITES += [
    Rewrite(
        "a function of the script's own",
        {"functions": OWN, "estimate": "advantages, returns = estimate(rewards, values)"},
        {
            "functions": OWN
            + FUNCTION.lstrip("\n").replace("next_obs, next_done", "").replace("<advantages>", "<call>")
            + "\n\n",
            "call": "advantages, returns = estimate(rewards, values)",
            "estimate": "advantages, returns = gae()",
        },
    ),
]

NONE = "no `for t in reversed(range(n))` over the rollout's steps was found between rollout and update"

NOOPS = [
    NoOp("no loop", {"gae": "advantages = rewards - values"}, NONE, kind="not needed"),
    NoOp(
        "a loop forwards",
        {"gae": PARTS["gae"].replace("reversed(range(args.num_steps))", "range(args.num_steps)")},
        NONE,
        kind="not needed",
    ),
    NoOp(
        "another step width",
        {"gae": PARTS["gae"].replace("reversed(range(args.num_steps))", "range(args.num_steps - 1, -1, -2)")},
        NONE,
        kind="not needed",
    ),
    NoOp(
        "in the update",
        {
            "estimate": "advantages = returns = rewards",
            "minibatches": edited(
                "minibatches", "np.random.shuffle(b_inds)", "np.random.shuffle(b_inds)\n<advantages>"
            ),
        },
        "the loop over the rollout's steps on line {line} is not between rollout and update",
        at="for t in reversed",
    ),
    NoOp(
        "a walrus",
        {"gae": PARTS["gae"] + "\n    print(mean := delta.mean())"},
        "line {line} has a namedexpr expression",
        at="mean :=",
    ),
    NoOp(
        "shared with a function",
        {"closures": "def tell():\n    print(returns)\n", "report": PARTS["report"] + "\ntell()"},
        "tell (line {line}) reads returns from the training scope, which sets it here",
        at="def tell",
    ),
    NoOp(
        "a name that may be unset, and a lookup of all names",
        {
            "before_loop": "print(dir())",
            "head": "if iteration > 1:\n    bonus = 0.1",
            "gae": PARTS["gae"] + "\n    if iteration > 1:\n        delta += bonus",
        },
        "bonus may be unset",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("gae")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("gae")
