"""Apply the transforms in order, keeping every state."""

from __future__ import annotations

import ast
import gc
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import libcst as cst

from transformer.conversion.first_state import read, recognise
from transformer.conversion.line_length import DEFAULT_LINE_LENGTH
from transformer.conversion.result import Applied, Conversion, Outcome, Skipped, Step
from transformer.conversion.selection import chosen_names
from transformer.conversion.settings import Target
from transformer.conversion.shown_code import shown
from transformer.dataflow.name_lookups import seen_by_text
from transformer.dataflow.own_compiling import compiled_by_script, own_compiling
from transformer.dataflow.own_names import called_otherwise, captured
from transformer.recognition import refusals
from transformer.recognition.history import Asked, History
from transformer.recognition.refusals import Unconvertible
from transformer.state import State
from transformer.syntax.diagnostics import Diagnostic, at
from transformer.syntax.tree import Tree
from transformer.syntax.written_out import rewritten
from transformer.transforms import GATHERING, ORDER
from transformer.transforms.base import Skip, Transform, TransformInfo
from transformer.transforms.compiling import compile as compiling
from transformer.transforms.compiling import cudagraphs, flags, one_graph
from transformer.transforms.gathering import dissolve
from transformer.transforms.update import tensor_lr
from transformer.transforms.update.update import TRANSFORM as UPDATE

BYTE_ORDER_MARK = "\ufeff"
TRACEBACKS = False
"""Whether to raise internal errors, for tests, instead of turning them into refusals."""


def all_transforms() -> tuple[TransformInfo, ...]:
    """The transforms in the order in which they are applied."""
    return tuple(t.info for t in ORDER)


def convert(
    source: str,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    tune: bool = False,
    measure: bool = False,
    distribute: bool = False,
    workers: bool = False,
    checkpoint: bool = False,
    precision: bool = False,
    fuse_envs: bool = False,
    target: Target = "any",
    line_length: int = DEFAULT_LINE_LENGTH,
    held: Callable[[str], str | None] | None = None,
) -> Conversion:
    """Convert one script.

    Args:
        source: the text of the script.
        select: names of the transforms to apply; if None, all that need no option.
        ignore: names of the transforms to leave out.
        tune: also apply transforms that set up the host.
        measure: let the script show its speed.
        distribute: let the script train in several processes under torchrun.
        workers: let it step environments in worker processes.
        checkpoint: let it save checkpoints and continue from them.
        precision: let its update compute in bfloat16 or TF32, behind a flag.
        fuse_envs: let it step SyncVectorEnv and known wrappers with fewer numpy calls.
        target: the kind of machine that the converted script runs on.
        line_length: the maximum width of emitted lines.
        held: returns why a transform must not write a text; None if it may.

    Returns:
        every state of the script, every transform's outcome, and the diagnostics. A script that cannot be
        converted is a result (`converted` is False), not an exception.

    Raises:
        SelectionError: `select`/`ignore` is impossible.
    """
    options = {
        "tune": tune,
        "measure": measure,
        "distribute": distribute,
        "workers": workers,
        "checkpoint": checkpoint,
        "precision": precision,
        "fuse_envs": fuse_envs,
    }
    asked = Asked(chosen_names(select, ignore, **options), target)
    if held is not None:
        asked = replace(asked, held=held)
    if source.startswith(BYTE_ORDER_MARK):  # the text was decoded with its byte order mark
        return _marked(_convert(source[1:], asked, line_length, as_selected=select is not None))
    return _convert(source, asked, line_length, as_selected=select is not None)


def _convert(source: str, asked: Asked, line_length: int, *, as_selected: bool) -> Conversion:
    """A conversion by the requested transforms, without those that gain nothing unless they were selected by name."""
    try:
        with _without_collections():
            if as_selected:
                return _run(source, asked, line_length, as_selected=True)
            return _with_the_object(_run(source, asked, line_length), source, asked, line_length)
    except RecursionError:
        return Conversion(source, (), (at(None, "LC008", "the file is nested too deeply"),))
    except Exception as error:
        if TRACEBACKS:
            raise
        return Conversion(source, (), (at(None, "LC007", _told(error)),))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Turn the garbage collector off, if it is on, for one conversion.

    It would traverse the trees of all states again and again, which takes a third of the time. The trees have no
    cycles, so reference counting frees them.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _with_the_object(conversion: Conversion, source: str, asked: Asked, line_length: int) -> Conversion:
    """The conversion without `dissolve`, if as many other transforms apply; otherwise the given one."""
    name = dissolve.TRANSFORM.info.name
    others = sum(s.applied and s.transform.name != name for s in conversion.steps)
    if not any(s.applied and s.transform.name == name for s in conversion.steps):
        return conversion
    try:
        whole = _run(source, replace(asked, transforms=asked.transforms - {name}), line_length, others)
    except _Fewer:
        return conversion
    if not whole.converted or one_graph.TRANSFORM.info.name in _applied(conversion) - _applied(whole):
        return conversion  # no other transform saves as much
    kept = Skipped("as many transforms apply to the class as to the variables it would become", "not needed")
    steps = (replace(s, outcome=kept) if s.transform.name == name else s for s in whole.steps)
    return replace(whole, steps=tuple(steps))


