"""What a script may look up by a name given as text."""

import ast

import pytest

from transformer.dataflow.name_lookups import is_vars_of_options, looks_up_names
from transformer.syntax.tree import Tree

HEAD = "import numpy as np\nparser = make()\nargs = parser.parse_args()\nnet = make()\n"


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("vars(args)", True),
        ("train(**vars(parser.parse_args()))", True),
        ("def f():\n    return vars(args)", True),
        ("vars(np)", False),
        ("vars(net)", False),
        ("vars(net)['_modules']['0'] = other", False),
        ("vars()", False),
        ("see = vars", False),
        ("args = net\nvars(args)", False),
    ],
)
def test_the_variables_of_options_are_no_others(code: str, options: bool) -> None:
    tree = Tree(HEAD + code)
    (name,) = (n for n in tree.of(ast.Name) if n.id == "vars")
    assert is_vars_of_options(tree, name) == options


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("globals()['net']", True),
        ("__import__('__main__').net", True),
        ("__builtins__.globals()['net']", True),
        ("vars(args)", False),
        ("getattr(net, 'x')", False),  # of a class's methods alone
        ("net.x", False),
        ("import sys\nsys.exit(sys.argv[1:])", False),
        ("import sys\nsys.modules['__main__'].net", True),
        ("import sys as system\nsystem.modules['__main__'].net", True),
        ("import sys\nask(sys, 'modules')", True),
        ("from sys import _getframe as here\nhere().f_globals['net']", True),
        ("import importlib\nimportlib.import_module('other')", True),
    ],
)
def test_names_that_are_looked_up(code: str, found: bool) -> None:
    tree = Tree(HEAD + code)
    assert looks_up_names(tree, tree.root) == found
