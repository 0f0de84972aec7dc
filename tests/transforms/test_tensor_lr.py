import textwrap
from pathlib import Path

import pytest
from cases import FLAGS, NoOp, Rewrite, converted_by, turn
from golden import converted
from scripts import PARTS, edited, script

from transformer import Applied, Skipped, convert

IN_A_FLAG = "if args.compile:"
REASON = "# A compiled update reads the rate from a tensor; an eager one is faster with the float"
TENSORS = """
{flag}
    {reason}
    for group in {optimizer}.param_groups:
        group["lr"] = torch.tensor(group["lr"], dtype=torch.float64)
"""


def filled(target: str, value: str) -> str:
    short = target.startswith("g[")
    name = target if short else "lr"
    if not value.isidentifier():
        return f"lrnow = {value}\n{filled(target, 'lrnow')}"
    made = f"{name}.fill_({value}) if torch.is_tensor({name}) else {value}"
    written = f"{target} = {made}" if len(f"{target} = {made}") < 112 else f"{target} = (\n    {made}\n)"
    return written if short else f"{name} = {target}\n{written}"


GROUP_RATE = 'g["lr"]'
EACH_GROUP = "for g in {name}.param_groups:\n    {write}"
IN_A_FUNCTION = "def set_rate(rate):\n    for g in optimizer.param_groups:\n        {write}\n\n\n"
OWN = """
class Own(optim.SGD):
    def set_rate(self, rate):
        for g in self.param_groups:
            g["lr"] = rate


"""
RATE = 'optimizer.param_groups[0]["lr"]'
FILLED = {"anneal": edited("anneal", f"{RATE} = frac * args.learning_rate", filled(RATE, "frac * args.learning_rate"))}
READ = {"report": edited("report", RATE, f"float({RATE})")}


def indent(text: str) -> str:
    return textwrap.indent(text, "    ")


def tensors(name: str = "optimizer") -> str:
    return TENSORS.format(flag=IN_A_FLAG, reason=REASON, optimizer=name)


def optimizer(made: str, *arguments: str, name: str = "optimizer") -> str:
    return f"{name} = {made}({', '.join(arguments)})" + tensors(name)


LR = "lr=args.learning_rate"
ADAM = {"optimizer": optimizer("optim.Adam", "agent.parameters()", LR, "eps=1e-5")}
GROUPS = """
    optimizer = optim.Adam(
        [
            {"params": agent.actor.parameters(), "lr": 1e-2},
            {"params": agent.critic.parameters(), "lr": 3e-2},
        ],
        lr=args.learning_rate,
    )
"""
GROUPS_AFTER = """
    optimizer = optim.Adam(
        [
            {"params": agent.actor.parameters(), "lr": 1e-2},
            {"params": agent.critic.parameters(), "lr": 3e-2},
        ],
        lr=args.learning_rate,
    )
    if args.compile:
        # A compiled update reads the rate from a tensor; an eager one is faster with the float
        for group in optimizer.param_groups:
            group["lr"] = torch.tensor(group["lr"], dtype=torch.float64)
"""

LOADED = """
    if args.compile:
        # A checkpoint may hold the rate as a float
        for group in optimizer.param_groups:
            group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float64)
"""
LOAD = "optimizer.load_state_dict(torch.load('optimizer.pt'))"
RESTORE = """
    def restore(path, network, opt):
        opt.load_state_dict(torch.load(path))
        return 1


"""

RESTORE_IT = f"def restore():\n    {LOAD}\n    return 1\n\n\n"

