"""The run through all transforms: the order, choosing among them, and what every conversion must leave alone."""

import io
import os
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import golden
import pytest
from scripts import script

from transformer import Conversion, SelectionError, Skipped, convert
from transformer.transforms import ORDER

FIXTURES = pytest.mark.parametrize("fixture", sorted(golden.FIXTURES.glob("*.py")), ids=lambda p: p.stem)
NAMES = [t.info.name for t in ORDER]


def slow_but_each(nth: int, values: Sequence[object]) -> list[object]:
    """Parameters of a test; all but each n-th, from the n-th on, are marked slow."""
    return [pytest.param(v, marks=[] if k % nth == 0 else pytest.mark.slow) for k, v in enumerate(values, 1)]


@cache
def whole() -> Conversion:
    return convert(script())


def comments(source: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return Counter(t.string for t in tokens if t.type == tokenize.COMMENT)


@FIXTURES
def test_every_comment_is_kept(fixture: Path) -> None:
    original, *states = map(comments, golden.conversion_of(fixture).states)
    for state in states:
        assert not original - state


@FIXTURES
def test_states_follow_from_each_other(fixture: Path) -> None:
    conversion = golden.conversion_of(fixture)
    assert [s.transform.name for s in conversion.steps] == NAMES
    before = conversion.original
    for step in conversion.steps:
        assert step.before == before
        assert step.applied == (step.after != before)
        assert step.applied == (step.changed != (0, 0))
        before = step.after
    assert before == conversion.source


@pytest.mark.parametrize("count", slow_but_each(6, range(1, len(NAMES))))
def test_every_prefix_of_the_order_can_be_chosen(count: int) -> None:
    prefix = convert(script(), select=NAMES[:count])
    assert prefix.source == whole().steps[count - 1].after
    rest = [s.outcome for s in prefix.steps[count:]]
    assert all(isinstance(o, Skipped) and not o.chosen for o in rest)


@pytest.mark.parametrize("name", slow_but_each(4, NAMES))
def test_each_transform_can_be_left_out_with_those_that_need_it(name: str) -> None:
    unwanted = {name}
    for transform in ORDER:
        if unwanted & set(transform.info.needs):
            unwanted.add(transform.info.name)
    conversion = convert(script(), ignore=unwanted)
    assert {s.transform.name for s in conversion.steps if not s.applied} >= unwanted
    assert conversion.converted
    compile(conversion.source, "script", "exec")


def test_what_a_chosen_transform_needs_must_be_chosen() -> None:
    with pytest.raises(SelectionError, match="measure needs flags: add --select flags"):
        convert(script(), select=["measure"])
    with pytest.raises(SelectionError, match="needs flags: drop --ignore flags"):
        convert(script(), ignore=["flags"])
    with pytest.raises(SelectionError, match="no transform named 'speed'"):
        convert(script(), select=["speed"])


def test_order_agrees_with_what_transforms_need() -> None:
    for i, transform in enumerate(ORDER):
        assert set(transform.info.needs) <= set(NAMES[:i])


def test_result_does_not_hang_on_the_hash_seed() -> None:
    code = "import sys; from transformer import convert; sys.stdout.write(convert(sys.stdin.read()).source)"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            input=(golden.FIXTURES / "renamed.py").read_bytes(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] == golden.convert_fixture(golden.FIXTURES / "renamed.py").encode()


def test_lines_outside_the_training_loop_stay_byte_for_byte() -> None:
    odd = "TABLE = {  'a' :1,\n   'b':2 }   # odd,  but ours\nx=  [ 1,2 ,\n 3]\n\n\n"
    assert odd in convert(script({"functions": odd})).source
