"""cleanrl's scripts: how each is run, and which transforms leave it as it was."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from transformer.verify.run import Run

LIMIT = 1500.0
"""Seconds for one run; compiling a large network in two processes on a busy machine takes minutes."""
STANDINS = Path(__file__).parent / "standins"
GENERATIONS = ("older", "newer")
"""The scripts of cleanrl 1.2.0, and those of its repository."""
SHORT = ["--update-epochs", "2"]
ATARI = ["--num-envs", "4", "--num-steps", "16", "--num-minibatches", "2", "--total-timesteps", "192", *SHORT]
PIXELS = ["--num-envs", "4", "--num-steps", "8", "--num-minibatches", "2", "--total-timesteps", "96", *SHORT]
BY_DATA = (
    "channels-last",
    "host-arrays",
    "last-step",
    "late-append",
    "lstm-cells",
    "narrow-observations",
    "on-device",
    "tune-host",
)
"""Transforms that depend on the observations, the networks' layers, the environments, the form of the advantage loop,
and on what is made on the host."""
STORED = ["--learning-starts", "300", "--total-timesteps", "430"]
REPLAYED = ["--buffer-size", "96", "--learning-starts", "60", "--total-timesteps", "300", "--batch-size", "16"]
"""Arguments for more steps than the buffer holds, so that its rows are overwritten."""
CONTROL = ["--total-timesteps", "384", "--num-steps", "128", "--num-minibatches", "4", *SHORT]


@dataclass(frozen=True)
class Member:
    """One script of the family, with its arguments; `older` and `newer` have those of one generation."""

    name: str
    args: list[str]
    newer: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    processes: int | None = None
    only: str | None = None
    """The only generation that has the script; None means both."""
    fails_from_numpy: tuple[int, int] | None = None
    """The version of numpy from which the script itself fails."""
    held_back: tuple[str, ...] = ()
    """Transforms that might have been applied, but were not."""

    def __str__(self) -> str:
        return self.name

    def run(self, generation: str, place: Path, folder: Path) -> Run | None:
        """How to run the script; None if the generation does not have it.

        Args:
            generation: one of GENERATIONS.
            place: the wheel of cleanrl 1.2.0, or a checkout of vwxyzjn/cleanrl.
            folder: the folder into which to put a script of the wheel.
        """
        if self.only not in (None, generation):
            return None
        if generation == "newer":
            script = place / "cleanrl" / f"{self.name}.py"
        else:
            with zipfile.ZipFile(place) as wheel:
                script = Path(wheel.extract(f"cleanrl/{self.name}.py", folder))
        own = self.newer if generation == "newer" else self.older
        path = os.pathsep.join(filter(None, (str(STANDINS), os.environ.get("PYTHONPATH"))))
        return Run(
            script, (*self.args, *own), timeout=LIMIT, environment={"PYTHONPATH": path}, processes=self.processes
        )


FAMILY = [
    Member("ppo", ["--total-timesteps", "384", "--num-envs", "2", "--num-steps", "64", *SHORT]),
    Member("ppo_atari", ATARI),
    Member("ppo_atari_envpool", [*ATARI, "--env-id", "Breakout-v5"]),
    Member("ppo_continuous_action", CONTROL),
    Member("rpo_continuous_action", CONTROL, held_back=("evaluate-once",)),
    Member("ppo_atari_lstm", ATARI, held_back=("channels-last",)),
    Member("ppo_rnd_envpool", [*ATARI, "--num-iterations-obs-norm-init", "1"]),
    Member(
        "ppo_atari_multigpu",
        ["--num-steps", "16", "--num-minibatches", "2", "--total-timesteps", "192", *SHORT],
        newer=("--local-num-envs", "2"),
        older=("--num-envs", "2"),
        processes=2,
        held_back=("one-graph", "channels-last"),  # processes exchange gradients as one vector before the step
    ),
    Member("ppo_procgen", PIXELS),
    Member("ppo_pettingzoo_ma_atari", PIXELS),
    Member(
        "ppo_continuous_action_isaacgym/ppo_continuous_action_isaacgym",
        ["--num-envs", "8", "--num-steps", "16", "--num-minibatches", "2", "--total-timesteps", "384", *SHORT],
        held_back=("gae-hoist",),  # the dtype of the environment's dones is not known
    ),
    Member(
        "ppg_procgen",
        [*PIXELS[:-4], "--total-timesteps", "192", "--n-iteration", "2", "--e-auxiliary", "2"],
        # The auxiliary phase accumulates gradients over minibatches
        held_back=("narrow-observations", "one-graph"),
    ),
    Member(
        "ppo_trxl/ppo_trxl",
        [
            *["--num-envs", "4", "--num-steps", "16", "--num-minibatches", "2", "--total-timesteps", "192", *SHORT],
            *["--trxl-num-layers", "2", "--trxl-num-heads", "2", "--trxl-dim", "16", "--trxl-memory-length", "6"],
        ],
        only="newer",
        held_back=("host-arrays", "narrow-observations", "cudagraphs"),
    ),
    Member("dqn", [*STORED, "--train-frequency", "2", "--target-network-frequency", "50"]),
    Member("c51", [*STORED, "--train-frequency", "2", "--target-network-frequency", "50"]),
    Member("ddpg_continuous_action", [*STORED, "--env-id", "Pendulum-v1"]),
    Member("td3_continuous_action", [*STORED, "--env-id", "Pendulum-v1"]),
    Member("sac_continuous_action", [*STORED, "--env-id", "Pendulum-v1"]),
    Member("dqn_atari", [*REPLAYED, "--target-network-frequency", "50"]),
    Member("c51_atari", [*REPLAYED, "--target-network-frequency", "50"]),
    Member("sac_atari", [*REPLAYED, "--target-network-frequency", "50", "--env-id", "BreakoutNoFrameskip-v4"]),
    Member(
        "rainbow_atari",
        [*REPLAYED, "--target-network-frequency", "50"],
        only="newer",
        fails_from_numpy=(2, 4),  # an array of one number is stored as a number
        # Each update writes priorities on the host, and layers write their noise in methods
        held_back=("target-update", "deferred-sync", "one-graph", "plain-sizes", "cudagraphs"),
    ),
    Member(
        "qdagger_dqn_atari_impalacnn",
        # Three updates of the last phase are compared, after those that only store and only train
        [
            *[*REPLAYED, "--target-network-frequency", "4", "--teacher-steps", "90", "--offline-steps", "12"],
            *["--teacher-eval-episodes", "2"],
        ],
        only="newer",
        held_back=("deferred-sync",),
    ),
    Member("pqn", ["--total-timesteps", "384", "--num-envs", "4", "--num-steps", "32", *SHORT], only="newer"),
    Member("pqn_atari_envpool", ATARI, only="newer"),
    Member("pqn_atari_envpool_lstm", ATARI, only="newer", held_back=("channels-last",)),
]