REWRITES = [
    Rewrite("Adam, annealed by hand", {}, {**ADAM, **FILLED, **READ}),
    Rewrite(
        "a state that is loaded",
        {"before_loop": LOAD},
        {**ADAM, **FILLED, **READ, "before_loop": LOAD + LOADED.replace("\n    ", "\n")},
        ("a checkpoint's rates become tensors",),
    ),
    Rewrite(
        "a state that is saved",
        {"report": f"{PARTS['report']}\ntorch.save(optimizer.state_dict(), 'optimizer.pt')"},
        {
            **ADAM,
            **FILLED,
            "report": f"{READ['report']}\ntorch.save(optimizer.state_dict(), 'optimizer.pt')",
        },
        ("saves are tensors, not floats",),
    ),
    Rewrite(
        "a state that is loaded if it is there",
        {"before_loop": f"if args.seed > 1:\n    {LOAD}"},
        {**ADAM, **FILLED, **READ, "before_loop": f"if args.seed > 1:\n    {LOAD}{LOADED.rstrip()}"},
        ("a checkpoint's rates become tensors",),
    ),
    Rewrite(
        "a state that a function loads",
        {"functions": RESTORE, "before_loop": "begun = restore('optimizer.pt', agent, optimizer)"},
        {
            **ADAM,
            **FILLED,
            **READ,
            "before_loop": "begun = restore('optimizer.pt', agent, optimizer)" + LOADED.replace("\n    ", "\n"),
        },
        ("a checkpoint's rates become tensors",),
    ),
    Rewrite(
        "a state that a function above the optimizer loads",
        {"functions": RESTORE_IT},
        {**ADAM, **FILLED, **READ, "functions": RESTORE_IT.replace(LOAD, LOAD + LOADED.rstrip())},
        ("a checkpoint's rates become tensors",),
    ),
    Rewrite(
        "a state that is loaded in the training loop",
        {"head": f"if iteration == 2:\n    {LOAD}"},
        {**ADAM, **FILLED, **READ, "head": f"if iteration == 2:\n    {LOAD}{LOADED.rstrip()}"},
        ("a checkpoint's rates become tensors",),
    ),
    Rewrite(
        "imported by its own name",
        {
            "optimizer": "optimizer = Adam(agent.parameters(), lr=args.learning_rate)",
            "third_party": "from torch.optim import Adam",
        },
        {"optimizer": optimizer("Adam", "agent.parameters()", LR), **FILLED, **READ},
    ),
    Rewrite(
        "AdamW, renamed, the rate second",
        {
            "optimizer": "opt = torch.optim.AdamW(agent.parameters(), args.learning_rate)",
            "anneal": 'for g in opt.param_groups:\n    g["lr"] = args.learning_rate / iteration',
            "optimize": "opt.zero_grad()\nloss.backward()\nopt.step()",
            "report": 'print(opt.param_groups[0]["lr"], np.mean(clipfracs))',
        },
        {
            "optimizer": optimizer("torch.optim.AdamW", "agent.parameters()", LR[3:], name="opt"),
            "anneal": f"for g in opt.param_groups:\n{indent(filled(GROUP_RATE, 'args.learning_rate / iteration'))}",
            "report": 'print(float(opt.param_groups[0]["lr"]), np.mean(clipfracs))',
        },
    ),
    Rewrite(
        "RMSprop",
        {"optimizer": "optimizer = optim.RMSprop(agent.parameters(), lr=args.learning_rate, alpha=0.9)"},
        {
            "optimizer": optimizer("optim.RMSprop", "agent.parameters()", LR, "alpha=0.9"),
            **FILLED,
            **READ,
        },
    ),
    Rewrite(
        "an option, where tensors have the parser's name in a function",
        {"functions": "def entropy(parser):\n    parser = torch.log(parser)\n    return parser\n\n\n"},
        {**ADAM, **FILLED, **READ},
    ),
    Rewrite(
        "a number of a tensor",
        {"anneal": f"frac = float(torch.tensor(1.0 / iteration))\n{RATE} = frac * args.learning_rate"},
        {
            **ADAM,
            **READ,
            "anneal": f"frac = float(torch.tensor(1.0 / iteration))\n{filled(RATE, 'frac * args.learning_rate')}",
        },
    ),
    Rewrite(
        "SGD has nothing to capture",
        {"optimizer": "optimizer = optim.SGD(agent.parameters(), lr=args.learning_rate)"},
        {"optimizer": optimizer("optim.SGD", "agent.parameters()", LR), **FILLED, **READ},
    ),
    Rewrite(
        "a scheduler",
        {
            "before_loop": "scheduler = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, args.num_iterations)",
            "anneal": "",
            "report": "scheduler.step()\nprint(scheduler.get_last_lr()[0], clipfracs)",
        },
        {**ADAM, "report": "scheduler.step()\nprint(float(scheduler.get_last_lr()[0]), clipfracs)"},
    ),
    Rewrite(
        "scaled in place",
        {"anneal": 'optimizer.param_groups[0]["lr"] *= 0.9'},
        {**ADAM, **READ},
    ),
    Rewrite(
        "several groups get a tensor each",
        {"optimizer": GROUPS, "anneal": 'for g in optimizer.param_groups:\n    g["lr"] = g["lr"] * 0.9'},
        {
            "optimizer": GROUPS_AFTER,
            "anneal": f"for g in optimizer.param_groups:\n{indent(filled(GROUP_RATE, f'{GROUP_RATE} * 0.9'))}",
            **READ,
        },
    ),
]

