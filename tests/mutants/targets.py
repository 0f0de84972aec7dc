"""The fixtures whose conversions are mutated, and the arguments of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


@dataclass(frozen=True)
class Target:
    """One fixture."""

    name: str
    arguments: tuple[str, ...]
    """Arguments of a short run in which episodes end, one of them with a rollout's last step."""
    aside: tuple[str, ...] = ()
    """Names of functions and variables in this script that are not part of the training."""

    @property
    def original(self) -> Path:
        """The script."""
        return FIXTURES / self.name

    @property
    def converted(self) -> Path:
        """The script's conversion."""
        return FIXTURES / "converted" / self.name


ASIDE = {
    "making environments and reading arguments": ("make_env", "parse_args", "str2bool", "yes_no", "Args"),
    "the speed beside the progress bar": ("measure_burnin", "burnin_step", "burnin_time", "speed", "set_description"),
    "hints to the compiler": ("options", "set_default_validate_args", "__version__", "_dynamo"),
    "how cuDNN computes": ("cudnn",),
}  # fmt: skip
"""Names that are never mutated, in any script."""

TARGETS = (
    Target(
        "gym_classic_discrete.py",
        tuple(
            "--seed 5 --total-timesteps 108 --num-envs 3 --num-steps 12 --update-epochs 3 --max-grad-norm 0.7"
            " --clip-vloss false".split()
        ),
    ),
    Target(
        "gymnasium_continuous.py",
        tuple(
            "--env-id Hopper-v4 --seed 18 --total-timesteps 144 --num-envs 2 --num-steps 24 --eval-episodes 4"
            " --num-minibatches 4 --update-epochs 3 --gae-lambda 0.9 --max-grad-norm 0.7 --no-clip-vloss".split()
        ),
        ("evaluate", "save_model", "model_path", "best", "episodic_returns", "episodic_return", "idx"),
    ),
    Target(
        "uneven_minibatches.py",
        tuple(
            "--seed 1 --total-timesteps 99 --num-envs 3 --num-steps 11 --minibatch-size 9 --update-epochs 4"
            " --eval-every 2 --max-grad-norm 0.7 --eval-seeds 7 8".split()
        ),
    ),
    Target(
        "twin_critics.py",
        tuple(
            "--env-id Hopper-v4 --seed 5 --total-timesteps 216 --learning-starts 180 --batch-size 16 --buffer-size 150"
            " --tau 0.1 --actor-every 3".split()
        ),
    ),
)
