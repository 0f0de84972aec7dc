"""The options of a converted script that turn on torch.compile, CUDA graphs, worker processes and lower precision."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from transformer.syntax.query import parse

_MAKERS = {"compile": "compile", "CudaGraphModule": "cudagraphs"}
"""The functions that make another function fast, and the check of each."""


WORKERS = "env-workers"
"""The check with environments in worker processes; its option takes their number."""
PRECISION = "precision"
"""The key for the precision option, which takes one of PRECISIONS."""
PRECISIONS = ("bf16", "tf32")


@dataclass(frozen=True)
class Flags:
    """The options that turn on checks."""

    by_use: dict[str, str]

    def options(self, checks: Iterable[str]) -> list[str] | None:
        """The options that turn on all of `checks`; None if one has no option."""
        found = [self.by_use.get(check) for check in checks]
        return None if None in found else [option for option in found if option is not None]


def find_flags(source: str) -> Flags:
    """Find `if args.<flag>:` around calls of torch.compile and CudaGraphModule, whatever the flags' names.

    The precision option is the flag compared with "bf16" in `torch.autocast(...)`. The option for worker processes is
    found by `Class(...) if args.<flag> else ...`, where the class is a VectorEnv defined in the file.
    """
    by_use: dict[str, str] = {}
    tree = parse(source)
    of_file = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("VectorEnv") for base in node.bases)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp) and isinstance(node.test, ast.Attribute) and isinstance(node.body, ast.Call):
            if ast.unparse(node.body.func) in of_file:
                by_use[WORKERS] = "--" + node.test.attr.replace("_", "-")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.autocast":
            for compared in (k.value for k in node.keywords if isinstance(k.value, ast.Compare)):
                if isinstance(compared.left, ast.Attribute) and ast.unparse(compared.comparators[0]) == "'bf16'":
                    by_use[PRECISION] = "--" + compared.left.attr.replace("_", "-")
        if isinstance(node, ast.If) and isinstance(node.test, ast.Attribute):
            for check in _made_in(node.body):
                by_use.setdefault(check, "--" + node.test.attr.replace("_", "-"))
    return Flags(by_use)


def _made_in(block: Iterable[ast.stmt]) -> Iterable[str]:
    for statement in block:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in _MAKERS:
                    yield _MAKERS[name]
