"""A policy that is NaN: the original stops at once, a conversion at the next rollout, with the same error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import PARTS, QUICK_COMPILE, script

from transformer import convert

BROKEN = 2  # the iteration whose update breaks the policy
FINITE = re.compile(r"^( *)if .*isfinite.*\n(?:\1 +.*\n)+", re.MULTILINE)
REPORT = 'print("iteration", iteration)'

WAYS = {
    "a loss of no number": {
        "optimize": f"loss = loss * (float('nan') if iteration == {BROKEN} else 1.0)\n{PARTS['optimize']}"
    },
    "a loss beyond all bounds": {
        "optimize": f"loss = loss * (1e38 if iteration == {BROKEN} else 1.0) * 10\n{PARTS['optimize']}"
    },
    "weights set between the iterations": {
        "report": f"{REPORT}\nif iteration == {BROKEN}:\n    agent.actor[-1].weight.data.fill_(float('nan'))"
    },
    "one weight of many": {
        "report": f"{REPORT}\nif iteration == {BROKEN}:\n    agent.actor[-1].bias.data[-1] = float('inf')"
    },
}


def ran(*command: str) -> tuple[list[int], str]:
    """The iterations that a run reported, and its error."""
    run = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300, check=False)
    errors = [line for line in run.stderr.splitlines() if line.startswith("ValueError")]
    assert (run.returncode != 0) == bool(errors), run.stderr[-2000:]
    return [int(n) for n in re.findall(r"iteration (\d+)", run.stdout)], "".join(errors)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_policy_that_is_not_finite_stops_with_compile(way: str, tmp_path: Path) -> None:
    source = script({"report": REPORT, **WAYS[way]})
    original, converted, unchecked = (tmp_path / f"{name}.py" for name in ("original", "converted", "unchecked"))
    text = convert(source).source
    without, cut = FINITE.subn("", text)
    assert cut == 1
    for path, content in ((original, source), (converted, text), (unchecked, without)):
        path.write_text(content, encoding="utf-8")

    told, error = ran(str(original))
    assert told and max(told) <= BROKEN and error.startswith("ValueError: Expected parameter logits")
    told, error = ran(str(QUICK_COMPILE), str(converted), "--compile")
    assert told == [1, BROKEN]
    assert error.startswith("ValueError: Expected parameter logits")
    told, error = ran(str(QUICK_COMPILE), str(unchecked), "--compile")
    assert max(told) > BROKEN and not error  # so the check is needed
