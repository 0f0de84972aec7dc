"""Compares compiled and captured functions with the eager functions they were made from, call by call.

`torch.compile` and `CudaGraphModule` are replaced by versions that also run the eager function on sampled calls, from
copies of the same arguments, parameters, gradients, optimizer state and random state. The run itself continues with the
results of the fast function.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import FrameType, MethodType, ModuleType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .arithmetic import float32
from .environments import EnvironmentSteps
from .errors import SMALL, Error, errors
from .imports import patch_on_import
from .instrument import TOGETHER, Hook
from .job import Job
from .journal import Journal
from .outputs import HeldOutputs
from .prints import PrintRecorder
from .scalars import ScalarRecorder
from .spread import spread_fault
from .state import Snapshot, State
from .tensors import Array
from .together import Together
from .trees import clone

COMPILE_WARMUP = 1
"""The number of calls in which a compiled function is compiled."""
GRAPH_MODE_WARMUP = 3
"""The number of calls with torch.compile's own CUDA graphs that compile, warm up and record."""
CAPTURED_IN_CALL = 2
"""The last call that may capture CUDA graphs, so that functions called once per iteration are replayed too."""
ROUNDING = {"exp_avg": 1e-5, "square_avg": 1e-10}
"""The limit for a negligible running mean of gradients, or of their squares, relative to the root mean square."""
REMEMBERED = 100_000
"""The number of compilations for torch to remember; by default, it forgets all but the last 64."""
_GRAPH_MODES = ("reduce-overhead", "max-autotune")


def compilations() -> list[tuple[str, str]]:
    """For each compilation so far: the guard that failed before it (empty for a first), and the name of its code."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    done = dynamo.get_compilation_metrics() if dynamo is not None else []
    return [
        ((m.recompile_reason or "").partition("  #")[0].split("\n")[0].strip(), m.co_name)
        for m in done
        if m.co_name is not None
    ]


class Lockstep:
    """The mode that checks every function which the script compiles or captures."""

    def __init__(self, job: Job, journal: Journal) -> None:
        self.journal = journal
        self.every = job.every
        self.in_float32 = job.in_float32
        self._uncompiled = job.uncompiled
        self.inside_reference = False
        self._functions: list[Checked] = []
        self._before_first_step: set[Checked] = set()
        self._together = Together(journal, job.every)
        self.route = None
        self._scalars = ScalarRecorder(journal)
        self._prints = PrintRecorder(journal, sys.stdout)
        self.hooks: dict[str, Hook] = {
            "step": EnvironmentSteps(journal, job.iterations, self._note_action).replace_step,
            TOGETHER: self._together.replace,
        }

    def install(self) -> None:
        """Replace `torch.compile` and `tensordict.nn.CudaGraphModule`; watch what is logged and printed."""
        self._scalars.install()
        self._prints.install()
        # An update that is not compiled also ends an iteration
        register_optimizer_step_post_hook(lambda *_: self.journal.note_update())
        real = torch.compile

        def compile_checked(model: Any = None, **options: Any) -> Any:
            if model is None:
                return functools.partial(compile_checked, **options)
            # Inductor has its own random generator; with the eager one, both functions sample the same actions
            torch._inductor.config.fallback_random = True
            torch._dynamo.utils.set_compilation_metrics_limit(REMEMBERED)
            name = _assigned_name(sys._getframe(1))
            warmup = GRAPH_MODE_WARMUP if options.get("mode") in _GRAPH_MODES else COMPILE_WARMUP
            make_fast = (lambda fast: fast) if self._uncompiled else lambda fast: real(fast, **options)
            return self.check(name, model, make_fast, warmup)

        torch.compile = compile_checked
        patch_on_import({"tensordict.nn": self._patch_tensordict})

    def finish(self) -> None:
        """Record how often each function was called, and how often after its warm-up.

        If the script compiles a function again, for example in each call of a method that trains, all copies count as
        one.
        """
        again = defaultdict[Any, list[Checked]](list)
        for function in self._functions:
            code = getattr(inspect.unwrap(function.eager), "__code__", function)
            again[function.name, code].append(function)
        for (name, _), functions in again.items():
            calls = sum(function.calls for function in functions)
            self.journal.add("functions", name, calls, max(0, calls - functions[0].warmup))
        self._together.finish()
        self._prints.end()

    def _note_action(self, arrays: list[Array]) -> None:
        """Record the actions of the first iteration."""
        if self.journal.iterations == 0:
            self.journal.add("actions", [self.journal.store_described(array) for array in arrays])

    def note_call(self, function: Checked) -> None:
        """Distinguish updates from rollouts: an update trains, or is called rarely, with many environment steps
        between.

        Calls before the first environment step belong to the rollout.
        """
        steps, before = self.journal.env_steps, function.env_steps
        if steps == 0:
            self._before_first_step.add(function)
        rarely = before is not None and steps > before + 1
        if function not in self._before_first_step and (function.trains or rarely):
            self.journal.note_update()
        function.env_steps = steps

    def _patch_tensordict(self, module: ModuleType) -> None:
        real = module.CudaGraphModule

        def graph_checked(function: Any, warmup: int = 2, **options: Any) -> Any:
            name, warmup = _assigned_name(sys._getframe(1)), min(warmup, CAPTURED_IN_CALL)
            return self.check(name, function, lambda fast: real(fast, warmup=warmup, **options), warmup)

        module.CudaGraphModule = graph_checked  # type: ignore[attr-defined]

    def check(self, name: str | None, function: Any, make_fast: Callable[[Any], Any], warmup: int) -> Checked:
        """Make `function` fast, with checks; the eager form of a function that is already checked stays the same."""
        if isinstance(function, Checked):
            self._functions.remove(function)
            fast, eager, warmup = make_fast(function.fast), function.eager, max(warmup, function.warmup)
        else:
            fast, eager = make_fast(function), function
        checked = Checked(self, name or str(getattr(eager, "__name__", type(eager).__name__)), eager, fast, warmup)
        self._functions.append(checked)
        return checked


def _is_captured() -> bool:
    """Whether a CUDA graph is being captured, during which nothing can be compared."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


