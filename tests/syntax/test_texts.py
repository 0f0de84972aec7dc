"""The text of a tree is LibCST's own, for every kind of statement, and each statement's text is generated once."""

from __future__ import annotations

import sys
from pathlib import Path

import libcst as cst
import pytest
from libcst._nodes.internal import CodegenState

from transformer.syntax.rewrite import Texts
from transformer.syntax.tree import Tree

COMPOUND = '''# header
import os  # why

if os.name:  # a
    # above
    x = 1; y = 2
elif x:
    pass
    # footer of the block
else: y = """
  text
"""

match x:
    case [a, *_] if a:
        z = (
            1,
        )
    case _: pass

try:
    with open("f") as f, \\
            open("g"):
        for _ in f:
            while True:
                break
            else:
                continue
except* (OSError, ValueError) as e:
    raise
finally:
    @decorated
    class A:

        async def f(self):

            async for x in y: await x
# footer
'''
if sys.version_info < (3, 11):
    COMPOUND = COMPOUND.replace("except*", "except")
SOURCES = [
    COMPOUND,
    COMPOUND.replace("    ", "\t"),
    COMPOUND.replace("\n", "\r\n"),
    "x = 1",
    "",
    "# nothing",
    "for x in y:\n    if x:\n        z\n        # inner footer\n    # footer\nw\n",
    "try:\n  x\nexcept A: pass\nexcept:\n\n  y\nelse:\n  z\nfinally:\n  # last\n  w\n",
    *(p.read_text() for p in sorted((Path(__file__).parents[2] / "fixtures").glob("*.py"))),
]


@pytest.mark.parametrize("source", SOURCES)
def test_the_text_is_that_of_libcst(source: str) -> None:
    module = cst.parse_module(source)
    assert Texts().of(module) == module.code == source


@pytest.mark.parametrize("source", [*SOURCES, "x = 1\n\\\n\n# above\ny = 2\n", COMPOUND + "\f\nx = '\x0c\u2028'\n"])
def test_texts_of_the_file_are_those_of_libcst(source: str) -> None:
    module, learned, generated = cst.parse_module(source), Texts(), Texts()
    learned.learn(Tree(source), module)
    known = dict(learned._known)
    assert known or "x = 1" in source or source in ("", "# nothing")
    for (line, indents), text in known.items():
        assert generated.at(line, indents, module.default_newline, module.default_indent) == text


def test_another_indentation_is_another_text() -> None:
    line = cst.parse_statement("x = f(\n    1,\n)\n")
    block = cst.IndentedBlock([line])
    whole = cst.Module([line, cst.If(cst.Name("a"), block), cst.If(cst.Name("b"), block.with_changes(indent="\t"))])
    assert Texts().of(whole) == whole.code


def test_a_statement_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    generated: list[str] = []
    own = cst.SimpleStatementLine._codegen_impl

    def noted(self: cst.SimpleStatementLine, state: CodegenState) -> None:
        own(self, state)
        generated.append(state.tokens[-1])

    module = cst.parse_module("if a:\n    b\n    if c:\n        d\n")
    texts = Texts()
    assert texts.of(module) == module.code
    monkeypatch.setattr(cst.SimpleStatementLine, "_codegen_impl", noted)
    outer = module.body[0]
    assert isinstance(outer, cst.If)
    new = [*outer.body.body, cst.parse_statement("e\n")]
    changed = module.with_changes(body=[outer.with_changes(body=outer.body.with_changes(body=new))])
    assert texts.of(changed) == "if a:\n    b\n    if c:\n        d\n    e\n"
    assert len(generated) == 1
