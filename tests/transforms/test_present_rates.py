"""Rates that are floats except in a compiled update: what one-graph requires of them, and what compile emits."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest
import torch
from cases import NoOp, converted_by, turn
from scripts import PARTS, edited, script

from transformer import Applied, Skipped
from transformer.syntax.templates import render

PLAIN = {"metrics": "", "report": "print(iteration, global_step)"}
UPDATE = ("update",)
MADE = PARTS["optimizer"]
WRAPPED = "        update = at_present_rate(torch.compile(update, options=options), optimizer)"
SAVED = "def save(signum, frame):\n    torch.save(optimizer.state_dict(), '/dev/null')\n\n"
SCHEDULER = "scheduler = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 5)"

KEPT = {
    "its state is kept": {"report": "kept = optimizer.state_dict()\nprint(kept['param_groups'][0]['lr'])"},
    "it is printed": {"report": "print(optimizer)"},
    "unknown code gets the rate": {
        "third_party": "import wandb",
        "report": "wandb.log({'rate': optimizer.param_groups[0]['lr']})\nprint(optimizer)",
    },
    "another file's network": {
        "third_party": "from networks import judge",
        "optimize": PARTS["optimize"].replace("loss.backward()", "print(judge(loss.detach()))\nloss.backward()"),
        "report": "print(optimizer)",
    },
    "a function keeps its state": {
        "functions": "def states_of(opt):\n    return opt.state_dict()\n\n\n",
        "report": "kept = states_of(optimizer)",
    },
    "a rate that a function of torch computes": {
        "anneal": "for group in optimizer.param_groups:\n    group['lr'] = float(torch.sigmoid(torch.tensor(1.0)))",
        "report": "kept = optimizer.state_dict()",
    },
    "a scheduler whose rates are read as a list": {
        "anneal": "",
        "before_loop": SCHEDULER,
        "report": "print(scheduler.get_last_lr())\nscheduler.step()",
    },
    "a checkpoint is loaded below a print": {"before_loop": "optimizer.load_state_dict(optimizer.state_dict())"},
    "groups of its own": {
        "optimizer": "optimizer = optim.Adam([{'params': list(agent.actor.parameters()), 'lr': 0.1}, "
        "{'params': agent.critic.parameters()}])",
        "report": "print(optimizer.state_dict())",
    },
    "schedulers in a list": {"before_loop": SCHEDULER.replace("= ", "= [") + "]"},
    "it is compared": {"before_loop": "print(agent == optimizer)", "report": "print(optimizer)"},
    "a name is asked for": {
        "anneal": "if iteration > 1:\n    rate = 1e-3\n    optimizer.param_groups[0]['lr'] = rate",
        "report": "print(optimizer, rate if 'rate' in locals() else 0)",
    },
    "a method of it has a name": {"before_loop": "step_later = optimizer.step"},
    "a function of the file declares it": {
        "closures": "def other():\n    global optimizer\n    optimizer.state_dict()\n\n",
        "report": "print(optimizer)",
    },
    "the loop stands in another block": {"loop": "if True:\n  for iteration in range(1, args.num_iterations + 1):"},
}


@pytest.mark.parametrize("parts", KEPT.values(), ids=KEPT)
def test_a_rate_that_nothing_sees_during_an_update(parts: dict[str, str]) -> None:
    source = script({**PLAIN, **parts})
    if parts.get("loop"):
        head, _, body = source.partition("    if True:\n")
        source = f"{head}    if True:\n" + "".join(f"    {line}" for line in body.splitlines(keepends=True))
        source = source.replace("      for iteration in ", "    for iteration in ", 1)
    step = turn("one-graph", source, UPDATE)
    assert isinstance(step.outcome, Applied), step.outcome
    assert "optimizer_step()" in step.after
    before, after = (text.splitlines() for text in (step.after, turn("compile", source, ("one-graph",)).after))
    assert not [line for line in before if line not in after and '"--compile"' not in line]
    assert any(line.endswith(WRAPPED.strip()) for line in after)
    assert (
        "    def at_present_rate(update, *optimizers):" in after or "def at_present_rate(update, *optimizers):" in after
    )


def test_the_wrapper_is_emitted_only_for_changing_rates() -> None:
    parts = {**PLAIN, **KEPT["its state is kept"]}
    chosen = ("tensor-lr", "update", "one-graph", "compile")
    conversion = converted_by(script(parts), *chosen)
    assert isinstance(next(s.outcome for s in conversion.steps if s.transform.name == "tensor-lr"), Skipped)
    lines = conversion.source.splitlines()
    assert lines.count(WRAPPED) == 1
    assert lines.count(PARTS["anneal"].splitlines()[1].join(["        ", ""])) == 1  # the line that sets the rate stays
    assert lines.index("def at_present_rate(update, *optimizers):") < lines.index(WRAPPED)
    steady = converted_by(script(PLAIN), *chosen).source
    assert "traceable(optimizer)" in steady
    assert "at_present_rate" not in steady


@pytest.mark.parametrize(
    ("optimize", "wrapped"),
    [
        (
            "first.zero_grad()\npg_loss.backward(retain_graph=True)\nfirst.step()\n"
            "second.zero_grad()\nv_loss.backward()\nsecond.step()",
            "first, second",
        ),
        ("first.zero_grad()\nsecond.zero_grad()\nloss.backward()\nfirst.step()\nsecond.step()", "first, second"),
    ],
)
@pytest.mark.parametrize("held", ["first", "both"])
def test_two_optimizers(optimize: str, wrapped: str, held: str) -> None:
    made = "\n".join(
        f"{name} = optim.Adam(agent.{part}.parameters(), lr=args.learning_rate)"
        for name, part in (("first", "actor"), ("second", "critic"))
    )
    kept = ["first", "second"][: 1 if held == "first" else 2]
    report = "\n".join(f"print({name}.state_dict())" for name in kept)
    anneal = "\n".join(f"{name}.param_groups[0]['lr'] = 1 / iteration" for name in ("first", "second"))
    parts = {"optimizer": made, "optimize": optimize, "report": report, "anneal": anneal}
    source = converted_by(script({**PLAIN, **parts}), "tensor-lr", "one-graph", "compile").source
    expected = wrapped if held == "both" else "first"
    assert f"update = at_present_rate(torch.compile(update, options=options), {expected})" in source


def noop(title: str, parts: dict[str, str], reason: str = "line {line} may see it while", at: str = "") -> NoOp:
    return NoOp(title, {**PLAIN, **parts}, reason, at=at, also=UPDATE)


STOPPED = edited("optimize", "optimizer.zero_grad()", "after()\noptimizer.zero_grad()")
ELSEWHERE = "which may reach the parameters"
UNKNOWN = "code that is not known may have it"
NO_VARIABLE = "not a variable bound above the training loop"
SAVES = "states = []\n\n\nclass Saver:\n    def {}(self{}):\n        states.append(optimizer.state_dict())\n\n\n"
ASKS = "def after():\n    print(optimizer.param_groups[0]['lr'])\n\n"
ANNEALS = "def anneal():\n    optimizer.param_groups[0]['lr'] *= 0.9\n\n"
NOOPS = [
    noop(
        "a signal saves it",
        {"stdlib": "import signal", "closures": SAVED, "before_loop": "signal.signal(signal.SIGTERM, save)"},
        at="torch.save(",
    ),
    noop(
        "another thread sets the rate",
        {
            "stdlib": "import threading",
            "closures": ANNEALS,
            "before_loop": "threading.Thread(target=anneal).start()",
        },
        at="*= 0.9",
    ),
    noop(
        "another thread sets the rate through a function",
        {
            "stdlib": "import threading",
            "closures": f"{ANNEALS}def beside():\n    anneal()\n\n",
            "before_loop": "threading.Thread(target=beside).start()",
        },
        at="*= 0.9",
    ),
    noop(
        "a coroutine saves it",
        {"closures": SAVED.replace("def ", "async def ")},
        at="torch.save(",
    ),
    noop("a lambda", {"before_loop": "rate = lambda: optimizer.state_dict()"}, at="rate = lambda"),
    noop(
        "a generator",
        {"closures": "def states():\n    while True:\n        yield optimizer.state_dict()\n\n"},
        at="yield",
    ),
    noop(
        "the update reads the rate",
        {
            "optimize": edited(
                "optimize", "optimizer.zero", "loss = loss * optimizer.param_groups[0]['lr']\noptimizer.zero"
            )
        },
        at="loss * optimizer",
    ),
    noop(
        "the update asks for its state",
        {"optimize": edited("optimize", "optimizer.zero", "loss = loss + len(optimizer.state_dict())\noptimizer.zero")},
        at="len(optimizer.state_dict",
    ),
    noop("a function that it calls reads the rate", {"closures": ASKS, "optimize": STOPPED}, at="print(optimizer"),
    noop(
        "a function that it calls keeps the state",
        {
            "closures": "states = []\n\n\ndef after():\n    states.append(optimizer.state_dict())\n\n",
            "optimize": STOPPED,
        },
        at="states.append",
    ),
    *(
        noop(
            title,
            {"closures": SAVES.format(*method) + more, "optimize": STOPPED.replace("after()", called)},
            at="states.append",
        )
        for title, method, more, called in (
            ("a class under another name is made", ("__init__", ""), "make = Saver\n", "make()"),
            ("a derived class is made", ("__init__", ""), "class Own(Saver):\n    pass\n", "Own()"),
            ("a method that is found by its name", ("look", ""), "saver = Saver()\n", "getattr(saver, 'look')()"),
            ("a method that Python calls", ("write", ", text"), "saver = Saver()\n", "print(file=saver)"),
        )
    ),
    noop(
        "a function that it calls steps a scheduler",
        {
            "anneal": "",
            "before_loop": f"{SCHEDULER}\n\n\ndef after():\n    scheduler.step()\n\n",
            "optimize": STOPPED,
        },
        at="scheduler.step()",
    ),
    noop(
        "a scheduler that is given away",
        {"before_loop": f"{SCHEDULER}\nagent.scheduler = scheduler"},
        "sets agent.scheduler",
    ),
    noop("a default", {"before_loop": "def show(opt=optimizer):\n    print(opt)"}, ELSEWHERE),
    noop("a list", {"before_loop": "all_of = [optimizer]"}, ELSEWHERE),
    noop("another name", {"before_loop": "same = optimizer"}, ELSEWHERE),
    noop("a group by itself", {"before_loop": "group = optimizer.param_groups[0]"}, ELSEWHERE),
    noop(
        "a group that a loop leaves behind",
        {
            "before_loop": "for group in optimizer.param_groups:\n    group['lr'] = 0.1",
            "optimize": edited("optimize", "optimizer.zero", "loss = loss * group['lr']\noptimizer.zero"),
        },
        at="loss * group",
    ),
    noop(
        "groups that were made before it",
        {"optimizer": "both = [{'params': agent.parameters()}]\noptimizer = optim.Adam(both, lr=args.learning_rate)"},
        "its groups may be in use elsewhere",
    ),
    noop("its groups", {"before_loop": "groups = optimizer.param_groups"}, "line {line} uses groups", at="groups ="),
    noop(
        "a loop that keeps a group",
        {"before_loop": "kept = []\nfor group in optimizer.param_groups:\n    kept.append(group)"},
        ELSEWHERE,
    ),
    noop(
        "another file's function",
        {"third_party": "from rates import watch", "before_loop": "watch(optimizer)"},
        UNKNOWN,
    ),
    noop(
        "a function that keeps it",
        {"functions": "kept = []\n\n\ndef keep(opt):\n    kept.append(opt)\n\n\n", "before_loop": "keep(optimizer)"},
        "gives opt to kept.append(), which may change it",
    ),
    noop("more parameters", {"before_loop": "optimizer.add_param_group({'params': []})"}, ELSEWHERE),
    noop(
        "all names are looked at",
        {"third_party": "import inspect", "before_loop": "print(inspect.signature(print))"},
        "line {line} uses inspect, which may see it",
        at="inspect.signature",
    ),
    noop(
        "a hook for all optimizers",
        {
            "third_party": "from torch.optim.optimizer import register_optimizer_step_post_hook as after_step",
            "before_loop": "states = []\nafter_step(lambda which, *_: states.append(which.state_dict()))",
        },
        "line {line} registers a hook",
        at="after_step(lambda",
    ),
    noop("a step over many", {"optimizer": MADE[:-1] + ", foreach=True)"}, "not known to accept a tensor as its rate"),
    noop("on a device", {"optimizer": MADE[:-1] + ", capturable=False)"}, "not known to accept a tensor as its rate"),
    noop("made on a condition", {"optimizer": f"if args.seed:\n    {MADE}"}, NO_VARIABLE),
    noop(
        "deleted",
        {"end": "del optimizer"},
        "line {line} binds its name to something else, or deletes it",
        at="del optimizer",
    ),
]


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("one-graph")


# --- what is emitted --------------------------------------------------------------------------------------------------


def emitted() -> dict[str, Any]:
    """The functions as conversions contain them."""
    found: dict[str, Any] = {"torch": torch, "inspect": inspect}
    named = {"alone": False, "only": True, "flag": "True", "traceable": "traceable", "scheduled": False}
    exec(render("present_rates", present_rates="at_present_rate") + "\n" + render("traceable", **named), found)
    return found


def two_groups(kind: str = "SGD") -> torch.optim.Optimizer:
    torch.manual_seed(1)
    parameters = [torch.randn(3, requires_grad=True) for _ in range(2)]
    return getattr(torch.optim, kind)([{"params": [p], "lr": 0.1 * n} for n, p in enumerate(parameters, 1)])


def test_rates_are_float64_tensors_during_the_update_only() -> None:
    optimizer, seen = two_groups(), list[Any]()
    rates = [0.1 + 0.2, 3]

    def update(value: int, *, fails: bool = False) -> int:
        seen[:] = [group["lr"] for group in optimizer.param_groups]
        if fails:
            raise KeyError(value)
        return value + 1

    updated = emitted()["at_present_rate"](update, optimizer)
    for fails in (False, True):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        if fails:
            with pytest.raises(KeyError):
                updated(1, fails=True)
        else:
            assert updated(1) == 2
        assert [rate.dtype for rate in seen] == [torch.float64] * 2
        assert [rate.item() for rate in seen] == rates
        assert all(group["lr"] is rate for group, rate in zip(optimizer.param_groups, rates, strict=True))


def test_numpy_rates() -> None:
    optimizer, seen = two_groups(), list[Any]()
    rates = [np.where(True, 0.1, 0.2), np.float32(0.25)]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    emitted()["at_present_rate"](lambda: seen.extend(g["lr"].item() for g in optimizer.param_groups), optimizer)()
    assert seen == rates
    assert all(group["lr"] is rate for group, rate in zip(optimizer.param_groups, rates, strict=True))


def test_loaded_groups_and_tensor_rates() -> None:
    optimizer, seen = two_groups(), list[Any]()
    updated = emitted()["at_present_rate"](lambda: seen.extend(g["lr"] for g in optimizer.param_groups), optimizer)
    updated()
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0]["lr"] = own = torch.tensor(0.5)
    state["param_groups"][1]["lr"] = 0.25
    optimizer.load_state_dict(state)
    updated()
    assert [rate.item() for rate in seen[2:]] == [0.5, 0.25]
    assert torch.equal(optimizer.param_groups[0]["lr"], own)
    assert optimizer.param_groups[1]["lr"] == 0.25
    assert seen[2].dtype is torch.float32


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "RMSprop", "SGD"])
def test_a_changing_rate_is_compiled_once_and_steps_as_a_tensor_does(kind: str) -> None:
    def train(wrapped: bool) -> tuple[list[torch.Tensor], int]:
        torch._dynamo.reset()
        functions, optimizer, graphs = emitted(), two_groups(kind), list[Any]()

        def count(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
            graphs.append(graph)
            return graph

        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        zero_grad, backward, step = functions["traceable"](optimizer)

        def update(x: torch.Tensor) -> None:
            zero_grad()
            backward(sum((p * x).square().sum() for p in parameters))
            step()

        update = torch.compile(update, backend=count)
        update = functions["at_present_rate"](update, optimizer) if wrapped else update
        for time in range(5):
            for number, group in enumerate(optimizer.param_groups, 1):
                rate = number * 0.01 / (time + 1)
                group["lr"] = rate if wrapped else torch.tensor(rate, dtype=torch.float64)
            update(torch.linspace(-1, 1, 3) * time)
        return parameters, len(graphs)

    ours, graphs = train(wrapped=True)
    theirs, _ = train(wrapped=False)
    assert graphs == 1
    assert all(map(torch.equal, ours, theirs))
