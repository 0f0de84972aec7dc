"""The interpreter reruns a statement only if what it read has changed; rerunning all of them must find nothing more."""

from __future__ import annotations

from pathlib import Path

import golden
import pytest
from tiers import slow_but_each

from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.tree import Tree
from transformer.values.effects.interpreter import Interpreter
from transformer.values.effects.objects import LastRun, Thing, Variable

SCRIPTS = [*sorted(golden.CONVERTED.glob("*.py")), *sorted(golden.FIXTURES.glob("*.py"))]

LATE = {
    "a name": ("first = [lambda: name][0]()", "global name\nname = torch.zeros(1)"),
    "a name among all": ("names = globals()", "global name\nname = 1"),
    "an attribute of any name": ("read = getattr(options, key)", "vars(options)[key] = key"),
    "a closure's variable": ("two = [once(key), once(box)]\nfor one in two:\n    one()", "two.append(once(options))"),
    "a closure's closure": ("two = [twice(key)]\nfor one in two:\n    one()()", "two.append(twice(options))"),
    "the contents of a copy": ("copied = copy.copy(box)", "box.append(torch.zeros(1))"),
    "the contents of a deep copy": ("copied = copy.deepcopy([box])", "box.append([torch.zeros(1)])"),
    "the contents of a pattern": ("match box:\n    case [x]:\n        pass", "box.append(torch.zeros(1))"),
    "a module's part": ("model = nn.Sequential(box[0])(key)", "box.append(nn.Identity())"),
}
"""A statement, and a line that changes what it reads."""
AROUND = """\
import copy
import torch
from torch import nn


def once(x):
    return lambda: x


def twice(x):
    return lambda: lambda: x


key, options, box = torch.ones(1), nn.Linear(1, 1), [nn.Linear(1, 1)]


def around():
    def late():
        {late}

    [][0](late)


{statement}
around()
"""
"""Unknown code, which is analysed last, calls what changes it."""


def found(roles: Roles) -> list[object]:
    """All that the abstract run of a script finds."""

    def of(thing: Thing | None) -> object:
        return thing and (thing.kind, thing.node, thing.context, thing.name, *map(of, thing.of))

    run = Interpreter(roles)
    assert not run.gave_up, "what a run has found by then depends on its order"
    places = ((p if isinstance(p, Variable) else (of(p[0]), p[1]), things) for p, things in run.heap.held.items())
    return [
        {place: {*map(of, things)} for place, things in places},
        {place: {*map(of, things)} for place, things in run.values.items()},
        {(f, n): {(of(e.thing), *e[:1], *e[2:]) for e in es} for f, by in run.effects.items() for n, es in by.items()},
        run.calls,
    ]


def check(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    roles = State.first(Tree(source), 120).roles
    once = found(roles)
    with monkeypatch.context() as patched:
        patched.setattr(LastRun, "done", property(lambda self: False, lambda self, value: None))
        assert once == found(roles)


@pytest.mark.parametrize("file", slow_but_each(12, SCRIPTS), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_rerunning_everything_finds_nothing_more(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(file.read_text(encoding="utf-8"), monkeypatch)


@pytest.mark.parametrize(("statement", "late"), LATE.values(), ids=LATE.keys())
def test_late_changes(statement: str, late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(AROUND.format(statement=statement, late=late.replace("\n", "\n        ")), monkeypatch)
