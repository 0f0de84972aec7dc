"""Runs that torchrun launches in several processes: each process is recorded, compared and checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy import TOY, edited

from transformer.verify import Recording, RunFailed, compare, record
from transformer.verify.checks import recorded_check
from transformer.verify.harness.permutations import Permutations
from transformer.verify.length import find_length
from transformer.verify.lockstep import load_lockstep
from transformer.verify.run import Run
from transformer.verify.verify import Task, verify

pytestmark = pytest.mark.slow

LIMIT = 240.0
DISTRIBUTED = edited(
    "            nn.utils.clip",
    """\
            for parameter in agent.parameters():
                dist.all_reduce(parameter.grad)
            nn.utils.clip""",
    edited(
        "    random.seed(1)\n",
        """\
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    random.seed(1)
""",
        TOY.replace("import torch\n", "import torch\nimport torch.distributed as dist\n", 1),
    ),
)
"""The toy in processes that sum their gradients."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("distributed") / "toy.py"
    path.write_text(DISTRIBUTED)
    return path


@pytest.fixture(scope="module")
def original(script: Path) -> Recording:
    return record(script, processes=2, timeout=LIMIT)


def test_each_process_is_recorded_and_equal_to_itself(script: Path, original: Recording) -> None:
    (peer,) = original.peers
    assert [len(r.steps) for r in (original, peer)] == [4, 4]
    assert original.prints[0] != peer.prints[0], "minibatches of their own"
    digests = [[{n: t.digest for n, t in s.tensors.items()} for s in r.steps] for r in (original, peer)]
    assert digests[0] == digests[1], "gradients in common"
    again = record(script, processes=2, timeout=LIMIT)
    assert compare(original, again) == ()
    rows = {row.what: row.values for row in recorded_check("flags-off", original, again, ()).rows}
    assert rows["print"] == 8 and rows["optimizer"] == 8


def test_a_difference_in_one_process_names_it(script: Path, original: Recording) -> None:
    other = edited('print(f"update {update}: loss', 'print(f"update {update + rank}: loss', DISTRIBUTED)
    differences = compare(original, record(script, source=other, processes=2, timeout=LIMIT))
    assert [d.quantity for d in differences] == ["print"]
    assert differences[0].where.endswith("of rank 1")


def test_the_last_lines_are_those_of_the_script(script: Path) -> None:
    broken = edited("    envs = Walk()\n", '    assert rank == 0, "no walkers"\n    envs = Walk()\n', DISTRIBUTED)
    with pytest.raises(RunFailed) as failure:
        record(script, source=broken, processes=2, timeout=LIMIT)
    assert "AssertionError: no walkers" in str(failure.value)
    assert "ChildFailedError" not in str(failure.value)


def test_the_length_counts_the_environments_of_all_processes(script: Path, tmp_path: Path) -> None:
    counted = DISTRIBUTED.replace('"--updates", type=int, default=2', '"--steps", type=int, default=48').replace(
        "args.updates", "(args.steps // (2 * 4 * dist.get_world_size()))"
    )
    path = tmp_path / "counted.py"
    path.write_text(counted)
    length = find_length(Run(path, processes=2, timeout=LIMIT))
    assert (length.option, length.unit, length.planned) == ("--steps", 16, 3)


PARTING = edited(
    "            agent.seen += 4\n",
    "            agent.seen += 4\n            if float(update == rank) > args.most:\n                break\n",
    edited(
        "    args = parser.parse_args()\n",
        """\
    parser.add_argument("--most", type=float, default=2.0)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
""",
        DISTRIBUTED,
    ),
)
"""With the option, each process leaves its epoch early on its own: what one sends meets another step of the other."""
COMPILED = edited(
    "    optimizer = ",
    "    if args.compile:\n        agent.actor.forward = torch.compile(agent.actor.forward)\n    optimizer = ",
    PARTING,
)


def test_no_argument_that_separates_processes(tmp_path: Path) -> None:
    path = tmp_path / "toy.py"
    path.write_text(PARTING)
    run = Run(path, processes=2, timeout=LIMIT)
    verification = verify(Task(run, PARTING, up_to="other-arguments", jobs=1))
    assert any("--most" in note and "at different times" in note for note in verification.notes), verification.notes
    assert {check.status for check in verification.checks} == {"equal", "not run"}, verification.checks


def test_calls_of_separated_processes_are_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "toy.py"
    path.write_text(COMPILED)
    run = Run(path, ("--most", "0.5"), processes=2, timeout=LIMIT)
    checks = verify(Task(run, COMPILED, up_to="compiled", other_arguments=False, jobs=1)).checks
    assert [check.status for check in checks] == ["equal", "equal", "not run"]
    assert "at different times" in checks[-1].reason


def test_permutations_differ_by_rank() -> None:
    assert Permutations(0).next(50).tolist() == Permutations().next(50).tolist()
    assert Permutations(0).next(50).tolist() != Permutations(1).next(50).tolist()


def test_functions_name_their_rank(tmp_path: Path) -> None:
    journal = (
        '{"functions": [[[0, 0], "update", 9, 8]], "calls": [], "faults": [[[0, 0], "update", 3, "stale"]], '
        '"iterations": 2, "seconds": 1.0}'
    )
    for rank in range(2):
        (tmp_path / f"{rank}.json").write_text(journal)
    lockstep = load_lockstep(tmp_path / "0.json", tmp_path / "1.json")
    assert [f.name for f in lockstep.functions] == ["update", "update (rank 1)"]
    assert [f.function for f in lockstep.faults] == ["update", "update (rank 1)"]
