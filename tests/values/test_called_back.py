"""Functions of the script that others hold: what they do may happen wherever others run."""

from __future__ import annotations

import ast

import pytest
from scripts import PARTS, script

from transformer.conversion.first_state import read, recognise
from transformer.recognition.roles import Roles
from transformer.values.effects.world import World

DEFINED = """\
import hooks


def shrink(*given):
    args.minibatch_size = max(1, args.minibatch_size // 2)
    return 1.0


def look(*given):
    return given


class Caller:
    def __call__(self):
        shrink()


class Later:
    def __del__(self):
        shrink()


class Adder:
    def __add__(self, other):
        shrink()
        return other

    @property
    def now(self):
        return shrink()

    def __getitem__(self, place):
        return shrink()


class Handler(logging.Handler):
    def emit(self, record):
        shrink()


class Screen:
    def write(self, text):
        shrink()

    def flush(self):
        pass


def endless():
    while True:
        yield shrink()


"""


def resets(setup: str, line: str, functions: str = "") -> bool:
    """Whether the minibatch size may change where a line stands in the minibatch loop, below other lines."""
    parts = {
        "functions": DEFINED + functions,
        "stdlib": "import functools\nimport itertools\nimport logging\nimport threading\nimport warnings",
        "setup": f"{PARTS['setup']}\n{setup}",
        "metrics": f"{PARTS['metrics']}\n{line}",
    }
    roles: Roles = recognise(read(script(parts), 120)).roles
    loop = roles.minibatch_loop
    assert loop is not None
    inside = (n for n in ast.walk(loop) if isinstance(n, ast.Attribute))
    size = next(n for n in inside if ast.unparse(n) == "args.minibatch_size")
    return roles.get(World).resets(size, loop.body) is not None


HELD = [
    ("hooks.register({})", "hooks.tick()"),
    ("hooks.register(functools.partial({}, 1))", "hooks.tick()"),
    ("hooks.register([{}])", "hooks.tick()"),
    ("hooks.register(lambda: {}())", "hooks.tick()"),
    ("hooks.register(f={})", "hooks.tick()"),
    ("hooks.last = {}", "hooks.tick()"),
    ("warnings.showwarning = {}", "warnings.warn('now')"),
    ("nn.Module.__repr__ = {}", ""),
    ("threading.Thread(target={}).start()", ""),
    ("optimizer.register_step_post_hook({})", ""),
    ("agent.register_forward_hook({})", ""),
    ("agent.actor.register_forward_hook({})", ""),
    ("agent.actor[0].weight.register_hook({})", ""),
    ("torch.nn.modules.module.register_module_forward_hook({})", ""),
    ("rates = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: {}() or 1.0)", "rates.step()"),
    ("turns = map({}, itertools.count())", "next(turns)"),
    ("turns = ({}() for _ in itertools.count())", "next(turns)"),
    ("turns = enumerate({}() for _ in itertools.count())", "for _ in turns: break"),
    ("turns = zip(map({}, itertools.count()), [1, 2])", "first = [*turns]"),
]


@pytest.mark.parametrize(("setup", "line"), HELD)
@pytest.mark.parametrize("function", ["shrink", "look"])
def test_a_function_that_others_hold(setup: str, line: str, function: str) -> None:
    assert resets(setup.format(function), line) is (function == "shrink")


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        ("hooks.register(Caller())", "hooks.tick()"),
        ("hooks.register(Caller)", "hooks.tick()"),
        ("later = Later()", ""),
        ("logging.getLogger().addHandler(Handler())", "logging.error('now')"),
        ("hooks.sys.stdout = Screen()", "print('now')"),
        ("turns = endless()", "next(turns)"),
        ("turns = iter(endless())", "for _ in turns: break"),
        ("turns = endless()", "turns.send(None)"),
        ("turns = endless()\nhooks.register(turns)", "hooks.tick()"),
    ],
)
def test_an_object_that_runs_one(setup: str, line: str) -> None:
    assert resets(setup, line)


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        ("", ""),
        ("hooks.register(1)", "hooks.tick()"),
        ("functions = [shrink]", ""),
        ("caller, adder = Caller(), Adder()", ""),
        ("turns = endless()", ""),
        ("turns = map(shrink, itertools.count())", ""),
        ("agent.apply(shrink)", ""),
        ("shrink()", ""),
    ],
)
def test_what_only_runs_above(setup: str, line: str) -> None:
    assert not resets(setup, line)


@pytest.mark.parametrize(
    "line", ["box + 1", "1 + box", "box += 1", "box.now", "box[0]", "for _ in box: pass", "held.box + 1", "held[0] + 1"]
)
@pytest.mark.parametrize("escaped", [True, False])
def test_what_is_unknown_may_be_an_object_that_has_escaped(line: str, escaped: bool) -> None:
    keep = "hooks.register(Adder())" if escaped else "adder = Adder()"
    assert resets(f"{keep}\nheld = hooks.held\nbox = hooks.last()", line) is escaped


@pytest.mark.parametrize("given", ["lambda: args", "giver", "Giver().give", "Giver()"])
def test_what_such_a_function_returns_has_escaped(given: str) -> None:
    functions = "def giver():\n    return [args]\n\n\nclass Giver:\n    def give(self):\n        return args\n\n\n"
    assert resets(f"hooks.register({given})", "hooks.tick()", functions)
    assert not resets(f"given = {given}", "hooks.tick()", functions)