SCHEDULED = {
    "before_loop": "scheduler = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, args.num_iterations)",
    "anneal": "",
}
NOOPS = [
    NoOp(
        "an optimizer that takes no tensor",
        {"optimizer": "optimizer = optim.LBFGS(agent.parameters(), lr=args.learning_rate)"},
        "optimizer: LBFGS is not known to accept a tensor learning rate",
    ),
    NoOp(
        "an optimizer of the script's own",
        {
            "functions": "class Plain(optim.Optimizer):\n    pass\n\n\n",
            "optimizer": "optimizer = Plain(agent.parameters(), lr=args.learning_rate)",
        },
        "optimizer: Plain is not known to accept a tensor learning rate",
    ),
    NoOp(
        "arguments that are not seen",
        {"optimizer": "optimizer = optim.Adam(agent.parameters(), **settings)"},
        "optimizer: its arguments are passed as **keywords",
    ),
    NoOp(
        "a state that is loaded in a condition",
        {"before_loop": "assert optimizer.load_state_dict(torch.load('optimizer.pt')) is None"},
        "optimizer: line {line} replaces its parameter groups",
        at="load_state_dict",
    ),
    NoOp(
        "a group that is added",
        {"head": 'optimizer.add_param_group({"params": []})'},
        "optimizer: add_param_group() on line {line} replaces its parameter groups",
        at="add_param_group",
    ),
    NoOp(
        "foreach",
        {"optimizer": "optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, foreach=True)"},
        "optimizer: foreach=True accepts a tensor learning rate only if the optimizer is capturable",
    ),
    NoOp(
        "a tensor, and a number of the same name in a function",
        {
            "functions": "def half(rate):\n    rate = rate / 2\n    return rate\n\n\n",
            "anneal": f"rate = torch.tensor(half(0.1))\n{RATE} = rate",
        },
        "optimizer: the rate on line {line} may already be a tensor, or numpy's: write float(rate)",
        at=f"{RATE} = rate",
    ),
    NoOp(
        "a number of numpy",
        {"functions": "def rate_at(t):\n    return np.float32(1 / t)\n\n\n", "anneal": f"{RATE} = rate_at(iteration)"},
        "optimizer: the rate on line {line} may already be a tensor, or numpy's: write float(rate_at(iteration))",
        at=f"{RATE} = rate_at",
    ),
    *(
        NoOp(
            f"a whole number, which prints otherwise: {value}",
            {"functions": "def rate_at(t):\n    return t or 1\n\n\n", "anneal": f"lr = {value}\n{RATE} = lr"},
            "optimizer: the rate on line {line} may be a whole number",
            at=f"{RATE} = lr",
        )
        for value in (
            "0 if iteration == 3 else 0.1",
            "max(iteration, 2)",
            "rate_at(iteration)",
            "iteration // 2",
            "len('x')",
            "iteration < 2",
            "not iteration",
            "(1, 0.1)[iteration % 2]",
            "next(iter([1]))",
            "(known := iteration)",
            "iteration ** 2",
        )
    ),
    *(
        NoOp(
            f"a parameter in an f-string: {shown}",
            {
                "anneal": "",
                "metrics": f"{RATE} = 1e-3 * (1 + epoch)",
                "report": f"""print(f"{{optimizer.param_groups[0]['lr']{shown}}}")""",
            },
            "optimizer: line {line} formats the rate, which the update sets",
            at="print(f",
        )
        for shown in ("", ":.3e", ":>10")
    ),
    NoOp(
        "a whole number that an f-string shows",
        {
            "anneal": f"{RATE} = max(iteration, 2)",
            "report": """print(f"{optimizer.param_groups[0]['lr']}", clipfracs)""",
        },
        "optimizer: the rate on line {line} may be a whole number",
        at=f"{RATE} = max",
    ),
    *(
        NoOp(
            f"a scheduler that keeps the rate: {use}",
            {**SCHEDULED, "report": f"scheduler.step()\n{use}"},
            f"optimizer: line {{line}} {why} a scheduler, which",
            at=use,
        )
        for use, why in (
            ("print(scheduler.state_dict())", "uses state_dict of"),
            ("print(scheduler._last_lr)", "uses _last_lr of"),
            ("print(vars(scheduler))", "passes on"),
            ("kept = [scheduler]", "passes on"),
            ("for each in (scheduler,): each.step()", "passes on"),
        )
    ),
    NoOp(
        "an optimizer that is saved whole",
        {"report": "torch.save({'all': agent}, 'a.pt')\ntorch.save(optimizer, 'x.pt')\nprint(clipfracs)"},
        "optimizer: line {line} saves the optimizer with its rate",
        at="torch.save(optimizer",
    ),
    NoOp(
        "groups that are read in a checkpoint",
        {
            "report": "torch.save(optimizer.state_dict(), 'x.pt')\n"
            "print(torch.load('x.pt')['param_groups'][0]['lr'], clipfracs)"
        },
        "optimizer: line {line} reads parameter groups from a state_dict()",
        at="print(torch.load",
    ),
    NoOp(
        "assigned together with others",
        {"anneal": 'lr = optimizer.param_groups[0]["lr"] = args.learning_rate / iteration'},
        "optimizer: line {line} assigns it together with other targets",
        at="lr = optimizer",
    ),
    NoOp(
        "computed with inside an f-string",
        {"report": """print(f"{1000 * optimizer.param_groups[0]['lr']} per mille", clipfracs)"""},
        "optimizer: line {line} computes with it inside an f-string",
        at="per mille",
    ),
    NoOp(
        "SGD without annealing",
        {"optimizer": "optimizer = optim.SGD(agent.parameters(), lr=args.learning_rate)", "anneal": ""},
        "optimizer: the learning rate never changes and stays a float",
        kind="not needed",
    ),
    NoOp(
        "Adam without annealing",
        {"optimizer": "optimizer = optim.Adam(agent.parameters(), lr=1e-3)", "anneal": ""},
        "optimizer: the learning rate never changes and stays a float",
        kind="not needed",
    ),
]


