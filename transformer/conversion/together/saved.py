"""Which given files define the classes of the objects that a call saves, as `torch.save(agent.network, path)` does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from transformer.conversion.together.gathered import Gathered
from transformer.conversion.together.modules import File
from transformer.facts.python import PICKLES, SAYING_WHAT_IS_SAVED
from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World


class Saved:
    """What calls save, according to the effects in the merged text."""

    def __init__(self, gathered: Gathered, merge: Callable[[], Sequence[tuple[str, str, int]]]) -> None:
        """Store the arguments; the merged text is only made when it is needed.

        Args:
            gathered: all files.
            merge: makes the lines of the merged text, each with its file and its line number there.
        """
        self._gathered, self._merge = gathered, merge

    @cached_property
    def _merged(self) -> Sequence[tuple[str, str, int]]:
        return self._merge()

    @cached_property
    def _tree(self) -> Tree:
        return Tree("".join(text for text, _, _ in self._merged))

    @cached_property
    def _world(self) -> World:
        return Roles(self._tree, History(original=self._tree.code)).get(World)

    def files_of(self, file: File, call: ast.Call) -> AbstractSet[File] | None:
        """The files of the classes and functions that the first argument of a call may hold; None if not known."""
        calls = [n for n in self._tree.of(ast.Call) if self._tree.calls(n, *PICKLES) and self._is_at(n, file, call)]
        held = self._world.held_by(calls[0].args[0]) if len(calls) == 1 and calls[0].args else None
        if held is None:
            return None
        named = [part.node for thing in held for part in (thing, *thing.of)]
        made = [n for n in named if isinstance(n, (ast.ClassDef, ast.FunctionDef, ast.Lambda))]
        lines = {cls for n in made if isinstance(n, ast.ClassDef) for cls in self._tree.lineage(n)}
        if any(getattr(m, "name", "") in SAYING_WHAT_IS_SAVED for cls in lines for m in cls.body):
            return None
        names = {self._merged[n.lineno - 1][1] for n in made}
        return frozenset(f for f in self._gathered.files if f.name in names)

    def _is_at(self, node: ast.Call, file: File, call: ast.Call) -> bool:
        _, name, line = self._merged[node.lineno - 1]
        return name == file.name and line == call.lineno
