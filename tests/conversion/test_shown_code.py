"""Edits that a script sees, because it lists the names of its module, or looks at the functions that run."""

from __future__ import annotations

import pytest

from transformer.conversion.shown_code import shown
from transformer.syntax.tree import Tree

LISTS = [
    "print(globals())",
    "print({k: v for k, v in globals().items() if k.islower()})",
    "n = len(vars())",
    "print(vars(found()))",
    "print(*dir())",
    "first = dir()[0]",
    "def save(dir):\n    make(dir)\nprint(dir())",
    "import sys\nfor name in sys.modules: show(name)",
    "def seen():\n    from sys import modules\n    return vars(modules['__main__'])",
    "names = globals\nshow(names())",
    "import __main__ as here\nprint(vars(here))",
    "import __main__\nprint(__main__.__dict__)",
    "from sys import modules\nprint(dir(modules[__name__]))",
    "import sys\nmodule = sys.modules['__main__']",
    "import importlib\nshow(importlib.import_module(name))",
    "print(len(f.__globals__))",
    "def names():\n    return sorted(globals())",
    "before = set(globals().keys())",
    "config.update(**globals())",
    "print(eval('len(globals())'))",
    "exec(text)\ntext = 'print(dir())'",
]
ASKS = [
    "globals()['x'] = 1",
    "print(globals()[name].__doc__)",
    "print(globals().get(name, 0))",
    "if 'x' in globals(): pass",
    "import sys\nprint(getattr(sys.modules[__name__], name))",
    "import __main__\nprint(__main__.x)",
    "import importlib\nmake = importlib.import_module(name).make",
    "make = eval(name)",
    "exec('x = 2')",
    "import sys\nsys.exit(1)",
    "print(vars(args))",
    "class Config: lr = 1\nfor key, value in vars(Config()).items(): parser.add_argument(key)",
    "import sys\nif 'google.colab' in sys.modules: pass",
    "if 'x' in dir(): pass",
    "def save(self, dir):\n    torch.save(self, dir)",
    "dir = 'runs'\nprint(dir)",
    "def f(a, b):\n    save(locals())\n    print(dir(), len(vars()))",
]
FRAMES = [
    "import sys\nprint(sys._getframe().f_code.co_name)",
    "from inspect import stack as s\nprint(s()[1].function)",
    "import inspect as i\nname = i.currentframe().f_code.co_name",
    "import traceback\nlog(traceback.extract_stack()[-1].name)",
    "print(error.__traceback__.tb_frame.f_code.co_name)",
    "import threading\nthreading.setprofile(count)",
    "logging.basicConfig(format='%(levelname)s %(funcName)s: %(message)s')",
    "handler.setFormatter(logging.Formatter('{funcName}', style='{'))",
    "logger.info('a', stacklevel=2)",
    "class Mine(logging.Logger):\n    def findCaller(self): ...",
]
NO_FRAMES = [
    "import torch\nx = torch.stack([y, y]).trace()",
    "import inspect\nprint(inspect.signature(f))",
    "import traceback\ntraceback.print_exc()",
    "print('the stack of frames')",
    "logging.basicConfig(format='%(levelname)s %(message)s')",
]


def sees(look: str, before: str, after: str) -> bool:
    return shown(Tree(f"{before}\n{look}\n"), Tree(f"{after}\n{look}\n")) is not None


@pytest.mark.parametrize("look", LISTS)
@pytest.mark.parametrize("added", ["y = 1", "import inspect", "from a import b as c", "def f(): ...", "class A: ..."])
def test_a_list_of_all_names_has_what_is_added(look: str, added: str) -> None:
    assert sees(look, "x = 1", f"x = 1\n{added}")


def test_it_lacks_what_moves_into_a_function() -> None:
    assert sees("def main():\n    print(globals())", "x = 1\nx += 1", "def g():\n    x = 1\n    x += 1")


def test_names_that_functions_declare_count() -> None:
    assert sees("print(globals())", "def f(): ...", "def f():\n    global y\n    y = 1")


@pytest.mark.parametrize("look", LISTS)
def test_other_edits_are_not_seen(look: str) -> None:
    assert not sees(look, "x = 1\ndef f(): ...", "x = 2\ndef f():\n    y = 1")


@pytest.mark.parametrize("look", ASKS)
def test_what_is_asked_for_one_name_sees_no_other(look: str) -> None:
    assert not sees(look, "x = 1", "x = 1\nimport inspect\ndef update(): ...")


@pytest.mark.parametrize("look", FRAMES)
@pytest.mark.parametrize(
    "after",
    ["def f():\n    g()\ndef h(): ...", "g()", "class A:\n    def f():\n        g()", "def f():\n    [g() for _ in x]"],
)
def test_frames_show_which_functions_there_are(look: str, after: str) -> None:
    assert sees(look, "def f():\n    g()", after)


@pytest.mark.parametrize("look", FRAMES)
def test_frames_of_the_same_functions(look: str) -> None:
    assert not sees(look, "def f():\n    g()", "def f():\n    x = 1\n    g()\n    g(x)")


@pytest.mark.parametrize("look", NO_FRAMES)
def test_what_shows_no_frames(look: str) -> None:
    assert not sees(look, "def f():\n    g()", "g()")
