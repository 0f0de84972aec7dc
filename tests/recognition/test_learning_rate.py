"""Uses of an optimizer's learning rate: those that are understood, and those that may change or read it unseen."""

from __future__ import annotations

import pytest
from scripts import PARTS, edited
from states import more, state

from transformer.recognition.learning_rate import RateUses

RATE = "optimizer.param_groups[0]['lr']"
SHOWN = RATE.replace("'", '"')
OTHER = PARTS["optimizer"] + "\nother = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)"
SCHEDULER = PARTS["optimizer"] + "\nscheduler = optim.lr_scheduler.StepLR(optimizer, 1)"


def uses(parts: dict[str, str]) -> RateUses:
    return RateUses(state(**parts).roles, "optimizer")


def above(line: str, functions: str = "") -> dict[str, str]:
    return {"before_loop": line, "functions": functions and f"{functions}\n\n\n"}


def below(line: str, functions: str = "") -> dict[str, str]:
    return {"report": more("report", line), "functions": functions and f"{functions}\n\n\n"}


def given(function: str, call: str = "f(optimizer)") -> dict[str, str]:
    return below(call, function)


UNDERSTOOD: dict[str, tuple[dict[str, str], dict[str, int]]] = {
    "as it is": ({}, {"writes": 1, "reads": 1}),
    "not at all": ({"anneal": "", "report": "print(v_loss.item())"}, {}),
    "changed in place": (below(f"{RATE} *= 0.5"), {"writes": 1, "reads": 1, "scheduled": 1}),
    "shown as text": (below(f"print(f'{{{SHOWN}:.3f}}')"), {"writes": 1, "reads": 1}),
    "a loop over groups": (below("for g in optimizer.param_groups:\n    g['lr'] = 0.1"), {"writes": 2, "reads": 1}),
    "numbered groups": (
        below("for i, g in enumerate(optimizer.param_groups):\n    g['lr'] = 0.1 * i"),
        {"writes": 2, "reads": 1},
    ),
    "groups beside rates": (
        below("for r, g in zip([0.1], optimizer.param_groups):\n    g['lr'] = r"),
        {"writes": 2, "reads": 1},
    ),
    "the number of groups": (below("print(len(optimizer.param_groups))"), {"writes": 1, "reads": 1}),
    "another entry": (below("for g in optimizer.param_groups:\n    g['eps'] = 0.1"), {"writes": 1, "reads": 1}),
    "a scheduler": ({"optimizer": SCHEDULER, "anneal": "scheduler.step()"}, {"reads": 1, "scheduled": 1}),
    "a scheduler's rate": (
        {"optimizer": SCHEDULER, "anneal": "scheduler.step()\nprint(scheduler.get_last_lr()[0])"},
        {"reads": 2, "scheduled": 1},
    ),
    "the last rate of another scheduler": (
        {"optimizer": OTHER + "\ns = optim.lr_scheduler.StepLR(other, 1)", "anneal": "print(s.get_last_lr())"},
        {"reads": 1},
    ),
    "saved": (below("torch.save({'o': optimizer.state_dict()}, 'x')"), {"writes": 1, "reads": 1}),
    "saved by a name": (
        below("kept = [optimizer.state_dict()]\ntorch.save(kept, 'x')"),
        {"writes": 1, "reads": 1},
    ),
    "saved by a function of the file": (
        below("save({'o': optimizer.state_dict()}, 'x')", "def save(state, path):\n    torch.save(state, path)"),
        {"writes": 1, "reads": 1},
    ),
    "saved under a name that another function uses": (
        below(
            "save()\nshow({})",
            "def save():\n    kept = optimizer.state_dict()\n    torch.save(kept, 'x')\n"
            "def show(kept):\n    print(kept)",
        ),
        {"writes": 1, "reads": 1},
    ),
    "saved under a name that is used before": (
        below("kept = {}\nprint(kept['o'])\nkept = optimizer.state_dict()\ntorch.save(kept, 'x')"),
        {"writes": 1, "reads": 1},
    ),
    "loaded": (above("optimizer.load_state_dict(torch.load('x'))"), {"writes": 1, "reads": 1, "loads": 1}),
    "loaded in a function": (
        above("f(optimizer)", "def f(o):\n    o.load_state_dict(torch.load('x'))"),
        {"writes": 1, "reads": 1, "loads": 1},
    ),
    "printed above": (above("print(optimizer)"), {"writes": 1, "reads": 1, "shown": 1}),
    "printed above in text": (above("print(f'{optimizer}')"), {"writes": 1, "reads": 1, "shown": 1}),
    "looked at": (
        below("assert isinstance(optimizer, optim.Adam)\nif optimizer is not None and bool(optimizer):\n    pass"),
        {"writes": 1, "reads": 1},
    ),
    "asked": (below("if optimizer:\n    pass\noptimizer"), {"writes": 1, "reads": 1}),
    "cleared": (below("optimizer.zero_grad()\nprint(optimizer.state)"), {"writes": 1, "reads": 1}),
    "returned by the training": (
        {
            "main": "def train():",
            "setup": PARTS["setup"] + "\nif args.seed < 0:\n    return optimizer",
            "end": "    return optimizer\n\n\ntrain()",
        },
        {"writes": 1, "reads": 1},
    ),
    "given to torch": (below("torch.compile(optimizer)"), {"writes": 1, "reads": 1}),
    "given to a scaler": (below("scaler.unscale_(optimizer)"), {"writes": 1, "reads": 1}),
    "given to a function": (
        given("def f(o):\n    for g in o.param_groups:\n        g['lr'] = 0.1\n    return o.param_groups[0]['lr']"),
        {"writes": 1, "reads": 2, "others": 1},
    ),
    "given to a function that gives it to itself": (given("def f(o):\n    f(o)"), {"writes": 1, "reads": 1}),
    "given to a method that leaves the rate alone": (
        below("Tool().f(optimizer)", "class Tool:\n    def f(self, o):\n        o.step()"),
        {"writes": 1, "reads": 1},
    ),
    "scheduled in a function": (
        given("def f(o):\n    s = optim.lr_scheduler.StepLR(o, 1)"),
        {"writes": 1, "reads": 1, "scheduled": 1},
    ),
    "a loop over optimizers": (
        {"optimizer": OTHER, **below("for o in (optimizer, other):\n    o.param_groups[0]['lr'] = 0.1")},
        {"writes": 1, "reads": 1, "others": 1},
    ),
    "another optimizer in a function": (
        below("f()", "def f():\n    optimizer = make()\n    optimizer.defaults = 1"),
        {"writes": 1, "reads": 1},
    ),
}
OBSTACLES: dict[str, tuple[dict[str, str], str]] = {
    "several targets": (below(f"{RATE} = rate = 0.1"), "assigns it together with other targets"),
    "computed with in text": (below(f"print(f'{{{SHOWN} * 2}}')"), "computes with it inside an f-string"),
    "converted in text": (below(f"print(f'{{{SHOWN}!r}}')"), "computes with it inside an f-string"),
    "its defaults": (below("print(optimizer.defaults)"), "reads its defaults"),
    "an attribute that is set": (below("optimizer.param_groups = []"), "sets its param_groups"),
    "an attribute that nobody knows": (below("print(optimizer.rate)"), "uses its rate, which may hold its rate"),
    "a group more": (below("optimizer.add_param_group({'params': []})"), "add_param_group() on line"),
    "a hook": (below("optimizer.register_step_post_hook(print)"), "keeps the optimizer elsewhere"),
    "groups under a name": (below("groups = optimizer.param_groups"), "uses its parameter groups in a way"),
    "groups in another loop": (
        below("for a, b in product(optimizer.param_groups, [1]):\n    pass"),
        "uses its parameter groups in a way",
    ),
    "groups unpacked": (
        below("for g, *h in zip(optimizer.param_groups, 'ab', 'cd'):\n    pass"),
        "uses its parameter groups in a way",
    ),
    "a group under a name": (below("group = optimizer.param_groups[0]"), "takes a parameter group by itself"),
    "a group that is given away": (
        below("for g in optimizer.param_groups:\n    g.update(lr=0.1)"),
        "uses a parameter group in a way",
    ),
    "printed in the loop": (below("print(optimizer)"), "prints the optimizer"),
    "printed in the loop as text": (below("print(f'{optimizer}')"), "prints the optimizer"),
    "its state under a name": (below("kept = optimizer.state_dict()\nkeep(kept)"), "reads its state"),
    "its state in a function that keeps it": (
        below("save(optimizer.state_dict())", "def save(state):\n    torch.save(state, 'x')\n    kept.append(state)"),
        "reads its state",
    ),
    "its state in a function that hides it": (
        below("save(optimizer.state_dict())", "@wrapped\ndef save(state):\n    torch.save(state, 'x')"),
        "reads its state",
    ),
    "its state among others": (
        below("save(*[optimizer.state_dict()])", "def save(state):\n    torch.save(state, 'x')"),
        "reads its state",
    ),
    "its state under a name read in a later turn": (
        below("if iteration > 1:\n    print(kept)\nkept = optimizer.state_dict()\ntorch.save(kept, 'x')"),
        "reads its state",
    ),
    "its state in a generator": (
        below("kept = save(optimizer.state_dict())", "def save(state):\n    yield torch.save(state, 'x')"),
        "reads its state",
    ),
    "its state in a name of the module": (
        below(
            "save()\nkept.append(state)",
            "def save():\n    global state\n    state = optimizer.state_dict()\n    torch.save(state, 'x')",
        ),
        "reads its state",
    ),
    "its state in a function that looks at its names": (
        below(
            "save(optimizer.state_dict())", "def save(state):\n    torch.save(state, 'x')\n    kept.append(locals())"
        ),
        "reads its state",
    ),
    "its state under a name that a block may leave": (
        below(
            "state = optimizer.state_dict()\ntorch.save(state, 'x')\n"
            "with suppressed():\n    state = 1 / 0\nkept.append(state)"
        ),
        "reads its state",
    ),
    "its state under two names": (below("a = b = optimizer.state_dict()"), "reads its state"),
    "its state by itself": (below("optimizer.state_dict()"), "reads its state"),
    "its state somewhere": (below("keep(optimizer.state_dict())"), "reads its state"),
    "loaded in an expression": (
        below("if optimizer.load_state_dict(torch.load('x')):\n    pass"),
        "replaces its parameter groups",
    ),
    "under another name": (below("o = optimizer"), "keeps the optimizer elsewhere"),
    "in a list": (below("o = [optimizer]"), "keeps the optimizer elsewhere"),
    "given to something": (below("keep(optimizer)"), "passes the optimizer to keep(), which may change"),
    "given by name": (below("keep(o=optimizer)"), "passes the optimizer to keep(), which may change"),
    "given to a class that schedules": (
        below("Tool(optimizer)", "class Tool:\n    def __init__(self, o):\n        optim.lr_scheduler.StepLR(o, 1)"),
        "a function that may read its learning rate",
    ),
    "given to a class that reads": (
        below("Tool(optimizer)", "class Tool:\n    def __init__(self, o):\n        self.r = o.defaults"),
        "a function that may read its learning rate",
    ),
    "given to a class whose attribute another reads": (
        below(
            "t = Tool(optimizer)\nt.o.param_groups[0]['lr'] = 0.1",
            "class Tool:\n    def __init__(self, o):\n        self.o = o",
        ),
        "keeps the optimizer elsewhere",
    ),
    "given to one of two functions": (
        given("def f(o):\n    return o.defaults\n\n\ndef f(o):\n    pass"),
        "a function that may read its learning rate",
    ),
    "given to a function under a name that another takes": (
        given("def f(o):\n    return o.param_groups\n\n\nif make:\n    f = make"),
        "a function that may read its learning rate",
    ),
    "given to a decorated function": (
        given("@keep\ndef f(o):\n    pass"),
        "a function that may read its learning rate",
    ),
    "given among others": (
        given("def f(*all):\n    pass"),
        "a function that may read its learning rate",
    ),
    "given to a function that binds the name again": (
        given("def f(o):\n    o = make(o)"),
        "another name, whose uses are not understood",
    ),
    "given to a function that returns it": (given("def f(o):\n    return o"), "keeps the optimizer elsewhere"),
    "printed in a function": (
        {"setup": PARTS["setup"], **given("def f(o):\n    print(o)")},
        "prints the optimizer",
    ),
    "a loop over optimizers that are kept": (
        {"optimizer": OTHER, **below("for o in (optimizer, other):\n    keep(o)")},
        "passes the optimizer to keep()",
    ),
    "a loop over optimizers whose variable means something else": (
        {"optimizer": OTHER, **below("o = other\nfor o in (optimizer, other):\n    o.step()")},
        "keeps the optimizer elsewhere",
    ),
    "a loop over optimizers into an entry": (
        {"optimizer": OTHER, **below("kept = {}\nfor kept['o'] in (optimizer, other):\n    pass")},
        "keeps the optimizer elsewhere",
    ),
    "a loop over optimizers that loads": (
        {"optimizer": OTHER, **below("for o in (optimizer, other):\n    o.load_state_dict(torch.load('x'))")},
        "replaces the parameter groups of several optimizers",
    ),
    "a scheduler's rates": (
        {"optimizer": SCHEDULER, "anneal": "print(scheduler.get_last_lr())"},
        "reads the rates as a list",
    ),
    "a scheduler that something keeps": (
        {
            "optimizer": PARTS["optimizer"] + "\nkeep(optim.lr_scheduler.StepLR(optimizer, 1))",
            "anneal": "print(kept[0].get_last_lr())",
        },
        "makes a scheduler whose rates may be read elsewhere",
    ),
    "the rate of a copied group": (
        {"anneal": edited("anneal", 'optimizer.param_groups[0]["lr"]', "optimizer.param_groups[-1].copy()['lr']")},
        "takes a parameter group by itself",
    ),
}


@pytest.mark.parametrize(("parts", "counts"), UNDERSTOOD.values(), ids=UNDERSTOOD)
def test_understood_uses(parts: dict[str, str], counts: dict[str, int]) -> None:
    found = uses(parts)
    assert found.obstacle is found.kept_state is None
    kinds = ("writes", "others", "reads", "loads", "shown")
    seen = {kind: len(getattr(found, kind)) for kind in kinds} | {"scheduled": int(found.scheduled)}
    assert {kind: count for kind, count in seen.items() if count} == counts


@pytest.mark.parametrize(("parts", "said"), OBSTACLES.values(), ids=OBSTACLES)
def test_other_uses(parts: dict[str, str], said: str) -> None:
    found = uses(parts)
    obstacle = found.obstacle or found.kept_state  # kept_state matters only if the rate changes
    assert obstacle is not None
    assert said in obstacle
