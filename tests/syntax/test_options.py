"""Which names hold the options of a script."""

from __future__ import annotations

import ast

import pytest

from transformer.syntax.options import holds_options
from transformer.syntax.tree import Tree

HEAD = "import tyro\nparser = make()\n"


def holds(code: str) -> bool:
    """Whether the printed value holds options at that place."""
    tree = Tree(HEAD + code)
    (shown,) = (n for n in tree.of(ast.Call) if ast.unparse(n.func) == "print")
    return holds_options(tree, shown.args[0], tree.scope_of(shown))


@pytest.mark.parametrize(
    "code",
    [
        "args = parser.parse_args()\nprint(args)",
        "args: object = parser.parse_args()\nprint(args)",
        "args = tyro.cli(Args)\nprint(args)",
        "args, rest = parser.parse_known_args()\nprint(args)",
        "def parse():\n    args = parser.parse_args()\n    return args\nargs = parse()\nprint(args)",
        "args = parser.parse_args()\nsame = args\nprint(same)",
        "args = parser.parse_args()\ndef main(args):\n    print(args)\nmain(args)",
        "args = parser.parse_args()\ndef main():\n    print(args)\nmain()",
        "def train(args=None):\n    if args is None:\n        args = tyro.cli(Args)\n    print(args)\ntrain()",
        "class A:\n    def __init__(self, args):\n        self.args = args\n\n    def f(self):\n        "
        "print(self.args)\n\nA(parser.parse_args())",
    ],
)
def test_options(code: str) -> None:
    assert holds(code)


@pytest.mark.parametrize(
    "code",
    [
        "print(args)",
        "args = make()\nprint(args)",
        "args = parser.parse_args()\nargs = make()\nprint(args)",
        "args = other\nother = args\nprint(args)",
        "args, rest = parser.parse_known_args()\nprint(rest)",
        "def parse():\n    return None\nargs = parse()\nprint(args)",
        "def parse():\n    return parse()\nargs = parse()\nprint(args)",
        "def main(args):\n    print(args)\nmain(parser.parse_args())\nmain(make())",
        "def train(args=None):\n    print(args)\ntrain()",
        "def train(args=None):\n    if args is None:\n        args = make()\n    print(args)\ntrain()",
    ],
)
def test_values_that_may_be_something_else(code: str) -> None:
    assert not holds(code)
