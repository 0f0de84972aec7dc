"""The stored facts about a conversion: the origins of its lines, its flags, its training loop."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from transformer.bench.phases import ROLLOUT, UPDATE, find_places
from transformer.conversion.result import Applied, Conversion
from transformer.diff.blame import Origin, blame
from transformer.diff.outline import outline
from transformer.recognition.history import History
from transformer.recognition.refusals import Unconvertible
from transformer.recognition.roles import Roles
from transformer.run.flags import TAKEN
from transformer.run.harness.program import Facts
from transformer.syntax.tree import Tree
from transformer.transforms.update.shuffle import ANOTHER_ORDER


def facts_of(conversion: Conversion) -> Facts:
    """The facts about a converted script that are needed to run it in place of the original."""
    origins = blame(conversion)
    found = [_origin(origins, conversion.source, line) for line in range(len(origins))]
    files = {file: str(Path(file).resolve()) for file, _ in conversion.brought if file}
    return Facts(
        origins=[o.original if o else None for o in found],
        files=[files.get(o.file) if o else None for o in found] if files else [],
        transforms=[o.transform if of is None else None for o, of in zip(origins, found, strict=True)],
        options={name: flag for name, flag in conversion.options if name in conversion.recommended},
        loop=_training_loop(conversion.source),
        counter=_step_counter(conversion.states[1] if conversion.brought else conversion.original),
        another_order=any(
            isinstance(s.outcome, Applied) and ANOTHER_ORDER in s.outcome.notes for s in conversion.steps
        ),
        headlines=list(conversion.headlines),
        taken=[TAKEN[s.transform.name] for s in conversion.steps if s.applied and s.transform.name in TAKEN],
    )


def _origin(origins: Sequence[Origin], source: str, line: int) -> Origin | None:
    """The origin, in the original, of a line, or else of the statement that it is part of."""
    statement = (origins[i] for i in (line, *outline(source).unit_range(line)))
    return next((origin for origin in statement if origin.original), None)


def _training_loop(source: str) -> int | None:
    """The line of the innermost loop around rollout and update."""
    phases = find_places(source).phases
    if not phases:
        return None
    inside = [place[0][0] for place in (phases[ROLLOUT], phases[UPDATE])]
    loops = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.For, ast.While)) and all(node.lineno < n <= (node.end_lineno or 0) for n in inside)
    ]
    return max(loops, default=None)


def _step_counter(original: str) -> str | None:
    """The variable that counts environment steps; a conversion does not rename it."""
    try:
        return Roles(Tree(original), History(original=original)).step_counter
    except Unconvertible:  # the original's phases may not be in one loop
        return None
