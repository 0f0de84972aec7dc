"""Arguments with which a script's training takes branches that it does not take by default.

The options are found by their effect, not their names: one determines the optimizer's learning rate, another the bounds
of a clamp, the limit of a norm, or the limit for an early exit; one divides the batch into minibatches.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from transformer.syntax.query import parse
from transformer.syntax.tree import Tree
from transformer.values.reports import is_report
from transformer.verify.exercised import is_open
from transformer.verify.options import Option
from transformer.verify.origins import Origins
from transformer.verify.recording import Site
from transformer.verify.run import RunFailed

_FASTER = 10.0
"""The factor by which the learning rate is raised, and the limit on gradients lowered."""
_TIGHTER = 100.0
"""The factor by which the bounds of a clamp are narrowed, so that both are exceeded."""
_FASTEST = 0.02
"""The largest learning rate to try."""
_SOON = 1e-5
"""The largest limit for comparisons, such as that of a divergence before an early exit. A ratio of 1 has a divergence
of 0, and few other ratios stay below this, however narrow the clipping range is."""
_OFTEN = 7
"""The new interval, in steps, for code that runs every n steps."""
_BOUNDS = ("min", "max", "a_min", "a_max")

OTHER_ITERATIONS = 2
"""Iterations of a run with other arguments: annealing reaches its end, and the second sees what the first left behind.
With short episodes, one more."""

_Outcome = TypeVar("_Outcome")
_Changes = tuple[tuple[str, ...], ...]


def other_arguments(source: str, options: Iterable[Option], sites: Sequence[Site]) -> _Changes:
    """The options to set, with their values, so that a run of the original exercises more of its training.

    Switches are flipped in the order of the text; :func:`every_other_switch` leaves some of them unflipped.

    Args:
        source: the original's text.
        options: its options, with their values.
        sites: the places of its training code, with their outcomes in a run without these arguments.
    """
    search = _Search(parse(source), tuple(options), sites)
    found: dict[str, tuple[str, ...]] = {}
    for find in (
        search.minibatches,
        search.switches,
        search.gates,
        search.limits,
        search.norms,
        search.bounds,
        search.rates,
    ):
        for option, arguments in find():
            found.setdefault(option.spelled, arguments)
    return tuple(found.values())


def rare_log(source: str, options: Iterable[Option], sites: Sequence[Site]) -> str:
    """Why a script logged nothing: the condition that never held, and the option that it depends on, if any."""
    tree = Tree(source)
    search = _Search(tree.root, tuple(options), sites)
    for i, test in search.tests():
        node = tree.parents[test]
        if "true" in sites[i].seen or not any(is_report(tree, n) for n in ast.walk(node)):
            continue
        modulos = (n.right for n in ast.walk(test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))
        option = next((o for value in modulos for o in search.origins.by_arithmetic(value)), None)
        how = f"`-- {option.spelled} 1` lets it" if option else "with more --iterations it may"
        return f"line {test.lineno} logs where `{ast.unparse(test)}`: {how}"
    return "with more --iterations they may be"


def draws_at_random(source: str, options: Iterable[Option]) -> list[Option]:
    """Options for how long actions are drawn from the environment's space: the numbers that a condition compares."""
    tree = parse(source)
    origins, found = Origins(tree, options), dict[Option, None]()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)) and any(
            _samples_action(n) for n in ast.walk(node) if n is not node.test
        ):
            compared = (n for n in ast.walk(node.test) if isinstance(n, ast.Compare) and _is_ordering(n))
            values = (value for n in compared for value in (n.left, *n.comparators))
            found |= dict.fromkeys(o for value in values for o in origins.by_arithmetic(value))
    return [option for option in found if type(option.value) in (int, float)]


def _samples_action(node: ast.AST) -> bool:
    """Whether a node is `env.action_space.sample()`."""
    func = node.func if isinstance(node, ast.Call) else None
    sampled = isinstance(func, ast.Attribute) and func.attr == "sample"
    return sampled and "action_space" in ast.unparse(func.value)  # type: ignore[union-attr]


def every_other_switch(changes: _Changes, options: Iterable[Option]) -> _Changes:
    """The same options, but with only the first, third, ... of the switches, so that mixing up two of them shows.

    A single switch is left out.
    """
    flips = {option.flipped for option in options if option.flipped}
    switches = [change for change in changes if change in flips]
    kept = switches[::2] if len(switches) > 1 else []
    return tuple(change for change in changes if change not in switches or change in kept)