class Checked:
    """A fast function that is compared with its eager form on sampled calls."""

    def __init__(self, mode: Lockstep, name: str, eager: Any, fast: Any, warmup: int) -> None:
        self.name = name
        self.eager = eager
        self.fast = fast
        self.warmup = warmup
        self.calls = 0
        self.env_steps: int | None = None
        """The environment steps before the function's last call."""
        self.trains = False
        """Whether a compared call of the function changed parameters."""
        self._mode = mode
        self._held = HeldOutputs()
        self._samples_only = False
        self._iteration = -1
        """The iteration of the function's last call."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fast, name)

    def __get__(self, owner: object, _: type | None = None) -> Any:
        """Bind the function to an object, if it replaces a method of a class."""
        return self if owner is None else MethodType(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the fast function, and on sampled calls also the eager one."""
        if torch.compiler.is_compiling() or _is_captured():  # part of another function, which is itself compared
            return self.fast(*args, **kwargs)
        if self._mode.inside_reference:
            return self.eager(*args, **kwargs)
        self.calls += 1
        for call in self._held.overwritten(self.calls):
            self._fault(f"an output of call {call}, which the script still holds, was overwritten by call {call + 1}")
        anew = self._iteration != self._mode.journal.iterations  # values that depend on the iteration may have changed
        self._iteration = self._mode.journal.iterations
        sampled = anew or self.calls <= 2 or 0 <= self.calls - self.warmup <= 2 or self.calls % self._mode.every == 0
        compiled = len(compilations())
        result = self._compare(args, kwargs) if sampled else self.fast(*args, **kwargs)
        for found in compilations()[compiled:]:
            self._mode.journal.add("compilations", self.name, self.calls, self._mode.journal.iterations, *found)
        self._mode.note_call(self)
        return self._held.hand_out(self.calls, result)

    def _compare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call both functions and record how far apart they are; returns the fast one's result."""
        if self._samples_only and self.calls == self.warmup + 2:
            fault = spread_fault(self.fast, self._reference, args, kwargs)
            if fault is not None:
                self._fault(fault)
        state = State()  # searched at each call: scripts may make networks and optimizers in the training loop
        before = state.take()
        given = clone((args, dict(kwargs)))
        result = self.fast(*args, **kwargs)
        kept = clone(result)
        after = state.take()
        rewound = state.rewind(before)
        try:
            expected = self._reference(*given[0], **given[1])
        finally:
            left = rewound.undo()
        self.trains = self.trains or not before.same_tensors(left)
        self._samples_only = before.same_tensors(left) and not before.same_random(left)
        replayed = self.calls > self.warmup
        differences = _differences_of_all if self._mode.in_float32 else _differences
        for kind, error in differences(state, before, after, left, kept, expected):
            self._mode.journal.add("calls", self.name, self.calls, replayed, kind, *error)
        return result

    def _reference(self, *args: Any, **kwargs: Any) -> Any:
        """Call the eager function, and eager forms of the functions that it calls."""
        self._mode.inside_reference = True
        try:
            with float32() if self._mode.in_float32 else nullcontext():
                return self.eager(*args, **kwargs)
        finally:
            self._mode.inside_reference = False

    def _fault(self, text: str) -> None:
        self._mode.journal.add("faults", self.name, self.calls, text)


