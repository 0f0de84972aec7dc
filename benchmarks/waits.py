"""How often cleanrl's published scripts, and their conversions, wait for a CUDA device: writes waits.md.

    python benchmarks/waits.py

No GPU is needed: scripts run on the emulated device of `verify`, which counts the waits. Each figure is computed from
the difference between two runs of different lengths.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
from fetch_cleanrl import VERSION, fetch

from transformer import convert

HERE = Path(__file__).parent
EMULATED = HERE.parent / "tests" / "support" / "emulated_cuda"
STANDINS = HERE.parent / "tests" / "support" / "standins"
PAGE = HERE / "logs" / "waits.md"

FLAGS = {
    "original": None,
    "flags off": (),
    "--cudagraphs": ("--cudagraphs",),
    "--compile --cudagraphs": ("--compile", "--cudagraphs"),
}
"""The variants to run: None is the original, all others are the converted script with these flags."""

INTRODUCTION = f"""\
# Waits

How often the host waits for the device: in each step of the environments, in each minibatch, and in the rest of an
iteration. Scripts of cleanrl {VERSION}, on an emulated CUDA device that runs on the CPU and counts (`make waits`
makes this page): values that are read (`.item()`, conditions, `.cpu()`), copies that block, and operations of torch
that check their arguments on the host, such as `torch.normal()` and `torch.multinomial()`. `torch.compile` returns its
function as it is there. Nothing here is a time.

| script | | a step | a minibatch | the rest of an iteration |
|-|-|-|-|-|"""
STORED = """
Scripts that learn from stored steps, with an update in every step and no step at random, and without the numbers that
they log every 100 steps. The replay buffer is the stand-in of `tests/support/standins`, which copies each tensor of a
sample as those of cleanrl and stable_baselines3 do.

| script | | a step of the environment |
|-|-|-|"""


@dataclass(frozen=True)
class Size:
    """The length of a run."""

    steps: int = 24
    epochs: int = 1
    iterations: int = 4

    def args(self, envs: int) -> list[str]:
        """The arguments of a published script, for minibatches of a quarter of the batch."""
        total = self.iterations * self.steps * envs
        options = {"num-envs": envs, "num-steps": self.steps, "update-epochs": self.epochs, "total-timesteps": total}
        return [word for name, value in options.items() for word in (f"--{name}", str(value))]


SCRIPTS = {
    "ppo.py": ("--num-minibatches", "4"),
    "ppo_continuous_action.py": ("--num-minibatches", "4"),
    "ppo_atari_envpool.py": ("--num-minibatches", "4", "--env-id", "Breakout-v5"),
}


LEARNING = {
    "dqn.py": ("--start-e", "0", "--end-e", "0", "--train-frequency", "1"),
    "c51.py": ("--start-e", "0", "--end-e", "0", "--train-frequency", "1"),
    "ddpg_continuous_action.py": ("--env-id", "Pendulum-v1"),
    "td3_continuous_action.py": ("--env-id", "Pendulum-v1"),
    "sac_continuous_action.py": ("--env-id", "Pendulum-v1"),
}
"""Off-policy scripts, with options that make them act and learn in every step."""
FIRST, LAST = 130, 190
"""The lengths of two runs, in steps; nothing is logged between these steps."""


def waits(script: Path, args: list[str]) -> int:
    """How often a run waits.

    Raises:
        ClickException: it failed.
    """
    counts = script.with_suffix(".json")
    path = os.pathsep.join([str(EMULATED), str(STANDINS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "EMULATED_CUDA_WAITS": str(counts)}
    command = [sys.executable, str(script), *args]
    ran = subprocess.run(command, cwd=script.parent, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise click.ClickException(f"{' '.join(command)}:\n{ran.stderr[-3000:]}")
    return sum(json.loads(counts.read_text()).values())


def row(script: Path, args: tuple[str, ...]) -> tuple[int, int, int]:
    """A script's waits per step and per minibatch, and the additional ones per iteration."""
    envs = 1 if "continuous" in script.name else 4
    base = Size()
    first, *others = (
        waits(script, [*args, *size.args(envs)])
        for size in (
            base,
            Size(steps=base.steps + 8),
            Size(epochs=base.epochs + 1),
            Size(iterations=base.iterations + 1),
        )
    )
    steps, epochs, iterations = (more - first for more in others)
    step, minibatch = steps // (8 * base.iterations), epochs // (4 * base.iterations)
    return step, minibatch, iterations - step * base.steps - minibatch * 4 * base.epochs


def step(script: Path, args: tuple[str, ...]) -> tuple[str]:
    """A script's waits per environment step, if it learns in each step; rounded to hundredths if they vary."""
    args = ("--learning-starts", "40", "--batch-size", "16", "--buffer-size", "1000", *args)
    first, last = (waits(script, [*args, "--total-timesteps", str(total)]) for total in (FIRST, LAST))
    return (f"{(last - first) / (LAST - FIRST):.2f}".removesuffix(".00"),)


@click.command()
@click.option("--from", "place", type=click.Path(exists=True, path_type=Path), help="A folder with the scripts.")
def main(place: Path | None) -> None:
    """Count, and write the page."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        published = Path(shutil.copytree(place, Path(folder) / "scripts")) if place else fetch(Path(folder))
        for head, scripts, count in ((INTRODUCTION, SCRIPTS, row), (STORED, LEARNING, step)):
            lines.append(head)
            for name, args in scripts.items():
                original = published / name
                converted = original.with_stem(f"{original.stem}_lean")
                text = convert(original.read_text(encoding="utf-8")).source
                converted.write_text(text.replace("warmup=20", "warmup=2"), encoding="utf-8")
                for title, flags in FLAGS.items():
                    counts = count(original, args) if flags is None else count(converted, (*args, *flags))
                    lines.append(f"| `{name}` | {title} | {' | '.join(map(str, counts))} |")
                    click.echo(lines[-1])
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
