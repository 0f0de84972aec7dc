"""What the training loop's code may change, by name."""

from __future__ import annotations

import ast

import pytest
from states import more, state

from transformer.recognition.changes import Changes, foreign_base
from transformer.syntax.tree import Tree


def changes(line: str, functions: str = "") -> Changes:
    return Changes(state(report=more("report", line), functions=functions and f"{functions}\n\n\n").roles)


@pytest.mark.parametrize(
    ("line", "stored", "touched", "grown"),
    [
        ("a.b = 1", "b", "a", ""),
        ("del a.b", "b", "a", ""),
        ("a.b.c = 1", "c", "a b", ""),
        ("a[0] = 1", "", "a", ""),
        ("a.b[0].c[1] = 1", "", "a b c", ""),
        ("a.b.add_(1)", "", "a b", ""),
        ("a.b.append(1)", "", "a b", "b"),
        ("a.b.setdefault(1, [])", "", "a b", "b"),
        ("a.b.popitem()", "", "a b", "b"),
        ("a.b.extendleft(c)", "", "a b", "b"),
        ("a.b.symmetric_difference_update(c)", "", "a b", "b"),
        ("a.b.get(1)", "", "", ""),
        ("a.add(1)", "", "a", ""),  # tensors have add() too
        ("f(a).append(1)", "", "", "f(a)"),
        ("delattr(a, 'b')", "b", "", ""),
        ("object.__setattr__(a, 'b', 1)", "b", "", ""),
        ("mock.patch.object(a, 'get_value', 1)", "get_value", "", ""),
        ("setattr(a, 'b', 1)", "b", "", ""),
        ("a = b", "", "", ""),
        ("print(a.b[0])", "", "", ""),
    ],
)
def test_changed_names(line: str, stored: str, touched: str, grown: str) -> None:
    before, after = changes("pass"), changes(line)
    assert set(after.stored) - set(before.stored) == set(stored.split())
    assert set(after.touched) - set(before.touched) == set(touched.split())
    assert set(after.grown) - set(before.grown) == set(grown.split())
    assert after.by_text is None


MASKED = "class Masked:\n    def __init__(self, mask, kept):\n        super().__init__()\n        {sets}"


@pytest.mark.parametrize(
    ("sets", "line", "stored"),
    [
        ("self.mask = mask", "Masked(1, a)", ""),  # each turn makes a new object
        ("kept.mask = mask", "Masked(1, a)", "mask"),
        ("kept.own = self", "Masked(1, a)", "own"),
        ("self.mask = mask", "Masked(1, a).__init__(2, a)", "mask"),
        ("self.mask = mask", "Masked.__init__(a, 2, a)", "mask"),
    ],
)
def test_constructor_changes_what_is_not_its_own(sets: str, line: str, stored: str) -> None:
    masked = MASKED.format(sets=sets)
    assert set(changes(line, masked).stored) - set(changes("pass").stored) == set(stored.split())


def test_names_of_an_outer_scope() -> None:
    assert set(changes("count()", "total = 0\n\n\ndef count():\n    global total\n    total += 1").bound) == {"total"}


@pytest.mark.parametrize(
    "line",
    [
        "setattr(a, name, 1)",
        "vars(a)['b'] = 1",
        "del globals()[name]",
        "a.__dict__[name] = 1",
        "a.__dict__.update(b)",
        "vars(a).setdefault(name, 1)",
    ],
)
def test_changes_by_text(line: str) -> None:
    assert changes(line).by_text is not None


def test_changes_by_text_in_a_function() -> None:
    assert changes("tell('a = 1')", "def tell(text):\n    exec(text)").by_text is not None
    assert changes("pass", "def tell(text):\n    exec(text)").by_text is None  # nobody calls it


@pytest.mark.parametrize("line", ["print(vars(a)['b'])", "getattr(a, name)", "a.update(b)", "f()['b'] = 1"])
def test_no_changes_by_text(line: str) -> None:
    assert changes(line).by_text is None


@pytest.mark.parametrize(
    ("bases", "foreign"),
    [
        ("", None),
        ("nn.Module", None),
        ("object", None),
        ("abc.ABC", None),
        ("Own", None),
        ("nn.Module, Mixin", "Mixin"),
        ("models.Base", "models.Base"),
        ("torch.utils.data.Dataset", "torch.utils.data.Dataset"),
    ],
)
def test_classes_of_other_files(bases: str, foreign: str | None) -> None:
    tree = Tree(
        f"import abc\nimport torch\nimport torch.nn as nn\nclass Own:\n    pass\nclass Made({bases}):\n    pass\n"
    )
    made = tree.root.body[-1]
    assert isinstance(made, ast.ClassDef)
    assert foreign_base(tree, made) == foreign