REWRITES += [
    Rewrite(
        "written in a function",
        {"functions": IN_A_FUNCTION.format(write=f"{GROUP_RATE} = rate"), "anneal": "set_rate(1 / iteration)"},
        {
            "functions": IN_A_FUNCTION.format(write=indent(indent(filled(GROUP_RATE, "rate"))).lstrip()),
            **ADAM,
            **READ,
        },
    ),
    Rewrite(
        "groups of another optimizer under the same name",
        {
            "functions": OWN,
            "before_loop": "other = Own(agent.parameters(), lr=0.0)",
            "anneal": EACH_GROUP.format(name="optimizer", write=f"{GROUP_RATE} = 1 / iteration")
            + "\n"
            + EACH_GROUP.format(name="other", write=f"{GROUP_RATE} = 0.0"),
        },
        {
            **ADAM,
            "anneal": EACH_GROUP.format(name="optimizer", write=indent(filled(GROUP_RATE, "1 / iteration")).lstrip())
            + "\n"
            + EACH_GROUP.format(name="other", write=f"{GROUP_RATE} = 0.0"),
            **READ,
        },
        notes=("other: Own is not known to accept a tensor learning rate",),
    ),
]
NOOPS += [
    NoOp(
        "printed after a state is loaded",
        {"copy": LOAD, "before_loop": "print(optimizer)"},
        "optimizer: line {line} prints the optimizer",
        at="print(optimizer)",
    ),
    NoOp(
        "a group that is updated as a dictionary",
        {"anneal": EACH_GROUP.format(name="optimizer", write="g.update(lr=1 / iteration)")},
        "optimizer: line {line} uses a parameter group in a way that is not understood",
        at="g.update",
    ),
]


