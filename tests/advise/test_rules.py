"""Every rule finds its bad examples, and nothing in its good ones."""

import ast

import pytest
from golden import FIXTURES
from scripts import PARTS, script

from transformer.advise import RULES, Rule, advise
from transformer.advise.base import Example
from transformer.conversion.pipeline import all_transforms

pytestmark = pytest.mark.usefixtures("converted_once")
BAD = [pytest.param(r, e, id=f"{r.code}-{i}") for r in RULES for i, e in enumerate(r.bad)]
GOOD = [pytest.param(r, e, id=f"{r.code}-{i}") for r in RULES for i, e in enumerate(r.good)]


def found(rule: Rule, example: Example) -> list[tuple[int, str]]:
    return [(f.line, f.message) for f in advise(example.script) if f.code == rule.code]


def lines_of(example: Example) -> range:
    """The lines of the whole script on which an example stands."""
    first = example.script.index(example.code.splitlines()[0].strip())
    line = example.script.count("\n", 0, first) + 1
    return range(line, line + len(example.code.splitlines()))


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_bad_example_is_found(rule: Rule, example: Example) -> None:
    ((line, message),) = found(rule, example)
    assert line in lines_of(example)
    assert message and not message.endswith(".")


@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_good_example_is_not_found(rule: Rule, example: Example) -> None:
    ast.parse(example.script)
    assert found(rule, example) == []


def test_codes_are_unique_and_sorted() -> None:
    codes = [r.code for r in RULES]
    assert codes == sorted(set(codes))


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_texts(rule: Rule) -> None:
    assert not rule.title.endswith(".")
    assert rule.reason.endswith((".", ")"))
    assert rule.instead.endswith((".", ")"))
    assert len(rule.good) >= len(rule.bad)
    names = {t.name for t in all_transforms()}
    assert {f.transform for e in rule.bad for f in advise(e.script)} - {None} <= names


def test_a_transform_is_named_where_it_has_changed_the_line_alone() -> None:
    below = PARTS["optimize"] + "\nkl = (ratio - 1).mean().item()\nkls.append(kl)"
    source = script({"optimize": below, "head": "kls = []"})
    named = {source.splitlines()[f.line - 1].strip(): f.transform for f in advise(source) if f.code == "LA001"}
    assert named["kl = (ratio - 1).mean().item()"] is None
    assert named[PARTS["metrics"].splitlines()[-1].strip()] == "deferred-sync"


@pytest.mark.parametrize("below", ["", "\nalpha += 0.0"], ids=["a tensor", "changed elsewhere"])
def test_what_reads_a_temperature_is_named_where_it_becomes_a_tensor(below: str) -> None:
    read = "alpha = log_alpha.exp().item()"
    lines = (FIXTURES / "tuned_entropy.py").read_text().splitlines()
    lines = [line + below.replace("\n", "\n" + line[: -len(read)]) if line.strip() == read else line for line in lines]
    (found,) = (f for f in advise("\n".join(lines)) if f.code == "LA001")
    assert found.transform == (None if below else "tensor-temperature")
