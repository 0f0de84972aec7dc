"""Checks in other arithmetic: results must differ from float32 and be close to it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import golden
import pytest
from scripts import script

from transformer.verify.call_error import CallError
from transformer.verify.checks import OTHER_ARITHMETIC, precision_check
from transformer.verify.flags import PRECISION, find_flags
from transformer.verify.lockstep import Function, Lockstep
from transformer.verify.names import FLAGS_OFF
from transformer.verify.run import Run
from transformer.verify.verify import Task, verify


@cache
def converted() -> str:
    return golden.converted(script(), precision=True).source


ERROR = CallError("update", 1, True, "output", "output", "float32", 8, 1e-2, 1e-2)


def test_its_option_is_found() -> None:
    assert find_flags(converted()).options([PRECISION]) == ["--precision"]
    assert find_flags(converted().replace("args.precision", "args.bits")).options([PRECISION]) == ["--bits"]
    assert find_flags(golden.converted(script()).source).options([PRECISION]) is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ERROR, "close"),
        (replace(ERROR, relative=1e-1), "different"),
        (replace(ERROR, kind="parameter change", relative=1e-1), "close"),
        (replace(ERROR, relative=0.0), "different"),
        (replace(ERROR, relative=math.inf), "different"),
        (replace(ERROR, dtype="int64", relative=1.0), "different"),
    ],
)
def test_the_tolerances_of_its_dtype(error: CallError, status: str) -> None:
    check = precision_check("bf16", Lockstep((Function("update", 9, 8),), (error,), (), 1, 1.0), "bfloat16")
    assert check.status == status
    assert (check.notes == (OTHER_ARITHMETIC,)) == (status == "close")


def checks(source: str, tmp_path: Path) -> dict[str, tuple[str, str]]:
    """The status of each check, with its first finding or its reason."""
    original = tmp_path / "ppo.py"
    original.write_text(script(), encoding="utf-8")
    task = Task(Run(original), source, iterations=3, up_to=FLAGS_OFF, other_arguments=False, every=1)
    return {r.name: (r.status, "".join(r.findings[:1]) or r.reason) for r in verify(task).checks}


@pytest.mark.slow
def test_close(tmp_path: Path) -> None:
    found = checks(converted(), tmp_path)
    assert found.pop("tf32")[0] in ("not run", "close")
    assert found == {FLAGS_OFF: ("equal", ""), "bf16": ("close", "")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        # Code outside of autocast is compared with the original
        ("loss = pg_loss", 'loss = (2 if args.precision == "bf16" else 1) * pg_loss', "gradient norm"),
        # The update's results have another dtype
        ("return super().forward(x.to(self.weight.dtype))", "return super().forward(x)", ""),
        ("torch.bfloat16", "torch.float32", "nothing differs from float32"),
    ],
    ids=["another loss", "heads that take bfloat16", "a flag that does nothing"],
)
def test_different(old: str, new: str, finding: str, tmp_path: Path) -> None:
    assert converted().count(old) == 1
    status, found = checks(converted().replace(old, new), tmp_path)["bf16"]
    assert status in ("different", "failed") and finding in found, found
