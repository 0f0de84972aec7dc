"""Lines of a script that findings and reasons name, with the part that they mean marked."""

import pytest

from transformer.syntax.diagnostics import Excerpt, excerpt, excerpts

SOURCE = """\
import torch

agent = Agent(envs)  # of é
for step in range(8):
\tagent.forward = faster(agent.forward)
total = sum(
    x for x in agent
)

if done
"""
VALID = SOURCE.replace("if done\n", "")


def meant(found: Excerpt | None) -> str:
    assert found is not None
    return found.text[found.column - 1 : found.end - 1]


@pytest.mark.parametrize(
    ("line", "column", "text"),
    [
        (3, 9, "Agent(envs)"),  # the whole expression that begins here
        (3, 1, "agent = Agent(envs)"),
        (4, 1, "for step in range(8):"),  # only the first line of a statement
        (5, 18, "faster(agent.forward)"),
        (6, 9, "sum("),
        (3, 10, "gent"),  # nothing begins here: the word
    ],
)
def test_expressions_by_column(line: int, column: int, text: str) -> None:
    assert meant(excerpt(VALID, line, column)) == text


@pytest.mark.parametrize(
    ("line", "about", "text"),
    [
        (5, "line 5 replaces agent.forward while it trains", "agent.forward"),
        (5, "line 5 replaces a method", "agent.forward = faster(agent.forward)"),
        (3, "line 3: Agent(envs) is not known, nor envs", "Agent(envs)"),
        (3, "line 3 uses agents", "agent = Agent(envs)  # of é"),  # no part of a name counts
    ],
)
def test_expressions_named_in_a_sentence(line: int, about: str, text: str) -> None:
    assert meant(excerpt(VALID, line, about=about)) == text


def test_text_that_is_not_python() -> None:
    assert excerpt(SOURCE, 10, 8) == Excerpt(10, 8, 9, "if done")  # the expression is incomplete
    assert meant(excerpt(SOURCE, 10, 4)) == "done"


@pytest.mark.parametrize(("line", "column"), [(0, 1), (2, 1), (99, 1), (2, None)])
def test_missing_lines(line: int, column: int | None) -> None:
    assert excerpt(VALID, line, column) is None


def test_each_named_line_appears_once() -> None:
    sentence = "line 3 makes agent; line 5 changes it, as line 3 does not, and line 4 of nets.py does not"
    assert [e.line for e in excerpts(VALID, sentence)] == [3, 5]
