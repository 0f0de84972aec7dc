"""What the report says about code that was left unchanged."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from golden import conversion_of, converted
from rich.console import Console
from scripts import PARTS, edited, script

from transformer.commands.report import SLOW, Result, print_report
from transformer.conversion.result import Applied, Conversion, Skipped
from transformer.conversion.told import depending, in_general, left_as_it_was, warnings_told

GROWS = "if len(seen) < 9:\n    seen.append(ratio.sum().item())"


def said(conversion: Conversion) -> str:
    """The report as a terminal shows it."""
    file = io.StringIO()
    print_report(Console(file=file, width=400), [Result("ppo.py", conversion)])
    return file.getvalue()


def test_a_line_that_keeps_the_update_from_being_compiled_is_told_once() -> None:
    conversion = converted(script({"before_loop": "seen = []", "metrics": GROWS}))
    line = next(i for i, text in enumerate(conversion.original.splitlines(), 1) if "seen.append" in text)
    (headline,) = conversion.headlines
    assert headline == (
        f"update() is not compiled: line {line} (`seen.append(ratio.sum().item())`) makes seen longer, and each length "
        "would cause a recompilation; move it below optimizer.step()"
    )
    report = said(conversion)
    assert report.count(headline) == 1
    assert report.count("would cause a recompilation") == 1
    assert report.startswith(f"{SLOW}\n{headline}\n"), "whoever wants speed reads no further"
    compiled = said(converted(script()))
    assert SLOW not in compiled and re.match(r"\d+ transforms applied", compiled)
    assert not [w for w in warnings_told(conversion) if w.line == line]
    assert "one-graph" in depending(conversion)
    assert all("update() is not compiled" not in left.reason for left in left_as_it_was(conversion))


def test_where_the_update_is_compiled_nothing_is_said_of_it() -> None:
    conversion = converted(script())
    assert conversion.headlines == ()
    assert "not compiled" not in said(conversion)


@pytest.mark.parametrize("ways", [("policy", "acting-method", "acting-statements")])
def test_of_several_ways_to_do_one_thing_one_is_told(ways: tuple[str, ...]) -> None:
    act = edited("act", "with torch.no_grad():", "with torch.enable_grad():")
    conversion = converted(script({"act": act}))
    held = [s.transform.name for s in conversion.steps if not s.applied and s.outcome.left_as_it_was]  # type: ignore[union-attr]
    assert len(set(ways) & set(held)) > 1
    assert [name for left in left_as_it_was(conversion) for name in left.names if name in ways] == ["policy"]


@pytest.mark.parametrize(
    ("above", "changed", "reason"),
    [
        ("", "r = rewards[t]\nr *= 0.5", "may change dones in place"),
        ("kept = rewards", "kept[t] *= 0.5", "may change dones in place"),
        ("", "dones.add_(1)", ""),
    ],
)
def test_what_keeps_the_loop_over_time_is_named_as_the_script_names_it(above: str, changed: str, reason: str) -> None:
    """The buffers are entries of a TensorDict where the loop is read, and the line that reads them is not to blame."""
    gae = PARTS["gae"].replace("delta = ", f"{changed}\ndelta = ".replace("\n", "\n    "), 1)
    conversion = converted(script({"gae": f"{above}\n{gae}"}))
    lines = conversion.original.splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.strip() == changed.splitlines()[-1])
    outcome = next(s.outcome for s in conversion.steps if s.transform.name == "gae-hoist")
    assert isinstance(outcome, Skipped)
    assert re.match(rf"line {line}\b:? {reason}", outcome.reason), outcome.reason
    assert "[" not in outcome.reason


FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


def test_what_a_transform_left_beside_what_it_did_is_told_with_a_remedy() -> None:
    conversion = conversion_of(FIXTURES / "q_lambda.py")
    (step,) = (s for s in conversion.steps if s.transform.name == "cudagraphs")
    assert isinstance(step.outcome, Applied)
    assert step.outcome.left and not step.outcome.lesser_notes
    (left,) = (one for one in left_as_it_was(conversion) if one.names == ("cudagraphs",))
    assert left.places and left.costs.startswith("It applies elsewhere in the script; here, on CUDA, each kernel")
    assert left.costs.partition(". In ")[2] == in_general(step.transform.costs).partition(". In ")[2]
    assert ". In general: pass" in left.costs
    done, _, rest = said(conversion).partition("left as it was, because")
    assert "is not captured" in rest and "is not captured" not in done


def test_what_other_files_can_no_longer_import_is_told() -> None:
    conversion = conversion_of(FIXTURES / "in_methods.py")
    assert conversion.gone and all(name.partition(".")[0] in conversion.original for name in conversion.gone)
    assert f"nothing can import it from there: {', '.join(conversion.gone)}" in said(conversion)
    kept = converted(script())
    assert kept.gone == () and "not in the new file" not in said(kept)
