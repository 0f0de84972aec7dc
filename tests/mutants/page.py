"""Writes benchmarks/logs/mutants.md and benchmarks/results/mutants.json."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from figures import Score, Scored
from targets import ASIDE

from transformer.verify.names import COMPILED_GRAPHS, FLAGS_OFF, FLAGS_ON, FLAGS_ON_GRAPHS, GRAPHS

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
HOW = (FLAGS_OFF, FLAGS_ON, FLAGS_ON_GRAPHS, GRAPHS, COMPILED_GRAPHS, "fails", "hangs")

HEAD = """\
# The teeth of `lean-convert verify`

How many single edits of a converted script's training code does `verify` tell? Each edit is made by itself; the mutant
runs on the checks for which nothing has to be compiled, until it is told: with its flags off and
on, with the arguments of a short run and with the other ones that `verify` derives; then, with its flags on, with short
episodes; then, on the emulated CUDA device, on the three checks with CUDA graphs, of which torch.compile hands back the
function itself. A mutant that fails or hangs is told.

    make mutants                # runs them, and writes this page

Edited are the statements of functions, of methods and of the module: constants and their signs, operators, comparisons,
conditions (negated), operands and neighbouring arguments or elements (swapped), indices and keys (the neighbour's),
variables and options (a neighbour of the same kind: type, shape and dtype are observed in a run), whole statements
(dropped, repeated). Never edited are imports, classes' fields, function headers, docstrings and other text, assertions,
and these:
{aside}
Nor are edits made that nothing could tell: the other order of a sum, a product, a maximum or a squared difference,
another thing of the same shape where only that is read, `non_blocking` and the like. Statements that no run reaches are
counted, and left aside.

Score = killed / (all - proved equivalent). Proved is from the text alone (`tests/mutants/equivalent.py`, by rules that
have tests of what they must not prove): repeating what has no other effect and reads nothing that it binds; editing
what nothing reads; and edits of which that file shows that both texts compute the same. Among these is whether a
function is compiled at all, or captured where it is called with one size: torch.compile and CudaGraphModule are to
compute what the function does, so such an edit costs time alone. What survives beside these is listed below, with a
reason that somebody has written down (`benchmarks/lists/mutants.toml`): *equivalent* by a reason that is no proof, or
*not seen*.
"""


def write(scores: Sequence[Score]) -> None:
    """Write both files."""
    (BENCHMARKS / "logs" / "mutants.md").write_text("\n".join(_page(scores)), encoding="utf-8")
    figures = {one.script: _figures(one) for one in scores}
    (BENCHMARKS / "results" / "mutants.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _figures(one: Score) -> dict[str, object]:
    return {
        "generated": one.generated,
        "not run": one.not_run,
        "scored": len(one.scored),
        "proved equivalent": one.proved,
        "killed": one.killed,
        "score": round(one.part, 4),
        "killed by": dict(Counter(s.outcome.killed for s in one.scored if s.outcome.killed and not s.proof)),
        "survivors": {s.mutant.key: s.reason.why if s.reason else "" for s in one.survivors},
    }


def _page(scores: Sequence[Score]) -> Iterator[str]:
    yield HEAD.format(aside=textwrap.fill("; ".join(ASIDE) + ".", 119))
    yield "| script | mutants | not run | scored | proved equivalent | killed | " + " | ".join(HOW) + " | score |"
    yield "| --- |" + " ---: |" * (6 + len(HOW))
    for one in scores:
        yield _row(one.script, [one])
    yield _row("all", scores)
    yield ""
    yield "| edit | scored | proved equivalent | killed | score |\n| --- | ---: | ---: | ---: | ---: |"
    everything = [s for one in scores for s in one.scored]
    for kind in sorted({s.mutant.kind for s in everything}):
        of_kind = [s for s in everything if s.mutant.kind == kind]
        proved, killed = sum(bool(s.proof) for s in of_kind), sum(map(_is_killed, of_kind))
        yield f"| {kind} | {len(of_kind)} | {proved} | {killed} | {killed / max(1, len(of_kind) - proved):.1%} |"
    yield "\n## Arguments\n"
    for one in scores:
        for name, words in one.arguments.items():
            yield f"- `{one.script}`, {name}: `{' '.join(words)}`"
    yield "\n## Survivors\n"
    yield f"{_summary(scores)}\n"
    yield "Proved equivalent, by reason:\n"
    for why, count in Counter(s.proof for one in scores for s in one.scored if s.proof).most_common():
        yield f"- {count}: {why}"
    yield ""
    for one in scores:
        yield f"### {one.script}\n"
        yield from _survivors(one)


def _row(name: str, scores: Sequence[Score]) -> str:
    how = Counter(s.outcome.killed for one in scores for s in one.scored if _is_killed(s))
    sums = [sum(numbers) for numbers in zip(*map(_numbers, scores), strict=True)]
    part = sums[4] / (sums[2] - sums[3])
    return f"| {name} | " + " | ".join(map(str, [*sums, *(how[h] for h in HOW)])) + f" | {part:.1%} |"


def _numbers(one: Score) -> tuple[int, int, int, int, int]:
    return one.generated, one.not_run, len(one.scored), one.proved, one.killed


def _is_killed(scored: Scored) -> bool:
    return bool(scored.outcome.killed) and not scored.proof


def _summary(scores: Sequence[Score]) -> str:
    survivors = [s for one in scores for s in one.survivors]
    equivalent = sum(s.reason is not None and s.reason.equivalent for s in survivors)
    all_ = sum(len(one.scored) - one.proved for one in scores)
    return (
        f"{len(survivors)} survive: {equivalent} compute the same, by a reason that is no proof, "
        f"{len(survivors) - equivalent} are not seen. Without the former the score is "
        f"{(all_ - len(survivors)) / (all_ - equivalent):.1%}."
    )


def _survivors(one: Score) -> Iterator[str]:
    by_reason: dict[tuple[bool, str], list[Scored]] = {}
    for survivor in one.survivors:
        reason = survivor.reason
        said = (reason.equivalent, reason.why) if reason else (False, "nobody has said why")
        by_reason.setdefault(said, []).append(survivor)
    for (equivalent, why), group in sorted(by_reason.items(), key=lambda item: item[0]):
        yield f"- **{'equivalent' if equivalent else 'not seen'}**: {why}"
        for survivor in group:
            mutant = survivor.mutant
            yield f"  - {mutant.scope or 'module'}: `{mutant.before}`, {mutant.kind}: `{mutant.after}`"
    yield ""
