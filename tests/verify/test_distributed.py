"""Two processes equal one that averages their gradients by hand; conversions broken on purpose do not."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from scripts import PARTS, script

from transformer import convert
from transformer.cli import main
from transformer.verify import Recording, compare, record
from transformer.verify.ranks import alike, record_by_hand, training_alone
from transformer.verify.run import Run, RunFailed

LIMIT = 240.0
STOP = "\n    if b_actions.mean() > 0.5:\n        break"
"""Ends the epochs if more than half of the actions are pushes to the right."""
SCRIPT = script({"minibatches": PARTS["minibatches"] + STOP})
SHARED = ("--num-envs", "4", "--minibatch-size", "8")
SHARE = ("--num-envs", "2", "--minibatch-size", "4")


@cache
def converted() -> str:
    return convert(SCRIPT, distribute=True).source


def ranks_of(folder: Path, source: str = "") -> Recording:
    path = folder / "train.py"
    path.write_text(SCRIPT)
    return record(path, SHARED, source=source or converted(), processes=2, timeout=LIMIT)


def by_hand(folder: Path, source: str = SCRIPT) -> Recording:
    path = folder / "train.py"
    path.write_text(source)
    environment = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    return record_by_hand(Run(path, SHARE, timeout=LIMIT, environment=environment), 2, 2)


def broken(old: str, new: str, source: str = "") -> str:
    source = source or converted()
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times"
    return source.replace(old, new)


@pytest.mark.slow
def test_two_processes_equal_one_by_hand(tmp_path: Path) -> None:
    ranks = ranks_of(tmp_path)
    assert alike("2 ranks", ranks).status == "equal"
    reference = by_hand(tmp_path)
    assert compare(reference, training_alone(ranks)) == ()
    assert [len(r.steps) for r in (reference, *reference.peers)] == [len(ranks.steps)] * 2
    assert 0 < len(ranks.steps) < 24, "they leave the epochs together, and early"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("    average_gradients(optimizer)\n", "", "of rank 1 differs from rank 0's"),
        ("torch.manual_seed(args.seed + rank)", "torch.manual_seed(args.seed)", "takes the actions of rank 0"),
    ],
    ids=["no all-reduce", "the same random numbers"],
)
def test_broken_on_purpose(old: str, new: str, finding: str, tmp_path: Path) -> None:
    source = broken(old, new)
    if "manual_seed" in old:
        source = broken("np.random.seed(args.seed + rank)", "np.random.seed(args.seed)", source)
        source = broken("if rank > 0:\n            torch", "if rank > 0 and False:\n            torch", source)
    check = alike("2 ranks", ranks_of(tmp_path, source))
    assert check.status == "different"
    assert any(finding in f for f in check.findings), check.findings


@pytest.mark.slow
def test_ranks_that_decide_alone(tmp_path: Path) -> None:
    """Ranks that leave the epochs one by one take different steps, or wait for a rank that has ended."""
    try:
        check = alike("2 ranks", ranks_of(tmp_path, broken("rank_mean(b_actions.mean()) >", "b_actions.mean() >")))
    except RunFailed:
        return  # such a run is a failed check
    assert check.status == "different"


@pytest.mark.slow
def test_a_sum_is_no_mean(tmp_path: Path) -> None:
    ranks = ranks_of(tmp_path, broken("(flat / world_size)", "flat"))
    assert alike("2 ranks", ranks).status == "equal"
    assert compare(by_hand(tmp_path), training_alone(ranks))


@pytest.mark.slow
def test_networks_without_seeds(tmp_path: Path) -> None:
    """Without seeds, each process makes another network, unless rank 0 sends its own."""
    source = "".join(line for line in SCRIPT.splitlines(keepends=True) if "seed(args.seed)" not in line)
    converted = convert(source, distribute=True).source
    assert alike("2 ranks", ranks_of(tmp_path, converted)).status == "equal"
    without = broken("torch.distributed.broadcast(tensor, src=0)", "pass", converted)
    check = alike("2 ranks", ranks_of(tmp_path, without))
    assert check.status == "different"
    assert "after optimizer step 1" in check.findings[0]


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    options = ["--nproc", "2", "--up-to", "flags-on", "--timeout", str(LIMIT)]
    result = CliRunner().invoke(main, ["verify", str(path), *options, "--", *SHARED])
    assert result.exit_code == 0, result.output
    for name in ("1 rank", "2 ranks", "2 ranks, by hand", "2 ranks, uncompiled"):
        assert f"{name}: EQUAL" in result.output
