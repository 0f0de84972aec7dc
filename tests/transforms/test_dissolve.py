"""Objects as variables and functions: the same is printed, or the object stays."""

import pytest
from programs import Program, printed, programs

from transformer.facts import Facts
from transformer.inlining import NotInlined
from transformer.objects import Kept, understand
from transformer.script import Script
from transformer.source import Source
from transformer.transforms.dissolve import dissolved


def rewritten(program: Program) -> str:
    """The program without its object of class A."""
    state = Script(Source(program.code, 100), Facts(original=program.code))
    return dissolved(state, understand(state, state.classes["A"]))


@pytest.mark.parametrize("program", programs("dissolve_same.txt"), ids=str)
def test_the_same_happens(program: Program) -> None:
    code = rewritten(program)
    assert "class A" not in code
    assert "self" not in code
    assert printed(code) == printed(program.code), code
    assert program.expected in code.splitlines() or not program.expected, code


@pytest.mark.parametrize("program", programs("dissolve_stays.txt"), ids=str)
def test_what_needs_an_object_stays_one(program: Program) -> None:
    with pytest.raises((Kept, NotInlined)) as refused:
        rewritten(program)
    assert program.expected
    assert program.expected in str(refused.value)
