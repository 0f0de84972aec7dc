"""The parts of a script that no transform's tests cover."""

from __future__ import annotations

import pytest
from states import state

CLASSES = """class Base(nn.Module):
    pass


class Network(Base):
    pass


class Plain:
    pass


class Left(Right):
    pass


class Right(Left):
    pass"""


@pytest.mark.parametrize(
    ("name", "is_module"), [("Base", True), ("Network", True), ("Plain", False), ("Left", False), ("Right", False)]
)
def test_modules_by_inheritance(name: str, is_module: bool) -> None:
    roles = state(functions=f"{CLASSES}\n\n\n").roles
    assert roles.is_module(roles.tree.classes[name]) is is_module
