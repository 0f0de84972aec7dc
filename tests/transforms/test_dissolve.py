"""Objects become variables and functions: the program prints the same, or the object stays."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from golden import converted
from programs import Program, printed, programs

from transformer import Applied, Skipped, all_transforms, convert
from transformer.conversion import pipeline
from transformer.conversion.result import Outcome
from transformer.recognition.history import Asked
from transformer.state import State
from transformer.syntax.tree import Tree
from transformer.transforms.gathering.dissolve import dissolved
from transformer.transforms.gathering.inlining import Stays
from transformer.transforms.gathering.training_object import understand


def rewritten(program: Program) -> str:
    """The program without its object of class A."""
    state = State.first(Tree(program.code), 100)
    return dissolved(state, understand(state.tree, state.tree.classes["A"])).tree.code


@pytest.mark.parametrize("program", programs("dissolve_same.txt"), ids=str)
def test_the_same_happens(program: Program) -> None:
    code = rewritten(program)
    assert "class A" not in code
    assert "self" not in code
    assert printed(code) == printed(program.code), code
    assert program.expected in code.splitlines() or not program.expected, code


def test_no_comment_is_lost() -> None:
    code = """
# above the class
class A:  # beside the class
    # above a constant
    k = 1  # beside a constant

    # above a method
    def __init__(self, n):  # beside a method
        # above a parameter's attribute
        self.n = n  # beside it
        # above an attribute
        self.m = self.k  # beside an attribute

    # between methods
    def go(self):
        self.m += self.n  # inside
        # at the method's end
    # at the class's end


# above the object
a = A(n)  # beside the object
# above a call
a.go()
"""
    program = Program("", "n = 2\n" + code.lstrip(), "")
    after = rewritten(program)
    lost = set(re.findall(r"# .*", program.code)) - set(re.findall(r"# .*", after))
    assert not lost, after


@pytest.mark.parametrize("program", programs("dissolve_stays.txt"), ids=str)
def test_a_program_that_needs_its_object_keeps_it(program: Program) -> None:
    with pytest.raises(Stays) as refused:
        rewritten(program)
    assert program.expected
    assert program.expected in str(refused.value)


def statements(chance: random.Random, local: list[str], receiver: str, methods: list[str]) -> list[str]:
    """Random statements on attributes, and on variables of the same names."""
    lines: list[str] = []

    def value() -> str:
        attribute = f"{receiver}.{chance.choice('abcd')}"
        return chance.choice([attribute, attribute, chance.choice(local), str(chance.randint(1, 5))])

    for _ in range(chance.randint(1, 4)):
        x, own = f"{receiver}.{chance.choice('abcd')}", chance.choice(local)
        call = f"{receiver}.{chance.choice(methods)}({value()})" if methods else "7"
        lines += chance.choice(
            [
                [f"{x} = {value()}"],
                [f"{x} += {value()}"],
                [f"{own} = {value()}"],
                [f"{x}, {own} = {value()}, {value()}"],
                [f"print({value()}, [i + {value()} for i in range(2)])"],
                [f"if {value()} % 2:", f"    {x} = {value()}", "else:", f"    {own} = {value()}"],
                [f"for {x} in range(2):", f"    print({value()})"],
                [f"{x} = {call}"],
                [f"print({call}, (lambda k: k + {value()})(1))"],
            ]
        )
    return lines


def made(seed: int) -> str:
    """A program with an object of a random class."""
    chance = random.Random(seed)
    params = chance.sample("abcdxy", 2)
    lines = ["class A:", f"    def __init__(self, {', '.join(params)}):"]
    lines += [f"        self.{n} = {chance.choice([*params, '3'])}" for n in "abcd"]
    lines += [f"        {line}" for line in statements(chance, params, "self", [])]
    methods: list[str] = []
    for name in ("f", "g"):
        local = [chance.choice("abcdxy"), "k"]
        lines += [f"    def {name}(self, k):", f"        {local[0]} = k + 1"]
        lines += [f"        {line}" for line in statements(chance, local, "self", list(methods))]
        lines += [f"        return self.{chance.choice('abcd')} + k"]
        methods.append(name)
    outer = chance.sample("abcdxy", 3)
    body = [f"{n} = {i + 1}" for i, n in enumerate(outer)]
    body += [f"o = A({chance.choice(outer)}, {chance.choice([*outer, '9', outer[0] + ' + 1'])})"]
    body += ["for turn in range(2):", *("    " + line for line in statements(chance, outer, "o", methods))]
    body += [f"print(o.a, o.b, o.c, o.d, {', '.join(outer)})"]
    main = ["def main():", *("    " + line for line in body), "main()"] if chance.random() < 0.5 else body
    return "\n".join([*lines, *main, ""])


@pytest.mark.slow
def test_random_classes_print_the_same() -> None:
    compared = 0
    for seed in range(150):
        program = Program(str(seed), made(seed), "")
        before = printed(program.code)
        try:
            after = rewritten(program)
        except Stays:
            continue
        assert printed(after) == before, f"{program.code}\n# ---\n{after}"
        compared += 1
    assert compared > 100


IN_METHODS = (Path(__file__).parent.parent.parent / "fixtures" / "in_methods.py").read_text(encoding="utf-8")


def outcome(source: str, ignore: set[str]) -> Outcome:
    """The transform's decision about the class."""
    return converted(source, ignore=ignore).steps[0].outcome


