"""cleanrl's PPO scripts in both generations convert whole, and verify equal, flags off and compiled.

The older ones come with the package cleanrl 1.2.0. The newer ones are those of a checkout of vwxyzjn/cleanrl that the
environment variable CLEANRL names; without it their tests are skipped. `standins/` holds the environments.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from transformer import convert
from transformer.checking.run import Run
from transformer.checking.verify import Task, verify

LIMIT = 1500.0
"""Seconds for one run; compiling a large network in two processes on a busy machine takes minutes."""
SHORT = ["--update-epochs", "2"]
ATARI = ["--num-envs", "4", "--num-steps", "16", "--num-minibatches", "2", "--total-timesteps", "192", *SHORT]
PIXELS = ["--num-envs", "4", "--num-steps", "8", "--num-minibatches", "2", "--total-timesteps", "96", *SHORT]
CONTROL = ["--total-timesteps", "384", "--num-steps", "128", "--num-minibatches", "4", *SHORT]


@dataclass(frozen=True)
class Member:
    """One script of the family: its arguments, the same in both generations but for what `newer` adds."""

    name: str
    args: list[str]
    newer: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    processes: int | None = None
    only: str | None = None
    """The one generation that has it; both where None."""
    skipped: tuple[str, ...] = ("auxiliary-update",)
    """Transforms that have nothing to do in it."""

    def __str__(self) -> str:
        return self.name


FAMILY = [
    Member("ppo", ["--total-timesteps", "384", "--num-envs", "2", "--num-steps", "64", *SHORT]),
    Member("ppo_atari", ATARI),
    Member("ppo_atari_envpool", [*ATARI, "--env-id", "Breakout-v5"]),
    Member("ppo_continuous_action", CONTROL),
    Member("rpo_continuous_action", CONTROL),
    Member("ppo_atari_lstm", ATARI),
    Member("ppo_rnd_envpool", [*ATARI, "--num-iterations-obs-norm-init", "1"]),
    Member(
        "ppo_atari_multigpu",
        ["--num-steps", "16", "--num-minibatches", "2", "--total-timesteps", "192", *SHORT],
        newer=("--local-num-envs", "2"),
        older=("--num-envs", "2"),
        processes=2,
        skipped=("auxiliary-update", "one-graph"),  # gradients are exchanged between backward and step
    ),
    Member("ppo_procgen", PIXELS),
    Member("ppo_pettingzoo_ma_atari", PIXELS),
    Member(
        "ppo_continuous_action_isaacgym/ppo_continuous_action_isaacgym",
        ["--num-envs", "8", "--num-steps", "16", "--num-minibatches", "2", "--total-timesteps", "384", *SHORT],
        skipped=("gae-hoist", "auxiliary-update"),  # which dtype the environment's dones have cannot be told
    ),
    Member(
        "ppg_procgen",
        [*PIXELS[:-4], "--total-timesteps", "192", "--n-iteration", "2", "--e-auxiliary", "2"],
        skipped=("one-graph",),  # gradients are kept from minibatch to minibatch in the auxiliary phase
    ),
    Member(
        "ppo_trxl/ppo_trxl",
        [
            *["--num-envs", "4", "--num-steps", "16", "--num-minibatches", "2", "--total-timesteps", "192", *SHORT],
            *["--trxl-num-layers", "2", "--trxl-num-heads", "2", "--trxl-dim", "16", "--trxl-memory-length", "6"],
        ],
        only="newer",
        skipped=("deferred-sync", "auxiliary-update"),
    ),
]
STANDINS = Path(__file__).parent / "standins"


def run_of(member: Member, generation: str, published: Path, folder: Path) -> Run:
    """How to run a script of a generation."""
    if member.only not in (None, generation):
        pytest.skip(f"{member.name} is not among the {generation} scripts")
    if generation == "newer":
        if "CLEANRL" not in os.environ:
            pytest.skip("CLEANRL names no checkout of vwxyzjn/cleanrl")
        script = Path(os.environ["CLEANRL"], "cleanrl", f"{member.name}.py")
        own = member.newer
    else:
        with zipfile.ZipFile(published) as wheel:
            script = Path(wheel.extract(f"cleanrl/{member.name}.py", folder))
        own = member.older
    path = os.pathsep.join(filter(None, (str(STANDINS), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path}
    return Run(script, (*member.args, *own), timeout=LIMIT, environment=environment, processes=member.processes)


@pytest.mark.slow
@pytest.mark.parametrize("up_to", ["refactored", "compile"])
@pytest.mark.parametrize("generation", ["older", "newer"])
@pytest.mark.parametrize("member", FAMILY, ids=str)
def test_family(member: Member, generation: str, up_to: str, published: Path, tmp_path: Path) -> None:
    run = run_of(member, generation, published, tmp_path)
    conversion = convert(run.script.read_text(encoding="utf-8"))
    assert tuple(step.transform.name for step in conversion.steps if not step.applied) == member.skipped
    verification = verify(Task(run, conversion.source, up_to=up_to))
    assert {rung.name: rung.status for rung in verification.rungs}[up_to] == "equal", verification.rungs
    assert verification.original.iterations >= 3
    assert len(verification.original.peers) == (member.processes or 1) - 1


OTHERS = {
    "c51.py": "looks like DQN, DDPG or TD3",
    "ddpg_continuous_action.py": "looks like DQN, DDPG or TD3",
    "dqn.py": "looks like DQN, DDPG or TD3",
    "dqn_atari.py": "looks like DQN, DDPG or TD3",
    "ppo_atari_envpool_xla_jax.py": "JAX",
    "ppo_atari_envpool_xla_jax_scan.py": "JAX",
    "sac_atari.py": "looks like SAC",
    "sac_continuous_action.py": "looks like SAC",
    "td3_continuous_action.py": "looks like DQN, DDPG or TD3",
    "td3_continuous_action_jax.py": "JAX",
}


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["older", "newer"])
@pytest.mark.parametrize("name", sorted(OTHERS))
def test_what_is_not_ppo_is_refused_by_name(name: str, generation: str, published: Path, tmp_path: Path) -> None:
    run = run_of(Member(name.removesuffix(".py"), []), generation, published, tmp_path)
    conversion = convert(run.script.read_text(encoding="utf-8"))
    assert conversion.source == conversion.original
    assert [OTHERS[name] in d.message for d in conversion.errors] == [True]
