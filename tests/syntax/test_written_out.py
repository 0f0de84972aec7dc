import pytest

from transformer.syntax.tree import Tree
from transformer.syntax.written_out import rewritten, written_out


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ('f"{x=}"', ["x"]),
        ('f"{ x.y * 2 = !r:>9} {z}"', ["x.y * 2"]),
        ("f\"{d['a']=:.3f}\"", ["d['a']"]),
        ('f"x={x} loss={v_loss:.3f}"', ["x"]),  # Python parses it as `f"{x=!s}"`
        ('f"loss = {x}"', []),
        ('f"{x == y}"', []),
    ],
)
def test_texts(code: str, texts: list[str]) -> None:
    assert list(written_out(Tree(code)).elements()) == texts


def test_another_text() -> None:
    assert rewritten(Tree('f"{self.clip=}"'), Tree('f"{clip=}"')) == "clip"
    assert rewritten(Tree('f"{a=} {b=}"'), Tree('f"{b=}"\nf"{a=}"')) is None
