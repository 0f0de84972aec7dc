"""Replay policy, advantages and update as CUDA graphs, behind --cudagraphs."""

from __future__ import annotations

import ast

from transformer.conversion import TransformInfo
from transformer.dataflow import statements
from transformer.imports import add_imports
from transformer.rendering import render
from transformer.script import Script
from transformer.source import Edits
from transformer.transforms.base import Skip, Transform

INFO = TransformInfo(
    name="cudagraphs",
    summary="replay policy, gae and update as CUDA graphs, behind --cudagraphs",
    safety=(
        "Without --cudagraphs nothing changes. CudaGraphModule copies the inputs into the graph and clones what comes "
        "out, so no call sees another's values; functions whose inputs are not all tensors, whose control flow hangs "
        "on a tensor's value, or whose minibatches differ in size are not captured."
    ),
    needs=("flags", "compile"),
    before="for iteration in range(1, args.num_iterations + 1):\n    ...",
    after=(
        "if args.cudagraphs:\n    policy = CudaGraphModule(policy, warmup=20)\n"
        "    gae = CudaGraphModule(gae, warmup=20)\n    update = CudaGraphModule(update, warmup=20)\n\n"
        "for iteration in range(1, args.num_iterations + 1):\n    ..."
    ),
)


def apply(script: Script) -> str:
    """Add the block above the training loop, and step markers.

    Raises:
        Skip: there is nothing that a graph could hold, or no device to check.
    """
    facts, edits = script.facts, Edits(script.source)
    if script.device is None:
        raise Skip("the script moves nothing to a device")
    plain = [facts.policy] if facts.policy else []
    if "gae" in facts.functions and facts.functions["gae"].tensors:
        plain.append(facts.functions["gae"].name)
    update = facts.functions.get("update")
    if update and not (update.tensors and facts.static_update and facts.capturable):
        why = "its optimizer cannot be captured" if not facts.capturable else "it branches on a tensor's value"
        why = why if update.tensors else "not all its inputs are tensors"
        script.notes.append(f"{update.name}() is not captured: {why}")
        update = None
    if not plain and update is None:
        raise Skip("no function has only tensors as inputs")
    edits.before(
        script.outermost,
        render(
            "cudagraphs",
            flag=facts.flags["cudagraphs"],
            device=script.device,
            functions=plain,
            update=update.name if update else None,
            even=facts.even_minibatches,
        ),
        gap=1,
    )
    _mark_steps(script, edits)
    add_imports(script.tree, edits, "from tensordict.nn import CudaGraphModule")
    return script.finish(edits)


def _mark_steps(script: Script, edits: Edits) -> None:
    """Tell the CUDA graph trees of torch.compile where a step begins: memory of the last one may be reused."""
    flag = script.facts.flags["cudagraphs"]
    called = {script.facts.policy, *(f.name for r, f in script.facts.functions.items() if r == "update")}
    marked: set[ast.stmt] = set()
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in called:
            stmt = script.source.statement(node)
            for outer in script.source.ancestors(stmt):
                if isinstance(outer, (ast.For, ast.While)):
                    break
                if isinstance(outer, ast.With):
                    stmt = outer
            if stmt not in marked and stmt in list(statements(script.source.block(stmt))):
                marked.add(stmt)
                edits.before(stmt, f"if {flag}:\n    torch.compiler.cudagraph_mark_step_begin()")


TRANSFORM = Transform(INFO, apply)
