"""Spare Inductor the programs that show it whether vector instructions work."""

from __future__ import annotations

import ast

from transformer.state import State
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.transforms.base import BOTH, NotNeeded, Rewrite, Transform, TransformInfo

INFO = TransformInfo(
    name="trust-vectors",
    brief="Inductor takes AVX-512 as working",
    option="tune",
    summary="let Inductor take AVX-512 as working where torch uses it itself",
    applies="to the options that `compile` gives to torch.compile; whether torch uses AVX-512 is asked when it runs",
    safety=(
        "Inductor builds and loads three programs before its first kernel, seconds of the warm-up, to see whether the "
        "compiler's vector instructions work here. Where torch's own kernels run with AVX-512 they do."
    ),
    costs="Some seconds of the warm-up.",
    needs=("compile",),
    before='options = {"fallback_random": True}',
    after=(
        'options = {"fallback_random": True}\nif torch.backends.cpu.get_cpu_capability() == "AVX512":\n'
        '    options["cpp.vec_isa_ok"] = True'
    ),
)


def apply(state: State) -> Rewrite:
    """Add the option below the others.

    Raises:
        Skip: the script is to run on a GPU.
    """
    if state.history.asked.target == "cuda":
        raise NotNeeded("the target is a CUDA device")
    name = state.history.options
    edits = Edits(state.source)
    made = next(s for s in state.tree.of(ast.Assign) if [ast.unparse(t) for t in s.targets] == [name])
    edits.after(made, render("trust_vectors", options=name))
    return Rewrite(edits)


TRANSFORM = Transform(INFO, apply, BOTH)
