"""Updates whose optimizers are kept in containers: their functions are named by words alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from forking import assert_same_output
from test_several_critics import SCRIPT

from transformer import convert
from transformer.syntax.names import Names
from transformer.values.effects.kept_optimizers import trained_by

HELD = {
    "one in a dict": ("self.adams = {}\n        self.adams['one']", "self.adams['one']"),
    "a key that is no name": ("self.adams = {}\n        self.adams['critic 1!']", "self.adams['critic 1!']"),
    "a key that is a keyword": ("self.adams = {}\n        self.adams['class']", "self.adams['class']"),
    "a list": ("self.adams = [None]\n        self.adams[0]", "self.adams[0]"),
    "two levels": ("self.adams = {'a': {}}\n        self.adams['a']['b.c']", "self.adams['a']['b.c']"),
    "a computed key": ("self.adams = {}\n        self.adams[len(self.past) * 0]", "self.adams[0]"),
    "an object in a dict": ("self.box = {'a': self}\n        self.adam_one", "self.box['a'].adam_one"),
}


@pytest.mark.parametrize("held", HELD)
def test_it_is_extracted_and_steps_as_before(held: str, tmp_path: Path) -> None:
    kept, used = HELD[held]
    script = SCRIPT.replace("        self.past, self.count = [], 0\n", "")
    script = script.replace("self.adam_one.", f"{used}.").replace("self.adam_one =", f"{kept} =")
    script = script.replace(
        "        self.actor, self", "        self.past, self.count = [], 0\n        self.actor, self", 1
    )
    converted = convert(script)
    assert "update" in {step.transform.name for step in converted.steps if step.applied}, converted.diagnostics
    assert_same_output(tmp_path, script, converted.source)


@pytest.mark.parametrize(
    ("name", "trained"),
    [
        ("optimizer", ""),
        ("self.actor_optim", "_actor"),
        ("agent.critic.opt", ""),
        ("opts['actor']", "_actor"),
        ("self.opts['a.b']", ""),
        ("self.opts[0]", ""),
        ("self.critic_opts[i]", "_critic"),
        ("made().optimizer_q", "_q"),
        ("pick(a, b)", ""),
        ("opts['2']", ""),
    ],
)
def test_what_it_trains(name: str, trained: str) -> None:
    assert trained_by(name) == trained


@pytest.mark.parametrize("wanted", ["update_opts['a']", "1", "a b", "a.b()", "(x if y else z)", "[0]", "class", ""])
def test_every_fresh_name_is_a_name(wanted: str) -> None:
    names = Names({})
    first, second = names.fresh(wanted), names.fresh(wanted)
    assert first.isidentifier() and second.isidentifier() and first != second
