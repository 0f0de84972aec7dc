"""Mutants are what they are said to be, and those of a sample are told by `verify`."""

import ast
from dataclasses import replace

import pytest
from equivalent import proof
from figures import Score, Scored
from forking import preload
from generate import Mutant, canonical, mutants
from kill import Outcome, Range
from reasons import reasons
from score import sample
from targets import TARGETS

SCRIPT = '''
"""Docstring."""
import math


class Net:
    width = 3

    def act(self, x):
        """Docstring."""
        assert x > 0
        return math.exp(x) - 1


def setup(args):
    return args.seed + 5


def train(args):
    total, gain = 0.0, 2.0
    for i in range(3):  # three turns
        if args.gamma < 1 and not args.seed:
            gain = total / args.gamma
        elif i == 2:
            gain -= 1
        with lock:
            total += rows["a"][i] ** 2
    return total, gain, rows["b"]


if __name__ == "__main__":
    train(parse())
'''
KINDS = {
    "train": {"args": "", "total": "float", "gain": "float", "i": "int"},
    "args": {"gamma": "float", "seed": "int", "lambda_": "float"},
}
WANTED = {
    "constant": ["total, gain = (1.0, 2.0)", "total, gain = (0.0, 4.0)", "for i in range(4):", "if i == 1:"],
    "sign": ["total, gain = (0.0, -2.0)"],
    "operator": ["gain = total * args.gamma", "gain += 1", "total += rows['a'][i] * 2", "return math.exp(x) + 1"],
    "comparison": ["if args.gamma > 1 and (not args.seed):", "if i != 2:"],
    "condition": ["if not (args.gamma < 1 and (not args.seed)):"],
    "operands": ["gain = args.gamma / total", "gain, total = (0.0, 2.0)", "return (gain, total, rows['b'])"],
    "index": ["total += rows['b'][i] ** 2", "total += rows['a'][i - 1] ** 2"],
    "name": ["gain = gain / args.gamma", "gain = total / args.lambda_", "return (total, total, rows['b'])"],
    "drop": ["(dropped)"],
    "repeat": ["(repeated)"],
}


@pytest.fixture(scope="module")
def found() -> list[Mutant]:
    return mutants(canonical(SCRIPT), KINDS, aside=["setup"])


@pytest.mark.parametrize("kind", WANTED)
def test_edits_of_each_kind(found: list[Mutant], kind: str) -> None:
    assert {*WANTED[kind]} <= {m.after for m in found if m.kind == kind}


def test_each_mutant_is_one_edit_of_the_script(found: list[Mutant]) -> None:
    text = canonical(SCRIPT)
    texts = [ast.unparse(ast.parse(m.applied(text))) for m in found]
    assert len({text, *texts}) == len(texts) + 1 == len({m.key for m in found}) + 1


def test_what_is_left_alone(found: list[Mutant]) -> None:
    edited = {m.before for m in found}
    assert not any(
        word in before for before in edited for word in ("import", "width", "assert", "seed + 5", "Docstring")
    )
    assert "train(parse())" in edited and not any("__name__" in before for before in edited)


def test_a_dropped_with_leaves_its_block(found: list[Mutant]) -> None:
    (dropped,) = [m for m in found if m.kind == "drop" and m.before == "with lock:"]
    assert "\n        total += rows['a'][i] ** 2\n" in dropped.applied(canonical(SCRIPT))


@pytest.mark.parametrize(
    ("statement", "kind", "proved"),
    [
        ("y = x.mean() + 1", "repeat", True),
        ("y = y.mean() + 1", "repeat", False),
        ("y = sample(x)", "repeat", False),
        ("y = x.exp_()", "repeat", False),
        ("y, z = (z, x)", "repeat", False),
        ("t['a'] = x.clone()", "repeat", True),
        ("t['a'] = t['b'].clone()", "repeat", False),
        ("args.n = args.m * 2", "repeat", True),
        ("args.n = args.n * 2", "repeat", False),
        ("args.n = len(vars(args))", "repeat", False),
        ("a[i] = x", "repeat", False),
        ("y += x", "repeat", False),
        ("random.seed(args.seed)", "repeat", True),
        ("random.seed(next(seeds))", "repeat", False),
        ("optimizer.step()", "repeat", False),
        ("unread = (x, 2)", "drop", True),
        ("unread = draw(x)", "drop", False),
        ("read = (x, 2)", "drop", False),
    ],
)
def test_what_is_proved(statement: str, kind: str, proved: bool) -> None:
    text = canonical(f"def f():\n    {statement}\n    return y, read, t, args")
    (mutant,) = [m for m in mutants(text, {}) if m.kind == kind and m.before == statement]
    assert bool(proof(mutant, text)) == proved


def test_the_score_leaves_out_what_is_proved(found: list[Mutant]) -> None:
    killed, lives = Outcome("refactored", "refactored, base", "", 1), Outcome("", "", "", 4)
    scored = [Scored(m, lives if i == 0 else killed, "it is" if i < 2 else "", None) for i, m in enumerate(found[:10])]
    assert Score("x.py", {}, 12, 2, tuple(scored), ()).part == 1.0
    assert Score("x.py", {}, 12, 2, (*scored, replace(scored[0], proof="")), ()).part == 8 / 9


@pytest.fixture(scope="module")
def range_() -> Range:
    preload()
    return Range(TARGETS[0])


def test_a_sample_is_told(range_: Range) -> None:
    chosen = sample([m for m in range_.mutants if range_.runs(m)], 40)
    known = {key for reason in reasons(range_.target.name) for key in reason.keys}
    lives = {m.key for m in chosen if not proof(m, range_.text) and not range_.outcome(m).killed}
    assert len(chosen) == 40
    assert lives <= known, "give a reason in benchmarks/mutants.toml, or verify better eyes"


def test_reasons_are_of_mutants_that_are(range_: Range) -> None:
    keys = {m.key for m in range_.mutants if range_.runs(m)}
    assert [key for reason in reasons(range_.target.name) for key in reason.keys if key not in keys] == []
