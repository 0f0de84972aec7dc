"""Functions and generators made in a block: which of them may read its variables after it has ended."""

from __future__ import annotations

import pytest

from transformer.dataflow.closures import kept_for_later
from transformer.syntax.tree import Tree


def kept(block: str, carried: str = "") -> dict[str, int]:
    """What may read `x` after the block, with the line where it is made."""
    tree = Tree(block)
    return kept_for_later(tree, tree.root.body, {"x"}, {carried})


DONE = {
    "a sum": "sum(x * i for i in y)",
    "text": "', '.join(str(x) for i in y)",
    "a loop": "for a in (x for i in y):\n    pass",
    "unpacked": "a, b = (x for i in y)",
    "starred": "print(*(x for i in y))",
    "in a list": "z = [j for j in (x for i in y)]",
    "in a generator that is used up": "sum(j for j in (x for i in y))",
    "in an iterator that is used up": "list(zip(y, (x for i in y)))",
    "the first iterable": "g = (i for i in x)",
    "a lambda that is called": "(lambda: x)()",
    "a lambda that maps": "list(map(lambda i: x, y))",
    "a lambda that orders": "sorted(y, key=lambda i: x)",
    "a lambda that reduces": "import functools\nfunctools.reduce(lambda a, b: a + x, y)",
    "a function that is called": "def f():\n    return x\nf()",
    "a function that maps": "def f(i):\n    return x\nlist(map(f, y))",
    "a function that nobody calls": "def f():\n    return x",
    "a parameter": "keep(lambda x: x)",
    "a parameter of the function around": "keep(lambda x: lambda: x)",
    "a variable of the function around": "def f():\n    x = 1\n    return lambda: x\nf()",
    "a variable of the comprehension around": "z = [lambda: x for x in y]",
}
KEPT = {
    "a generator": "g = (x for i in y)",
    "a condition": "g = (i for i in y if x)",
    "a second iterable": "g = (i for i in y for j in x)",
    "in a generator": "g = (j for j in (x for i in y))",
    "in an iterator": "m = zip(y, (x for i in y))",
    "given to something": "keep(x for i in y)",
    "joined by something": "path.join(x for i in y)",
    "a lambda": "f = lambda: x",
    "a lambda that is given to something": "keep(lambda: x)",
    "a lambda that something may keep by name": "keep(key=lambda: x)",
    "a lambda that will map": "m = map(lambda i: x, y)",
    "a sorted() of the script": "def sorted(y, key):\n    KEPT.append(key)\nsorted(y, key=lambda i: x)",
    "a function": "def f():\n    return x\nkeep(f)",
    "a function under another name": "def f():\n    return x\ng = f",
    "a decorated function": "@keep\ndef f():\n    return x\nf()",
    "a coroutine": "async def f():\n    return x\nf()",
    "a generator function": "def f():\n    yield x\nf()",
    "a function that writes": "def f():\n    global x\n    x += 1\nf()",
    "a method": "class A:\n    def f(self):\n        return x",
}


@pytest.mark.parametrize("block", DONE.values(), ids=DONE)
def test_what_is_done_with_at_the_end(block: str) -> None:
    assert kept(block) == {}


@pytest.mark.parametrize("block", KEPT.values(), ids=KEPT)
def test_what_may_be_called_later(block: str) -> None:
    assert set(kept(block)) == {"x"}


def test_a_function_that_is_there_before_or_used_behind() -> None:
    assert kept("y = 1\ndef f():\n    return x\nf()", carried="f") == {"x": 2}