def _applied(conversion: Conversion) -> set[str]:
    return {s.transform.name for s in conversion.steps if s.applied}


def _marked(conversion: Conversion) -> Conversion:
    """The conversion of a text with a byte order mark, given the conversion of the text without it."""
    steps = tuple(
        replace(s, before=BYTE_ORDER_MARK + s.before, after=BYTE_ORDER_MARK + s.after) for s in conversion.steps
    )
    return replace(conversion, original=BYTE_ORDER_MARK + conversion.original, steps=steps)


class _Fewer(Exception):
    """Fewer transforms apply than required."""


def _run(source: str, asked: Asked, line_length: int, at_least: int = 0, *, as_selected: bool = False) -> Conversion:
    """Apply the transforms; if some gain nothing, and none was selected by name, apply all again without these.

    Raises:
        _Fewer: fewer than `at_least` transforms apply; raised as soon as this is known.
    """
    steps: list[Step] = []
    diagnostics: list[Diagnostic] = []
    try:
        state = read(source, line_length, asked)
        for transform in GATHERING:
            turn = _turn(transform, state, steps)
            steps.append(turn.step)
            diagnostics += turn.warnings
            state = turn.state
        state = _recognise(turn)
        alone = _alone(turn, state)
        roles = state.roles
        once = state.placed(refusals.no_minibatches(state.tree, roles.phases.loop, roles.phases.opt_step))
    except Unconvertible as refusal:
        return Conversion(source, (), tuple(sorted(refusal.diagnostics)))
    except _BROKEN as broken:
        return _fault(source, transform, broken)
    order = [t for t in ORDER[len(GATHERING) :] if state.roles.kind in t.kinds]
    for place, transform in enumerate(order):
        applied = {s.transform.name for s in steps if s.applied}
        try:
            if len(applied) + _still_possible(order[place:], asked.transforms, applied) < at_least:
                raise _Fewer
            turn = _turn(transform, state, steps)
            state = turn.state
            _ = state.roles.phases
        except (Unconvertible, *_BROKEN) as broken:
            return _fault(source, transform, broken)
        steps.append(turn.step)
        diagnostics += turn.warnings
    if sum(s.applied for s in steps) < at_least:
        raise _Fewer
    if state.history.at_once and (why := _why_eager(steps)) is not None:
        return Conversion(source, (), (replace(once, message=f"{once.message}; {why}"),))
    if not as_selected and state.history.flags and _prepared_for_nothing(steps):
        return _unprepared(source, asked, line_length, steps)
    if not as_selected and _rates_for_nothing(steps, state.history):
        name = tensor_lr.INFO.name
        again = _run(source, replace(asked, transforms=asked.transforms - {name}), line_length)
        kept = Skipped("update() is not compiled, and takes the rate as it is", "not needed")
        return replace(
            again, steps=tuple(replace(s, outcome=kept) if s.transform.name == name else s for s in again.steps)
        )
    if alone is not None:
        outcomes = (s.outcome for s in steps if s.transform is UPDATE.info)
        held = "; ".join(o.reason for o in outcomes if isinstance(o, Skipped) and o.chosen)
        if held:
            return Conversion(source, (), (replace(alone, message=f"{alone.message}; {held}"),))
        diagnostics.append(replace(alone, code="LC102", message=f"only the update is converted: {alone.message}"))
    code = state.tree.code
    if code == source:
        diagnostics.append(at(None, "LC006", f"no transform applies: {_why_none(steps)}"))
    read_by = state.history.flags.items()
    options = tuple((flag, f"--{read.split('.')[-1].replace('_', '-')}") for flag, read in read_by)
    return Conversion(source, tuple(steps), tuple(sorted(diagnostics)), options)


def _why_eager(steps: Sequence[Step]) -> str | None:
    """Why no update is compiled although compilation was selected; None if one is, or if it was not selected."""
    update, compiled = (
        s.outcome for name in (UPDATE.info.name, compiling.INFO.name) for s in steps if s.transform.name == name
    )
    if isinstance(compiled, Applied) and compiled.recommended:
        return None
    held = [o.reason for o in (update, compiled) if isinstance(o, Skipped) and o.chosen and o.left_as_it_was]
    return next(iter(held), "; ".join(compiled.notes) if isinstance(compiled, Applied) else None)