def _differences(
    state: State, before: Snapshot, after: Snapshot, left: Snapshot, result: Any, expected: Any
) -> list[tuple[str, Error]]:
    """The differences between the fast and the eager function in results and changes, by kind."""
    found = [("output", e) for e in errors(result, expected, "output", small=SMALL)]
    ours, theirs = after.optimizer_tensors(state), left.optimizer_tensors(state)
    for name, start in before.tensors.items():
        if torch.equal(start, after.tensors[name]) and torch.equal(start, left.tensors[name]):
            continue
        if start.is_floating_point():
            grain = torch.finfo(start.dtype).eps * start.abs().max().item()
            change, expected_change = (side.tensors[name] - start for side in (after, left))
            step = expected_change.abs().max()  # rounding makes neither a longer step nor NaN
            noise = _cancelled(name, ours, theirs) & (change.abs() <= step)
            change, expected_change = (torch.where(noise, 0.0, c) for c in (change, expected_change))
            found += [("parameter change", e) for e in errors(change, expected_change, name, grain=grain)]
        else:
            found += [("parameter change", e) for e in errors(after.tensors[name], left.tensors[name], name)]
    changed = before.optimizer_tensors(state)
    for name in {**ours, **theirs}:
        if name not in changed or name not in theirs or not torch.equal(changed[name], theirs[name]):
            found += [("optimizer state", e) for e in errors(ours.get(name), theirs.get(name), name)]
    return found


def _cancelled(name: str, ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The elements of a parameter whose gradients have cancelled to rounding noise, from which Adam makes full steps.

    There, on both sides, the optimizer's running mean is negligible relative to the parameter's other elements. If the
    mean is zero on both sides, no step is made: the gradients were always zero, without rounding.
    """
    found = torch.tensor(False)
    for key, share in ROUNDING.items():
        a, b = ours.get(f"{name}: {key}"), theirs.get(f"{name}: {key}")
        if a is not None and b is not None and a.shape == b.shape:
            limit = share * b.square().mean().sqrt()
            found = found.to(b.device) | ((a.abs() < limit) & (b.abs() < limit) & ((a != 0) | (b != 0)))
    return found


def _differences_of_all(
    state: State, before: Snapshot, after: Snapshot, left: Snapshot, result: Any, expected: Any
) -> list[tuple[str, Error]]:
    """The differences in lower precision: for all parameters together, and for all optimizer state with one name.

    The gradient of a single bias may be a sum that nearly cancels, so that little but rounding remains. Rounding also
    moves a few samples of a minibatch out of the clipping range, which changes their share by hundredths; so outputs
    count as at least 1.
    """
    found = [("output", e) for e in errors(result, expected, "output", small=1.0)]
    changed = [
        name
        for name, start in before.tensors.items()
        if not (torch.equal(start, after.tensors[name]) and torch.equal(start, left.tensors[name]))
    ]
    if changed:
        ours, theirs = (
            _flattened_by_key({f"{name}: parameters": side.tensors[name] - before.tensors[name] for name in changed})
            for side in (after, left)
        )
        found += [("parameter change", e) for e in errors(ours, theirs, "all")]
        ours, theirs = (_flattened_by_key(side.optimizer_tensors(state)) for side in (after, left))
        found += [("optimizer state", e) for e in errors(ours, theirs, "all")]
    return found


def _flattened_by_key(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Join floating-point tensors named `parameter: key` into one flat tensor for each key."""
    by_key = defaultdict[str, list[torch.Tensor]](list)
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            by_key[name.rpartition(": ")[2]].append(tensor.flatten())
    return {key: torch.cat(parts) for key, parts in by_key.items()}


def _assigned_name(frame: FrameType) -> str | None:
    """The variable to which the current call in `frame` will be assigned; None if there is none."""
    after = (i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti and i.opname != "CACHE")
    following = next(after, None)
    return str(following.argval) if following is not None and following.opname.startswith("STORE_") else None
