import ast

import pytest

from transformer.dataflow.name_lookups import names_in_locals, seen_by_text, variable_lookups
from transformer.dataflow.reaching import Reaching
from transformer.syntax.tree import Tree

MOVED = "def f(x):\n    x += 1\n    return x\nx = 0\nx = f(x)\n"


@pytest.mark.parametrize(
    "look", ["globals()['x']", "eval(text)", "import __main__\n__main__.x", "import sys\nsys.modules"]
)
def test_what_moves_into_a_function_is_seen(look: str) -> None:
    before = Tree(f"x = 0\nx += 1\n{look}\n")
    assert seen_by_text(before, Tree(f"{MOVED}{look}\n"), before.root) is not None


def test_what_is_added_is_not() -> None:
    before = Tree("x = 0\nx += 1\nglobals()\n")
    assert seen_by_text(before, Tree("x = 0\nx += 1\ny = 1\nglobals()\n"), before.root) is None


@pytest.mark.parametrize(
    "code",
    [
        "globals()",
        "names = globals",
        "vars()",
        "vars(m)\nimport m",
        "vars(make())",
        "tools = [eval]",
        "import builtins\nbuiltins.eval(x)",
        "import builtins as b\ngetattr(b, x)",
        "import sys\nsys._getframe(0)",
        "import sys\nf(sys)",
        "from sys import modules\nmodules[x]",
        "import inspect\ninspect.stack()",
        "import importlib\nimportlib.import_module(x)",
        "__import__(x)",
        "f.__globals__",
    ],
)
def test_ways_to_reach_variables(code: str) -> None:
    assert any(variable_lookups(Tree(code), None))


@pytest.mark.parametrize(
    "code",
    [
        "vars(args)",
        "Config(**vars(parser.parse_args()))",
        "model.eval()",
        "import sys\nsys.exit(1)\nprint(x, file=sys.stdout)",
        "import inspect\ninspect.signature(f)",
        "import importlib\nimportlib.import_module(f'envs.{x}')",
        "__import__('numpy')",
        "getattr(args, name)",
    ],
)
def test_what_reaches_none(code: str) -> None:
    assert not any(variable_lookups(Tree(code), None))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("globals()", False),
        ("locals()", True),
        ("import gc\ngc.get_objects()", True),
        ("if x:\n        exec(text)", True),
        ("def inner():\n        eval('x')", True),
    ],
)
def test_variables_of_a_function(code: str, found: bool) -> None:
    tree = Tree(f"def train():\n    {code}\n")
    function = tree.functions("train")[0]
    assert any(variable_lookups(tree, function)) is found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def options(self):\n    exec('self.' + name)", False),
        ("class A:\n    def options(self):\n        eval(name)", False),
        ("locals()", False),
        ("look = [eval]", True),
        ("def look(text, do=exec):\n    do(text)", True),
        ("import sys\ndef look():\n    sys._getframe(1).f_locals", True),
    ],
)
def test_other_functions_see_none_of_its_variables(code: str, found: bool) -> None:
    tree = Tree(f"def train():\n    x = 1\n{code}\n")
    assert any(variable_lookups(tree, tree.functions("train")[0])) is found


FIRST = "def train(lr):\n    log = make(lr)\n    {look}\n    x = 0\n    x += 1\n    {late}\n"


@pytest.mark.parametrize(
    ("look", "late", "changed", "seen"),
    [
        ("log.save(locals())", "pass", "    x += 1\n", False),
        ("log.save(config=locals())", "log.end()", "    x += 1\n", False),
        ("log.save(locals())", "log.save(locals())", "    x += 1\n", True),
        ("log.save(locals())", "pass", "    log = make(lr)\n", True),
        ("log.save(vars())", "pass", "    x += 1\n", True),
        ("log.save(lambda: locals())", "pass", "    x += 1\n", True),
        ("log.save(locals)", "pass", "    x += 1\n", True),
        ("for _ in y:\n        log.save(locals())", "pass", "    x += 1\n", True),
        ("def later():\n        return locals(), x", "later()", "    x += 1\n", True),
    ],
)
def test_what_is_asked_before_it_is_bound(look: str, late: str, changed: str, seen: bool) -> None:
    code = FIRST.format(look=look, late=late)
    before, after = Tree(code), Tree(code.replace(changed, "    pass\n", 1))
    assert (seen_by_text(before, after, before.functions("train")[0]) is not None) is seen


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("log(locals())\n    net = 1", {"x", "log"}),
        ("net = 1\n    log(locals())", {"x", "log", "net"}),
        ("for i in x:\n        log(locals())\n        net = i", {"x", "log", "net", "i"}),
        ("if x:\n        net = 1\n        del net\n    log(locals())", {"x", "log", "net"}),
        ("log(locals())\n    net = 1\n    return locals()", {"x", "log", "net"}),
        ("log(locals())\n    net = 1\n    see = locals\n    see()", {"x", "log", "net"}),
        ("log(vars())\n    net = 1", {"x", "log"}),
        ("log(lambda: locals())", None),
        ("log([locals() for y in x])", None),
        ("class A:\n        names = locals()", None),
        ("def inner():\n        return locals(), x\n    inner()", None),
    ],
)
def test_names_in_locals(body: str, names: set[str] | None) -> None:
    tree = Tree(f"def f(x, *, log):\n    {body}\n")
    call = next(c for c in tree.of(ast.Call) if getattr(c.func, "id", "") in ("locals", "vars"))
    found = names_in_locals(tree, Reaching(tree.scope_of(call).body), call)
    assert found is None if names is None else found is not None and found >= names
    assert names is None or not {"net"} & (found - names)
