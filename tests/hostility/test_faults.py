"""Scripts that were once converted wrongly: each is fixed, or marked as an expected failure."""

from collections import Counter
from pathlib import Path

import pytest
from faults import ITEMS, WRONG, Fault, faults
from forking import preload
from judge import judge

ALL = faults()
GROUPS: dict[tuple[str, bool], list[str]] = {}
for one in ALL:
    GROUPS.setdefault((one.about, one.name in WRONG), []).append(one.name)
FEW = 1
"""About how many scripts of each group run at every change."""


def chosen(fault: Fault) -> bool:
    """Whether a script runs at every change; FEW of each subject, of wrong and of right ones."""
    ours = GROUPS[fault.about, fault.name in WRONG]
    return fault.name in ours[len(ours) // (2 * FEW) :: -(-len(ours) // FEW)]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            fault,
            id=fault.name,
            marks=[
                *([] if chosen(fault) else [pytest.mark.slow]),
                *([pytest.mark.xfail(reason="not mended yet", raises=AssertionError)] if fault.name in WRONG else []),
            ],
        )
        for fault in ALL
    ],
)
def test_it_is_held_back_or_equal(fault: Fault, tmp_path: Path) -> None:
    preload()
    outcome = judge(tmp_path / "fault.py", fault.source)
    assert outcome.kind != "unusable", outcome.said
    assert outcome.right, (outcome.kind, *outcome.said)


def test_what_is_wrong_is_one_of_them() -> None:
    assert {f.name for f in ALL} >= WRONG


def test_each_script_is_another() -> None:
    assert max(Counter(f.name for f in ALL).values()) == 1
    assert max(Counter(f.source for f in ALL).values()) == 1
    assert {f.about for f in ALL} == {*ITEMS}
