"""Imports are added beside the script's own, and below those that must come first."""

import ast

import pytest

from transformer.syntax.imports import add_below_imports, add_imports
from transformer.syntax.rewrite import Edits, Source
from transformer.syntax.tree import Tree

FUTURE = '"""What it does."""\n\nfrom __future__ import annotations\n\n'


def added(text: str, *lines: str, below: str = "") -> str:
    source = Source(Tree(text), 120)
    edits = Edits(source)
    add_imports(source.tree.root, edits, *lines)
    if below:
        add_below_imports(source.tree.root, edits, below)
    return edits.apply()[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import os\n\nimport torch\n", "import argparse\nimport os\n\nimport torch\n"),
        ("import abc\nimport os\n", "import abc\nimport argparse\nimport os\n"),
        (FUTURE + "import torch\n", FUTURE + "import torch\nimport argparse\n"),
        (FUTURE + "import os\n", FUTURE + "import argparse\nimport os\n"),
        (FUTURE + "x = 1\n", FUTURE + "import argparse\nx = 1\n"),
        ("import argparse\n", "import argparse\n"),
        ("if x:\n    y()\n\nimport os\n", "if x:\n    y()\n\nimport argparse\nimport os\n"),
    ],
)
def test_an_import_is_added_beside_similar_ones(before: str, after: str) -> None:
    assert added(before, "import argparse") == after


@pytest.mark.parametrize(
    "before", [FUTURE + "import torch\n\nx = 1\n", FUTURE + "x = 1\n", "x = 1\n", "import os\nx = 1\n"]
)
def test_statements_come_below_the_imports(before: str) -> None:
    text = added(before, "import sys", below="y = sys.argv\n")
    compile(text, "script", "exec")
    names = [ast.unparse(s) for s in ast.parse(text).body if not isinstance(s, ast.Expr)]
    assert names.index("import sys") < names.index("y = sys.argv") < names.index("x = 1")


@pytest.mark.parametrize(
    ("before", "line", "after"),
    [
        ("from torch import nn\n", "from torch import Tensor", "from torch import Tensor, nn\n"),
        ("from torch import nn as n\n", "from torch import jit", "from torch import jit, nn as n\n"),
        ("from torch import *\n", "from torch import nn", "from torch import nn\nfrom torch import *\n"),
    ],
)
def test_a_name_joins_those_of_its_module(before: str, line: str, after: str) -> None:
    assert added(before, line) == after
