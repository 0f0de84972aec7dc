import pytest
from cases import NoOp, Rewrite
from scripts import PARTS, edited

SHARE = "((ratio - 1.0).abs() > args.clip_coef).float().mean()"
GROWS = f"with torch.no_grad():\n    if args.seed:\n        clipfracs += [{SHARE}.item()]"
MINIBATCH = PARTS["minibatch"].replace("<metrics>", "").replace("<optimize>", PARTS["optimize"])


def growing(grows: str, *, above: str = "", below: str = "", **parts: str) -> dict[str, str]:
    """A minibatch that appends to `clipfracs` under a condition; `above` it and `below` its step, other statements."""
    optimize = f"{PARTS['optimize']}\n{below}" if below else PARTS["optimize"]
    return {"metrics": f"{above}\n{grows}".strip(), "optimize": optimize, **parts}


def grown(grows: str, *, name: str = "new_clipfracs", above: str = "", below: str = "", **parts: str) -> dict[str, str]:
    """The same minibatch with a list of its own, which is added to `clipfracs` below the step."""
    after = growing(grows.replace("clipfracs +=", f"{name} +=").replace("clipfracs.", f"{name}."), above=above, **parts)
    after["metrics"] = f"{above}\n{name} = []\n{after['metrics'].removeprefix(above).strip()}".strip()
    after["optimize"] = f"{PARTS['optimize']}\nclipfracs += {name}\n{below}".strip()
    return after


NORM = "nn.utils.clip_grad_norm_(agent.parameters(), 1.0)"
CHOICE = f"if args.seed:\n    clipfracs += [{SHARE}.item()]\nelse:\n    clipfracs.append(0.0)"
METHOD = "for value in (1.0, 2.0):\n    clipfracs.append(value)"

SORTS = "def middle(x):\n    x.sort()\n    return x[len(x) // 2]\n\n\n"
STOPS = "\n    if clipfracs and middle(clipfracs) > 0.5:\n        break"

REWRITES = [
    Rewrite("under a condition", growing(GROWS), grown(GROWS)),
    Rewrite("in both branches", growing(CHOICE), grown(CHOICE)),
    Rewrite("read below the step", growing(GROWS, below="print(iteration)"), grown(GROWS, below="print(iteration)")),
    Rewrite(
        "read below the step, in the loop",
        growing(GROWS, below="print(np.mean(clipfracs))"),
        grown(GROWS, below="print(np.mean(clipfracs))"),
    ),
    Rewrite(
        "emptied above the training loop",
        growing(GROWS, before_loop="clipfracs = []", minibatches=edited("minibatches", "clipfracs = []\n", "")),
        grown(GROWS, before_loop="clipfracs = []", minibatches=edited("minibatches", "clipfracs = []\n", "")),
    ),
    Rewrite(
        "read between the epochs, and changed there",
        growing(GROWS, functions=SORTS, minibatches=PARTS["minibatches"] + STOPS),
        grown(GROWS, functions=SORTS, minibatches=PARTS["minibatches"] + STOPS),
    ),
    Rewrite(
        "detached",
        growing(f"if args.seed:\n    clipfracs += [{SHARE}.detach()]"),
        grown(f"if args.seed:\n    clipfracs += [{SHARE}.detach()]"),
    ),
    Rewrite(
        "the norm of the gradients",
        growing("if args.seed:\n    clipfracs.append(norm)", above=f"norm = {NORM}"),
        grown("if args.seed:\n    clipfracs.append(norm)", above=f"norm = {NORM}"),
    ),
    *(
        Rewrite(
            f"a tensor of which only the values are used: {report}",
            growing("if args.seed:\n    clipfracs += [ratio.mean()]", report=report),
            grown("if args.seed:\n    clipfracs += [ratio.mean().detach()]", report=report),
        )
        for report in (
            "print(iteration)",
            "print(float(sum(clipfracs) / len(clipfracs)))",
            "for share in clipfracs:\n    print(share.item())",
            "print(f'{torch.stack(clipfracs).mean():.3f}')",
        )
    ),
    Rewrite(
        "the negative of a tensor",
        growing("if args.seed:\n    clipfracs += [-ratio.mean(), ratio]", report="print(iteration)"),
        grown("if args.seed:\n    clipfracs += [(-ratio.mean()).detach(), ratio.detach()]", report="print(iteration)"),
    ),
    Rewrite(
        "a number of Python",
        growing("if args.seed:\n    clipfracs += [float(ratio.mean().data)]"),
        grown("if args.seed:\n    clipfracs += [float(ratio.mean().data)]"),
    ),
    Rewrite(
        "the name is taken",
        growing(GROWS, before_loop="new_clipfracs = 1"),
        grown(GROWS, name="new_clipfracs_1", before_loop="new_clipfracs = 1"),
    ),
    Rewrite(
        "emptied together with others",
        growing(GROWS, minibatches=edited("minibatches", "clipfracs = []", "clipfracs, others = [], []")),
        grown(GROWS, minibatches=edited("minibatches", "clipfracs = []", "clipfracs, others = [], []")),
    ),
]

