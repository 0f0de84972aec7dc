"""Whether gradients are off: the analysis's answer for a line is compared with torch's when the line runs."""

from __future__ import annotations

import ast
import textwrap

import pytest
import torch

from transformer.dataflow.grad_mode import without_gradients
from transformer.syntax.tree import Tree

OFF = {
    "no_grad": "with torch.no_grad():\n    look()",
    "inference_mode": "with torch.inference_mode():\n    look()",
    "inference_mode that is told to": "with torch.inference_mode(mode=True):\n    look()",
    "set_grad_enabled": "with torch.set_grad_enabled(False):\n    look()",
    "below other blocks": "with torch.no_grad():\n    for _ in range(2):\n        if True:\n            look()",
    "another context behind": "with torch.no_grad(), warnings.catch_warnings():\n    look()",
    "inside": "with torch.enable_grad(), torch.no_grad():\n    look()",
    "a decorator": "@torch.no_grad()\ndef f():\n    look()\nf()",
    "the lower of two decorators": "@torch.enable_grad()\n@torch.no_grad()\ndef f():\n    look()\nf()",
}
ON = {
    "nothing": "look()",
    "enable_grad inside": "with torch.no_grad():\n    with torch.enable_grad():\n        look()",
    "enable_grad behind": "with torch.no_grad(), torch.enable_grad():\n    look()",
    "set_grad_enabled": "with torch.no_grad(), torch.set_grad_enabled(True):\n    look()",
    "inference_mode that is told not to": "with torch.no_grad(), torch.inference_mode(False):\n    look()",
    "a function that is called elsewhere": "with torch.no_grad():\n    def f():\n        look()\nf()",
    "a lambda that is called elsewhere": "with torch.no_grad():\n    f = lambda: look()\nf()",
    "a switch that stays": "with torch.no_grad():\n    torch.set_grad_enabled(True)\n    look()",
    "a decorator above": "@torch.no_grad()\n@torch.enable_grad()\ndef f():\n    look()\nf()",
}


def said_and_seen(code: str) -> tuple[bool, bool]:
    """What is said of the line that looks, and whether gradients are off when it runs."""
    code = "import warnings\nimport torch\n" + textwrap.dedent(code)
    tree = Tree(code)
    (call,) = (n for n in tree.of(ast.Call) if ast.unparse(n) == "look()")
    seen: list[bool] = []
    with torch.enable_grad():
        exec(compile(code, "script", "exec"), {"look": lambda: seen.append(not torch.is_grad_enabled())})
    return without_gradients(tree, call), all(seen)


@pytest.mark.parametrize("code", OFF.values(), ids=OFF)
def test_gradients_are_off(code: str) -> None:
    assert said_and_seen(code) == (True, True)


@pytest.mark.parametrize("code", ON.values(), ids=ON)
def test_gradients_are_on(code: str) -> None:
    assert said_and_seen(code) == (False, False)


def test_a_switch_that_nobody_knows() -> None:
    assert said_and_seen("off = True\nwith torch.set_grad_enabled(not off):\n    look()") == (False, True)
