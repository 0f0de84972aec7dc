"""cleanrl's scripts of both generations convert completely, and verify as equal, with the flags off and compiled.

The older ones come with the package cleanrl 1.2.0. The newer ones are those of a checkout of vwxyzjn/cleanrl that the
environment variable CLEANRL names; without it their tests are skipped. `support/standins/` holds the environments.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from family import FAMILY, GENERATIONS, Member
from host import host_copies

from transformer import Skipped, convert
from transformer.verify.run import Run
from transformer.verify.verify import Task, verify


def run_of(member: Member, generation: str, published: Path, folder: Path) -> Run:
    """How to run a script of a generation; skips the test if there is no such script."""
    if generation == "newer" and "CLEANRL" not in os.environ:
        pytest.skip("CLEANRL names no checkout of vwxyzjn/cleanrl")
    place = published if generation == "older" else Path(os.environ["CLEANRL"])
    run = member.run(generation, place, folder)
    if run is None:
        pytest.skip(f"{member.name} is not among the {generation} scripts")
    return run


@pytest.mark.slow
@pytest.mark.parametrize("up_to", ["flags-off", "compiled"])
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("member", FAMILY, ids=str)
def test_family(member: Member, generation: str, up_to: str, published: Path, tmp_path: Path) -> None:
    run = run_of(member, generation, published, tmp_path)
    conversion = convert(run.script.read_text(encoding="utf-8"))
    left = {s.transform.name: s.outcome for s in conversion.steps if isinstance(s.outcome, Skipped)}
    assert tuple(name for name, outcome in left.items() if outcome.left_as_it_was) == member.held_back
    limit, version = member.fails_from_numpy, tuple(map(int, np.__version__.split(".")[:2]))
    if limit is not None and version >= limit:
        pytest.skip(f"{member.name} itself fails with numpy {np.__version__}")
    verification = verify(Task(run, conversion.source, up_to=up_to))
    assert {check.name: check.status for check in verification.checks}[up_to] == "equal", verification.checks
    assert verification.original.iterations >= 3
    assert len(verification.original.peers) == (member.processes or 1) - 1


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
def test_environments_on_the_device_stay_there(generation: str, published: Path, tmp_path: Path) -> None:
    (member,) = (m for m in FAMILY if "isaacgym" in m.name)
    source = run_of(member, generation, published, tmp_path).script.read_text(encoding="utf-8")
    assert host_copies(convert(source).source) == host_copies(source)


OTHERS = {
    "ppo_atari_envpool_xla_jax.py": "JAX",
    "ppo_atari_envpool_xla_jax_scan.py": "JAX",
    "td3_continuous_action_jax.py": "JAX",
}


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_jax_scripts_are_refused_by_name(name: str, generation: str, published: Path, tmp_path: Path) -> None:
    run = run_of(Member(name.removesuffix(".py"), []), generation, published, tmp_path)
    conversion = convert(run.script.read_text(encoding="utf-8"))
    assert conversion.source == conversion.original
    assert [OTHERS[name] in d.message for d in conversion.errors] == [True]