@pytest.mark.slow
def test_a_class_stays_where_as_much_applies_to_it() -> None:
    others = {t.name for t in all_transforms()} - {"dissolve", "inline", "rollout", "gae", "update"}
    kept = outcome(IN_METHODS, others)
    assert isinstance(kept, Skipped)
    assert kept.reason.startswith("as many transforms apply to the class")
    assert isinstance(converted(IN_METHODS).steps[0].outcome, Applied)


@pytest.mark.slow
def test_a_class_goes_where_its_update_is_one_graph_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    conversion = converted(IN_METHODS)
    lost = ("dissolve", "one-graph")
    steps = (replace(s, outcome=Skipped("")) if s.transform.name in lost else s for s in conversion.steps)
    whole = replace(conversion, steps=tuple(steps))
    assert [s.applied for s in conversion.steps if s.transform.name in lost] == [True, True]
    monkeypatch.setattr(pipeline, "_run", lambda *_: whole)
    assert pipeline._with_the_object(conversion, IN_METHODS, Asked(transforms=frozenset()), 120) is conversion


def test_a_class_stays_whose_training_cannot_leave_its_method() -> None:
    early = IN_METHODS.replace(
        "    def run(self):\n",
        "    def run(self):\n        if not self.settings.lr:\n            print()\n            return\n",
    )
    kept = outcome(early, set())
    assert isinstance(kept, Skipped)
    assert re.search(
        r"the attributes of PPO stay attributes: run\(\) \(line \d+\) .* line \d+ returns before its end", kept.reason
    )


def test_lines_of_reasons_are_the_scripts_own() -> None:
    """Also after earlier rewrites: other methods are inlined before learn(), which stays a method."""
    source = (Path(__file__).parent.parent.parent / "fixtures" / "in_methods.py").read_text(encoding="utf-8")
    source = source.replace("self.learn(advantages, returns)", "self.learn(advantages, returns, **{})")
    pattern = r"learn\(\) \(line (\d+)\).*line (\d+) spreads"
    reasons = [getattr(step.outcome, "reason", "") for step in convert(source).steps]
    found = {(int(m[1]), int(m[2])) for reason in reasons if (m := re.search(pattern, reason))}
    lines = source.splitlines()
    assert [(lines[n - 1].strip(), lines[m - 1].strip()) for n, m in found] == [
        (
            "def learn(self, advantages, returns):",
            "policy_loss, value_loss = self.learn(advantages, returns, **{})",
        )
    ]
