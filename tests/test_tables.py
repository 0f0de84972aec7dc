"""Tables of names of torch, numpy and Python are in transformer/facts; few are elsewhere."""

from __future__ import annotations

import ast
import builtins
import collections
import random
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

PACKAGE = Path(__file__).parent.parent / "transformer"

ALLOWED = {
    "transforms/base.py:ALL": "kinds of training",
    "values/networks/attributes.py:NUMBER": "kinds of values in this analysis",
    "values/networks/attributes.py:LIST": "kinds of values in this analysis",
    "values/networks/attributes.py:NESTED": "kinds of values in this analysis",
    "transforms/off_policy/kept_networks.py:NUMBERS": "kinds of values in the analysis of attributes",
    "values/effects/interpreter.py:MEMORY": "kinds of things in the interpreter",
    "transforms/rollout/acting_statements.py:KEEPING": "kinds of things in the interpreter",
    "values/networks/reached.py:COMPILED": "conditions that an emitted flag settles",
    "values/networks/sealed.py:OVERRIDDEN": "methods that nothing in this analysis may replace",
    "values/device/graph_capture.py:SAMPLED": "which distributions a transform of ours draws from",
    "values/replay.py:USED": "attributes of one class of a library, which is not installed here",
    "values/checkpoints/lasting.py:OBJECTS": "ways to write one dtype",
    "transforms/scaling/agreement.py:KINDS": "what all processes have alike",
    "transforms/scaling/shares.py:MAKING": "whose sizes are those of one process, by their last names",
    "transforms/tuning/fused_envs.py:STEERED": "what emitted methods replace",
    "advise/rules/numpy_in_update.py:HARMLESS": "what a rule does not report",
    "verify/other_arguments.py:_BOUNDS": "keywords of one function",
    "values/networks/draws.py:BY_CLASS": "which function of ours draws for a class",
    "transforms/tuning/tune_host.py:PARTS": "which function of ours writes a part, and what that imports",
    "transforms/scaling/async_envs.py:MODULES": "what the emitted module imports",
    "recognition/refusals.py:FLAGS": "options of emitted scripts",
    "commands/script_runs.py:NEEDED": "what must be installed",
    "bench/harness/products.py:OPERATORS": "a harness imports nothing of this package",
    "verify/harness/emulated_device.py:WAITS": "a harness imports nothing of this package",
    "verify/harness/execute.py:_MODES": "modes of our own",
    "verify/harness/exercised.py:_LOOK": "kinds of places of our own",
    "verify/harness/sites.py:_LOWER, _UPPER": "words for readers",
    "verify/harness/sites.py:_CLIPS": "a harness imports nothing of this package",
    "verify/harness/sites.py:_BOUNDS": "a harness imports nothing of this package",
    "verify/harness/sites.py:_CHOICES": "a harness imports nothing of this package",
    "verify/harness/sites.py:_NORMS": "a harness imports nothing of this package",
    "verify/harness/sites.py:_COMPILERS": "a harness imports nothing of this package",
    "verify/harness/training.py:_OF_ENVIRONMENTS": "a harness imports nothing of this package",
    "verify/flags.py:_MAKERS": "options of emitted scripts",
    "verify/names.py:FLAGS": "options of emitted scripts",
    "verify/plots.py:_COMPARED": "words for readers",
    "verify/server.py:MODULES": "what a server imports before it is asked",
    "verify/tolerances.py:TOLERANCES": "how closely results agree, by dtype",
    "verify/verify.py:DTYPES": "options of ours",
    "verify/verify.py:SAME": "verdicts of ours",
}
"""Those that may stay, at most 40, each with the reason: whoever takes one away takes it out."""

_HOMES = (
    *(torch, torch.Tensor, torch.nn, torch.nn.Module, torch.nn.functional, torch.nn.init, torch.nn.utils),
    *(torch.optim, torch.optim.Optimizer, torch.optim.lr_scheduler, torch.cuda, torch.compiler, torch.autograd),
    *(torch.distributed, torch.distributions, torch.distributions.Distribution, torch.distributions.Categorical),
    *(numpy, numpy.ndarray, numpy.random, random, builtins, collections, list, dict, set, str, collections.deque),
    *(gymnasium.Env, gymnasium.vector.VectorEnv, SummaryWriter),
)
NAMES = {name for home in _HOMES for name in dir(home)}
LIBRARIES = ("torch", "numpy", "gym", "gymnasium", "tensordict", "random")


def _texts(node: ast.AST, asked: frozenset[str]) -> Iterator[str]:
    """The texts in an expression, but for those in questions to facts, whose names in a file are given."""
    function = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else None
    if function is not None and ast.unparse(function).partition(".")[0] in asked:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from _texts(child, asked)


def _is_collection(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_collection(node.left) or _is_collection(node.right)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        return name in ("dict", "frozenset", "fromkeys", "list", "set", "split", "tuple")
    return isinstance(node, (ast.Dict, ast.DictComp, ast.GeneratorExp, ast.List, ast.ListComp, ast.Set, ast.Tuple))


def _is_name(word: str) -> bool:
    library, dot, _ = word.partition(".")
    return library in LIBRARIES if dot else word in NAMES


def tables(package: Path) -> list[str]:
    """The collections at module level outside of facts of whose words half or more are names of an API."""
    found = []
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package)
        if where.parts[0] == "facts":
            continue
        body = ast.parse(path.read_text(encoding="utf-8")).body
        imports = [
            s for s in body if isinstance(s, ast.ImportFrom) and (s.module or "").startswith("transformer.facts")
        ]
        asked = frozenset(alias.name for s in imports for alias in s.names)
        for stmt in body:
            if not isinstance(stmt, (ast.Assign, ast.AnnAssign)) or stmt.value is None:
                continue
            name = ast.unparse(stmt.targets[0] if isinstance(stmt, ast.Assign) else stmt.target).strip("()")
            words = [word for text in _texts(stmt.value, asked) for word in text.split()]
            if _is_collection(stmt.value) and name != "__all__" and words:
                if 2 * sum(map(_is_name, words)) >= len(words):
                    found.append(f"{where.as_posix()}:{name}")
    return found


def test_tables_outside_of_facts_are_known() -> None:
    found = {*tables(PACKAGE)}
    assert not found - ALLOWED.keys(), "name it in facts, and ask facts"
    assert not ALLOWED.keys() - found, "these are no tables any more: take them out of ALLOWED"
    assert len(ALLOWED) <= 40


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("NAMES = frozenset('detach clone cpu'.split())", 1),
        ("NAMES = ('torch.zeros', 'numpy.zeros')", 1),
        ("from transformer.facts.torch_api import names\nNAMES = names('tensor', memory='new') | {'clone'}", 1),
        ("NAMES = {'len': 1}", 1),
        ("from transformer.facts import torch_api\nNAMES = torch_api.names('tensor') | torch_api.names('torch')", 0),
        ("NAMES = ('green', 'bold red', 'a sum of all')", 0),
        ("NAMES = 'detach'", 0),
        ("def f():\n    names = ('detach', 'clone')", 0),
    ],
)
def test_what_a_table_is(text: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "one.py").write_text(text, encoding="utf-8")
    (tmp_path / "other.py").write_text(text, encoding="utf-8")
    assert len(tables(tmp_path)) == count
