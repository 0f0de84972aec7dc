"""Scripts that are killed repeatedly (benchmarks/killed.py), and its report where something is not saved."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forking import preload
from lasting_cases import HELD_BACK, SAVED, forgetful

from transformer import convert
from transformer.values.checkpoints.lasting import Lasting

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ARGS = ("--num-iterations", "6")


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    preload()
    yield
    for name in set(sys.modules) - before:
        if name in ("killed", "kill_run", "wild_run"):
            del sys.modules[name]


def killed(source: str, *, kills: int = 3, still: bool = True) -> dict[str, Any]:
    """The report on a converted script that is killed."""
    import kill_run
    import killed as benchmark

    folders = tuple(map(str, kill_run.STANDINS))
    return benchmark.kill(kill_run.Job(source, ARGS, {}, folders, 0, still=still), kills, "0")


IN_TEN = [pytest.param(kind, marks=[] if i % 10 == 0 else pytest.mark.slow) for i, kind in enumerate(SAVED)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", IN_TEN)
def test_saved_state_continues(kind: str) -> None:
    """Most of these were once lost: the killed run went on with other values, without a warning."""
    conversion = convert(forgetful(SAVED[kind]), checkpoint=True)
    told = killed(conversion.source)
    assert (told["outcome"], told["why"], told["kills"]) == ("equal", "", 3)
    assert told["resumes"] and told["compared"]


KEYS = {
    "a list whose length decides": "kls",
    "a list whose length decides by its name": "kls",
    "a deque of numbers": "kls",
    "counters in an array": "visits",
    "a tensor changed in place": "mean",
    "what learns": "agent modes",
    "the mode": "agent modes",
    "a scheduler of momentum": "schedule",
    "momentum": "optimizer",
    "a rate that follows from the loss": "best",
    "running statistics": "agent",
    "two optimizers": "critic_optimizer",
    "draws of random": "random",
    "draws of numpy": "numpy",
    "dropout": "torch",
    "draws of libraries that the script does not name": "random",
    "an optimizer that no iteration names": "optimizer",
}
"""The key of each in the checkpoint. ExponentialLR needs none: it continues from the optimizer's rate."""


class Forget(ast.NodeTransformer):
    """Removes the code that reads a key of the checkpoint."""

    def __init__(self, key: str) -> None:
        self.key, self.done = key, 0

    def visit(self, node: ast.AST) -> Any:
        """Replace a statement that reads it by `pass`."""
        reads = any(
            isinstance(n, ast.Subscript)
            and isinstance(n.ctx, ast.Load)
            and ast.unparse(n) in (f"state[{self.key!r}]", f"generators[{self.key!r}]")
            for n in ast.walk(node)
        )
        if reads and isinstance(node, (ast.Expr, ast.Assign, ast.For)):
            self.done += 1
            return ast.Pass()
        return self.generic_visit(node)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEYS)
def test_state_that_is_not_read_back_is_found(kind: str) -> None:
    forget = Forget(KEYS[kind])
    tree = forget.visit(ast.parse(convert(forgetful(SAVED[kind]), checkpoint=True).source))
    assert forget.done
    assert killed(ast.unparse(tree), kills=6)["outcome"] == "differs"


def test_a_run_that_never_repeats_is_found() -> None:
    source = convert(forgetful({"stdlib": "import os"}), checkpoint=True).source
    assert source.count("print(\n") == 1
    told = killed(source.replace("print(\n", "print(os.getpid(),\n"))
    assert told["outcome"] == "differs" and "not killed" in told["why"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in HELD_BACK if k != "an attribute of environments"])
def test_state_that_prevents_checkpoints_would_be_lost(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Lasting.__init__

    def unconditional(self: Lasting, *args: Any) -> None:
        made(self, *args)
        self.obstacles.clear()

    monkeypatch.setattr(Lasting, "__init__", unconditional)
    conversion = convert(forgetful(HELD_BACK[kind][0]), checkpoint=True)
    assert "save_checkpoint" in conversion.source
    assert killed(conversion.source, kills=6)["outcome"] == "differs"