BEFORE = "uses it before the epochs have ended"
GRAPH = "appends what may have a graph"
NOOPS = [
    NoOp("nothing grows", {"metrics": "", "report": "print(iteration)"}, "no list is left", kind="not needed"),
    NoOp(
        "a list of the minibatch",
        growing("own = []\nif args.seed:\n    own += [1.0]"),
        "no list is left",
        kind="not needed",
    ),
    NoOp(
        "no list that is named",
        growing("if args.seed:\n    envs.seen += [1.0]", report="print(iteration)"),
        "no list is left",
        kind="not needed",
    ),
    NoOp(
        "by several at once",
        growing("if args.seed:\n    clipfracs.extend([1.0])"),
        "no list is left",
        kind="not needed",
    ),
    NoOp(
        "read by the minibatch",
        growing(f"{GROWS}\nprint(len(clipfracs))"),
        "clipfracs: line {line} adds to it above the optimizer's step",
        at="clipfracs += [",
    ),
    NoOp(
        "read below the step, by code that may keep it",
        growing(GROWS, below="seen(clipfracs)", third_party="from elsewhere import seen"),
        BEFORE,
    ),
    NoOp(
        "read below the step, by code that keeps it",
        growing(
            GROWS,
            below="keep(clipfracs)",
            functions="past = []\n\n\ndef keep(x):\n    past.append(x)\n\n\n",
        ),
        BEFORE,
    ),
    NoOp("rebound below the step", growing(GROWS, below="clipfracs = clipfracs[-9:]"), "rebinds it"),
    NoOp(
        "another name",
        growing(GROWS, minibatches=edited("minibatches", "clipfracs = []", "clipfracs = []\nseen = clipfracs")),
        BEFORE,
    ),
    NoOp(
        "not empty",
        growing(GROWS, minibatches=edited("minibatches", "clipfracs = []", "clipfracs = [0.0]")),
        "is not emptied right above the epochs",
    ),
    NoOp(
        "no list",
        growing(GROWS, minibatches=edited("minibatches", "clipfracs = []", "clipfracs = np.zeros(1)")),
        "is not emptied right above the epochs",
    ),
    NoOp(
        "emptied again",
        growing(f"{GROWS}\nif args.gamma > 2:\n    clipfracs = []"),
        "no list is left",
        kind="not needed",
    ),
    NoOp("deleted from", growing(f"{GROWS}\ndel clipfracs[0:0]"), "uses it there"),
    *(
        NoOp(f"seen by a function: {code}", growing(GROWS, closures=code), "uses it in a function")
        for code in (
            "def seen():\n    return len(clipfracs)",
            "seen = lambda: len(clipfracs)",
            "seen = (len(clipfracs) for _ in range(9999))",
        )
    ),
    *(
        NoOp(
            f"a tensor with its graph is {use}",
            growing("if args.seed:\n    clipfracs += [ratio.mean()]", **parts),
            GRAPH,
        )
        for use, parts in (
            ("shown", {"report": "print(clipfracs)"}),
            ("one is shown", {"report": "for share in clipfracs:\n    print(share)"}),
            ("asked for", {"report": "print(clipfracs[-1].requires_grad)"}),
            ("learned from", {"report": "(sum(clipfracs) / 9).backward()"}),
            ("given away", {"report": "seen(clipfracs)", "third_party": "from elsewhere import seen"}),
            ("compared", {"report": "print(float(sum(clipfracs)), clipfracs[0] is ratio)"}),
            ("an error is caught", {"report": "try:\n    print(np.mean(clipfracs))\nexcept RuntimeError:\n    pass"}),
        )
    ),
    NoOp(
        "a name that is shown, with gradients off",
        growing("with torch.no_grad():\n    if args.seed:\n        clipfracs += [ratio]", report="print(clipfracs)"),
        GRAPH,
    ),
    NoOp(
        "the result of a call",
        growing(
            "with torch.no_grad():\n    if args.seed:\n        clipfracs += [seen(ratio)]",
            third_party="from elsewhere import seen",
        ),
        GRAPH,
    ),
    NoOp("repeated", growing(METHOD), "is repeated, or in a function"),
    NoOp(
        "a break",
        growing(f"{GROWS}\nif args.gamma > 2:\n    break"),
        "may leave a minibatch before the optimizer's step",
    ),
    NoOp(
        "an exception",
        growing(f"try:\n    {SHARE}.item()\nexcept ValueError:\n    pass\n{GROWS}"),
        "may leave a minibatch before the optimizer's step",
    ),
    NoOp(
        "in the first statement",
        {"learn": f"if args.seed:\n    clipfracs += [b_obs.mean().item()]\n{MINIBATCH}"},
        "is in the first statement that computes",
    ),
]


@pytest.mark.parametrize("case", REWRITES, ids=str)
def test_rewrite(case: Rewrite) -> None:
    case.check("late-append")


@pytest.mark.parametrize("case", NOOPS, ids=str)
def test_noop(case: NoOp) -> None:
    case.check("late-append")
