"""Let OpenMP's idle threads sleep early, where environments run in threads or processes of their own."""

from __future__ import annotations

import ast

from transformer.state import State
from transformer.syntax.imports import add_imports, is_future, is_standard
from transformer.syntax.query import is_number, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import NotNeeded, Rewrite, Skip, Transform, TransformInfo

INFO = TransformInfo(
    name="idle-threads",
    brief="idle threads sleep early",
    option="tune",
    summary="let torch's idle threads leave the processors to the environments' threads early",
    applies=(
        "where environments run in processes or threads of their own, torch is imported at the top of the file, "
        "and the script does not steer OpenMP itself"
    ),
    safety=(
        "How long a thread spins before it sleeps changes no value, and the number of threads, on which the order of "
        "sums hangs, stays what it was: results are the same bits. GNU's OpenMP would spin for milliseconds after "
        "each parallel region; not to spin at all would cost a wake-up in each region of the policy. A "
        "GOMP_SPINCOUNT or OMP_WAIT_POLICY that is set for the run is kept, and other OpenMP libraries do not read "
        "the former."
    ),
    costs="torch's idle threads and the environments' share the processors.",
    needs=(),
    before="import os\n\nimport torch",
    after=(
        'import os\n\nif "OMP_WAIT_POLICY" not in os.environ:\n    os.environ.setdefault("GOMP_SPINCOUNT", "3000")\n\n'
        "import torch"
    ),
)

PARALLEL = frozenset("AsyncVectorEnv SubprocVecEnv ShmemVecEnv ProcgenEnv ProcgenGym3Env".split())
"""Classes of environments that are stepped in threads or processes of their own, by whichever library."""
OF_OPENMP = ("OMP_", "GOMP_", "KMP_")
"""How the names of the variables begin that OpenMP libraries read."""


def apply(state: State) -> Rewrite:
    """Set the variable above the first import that may load torch: it is read when the library is loaded.

    Raises:
        Skip: no environment runs beside the script's own thread, or the script decides about threads itself.
    """
    tree = state.tree
    if not any(_parallel(tree, node) for node in tree.nodes):
        raise NotNeeded("the environments are stepped in the script's own thread")
    _check_own_settings(tree)
    place = _first_import(tree)
    if tree.names.taken("os") and tree.imports.get("os") != "os":
        raise Skip("the name os is taken")
    edits, above = Edits(state.source), tree.root.body[:place]
    first = tree.root.body[place]
    block = render("idle_threads")
    if any(isinstance(s, (ast.Import, ast.ImportFrom)) and not is_future(s) for s in above):
        add_imports(ast.Module(above, []), edits, "import os")
    else:
        block = f"import os\n\n{block}"
    for stmt in tree.root.body[place:]:
        if isinstance(stmt, ast.Import) and [ast.unparse(a) for a in stmt.names] == ["os"]:
            edits.remove(stmt)  # it stands above now
    edits.before(first, f"\n{block}" if above else block, gap=1)
    return Rewrite(edits)


def _parallel(tree: Tree, node: ast.AST) -> bool:
    """Whether a node names, or makes, environments that run in threads or processes of their own."""
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        name = tree.qualified(node) or ""
        return name.startswith("envpool.make") or name.rpartition(".")[2] in PARALLEL
    if not isinstance(node, ast.Call):
        return False
    given = {k.arg: k.value for k in node.keywords}
    if tree.calls(node, "gymnasium.make_vec"):
        mode = node.args[2] if len(node.args) > 2 else given.get("vectorization_mode")
        return mode is not None and (
            (isinstance(mode, ast.Constant) and mode.value == "async")
            or (tree.qualified(mode) or "").endswith("VectorizeMode.ASYNC")
        )
    if tree.calls(node, "gym.vector.make", "gymnasium.vector.make"):
        chosen = node.args[2] if len(node.args) > 2 else given.get("asynchronous")
        return not (isinstance(chosen, ast.Constant) and chosen.value is False)
    return False


def _check_own_settings(tree: Tree) -> None:
    """The script leaves the threads of torch as they are.

    Raises:
        Skip: it does not.
    """
    for node in tree.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(OF_OPENMP):
            raise NotNeeded(f"line {node.lineno} names a variable of OpenMP itself")
        if tree.calls(node, "torch.set_num_threads"):
            assert isinstance(node, ast.Call)
            if any(is_number(a, 1) for a in (*node.args, *(k.value for k in node.keywords))):
                raise NotNeeded(f"line {node.lineno} leaves torch a single thread")


def _first_import(tree: Tree) -> int:
    """The place among the module's statements of the first import that is not of the standard library.

    Raises:
        Skip: there is none, or one may be hidden in a block above it.
    """
    for place, stmt in enumerate(tree.root.body):
        if isinstance(stmt, (ast.Import, ast.ImportFrom)):
            if not _is_standard(stmt):
                return place
        elif any(isinstance(n, (ast.Import, ast.ImportFrom)) and not _is_standard(n) for n in walk(stmt)):
            raise Skip(f"line {stmt.lineno} holds an import that may load torch")
    raise Skip("the module imports nothing at its top that may load torch")


def _is_standard(stmt: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(stmt, ast.ImportFrom):
        return not stmt.level and is_standard(stmt.module or "")
    return all(is_standard(a.name) for a in stmt.names)


TRANSFORM = Transform(INFO, apply)
