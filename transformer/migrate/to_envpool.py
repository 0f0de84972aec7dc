"""Rewrite a script that trains on gymnasium's Atari wrappers into one that trains on envpool."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from transformer.conversion.first_state import read
from transformer.conversion.line_length import DEFAULT_LINE_LENGTH
from transformer.migrate.atari_chain import wrapper_imports
from transformer.migrate.games import envpool_id
from transformer.migrate.vector_env import NotThere, VectorEnv, find_vector_env, is_old
from transformer.recognition.refusals import Unconvertible
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.imports import add_imports
from transformer.syntax.query import unparse, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree


@dataclass(frozen=True)
class Migration:
    """A script before and after; if it is refused, `source` is the original, and `diagnostics` say why."""

    original: str
    source: str
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def migrated(self) -> bool:
        """Whether there is a migrated script."""
        return not self.diagnostics


def migrate(source: str, line_length: int = DEFAULT_LINE_LENGTH) -> Migration:
    """Replace the Atari wrapper chain by `envpool.make`.

    The environment differs (`differences.py`), so results are not equal.

    Args:
        source: the text of the script.
        line_length: the maximum width of emitted lines.
    """
    try:
        state = read(source, line_length)
        envs, found = find_vector_env(state.tree)
    except Unconvertible as refusal:
        return Migration(source, source, refusal.diagnostics)
    except NotThere as refusal:
        return Migration(source, source, (refusal.found,))
    if found:
        return Migration(source, source, tuple(sorted(set(found))))
    edits = Edits(state.source)
    _edit(state.tree, edits, envs)
    return Migration(source, state.after(edits).tree.code)


def _edit(tree: Tree, edits: Edits, envs: VectorEnv) -> None:
    assert envs.seed is not None, "else it was refused"
    old, names = is_old(tree, envs), tree.names
    assert isinstance(envs.made.value, ast.Call)
    gym = unparse(envs.made.value.func).partition(".")[0]
    numpy = next((name for name, module in tree.imports.items() if module == "numpy"), "np")
    wrapper = names.fresh("RecordEpisodeStatistics")
    edits.replace(envs.maker, render("envpool_statistics", gym=gym, np=numpy, name=wrapper))
    made = render(
        "envpool_make",
        envs=envs.name,
        wrapper=wrapper,
        env_id=tree.text(envs.env_id),
        num_envs=tree.text(envs.num_envs),
        seed=tree.text(envs.seed),
        video=tree.text(envs.video) if envs.video else "",
    )
    edits.replace(envs.made, made)
    for text in envs.id_texts:
        edits.substitute(text, f'"{envpool_id(str(text.value))}"')
    for reset in envs.resets:
        edits.substitute(reset, f"{envs.name}.reset()" + ("[0]" if old else ""))
    if old:
        _five_results(tree, edits, envs, numpy)
    add_imports(tree.root, edits, "import envpool", *([] if numpy in tree.imports else ["import numpy as np"]))
    for stmt in wrapper_imports(tree):
        edits.remove(stmt)


def _five_results(tree: Tree, edits: Edits, envs: VectorEnv, numpy: str) -> None:
    """Compute gym's four step results and its list of infos from gymnasium's five results and its dict of arrays."""
    (step,) = envs.steps
    assert isinstance(step.targets[0], ast.Tuple)
    *others, done, infos = (unparse(t) for t in step.targets[0].elts)
    ends = [tree.names.fresh("terminations"), tree.names.fresh("truncations")]
    edits.replace(
        step,
        f"{', '.join([*others, *ends, infos])} = {tree.text(step.value)}\n"
        f"{done} = {numpy}.logical_or({', '.join(ends)})",
    )
    for loop in envs.loops:
        (read,) = (n for n in walk(loop.iter) if isinstance(n, ast.Name) and n.id == infos)
        edits.substitute(read, f'{infos}.get("final_info", ())')
    for stmt in tree.of(ast.Import):
        if any(a.name == "gym" for a in stmt.names) and len(stmt.names) == 1:
            edits.replace(stmt, f"import gymnasium as {stmt.names[0].asname or 'gym'}")