def _why_none(steps: Sequence[Step]) -> str:
    """The distinct reasons why no transform applies, the most frequent first, without consequences of other reasons."""
    skipped = [(s.transform.name, s.outcome) for s in steps if isinstance(s.outcome, Skipped) and s.outcome.chosen]
    held = [(name, o.reason) for name, o in skipped if o.left_as_it_was and not o.reason.startswith("needs ")]
    names: dict[str, list[str]] = {}
    for name, reason in held or [(name, o.reason) for name, o in skipped]:
        names.setdefault(reason, []).append(name)
    most_first = sorted(names.items(), key=lambda told: -len(told[1]))
    return "; ".join(f"{reason} ({', '.join(of)})" for reason, of in most_first) or "none was selected"


def _prepared_for_nothing(steps: Sequence[Step]) -> bool:
    """Whether all applied transforms that need the flags only prepare code that others would compile."""
    needing = {flags.INFO.name}
    for step in steps:
        if not needing.isdisjoint(step.transform.needs):
            needing.add(step.transform.name)
    return all(s.transform.prepares for s in steps if s.applied and s.transform.name in needing)


def _rates_for_nothing(steps: Sequence[Step], history: History) -> bool:
    """Whether learning rates became tensors, or optimizers capturable, for updates that are neither compiled nor
    captured.
    """
    outcomes = {s.transform.name: s.outcome for s in steps}
    compiled, rates = outcomes.get(compiling.INFO.name), outcomes.get(tensor_lr.INFO.name)
    graphs = outcomes.get(cudagraphs.INFO.name)
    left = [note.partition("()")[0] for note in graphs.notes] if isinstance(graphs, Applied) else []
    captured = isinstance(graphs, Applied) and not set(history.all_updates) <= set(left)
    eager = isinstance(compiled, Applied) and not compiled.recommended
    return isinstance(rates, Applied) and eager and not captured


def _unprepared(source: str, asked: Asked, line_length: int, steps: Sequence[Step]) -> Conversion:
    """Run again without the transforms that prepare code for compilation, since nothing is compiled.

    Transforms that do not apply keep the reasons of the first run.
    """
    idle = {s.transform.name for s in steps if s.transform.prepares}
    conversion = _run(source, replace(asked, transforms=asked.transforms - idle), line_length)
    outcomes = {
        s.transform.name: Skipped("nothing of the script is compiled", "not needed") if s.applied else s.outcome
        for s in steps
        if s.transform.name in asked.transforms
    }
    kept = (s if s.applied else replace(s, outcome=outcomes.get(s.transform.name, s.outcome)) for s in conversion.steps)
    return replace(conversion, steps=tuple(kept))


def _still_possible(order: Sequence[Transform], chosen: frozenset[str], applied: set[str]) -> int:
    """An upper bound, from their needs, on the number of remaining transforms that can apply."""
    met = set(applied)
    for transform in order:
        if transform.info.name in chosen and met.issuperset(transform.info.needs):
            met.add(transform.info.name)
    return len(met) - len(applied)


class _Failed(Exception):
    """A transform raised an unexpected error."""


_BROKEN = (SyntaxError, cst.ParserSyntaxError, _Failed)
"""Raised if a transform emits invalid Python, or fails."""


def _told(error: Exception) -> str:
    """An internal error in one line, with the place that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"


def _fault(source: str, transform: Transform, error: Exception) -> Conversion:
    return Conversion(source, (), (at(None, "LC007", f"transform {transform.info.name}: {error}"),))


class _Turn(NamedTuple):
    """One transform's turn: the script after it, and its outcome."""

    state: State
    step: Step
    warnings: Sequence[Diagnostic]


