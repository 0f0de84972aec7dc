"""Runs a script as several ranks in one process, which take turns, and averages their gradients by hand.

It uses neither `torch.distributed` nor the converted script: each rank runs the original with its share of the
environments, up to the next meeting. Ranks meet when an optimizer is made, to start with rank 0's parameters and
different random numbers; after each backward pass, to average gradients; and at conditions next to the updates, to
average the compared numbers.
"""

from __future__ import annotations

import ast
import inspect
import random
import sys
import threading
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .environments import EnoughIterations, EnvironmentSteps
from .instrument import HOOKS_NAME, Hook
from .job import Job
from .journal import Journal
from .optimizers import OptimizerRecorder
from .permutations import Permutations
from .randomness import seed_all, state_digests
from .state import random_states, set_random_states
from .tensors import Array

LIMITS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
ENDED = "its end"


class Ranks:
    """All ranks of a run. Each has its own thread, and one of them runs at a time."""

    def __init__(self, job: Job, output: Path) -> None:
        assert job.share is not None and job.by_hand is not None
        self.ranks = [_Rank(number, job, output) for number in range(job.by_hand)]
        self.current = self.ranks[0]

    def run(self, execute: Callable[[dict[str, Any], Callable[[ast.Module], None]], None]) -> None:
        """Run the script once for each rank, by `execute(hooks, route)`.

        Raises:
            BaseException: what the script raises.
            RuntimeError: ranks meet for different reasons.
        """
        self._install()
        for rank in self.ranks:
            rank.begin(execute)
        running = True
        while running:
            for rank in self.ranks:
                self.current = rank
                rank.go_on()
            reasons = [rank.reason for rank in self.ranks]
            if len(set(reasons)) > 1:
                told = ", ".join(f"rank {i} at {reason}" for i, reason in enumerate(reasons))
                raise RuntimeError(f"the ranks diverge: {told}")
            running = reasons[0] != ENDED
            if running:
                _MEETINGS[reasons[0]](self.ranks)

    def _install(self) -> None:
        """Replace the functions at which ranks meet, and those whose result depends on the running rank."""
        ranks = self

        class OfCurrent(Permutations):
            def next(self, n: int) -> Array:
                return ranks.current.journal.permutations.next(n)

        OfCurrent().install()
        register_optimizer_step_post_hook(lambda optimizer, *_: self.current.recorder.record(optimizer))
        made, backward = torch.optim.Optimizer.__init__, torch.Tensor.backward

        def note_optimizer(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            made(optimizer, *args, **kwargs)
            self.current.optimizers.append(optimizer)
            self.current.meet("an optimizer")

        def note_backward(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
            backward(tensor, *args, **kwargs)
            self.current.meet("gradients")

        torch.optim.Optimizer.__init__ = note_optimizer
        torch.Tensor.backward = note_backward
        for owner, name in ((random, "seed"), (np.random, "seed"), (torch, "manual_seed")):
            setattr(owner, name, self._noting(f"{owner.__name__}.{name}", getattr(owner, name)))

    def _noting(self, name: str, function: Any) -> Any:
        def seed(*args: Any, **kwargs: Any) -> Any:
            given = inspect.signature(lambda seed=None: None).bind(*args, **kwargs).arguments.get("seed")
            self.current.seeds[name] = function, given
            return function(*args, **kwargs)

        return seed


class _Rank:
    def __init__(self, number: int, job: Job, output: Path) -> None:
        folder = Path(output, f"rank{number}")
        folder.mkdir(exist_ok=True)
        self.number = number
        self.journal = Journal(folder, job.values_limit, number)
        self.recorder = OptimizerRecorder(self.journal)
        self.optimizers: list[torch.optim.Optimizer] = []
        self.seeds: dict[str, tuple[Any, Any]] = {}
        self.reason = ""
        self.number_compared = 0.0
        """The number that a condition compares; the mean over ranks once they have met."""
        self._first_seed = number * (job.share or 0)
        self._iterations = job.iterations
        self._error: BaseException | None = None
        self._turn, self._turned = threading.Event(), threading.Event()
        seed_all(number)
        self._random = random_states()
        self._main: types.ModuleType = sys.modules["__main__"]

    def begin(self, execute: Callable[[dict[str, Any], Callable[[ast.Module], None]], None]) -> None:
        steps = EnvironmentSteps(self.journal, self._iterations, self._note_action)
        hooks: dict[str, Hook] = {
            "step": steps.replace_step,
            "reset": self._shift_seed,
            "seed": self._shift_seed,
            "make": self._shift_seed,
            _COMPARED: self._compared,
        }

        def run() -> None:
            self._wait()
            try:
                execute(hooks, _route_conditions)
            except EnoughIterations:
                pass
            except BaseException as error:
                self._error = error
            self.journal.add("random", state_digests())
            self.recorder.record_final()
            self.reason = ENDED
            self._turned.set()

        threading.Thread(target=run, name=f"rank {self.number}", daemon=True).start()

    def go_on(self) -> None:
        """Run to the next meeting.

        Raises:
            BaseException: what the script raises.
        """
        if self.reason == ENDED:
            return
        set_random_states(self._random)
        sys.modules["__main__"] = self._main
        self._turn.set()
        self._turned.wait()
        self._turned.clear()
        self._random = random_states()
        self._main = sys.modules["__main__"]
        if self._error is not None:
            raise self._error

    def meet(self, reason: str) -> None:
        """Wait for the other ranks, in this rank's thread."""
        self.reason = reason
        self._turned.set()
        self._wait()

    def _wait(self) -> None:
        self._turn.wait()
        self._turn.clear()

    def reseed(self) -> None:
        """Draw numbers other than rank 0's from now on: seed each generator with its last seed plus the rank."""
        if self.number == 0:
            return
        set_random_states(self._random)
        for function, seed in self.seeds.values():
            function(seed + self.number)
        if "torch.manual_seed" not in self.seeds:
            torch.manual_seed(torch.initial_seed() + self.number)
        self._random = random_states()

    def _note_action(self, arrays: list[Array]) -> None:
        self.journal.add("actions", [self.journal.store_described(array) for array in arrays])

    def _shift_seed(self, function: Any) -> Any:
        """If `function` seeds environments, shift the seeds so that they follow those of the lower ranks."""
        owner = getattr(function, "__self__", None)
        if type(owner).__module__.partition(".")[0] in ("random", "numpy", "torch") or not self._seeds(function, owner):
            return function

        def shifted(*args: Any, **kwargs: Any) -> Any:
            if isinstance(kwargs.get("seed"), int):
                kwargs["seed"] += self._first_seed
            elif getattr(function, "__name__", "") == "seed" and args and isinstance(args[0], int):
                args = (args[0] + self._first_seed, *args[1:])
            return function(*args, **kwargs)

        return shifted

    @staticmethod
    def _seeds(function: Any, owner: Any) -> bool:
        """Whether a function seeds environments: all at once by reset() or make(), or single ones by seed()."""
        if getattr(function, "__name__", "") == "reset":
            return hasattr(owner, "num_envs")
        return owner is not None or getattr(function, "__module__", "").startswith("envpool")

    def _compared(self, number: Any) -> Any:
        """The value that a condition next to the updates compares; the mean over ranks if their values differ."""
        if isinstance(number, bool) or not isinstance(number, (float, np.floating, torch.Tensor)):
            return number
        self.number_compared = float(number)
        self.meet("a condition")
        return self.number_compared


def _same_start(ranks: Sequence[_Rank]) -> None:
    first = ranks[0].optimizers[-1]
    for rank in ranks[1:]:
        for theirs, own in zip(_parameters_of(first), _parameters_of(rank.optimizers[-1]), strict=True):
            own.data.copy_(theirs)
        rank.reseed()


def _average_gradients(ranks: Sequence[_Rank]) -> None:
    for held in zip(*([p for o in rank.optimizers for p in _parameters_of(o)] for rank in ranks), strict=True):
        grads = [p.grad for p in held if p.grad is not None]
        if grads:
            mean = sum(grads[1:], start=grads[0].clone()) / len(ranks)
            for grad in grads:
                grad.copy_(mean)


def _average_numbers(ranks: Sequence[_Rank]) -> None:
    mean = sum(rank.number_compared for rank in ranks) / len(ranks)
    for rank in ranks:
        rank.number_compared = mean


_MEETINGS: dict[str, Callable[[Sequence[_Rank]], None]] = {
    "an optimizer": _same_start,
    "gradients": _average_gradients,
    "a condition": _average_numbers,
}


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


_COMPARED = "what is compared"


def _route_conditions(tree: ast.Module) -> None:
    """Route the numbers that conditions compare with a limit through a hook, if the innermost loop also updates."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)) and _runs_backward(node):
            for stmt in _outside_inner_loops(node.body):
                if isinstance(stmt, ast.If):
                    for compare in ast.walk(stmt.test):
                        if isinstance(compare, ast.Compare) and all(isinstance(op, LIMITS) for op in compare.ops):
                            compare.left = _hooked(compare.left)
                            compare.comparators = [_hooked(c) for c in compare.comparators]


def _runs_backward(loop: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(loop))


def _outside_inner_loops(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a loop's body, without those of inner loops."""
    found: list[ast.stmt] = []
    for stmt in body:
        found.append(stmt)
        if not isinstance(stmt, (ast.For, ast.While, ast.FunctionDef, ast.ClassDef)):
            for part in ("body", "orelse", "finalbody"):
                found += _outside_inner_loops(getattr(stmt, part, []))
    return found


def _hooked(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Constant):
        return value
    hook = ast.Subscript(ast.Name(HOOKS_NAME, ast.Load()), ast.Constant(_COMPARED), ast.Load())
    return ast.copy_location(ast.Call(hook, [value], []), value)