ANNEAL = "def anneal(opt, rate):\n    for g in opt.param_groups:\n        {write}\n\n\n"
SHARED = filled(GROUP_RATE, "rate")
TWO = "first = optim.SGD(agent.actor.parameters(), lr=0.1)\nsecond = optim.SGD(agent.critic.parameters(), lr=0.1)"
TWO_TENSORS = "\n".join(
    line + tensors(line.split()[0]).rstrip().replace("group", group).replace(f".param_{group}", ".param_group")
    for line, group in zip(TWO.splitlines(), ("group", "group_1"), strict=True)
)
STEPS = {
    "optimize": "first.zero_grad()\nsecond.zero_grad()\nloss.backward()\nfirst.step()\nsecond.step()",
    "report": "print(v_loss.item(), approx_kl.item())",
}
REWRITES += [
    Rewrite(
        "written in a function that it is passed to",
        {"functions": ANNEAL.format(write=f"{GROUP_RATE} = rate"), "anneal": "anneal(optimizer, rate=1 / iteration)"},
        {"functions": ANNEAL.format(write=indent(indent(SHARED)).lstrip()), **ADAM, **READ},
    ),
    Rewrite(
        "written in a function that two optimizers are passed to",
        {
            **STEPS,
            "functions": ANNEAL.format(write=f"{GROUP_RATE} = rate"),
            "optimizer": TWO,
            "anneal": "anneal(first, 1 / iteration)\nanneal(second, 0.1)",
        },
        {
            "functions": ANNEAL.format(write=indent(indent(SHARED)).lstrip()),
            "optimizer": TWO_TENSORS,
        },
    ),
    Rewrite(
        "written in a loop over the optimizers",
        {
            **STEPS,
            "optimizer": TWO,
            "anneal": "rate = 1 / iteration\nfor one in (first, second):\n    for g in one.param_groups:\n"
            f"        {GROUP_RATE} = rate",
        },
        {
            "optimizer": TWO_TENSORS,
            "anneal": "rate = 1 / iteration\nfor one in (first, second):\n    for g in one.param_groups:\n"
            f"        {indent(indent(SHARED)).lstrip()}",
        },
    ),
    Rewrite(
        "read in a function that it is passed to",
        {
            "functions": "def log(opt):\n    print(opt.param_groups[0]['lr'])\n\n\n",
            "report": "log(optimizer)\nprint(clipfracs)",
        },
        {"functions": "def log(opt):\n    print(float(opt.param_groups[0]['lr']))\n\n\n", **ADAM, **FILLED},
    ),
    Rewrite(
        "printed above the training",
        {"copy": "print(optimizer)"},
        {
            "optimizer": ADAM["optimizer"].split("\n")[0],
            "copy": "print(optimizer)" + tensors(),
            **FILLED,
            **READ,
        },
    ),
    Rewrite(
        "a scheduler made in a function",
        {
            "functions": "def scheduled(opt):\n    return optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, 5)\n\n\n",
            "before_loop": "scheduler = scheduled(opt=optimizer)",
            "anneal": "",
            "report": "scheduler.step()\nprint(clipfracs)",
        },
        ADAM,
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("tensor-lr", FLAGS)


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("tensor-lr")


@pytest.mark.parametrize(
    "rate",
    ["1 / iteration", "float(iteration)", "math.cos(iteration)", "math.pow(iteration, 2)", "max(iteration, 2) * 0.1",
     "args.learning_rate ** iteration", "-math.pi"],
)  # fmt: skip
def test_rates_known_to_be_floats(rate: str) -> None:
    step = turn("tensor-lr", script({"stdlib": "import math", "anneal": f"{RATE} = {rate}"}), also=("flags",))
    assert isinstance(step.outcome, Applied), step.outcome
    assert f"float({RATE})" in step.after


def test_a_format_that_writes_an_int_like_a_float() -> None:
    shown = """print(f"{optimizer.param_groups[0]['lr']:.2e}", clipfracs)"""
    source = script({"anneal": f"{RATE} = max(iteration, 2)", "report": shown})
    assert isinstance(turn("tensor-lr", source, also=("flags",)).outcome, Applied)


def test_reason_is_told_once_of_an_optimizer_that_is_made_twice() -> None:
    made = "optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate)\n"
    source = script({"optimizer": 2 * made})
    step = turn("tensor-lr", source)
    assert isinstance(step.outcome, Skipped)
    again = [number for number, line in enumerate(source.splitlines(), 1) if line.strip() == made.strip()][1]
    assert step.outcome.reason == f"optimizer: line {again} makes it again"


OBJECT = """
class Learner:
    def __init__(self, agent, args):
        if args.anneal_lr:
            self.optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
        else:
            self.optimizer = optim.{kind}(agent.parameters(), lr={rate})


"""


def one_of_two(kind: str = "Adam", rate: str = "args.learning_rate") -> str:
    """A script whose optimizer an object makes in one of two branches."""
    text = script({"functions": OBJECT.format(kind=kind, rate=rate)})
    made = next(line for line in text.splitlines() if line.strip().startswith("optimizer = optim."))
    text = text.replace(made, "    learner = Learner(agent, args)")
    return text.replace(" optimizer.", " learner.optimizer.")


def test_an_optimizer_that_one_of_two_branches_makes_gets_one_tensor() -> None:
    step = turn("tensor-lr", one_of_two())
    assert isinstance(step.outcome, Applied), step.outcome
    assert step.after.count("for group in learner.optimizer.param_groups:") == 1


@pytest.mark.parametrize(
    ("kind", "rate", "why"),
    [
        ("RAdam", "args.learning_rate", "makes it again"),
        ("Adam", "np.float64(args.learning_rate)", "may already be a tensor, or numpy's"),
        ("Adam", "args.learning_rate, foreach=True", "foreach=True accepts"),
    ],
)
def test_an_optimizer_stays_as_it_is_if_either_branch_forbids_it(kind: str, rate: str, why: str) -> None:
    step = turn("tensor-lr", one_of_two(kind, rate))
    assert isinstance(step.outcome, Skipped), step.after
    assert why in step.outcome.reason


def test_a_wrapped_optimizer_is_told_as_such() -> None:
    wrapper = "class Often(optim.Adam):\n    def __init__(self, inner):\n        self.inner = inner\n\n\n"
    source = script({"functions": wrapper, "copy": "optimizer = Often(optimizer)"})
    step = turn("tensor-lr", source)
    assert isinstance(step.outcome, Skipped), step.after
    line = next(i for i, text in enumerate(source.splitlines(), 1) if "Often(optimizer)" in text)
    assert step.outcome.reason == f"optimizer: line {line} wraps it"


def test_a_loop_over_trainings_is_told_how_to_convert() -> None:
    above, made, below = script().partition("    agent = Agent().to(device)\n")
    loop = "    for run in range(2):\n"
    step = turn("tensor-lr", above + loop + textwrap.indent(made + below, "    "))
    assert isinstance(step.outcome, Skipped), step.after
    assert step.outcome.reason.startswith(f"optimizer: the loop on line {above.count(chr(10)) + 1} makes it: ")


def test_flag_is_read_under_the_name_of_the_training_scope() -> None:
    helper = "def show(config):\n" + 40 * "    print(config.seed, config.gamma)\n" + "\n\n"
    rewrite = Rewrite("", {"functions": helper}, {**ADAM, **FILLED, **READ})
    rewrite.check("tensor-lr", FLAGS)


FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
METHODS = (FIXTURES / "in_methods.py").read_text(encoding="utf-8")
COLLECTED = "            obs, done = self.collect(obs, done)\n"


@pytest.mark.parametrize(
    ("statement", "left_alone"),
    [
        ("print(len(self.optimizer.state_dict()))", True),
        ("o = self.optimizer", False),
        ("vars(self)['optimizer'].param_groups[0]['lr'] = 0.1", False),
    ],
)
def test_an_objects_optimizer_that_is_only_stepped_has_a_steady_rate(statement: str, left_alone: bool) -> None:
    assert COLLECTED in METHODS
    conversion = convert(
        METHODS.replace(COLLECTED, f"            {statement}\n{COLLECTED}"), select={"inline", "flags", "tensor-lr"}
    )
    (step,) = (s for s in conversion.steps if s.transform.name == "tensor-lr")
    assert isinstance(step.outcome, Skipped)
    assert ("never changes" in step.outcome.reason) == left_alone


def test_an_objects_optimizer_whose_rate_the_training_sets() -> None:
    annealed = "            self.optimizer.param_groups[0]['lr'] = 1e-3 / (iteration + 1)\n"
    shown = "            print(self.optimizer.param_groups[0]['lr'])\n"
    source = METHODS.replace(COLLECTED, f"{annealed}{shown}{COLLECTED}")
    conversion = convert(source, select={"inline", "flags", "tensor-lr"})
    (step,) = (s for s in conversion.steps if s.transform.name == "tensor-lr")
    assert isinstance(step.outcome, Applied), step.outcome
    above, _, loop = conversion.source.partition("        for iteration in ")
    assert 'group["lr"] = torch.tensor(float(group["lr"]), dtype=torch.float64)' in above.rpartition("def run(")[2]
    assert "lr_1.fill_(lrnow) if torch.is_tensor(lr_1) else lrnow" in loop
    assert "print(float(self.optimizer.param_groups[0]['lr']))" in loop
    kept = f"            self.kept = self.optimizer\n{COLLECTED}"
    conversion = convert(source.replace(COLLECTED, kept), select={"inline", "flags", "tensor-lr"})
    (step,) = (s for s in conversion.steps if s.transform.name == "tensor-lr")
    assert isinstance(step.outcome, Skipped)


HELD = "optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate)"
ESCAPES = {
    "an alias": {"optimizer": f"{HELD}\nother = optimizer", "anneal": "other.param_groups[0]['lr'] = 0.0"},
    "a list": {"optimizer": f"{HELD}\nall_of = [optimizer]", "anneal": "all_of[0].param_groups[0]['lr'] = 0.0"},
    "a dictionary": {
        "optimizer": f"{HELD}\nboth = {{'a': optimizer}}",
        "anneal": "both['a'].param_groups[0]['lr'] = 0.0",
    },
    "an attribute": {
        "optimizer": f"{HELD}\nagent.optimizer = optimizer",
        "anneal": "agent.optimizer.param_groups[0]['lr'] = 0.0",
    },
    "a loop over a list": {"anneal": "for o, r in zip((optimizer,), (0.1,)):\n    o.param_groups[0]['lr'] = r"},
    "a function of another file": {"third_party": "from rates import anneal", "anneal": "anneal(optimizer)"},
    "a method of another file": {"third_party": "import rates", "anneal": "rates.anneal(optimizer)"},
    "a method of this file": {
        "functions": "class Rates:\n    def anneal(self, opt):\n        opt.param_groups[0]['lr'] = 0.0\n\n\n",
        "anneal": "Rates().anneal(optimizer)",
    },
    "a partial function": {
        "stdlib": "import functools",
        "functions": "def anneal(opt):\n    opt.param_groups[0]['lr'] = 0.0\n\n\n",
        "before_loop": "step_rate = functools.partial(anneal, optimizer)",
        "anneal": "step_rate()",
    },
    "a function that keeps it": {
        "functions": "kept = []\n\n\ndef keep(opt):\n    kept.append(opt)\n\n\n",
        "before_loop": "keep(optimizer)",
        "anneal": "kept[0].param_groups[0]['lr'] = 0.0",
    },
    "a scheduler whose rates are read elsewhere": {
        "before_loop": "schedulers = [optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 5)]",
        "anneal": "print(schedulers[0].get_last_lr())",
    },
    "another name of the object": {
        "functions": "class Holder:\n    pass\n\n\n",
        "optimizer": f"holder = Holder()\nholder.{HELD}\nsame = holder",
        "optimize": edited("optimize", "optimizer.step()", "holder.optimizer.step()").replace(
            "optimizer.zero_grad", "holder.optimizer.zero_grad"
        ),
        "anneal": "same.optimizer.param_groups[0]['lr'] = 0.0",
    },
}


@pytest.mark.parametrize("parts", ESCAPES.values(), ids=ESCAPES)
def test_a_rate_that_may_change_unseen_is_in_no_graph(parts: dict[str, str]) -> None:
    # A CUDA graph would step at the captured rate for ever
    plain = {"anneal": "", "report": "print(v_loss.item(), approx_kl.item())", "metrics": ""}
    conversion = converted_by(script({**plain, **parts}), "tensor-lr", "shuffle", "update", "one-graph", "cudagraphs")
    outcomes = {s.transform.name: s.outcome for s in conversion.steps}
    assert isinstance(outcomes["tensor-lr"], Skipped), outcomes["tensor-lr"]
    apart = "lr_scheduler" in str(parts)  # it reads the floats between the updates
    assert apart or isinstance(outcomes["one-graph"], Skipped)
    assert "update = CudaGraphModule" not in conversion.source


def test_no_capturable_optimizer_on_the_cpu():
    # torch refuses to step a capturable optimizer there
    source = (FIXTURES / "plain_prints.py").read_text(encoding="utf-8")
    assert "capturable" not in converted(source).source


@pytest.mark.parametrize(
    ("functions", "metrics", "is_parameter"),
    [
        ("", f"{RATE} = 1e-3 * (1 + epoch)", True),
        (IN_A_FUNCTION.format(write=f"{GROUP_RATE} = rate"), "set_rate(1e-3 * (1 + epoch))", True),
        ("", "pass", False),
    ],
)
def test_a_rate_that_the_update_sets_is_a_parameter(functions: str, metrics: str, is_parameter: bool) -> None:
    conversion = converted_by(script({"functions": functions, "metrics": metrics}), "tensor-lr", "update", "compile")
    assert conversion.converted, conversion.diagnostics
    assert ('["lr"] = torch.nn.Parameter(' in conversion.source) is is_parameter
    assert ('["lr"] = torch.tensor(' in conversion.source) is not is_parameter


def test_a_rate_that_a_further_phase_sets_is_a_parameter() -> None:
    """The loop of another loss may be compiled too."""
    further = f"""for start in range(0, args.batch_size, args.minibatch_size):
    {RATE} = 1e-3 if start else 1e-4
    other = ((agent.get_value(b_obs[start:end]).view(-1) - b_returns[start:end]) ** 2).mean()
    optimizer.zero_grad()
    other.backward()
    optimizer.step()
"""
    conversion = converted_by(script({"anneal": "", "report": further}), "tensor-lr", "update", "compile")
    assert conversion.converted, conversion.diagnostics
    assert '["lr"] = torch.nn.Parameter(' in conversion.source
    assert "    if torch.is_tensor(lr):\n" in conversion.source


@pytest.mark.parametrize(
    "kept", ["print(optimizer.state_dict()['param_groups'])", "saved.update(state=optimizer.state_dict())"]
)
@pytest.mark.parametrize("annealed", [False, True])
def test_a_state_may_be_kept_while_the_rate_never_changes(kept: str, annealed: bool) -> None:
    """The saved state keeps its float, and no optimizer in it becomes capturable."""
    parts = {
        "report": f"{PARTS['report']}\n{kept}",
        "before_loop": "saved = {}",
        **({} if annealed else {"anneal": ""}),
    }
    step = turn("tensor-lr", script(parts))
    assert isinstance(step.outcome, Skipped)
    assert (step.outcome.kind, "while the rate changes" in step.outcome.reason) == (
        ("left as it was", True) if annealed else ("not needed", False)
    )


HELPERS = {
    "reads": ("def rate_of(opt):\n    return opt.param_groups[0]['lr']\n\n\n", "float(opt.param_groups[0]['lr'])"),
    "prints": (
        "def rate_of(opt):\n    print(opt.param_groups[0]['lr'])\n\n\n",
        "print(float(opt.param_groups[0]['lr']))",
    ),
}


@pytest.mark.parametrize("helper", HELPERS)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_helper_that_is_called_several_times(helper: str, times: int) -> None:
    defined, after = HELPERS[helper]
    parts = {"functions": defined, "head": "rate_of(optimizer)\n" * times}
    source = converted_by(script(parts), "tensor-lr").source
    assert source.count(after) == 1
    assert "float(float(" not in source


def test_a_helper_that_sets_the_rate_several_times() -> None:
    defined = "def anneal(opt, value):\n    opt.param_groups[0]['lr'] = value\n\n\n"
    parts = {"functions": defined, "anneal": "anneal(optimizer, 0.1 / iteration)\nanneal(optimizer, 0.2 / iteration)"}
    source = converted_by(script(parts), "tensor-lr").source
    assert source.count(".fill_(") == 1