def _turn(transform: Transform, state: State, steps: Sequence[Step]) -> _Turn:
    info, before, after = transform.info, state.tree.code, state
    outcome: Outcome
    warnings: Sequence[Diagnostic] = ()
    if info.name not in state.history.asked.transforms:
        outcome = Skipped("not selected", chosen=False)
    elif missing := _missing(info, steps):
        outcome = missing
    else:
        try:
            rewrite = transform.apply(state)
        except Skip as skip:
            headlines = tuple(map(state.in_original, skip.headlines))
            outcome, warnings = Skipped(state.in_original(str(skip)), skip.kind, headlines=headlines), skip.warnings
            after = state.knowing(skip.history or state.history)
        except (Unconvertible, RecursionError, *_BROKEN):
            raise
        except Exception as error:
            if TRACEBACKS:
                raise
            raise _Failed(_told(error)) from error
        else:
            made, warnings = rewrite.edits, rewrite.warnings
            after = made if isinstance(made, State) else state.after(made, rewrite.history)
            said = rewrite.notes, rewrite.headlines, rewrite.left
            notes, headlines, left = (tuple(map(state.in_original, sentences)) for sentences in said)
            outcome = Applied((*notes, *left), rewrite.brief, rewrite.recommended, headlines, left)
            if (why := _changes_compiled(state, after, steps)) is not None:
                outcome, after, warnings = Skipped(state.in_original(why)), state, ()
            elif after.tree.code == before:
                outcome = Skipped("nothing to change", "not needed")
            elif (why := _other_meaning(state, after.tree, gathers=transform in GATHERING)) is not None:
                outcome, after, warnings = Skipped(state.in_original(why)), state, ()
            elif (why := state.history.asked.held(after.tree.code)) is not None:
                outcome, after, warnings = Skipped(why), state, ()
    if after is not state:
        state.roles.forget()
    return _Turn(after, Step(info, outcome, before, after.tree.code), warnings)


def _changes_compiled(state: State, after: State, steps: Sequence[Step]) -> str | None:
    """Why a transform must not make its change: the script itself compiles code that it would change.

    If `flags` has applied, the script compiles nothing itself; all compilation was written by transforms.
    """
    compiling = own_compiling(state.tree)
    if compiling is None or any(s.transform is flags.INFO and s.applied for s in steps):
        return None
    left = {ast.dump(n) for n in (*after.tree.of(ast.ClassDef), *after.tree.of(ast.FunctionDef))}
    for code in compiled_by_script(state.tree):
        if ast.dump(code) not in left:
            return f"line {compiling.lineno} compiles code that may contain {code.name}, so that must not change"
    return None


def _other_meaning(state: State, after: Tree, *, gathers: bool) -> str | None:
    """Why a transform's text would mean something else in this script; applies to every transform.

    Args:
        state: the script.
        after: the transformed script.
        gathers: whether the transform moves functions into the training loop; the loop's scope is not known before.
    """
    if (name := captured(state.tree, after)) is not None:
        return f"the new code reads {name}, and the script has its own {name}"
    if (name := called_otherwise(state.tree, after)) is not None:
        return f"the script has its own {name}, and the new code would call it a different number of times"
    if (text := rewritten(state.tree, after)) is not None:
        return f"the script prints the text of an expression, and would print {text}"
    if not gathers and (place := seen_by_text(state.tree, after, state.roles.scope)) is not None:
        return f"line {place.lineno} may look up, by name, a variable that the transform renames or removes"
    found = shown(state.tree, after)
    return f"line {getattr(found[0], 'lineno', 1)} {found[1]}" if found is not None else None


def _missing(info: TransformInfo, steps: Sequence[Step]) -> Skipped | None:
    """The skip of a transform because transforms that it needs did not apply."""
    outcomes = {s.transform.name: s.outcome for s in steps}
    missing = {n: outcomes[n] for n in info.needs if not isinstance(outcomes[n], Applied)}
    held = any(isinstance(o, Skipped) and o.kind == "left as it was" for o in missing.values())
    reasons = [o.reason for o in missing.values() if isinstance(o, Skipped)]
    reason = f"needs {', '.join(missing)}, which did not apply: {'; '.join(reasons[:1])}"
    return Skipped(reason, "left as it was" if held else "not needed") if missing else None


def _alone(turn: _Turn, state: State) -> Diagnostic | None:
    """Why only the update can be converted; None if the rollout was found as well."""
    roles = state.roles
    if roles.kind != "update":
        return None
    why = state.placed(refusals.no_training_loop(roles.tree, roles.env_steps, roles.optimizer_steps))
    return replace(why, message=f"{why.message}{_why_kept(turn)}")


def _why_kept(turn: _Turn) -> str:
    """Why a function that contains a part of the training is not inlined, as the end of a sentence; or ""."""
    outcome = turn.step.outcome
    if isinstance(outcome, Skipped) and outcome.chosen and outcome.kind == "left as it was":
        return f"; {outcome.reason}"
    return ""


def _recognise(turn: _Turn) -> State:
    """Find the training loop and the facts about it.

    If a function that could not be inlined hides a part of the training, the refusal says why it was not inlined.

    Raises:
        Unconvertible: there is none.
    """
    try:
        _ = turn.state.roles.phases
    except Unconvertible as refusal:
        found, why = [turn.state.placed(d) for d in refusal.diagnostics], _why_kept(turn)
        if why:  # this replaces the less precise end of the message
            found = [replace(d, message=f"{d.message.partition(refusals.NOT_SHOWN)[0]}{why}") for d in found]
        raise Unconvertible(*found) from refusal
    return recognise(turn.state)
