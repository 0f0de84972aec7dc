"""Configure the host before torch is loaded: idle threads, Inductor's processor check, freed memory."""

from __future__ import annotations

import ast

from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_imports, is_future, is_standard
from transformer.syntax.query import is_number, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Skip, Transform, TransformInfo, skipped

INFO = TransformInfo(
    name="tune-host",
    brief="threads, vectors, memory set up",
    option="tune",
    summary="set up the host before torch is loaded: idle threads, vector instructions, freed memory",
    applies=(
        "when torch is imported at the top of the file, above the first import that may load it. Idle threads go to "
        "sleep early if environments run in threads or processes of their own. Inductor assumes that vector "
        "instructions work if something is compiled. Freed memory is kept if rollouts train convolutions. Whatever the "
        "script or the environment variables set up stays as it is"
    ),
    safety=(
        "None of this changes a value. Idle threads of GNU's OpenMP would spin for milliseconds after each parallel "
        "region; their number, which determines the order of sums, stays the same. Before its first kernel, Inductor "
        "would spend seconds building and loading programs to test whether the processor's vector instructions work; "
        "torch's own x86-64 kernels use them, and a compiler that lacked them would fail with an error. Freed memory "
        "stays in the process instead of going back to the system, which would zero its pages again in each "
        "minibatch: at most 256 MiB, in blocks below 64 MiB. Only glibc has that call."
    ),
    costs=(
        "Idle threads compete with the environments for processors, compiling starts seconds later, and the system "
        "zeroes the memory of each minibatch of images: import torch at the top of the file."
    ),
    needs=(),
    before="import torch",
    after=(
        'import os\n\nif "OMP_WAIT_POLICY" not in os.environ:\n    os.environ.setdefault("GOMP_SPINCOUNT", "3000")\n\n'
        "import torch"
    ),
)

PARALLEL = frozenset("AsyncVectorEnv SubprocVecEnv ShmemVecEnv ProcgenEnv ProcgenGym3Env".split())
"""Classes of environments, of any library, that step in their own threads or processes."""
OF_OPENMP = ("OMP_", "GOMP_", "KMP_")
"""The prefixes of the environment variables that OpenMP libraries read."""
OF_INDUCTOR = "vec_isa_ok"
"""The name of the setting among Inductor's options and, in capitals, in the environment."""


def apply(state: State) -> Rewrite:
    """Write the block above the first import that may load torch, because its libraries read variables when loaded.

    Raises:
        Skip: no part concerns the script, a name is taken, or torch may be loaded above.
    """
    tree = state.tree
    parts, modules, skips = dict.fromkeys(PARTS, False), set[str](), list[Skip]()
    for part, (needed, used) in PARTS.items():
        try:
            needed(state)
        except NotNeeded as reason:
            skips.append(reason)
        else:
            parts[part] = True
            modules |= set(used)
    if not any(parts.values()):
        raise skipped(skips, "")
    for name in sorted(modules):
        if tree.names.taken(name) and tree.imports.get(name) != name:
            raise Skip(f"the name {name} is taken")
    place = _first_import(tree)
    edits, above, first = Edits(state.source), tree.root.body[:place], tree.root.body[place]
    imports = [f"import {name}" for name in sorted(modules)]
    block = render("tune_host", libc=tree.names.fresh("libc"), **parts)
    if any(isinstance(s, (ast.Import, ast.ImportFrom)) and not is_future(s) for s in above):
        add_imports(ast.Module(above, []), edits, *imports)
    else:
        block = "\n".join(imports) + f"\n\n{block}"
    for stmt in tree.root.body[place:]:
        if isinstance(stmt, ast.Import) and ast.unparse(stmt) in imports:
            edits.remove(stmt)  # it moves above
    edits.before(first, f"\n{block}" if above else block, gap=1)
    return Rewrite(edits)


def _idle_threads(state: State) -> None:
    """Check that threads of torch and environments share processors, and the script does not configure torch's threads.

    Raises:
        NotNeeded: they do not, or it does.
    """
    tree = state.tree
    if not any(_parallel(tree, node) for node in tree.nodes):
        raise NotNeeded("the environments are stepped in the script's own thread")
    for node in tree.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(OF_OPENMP):
            raise NotNeeded(f"line {node.lineno} already sets a variable of OpenMP")
        if tree.calls(node, "torch.set_num_threads"):
            assert isinstance(node, ast.Call)
            if any(is_number(a, 1) for a in (*node.args, *(k.value for k in node.keywords))):
                raise NotNeeded(f"line {node.lineno} limits torch to a single thread")


def _parallel(tree: Tree, node: ast.AST) -> bool:
    """Whether a node names or makes environments that run in their own threads or processes."""
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


def _vector_instructions(state: State) -> None:
    """Check that something is compiled for this host, and the script does not configure Inductor's processor check.

    Raises:
        NotNeeded: nothing is, or it does.
    """
    if state.history.asked.target == "cuda":
        raise NotNeeded("the target is a CUDA device")
    if state.history.options is None:
        raise NotNeeded("nothing is compiled")
    for node in state.tree.nodes:
        name = node.value if isinstance(node, ast.Constant) else getattr(node, "attr", None)
        if isinstance(name, str) and OF_INDUCTOR in name.lower():
            assert isinstance(node, ast.expr)
            raise NotNeeded(f"line {node.lineno} already configures Inductor's check of the processor")


def _freed_memory(state: State) -> None:
    """Check that large blocks are allocated and freed on this host, and the script does not configure malloc.

    Raises:
        NotNeeded: they are not, or it does.
    """
    tree, roles = state.tree, state.roles
    if state.history.asked.target == "cuda":
        raise NotNeeded("the target is a CUDA device")
    if roles.kind != "on-policy" or not _convolves(roles):
        raise NotNeeded("no network of this file that rollouts train has convolutions")
    for node in tree.of(ast.Attribute):
        if node.attr in ("mallopt", "malloc_trim"):
            raise NotNeeded(f"line {node.lineno} already configures the C library's memory")


def _convolves(roles: Roles) -> bool:
    nodes = (n for c in roles.network_classes for n in walk(c))
    return any((roles.tree.qualified(n) or "").startswith("torch.nn.Conv") for n in nodes)


PARTS = {
    "threads": (_idle_threads, ("os",)),
    "vectors": (_vector_instructions, ("os", "platform")),
    "memory": (_freed_memory, ("ctypes", "sys")),
}
"""The parts of the block, each with the check whether a script needs it, and the modules that its lines use."""


def _first_import(tree: Tree) -> int:
    """The index, among the module's statements, of the first import from outside the standard library.

    Raises:
        Skip: there is none, or one may be hidden in a block above it.
    """
    for place, stmt in enumerate(tree.root.body):
        if isinstance(stmt, (ast.Import, ast.ImportFrom)):
            if not _is_standard(stmt):
                return place
        elif any(isinstance(n, (ast.Import, ast.ImportFrom)) and not _is_standard(n) for n in walk(stmt)):
            raise Skip(f"line {stmt.lineno} contains an import that may load torch")
    raise Skip("the module has no top-level import that may load torch")


def _is_standard(stmt: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(stmt, ast.ImportFrom):
        return not stmt.level and is_standard(stmt.module or "")
    return all(is_standard(a.name) for a in stmt.names)


TRANSFORM = Transform(INFO, apply, BOTH)
