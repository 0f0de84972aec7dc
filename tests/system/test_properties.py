"""Properties: a script converts the same with other names, in another order, and with unrelated statements."""

import ast
import re
from functools import cache, partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripts import script

from transformer import Conversion, convert
from transformer.transforms import ORDER

ORIGINAL = script()
NAMES = ("next_obs", "next_done", "rewards", "values", "logprobs", "advantages", "returns", "mb_inds", "b_inds",
         "b_obs", "b_actions", "approx_kl", "clipfracs", "lastgaelam", "global_step", "iteration", "agent", "optimizer",
         "args", "delta", "ratio", "action", "reward")  # fmt: skip
RENAMED = tuple(n for n in NAMES if re.search(rf"\b{n}\b", ORIGINAL))
FREE = st.from_regex(r"q[a-z]{2,8}_", fullmatch=True)
UNRELATED = ("unrelated = 3", "print('unrelated')", "if len('unrelated') > 20:\n    unrelated = None", "assert True")
few = settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


EVERYTHING = ("tune", "measure", "distribute", "workers", "checkpoint", "fuse_envs", "precision")
with_all = partial(convert, **dict.fromkeys(EVERYTHING, True))


def applied(conversion: Conversion) -> list[str]:
    assert conversion.converted, conversion.diagnostics
    ast.parse(conversion.source)
    return [s.transform.name for s in conversion.steps if s.applied]


@cache
def expected() -> list[str]:
    return applied(with_all(ORIGINAL))


def renamed(source: str, names: dict[str, str]) -> str:
    return re.sub(rf"(?<![.\w])({'|'.join(names)})\b(?!\s*=[^=]*[,)]\s*$)", lambda m: names[m[1]], source)


def test_the_template_is_fully_converted() -> None:
    left = [t.info.name for t in ORDER if "on-policy" in t.kinds and t.info.name not in expected()]
    wanted = [
        "dissolve",
        "inline",
        "acting",
        "scatter-rows",
        "last-step",
        "on-device",
        "late-append",
        "narrow-observations",
        "acting-method",
        "acting-statements",
        "step-networks",
        "auxiliary-update",
        "plain-sizes",
        "channels-last",
        "lstm-cells",
        "async-envs",
        "fused-envs",
    ]
    assert left == wanted, (
        "it has no class, one loop, one update, one policy under torch.no_grad(), no images, memory or parallel "
        "environments, and makes nothing on the host"
    )


@pytest.mark.slow
@few
@given(st.lists(FREE, min_size=len(RENAMED), max_size=len(RENAMED), unique=True))
def test_names_do_not_matter(fresh: list[str]) -> None:
    names = dict(zip(RENAMED, fresh, strict=True))
    assert applied(with_all(renamed(ORIGINAL, names))) == expected()


def statement_lines(source: str) -> list[int]:
    """Lines in the training scope before which a statement may be inserted."""
    guard = next(n for n in ast.parse(source).body if isinstance(n, ast.If))
    blocks = [n.body for n in ast.walk(guard) if isinstance(n, (ast.For, ast.With))]
    return sorted({s.lineno for block in [guard.body, *blocks] for s in block})


@few
@given(st.sampled_from(statement_lines(ORIGINAL)), st.sampled_from(UNRELATED))
@pytest.mark.slow
def test_unrelated_statements_do_not_matter(line: int, statement: str) -> None:
    lines = ORIGINAL.splitlines(keepends=True)
    indent = re.match(r" *", lines[line - 1])
    assert indent is not None
    lines.insert(line - 1, "".join(f"{indent[0]}{part}\n" for part in statement.splitlines()))
    skipped = set(expected()) - set(applied(with_all("".join(lines))))
    # Between the shuffle and the slices, or inside the loop over time, a statement may hold back that transform alone,
    # and those that work on what it makes.
    assert skipped <= {"shuffle", "gae-hoist", "cudagraphs"}, skipped


def independent_pairs(source: str) -> list[tuple[ast.stmt, ast.stmt]]:
    """Neighbours in the training scope that bind none of each other's names and call none of the script's functions."""
    guard = next(n for n in ast.parse(source).body if isinstance(n, ast.If))
    pairs = []
    for first, second in zip(guard.body, guard.body[1:], strict=False):
        if isinstance(first, ast.Assign) and isinstance(second, ast.Assign):
            names = [{n.id for n in ast.walk(s) if isinstance(n, ast.Name)} for s in (first, second)]
            bound = [{n.id for t in s.targets for n in ast.walk(t) if isinstance(n, ast.Name)} for s in (first, second)]
            if not (names[0] & bound[1] or names[1] & bound[0]):
                pairs.append((first, second))
    return pairs


@pytest.mark.skipif(not independent_pairs(ORIGINAL), reason="the template has no independent neighbours")
@few
@given(st.sampled_from(independent_pairs(ORIGINAL)))
@pytest.mark.slow
def test_the_order_of_independent_statements_does_not_matter(pair: tuple[ast.stmt, ast.stmt]) -> None:
    first, second = pair
    assert first.end_lineno and second.end_lineno
    lines = ORIGINAL.splitlines(keepends=True)
    a, b = lines[first.lineno - 1 : first.end_lineno], lines[second.lineno - 1 : second.end_lineno]
    between = lines[first.end_lineno : second.lineno - 1]
    swapped = [*lines[: first.lineno - 1], *b, *between, *a, *lines[second.end_lineno :]]
    assert applied(with_all("".join(swapped))) == expected()