def most_that_run(
    more: _Changes, run: Callable[[_Changes], _Outcome], kept: _Changes = (), fails: bool = False
) -> tuple[_Changes, _Outcome | None]:
    """The most options of `more` that the original runs with, in addition to `kept`, and the outcome of that run.

    They are found by bisection, so one bad option of n costs about 2 log2(n) runs. The outcome is None if no option is
    added.

    Args:
        more: options to set.
        run: raises RunFailed if the original fails with these options.
        kept: options with which it is known to run.
        fails: whether it is known to fail with all options of both.
    """
    try:
        if not fails:
            return kept + more, run(kept + more)
    except RunFailed:
        pass
    if len(more) == 1:
        return kept, None
    half = len(more) // 2
    good, first = most_that_run(more[:half], run, kept)
    better, second = most_that_run(more[half:], run, good, fails=good == kept + more[:half])
    return better, first if second is None else second


def changes_branch(converted: str, fast: Collection[str], usual: Sequence[Site], other: Sequence[Site]) -> bool:
    """Whether a condition in compiled or captured functions has different outcomes in two runs.

    Args:
        converted: the converted script's text.
        fast: the names of the compiled or captured functions; functions that these call by name are included.
        usual: the sites of the original's training code, with their outcomes in one run.
        other: the sites with their outcomes in the other run.
    """
    changed = [
        now for before, now in zip(usual, other, strict=True) if now.kind == "condition" and now.seen - before.seen
    ]
    functions: defaultdict[str, list[ast.AST]] = defaultdict(list)
    for node in ast.walk(parse(converted)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[node.name].append(node)
    reached, waiting = set[str](), list(fast)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for node in (n for function in functions[name] for n in ast.walk(function)):
            if isinstance(node, (ast.If, ast.IfExp, ast.While)) and any(_says(site.text, node) for site in changed):
                return True
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                waiting += [called] if called in functions else []
    return False


_Found = Iterator[tuple[Option, tuple[str, ...]]]


class _Search:
    def __init__(self, tree: ast.Module, options: tuple[Option, ...], sites: Sequence[Site]) -> None:
        self._tree = tree
        self.origins = Origins(tree, options)
        self._sites = sites
        self._lines = {(site.line, site.kind) for site in sites}

    def _calls_with_site(self, kind: str | None = None) -> Iterator[ast.Call]:
        """All calls, or those in lines with a site of this kind."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and (kind is None or (node.lineno, kind) in self._lines):
                yield node

    def _amounts(self, call: ast.Call, kind: str) -> tuple[float, float] | None:
        """The amounts seen at a call with a site of this kind."""
        return next((s.amounts for s in self._sites if (s.line, s.kind) == (call.lineno, kind)), None)

    def _scaled(self, values: Iterable[ast.expr], scale: Callable[[float], float]) -> _Found:
        """The positive options from which these values are computed, each with a new value."""
        for value in values:
            options = self.origins.by_arithmetic(value)
            for option in [o for o in options if isinstance(o.value, float)] or options:
                if option.value and type(option.value) in (int, float) and 0 < option.value < math.inf:
                    yield option, (option.spelled, f"{scale(option.value):.6g}")

    def rates(self) -> _Found:
        """Options for the learning rates of optimizers."""
        given = [k.value for call in self._calls_with_site() for k in call.keywords if k.arg == "lr"]
        groups = [node for node in ast.walk(self._tree) if isinstance(node, ast.Dict)]
        for group in groups:
            keys = (k.value if isinstance(k, ast.Constant) else None for k in group.keys)
            given += [value for key, value in zip(keys, group.values, strict=True) if key == "lr"]
        yield from self._scaled(given, lambda rate: max(rate, min(_FASTER * rate, _FASTEST)))

    def bounds(self) -> _Found:
        """Options for the bounds of clamps."""
        yield from self._scaled(
            (
                value
                for call in self._calls_with_site("clip")
                for value in (*call.args, *(k.value for k in call.keywords if k.arg in _BOUNDS))
                if not isinstance(value, ast.Constant)
            ),
            lambda bound: bound / _TIGHTER,
        )

    def norms(self) -> _Found:
        """Options for the limits on gradients."""
        for call in self._calls_with_site("norm"):
            least, largest = self._amounts(call, "norm") or (math.inf, math.inf)
            between = (least * largest) ** 0.5  # so that some gradients are clipped
            limits = (*call.args[1:2], *(k.value for k in call.keywords if k.arg in ("max_norm", "clip_value")))
            yield from self._scaled(limits, lambda limit, most=between: min(limit / _FASTER, most or limit))  # type: ignore[misc]

    def limits(self) -> _Found:
        """Options for the limits in conditions that always had the same outcome, such as that of an early exit."""
        for i, test in self.tests():
            if not is_open(self._sites[i], self._sites):
                continue
            for node in (n for n in ast.walk(test) if isinstance(n, ast.Compare) and _is_ordering(n)):
                for option in (o for v in (node.left, *node.comparators) for o in self.origins.by_arithmetic(v)):
                    if option.value is None or (type(option.value) is float and option.value >= 0):
                        value = min(option.value / _FASTER, _SOON) if option.value else _SOON
                        yield option, (option.spelled, f"{value:.6g}")

    def gates(self) -> _Found:
        """Options for the intervals of code that never ran."""
        for i, test in self.tests():
            if not is_open(self._sites[i], self._sites):
                continue
            for node in (n for n in ast.walk(test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)):
                for option in self.origins.by_arithmetic(node.right):
                    if type(option.value) is int and option.value > _OFTEN:
                        yield option, (option.spelled, str(_OFTEN))

    def switches(self) -> _Found:
        """Boolean options that alone decide a condition, unless flipping one hides code that was not exercised."""
        for i, test in self.tests():
            site = self._sites[i]
            test = test.operand if isinstance(test, ast.UnaryOp) else test
            options = self.origins.by_arithmetic(test)
            if len(options) != 1 or not options[0].flipped or not is_open(site, self._sites):
                continue
            if not any(site.guard and site.guard[0] == i and is_open(site, self._sites) for site in self._sites):
                yield options[0], options[0].flipped

    def tests(self) -> Iterator[tuple[int, ast.expr]]:
        """The conditions of the training code, each with the number of its site."""
        at = {(site.line, site.text): i for i, site in enumerate(self._sites) if site.kind == "condition"}
        for node in ast.walk(self._tree):
            if isinstance(node, (ast.If, ast.IfExp, ast.While)):
                for (line, text), i in at.items():
                    if line == node.test.lineno and _says(text, node):
                        yield i, node.test

    def minibatches(self) -> _Found:
        """The options that divide a batch without a remainder."""
        for call in self._calls_with_site("parts"):
            total, part = (int(n) for n in self._amounts(call, "parts") or (0, 1))
            if total % part or not total:
                continue
            size, counts = call.args[-1], []
            for value in self.origins.expressions(size):
                for node in ast.walk(value):
                    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Div)):
                        counts += self.origins.by_arithmetic(node.right)
            for option in counts or self.origins.by_arithmetic(size):
                uneven = _uneven_count(total, part) if counts else _uneven_size(total, part)
                if option.value == (total // part if counts else part) and uneven is not None:
                    yield option, (option.spelled, str(uneven))


def _is_ordering(node: ast.Compare) -> bool:
    return isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))


def _says(text: str, node: ast.If | ast.IfExp | ast.While) -> bool:
    """Whether a site's text, which may be truncated, is the text of this condition."""
    said = "if " if isinstance(node, ast.If) else "while " if isinstance(node, ast.While) else ""
    said += ast.unparse(node.test if said else node)
    return " ".join(said.split()).startswith(text.removesuffix("..."))


def _uneven_count(total: int, size: int) -> int | None:
    """A number of parts that leaves a smaller last part, of more than one element and preferably more than a few."""
    count = total // size
    candidates = sorted(range(2, total // 2 + 1), key=lambda other: (abs(other - count), -other))
    rests = {other: (total % (total // other), total // other) for other in candidates}
    large = (other for other, (rest, one) in rests.items() if rest > 1 and 4 * rest >= one)
    return next(chain(large, (other for other, (rest, _) in rests.items() if rest > 1)), None)


def _uneven_size(total: int, size: int) -> int | None:
    """The largest smaller size that leaves a remainder, of more than one element and preferably more than a few."""
    sizes = range(size - 1, 2, -1)
    large = (other for other in sizes if total % other > 1 and 4 * (total % other) >= other)
    return next(chain(large, (other for other in sizes if total % other > 1)), None)
