"""The expressions whose source text a script prints: `f"{rate=}"`."""

from __future__ import annotations

import ast
import re
from collections import Counter

from transformer.syntax.query import unparse
from transformer.syntax.tree import Tree


def written_out(tree: Tree) -> Counter[str]:
    """The texts of these expressions, normalised by `ast.unparse`."""
    found = Counter[str]()
    for node in tree.of(ast.JoinedStr):
        for text, shown in zip(node.values, node.values[1:], strict=False):
            if isinstance(text, ast.Constant) and isinstance(shown, ast.FormattedValue):
                before, expression = str(text.value), shown.value
                if re.search(r"=\s*$", before) and _bare(before).endswith(_bare(unparse(expression)) + "="):
                    found[unparse(expression)] += 1
    return found


def _bare(text: str) -> str:
    """A text normalised for comparison."""
    return re.sub(r"[\s()'\"]", "", text)


def rewritten(before: Tree, after: Tree) -> str | None:
    """An expression whose text the later script prints and the earlier does not; None if there is none."""
    return min(written_out(after) - written_out(before), default=None)
