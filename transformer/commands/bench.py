"""`lean-convert bench ORIGINAL [CONVERTED]`: measure how fast both scripts train, and what the speed costs."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from transformer.bench import plots, show
from transformer.bench.bench import Benchmark, Task
from transformer.bench.bench import bench as run_benchmark
from transformer.bench.contenders import FLAGS_OFF, RUNGS, CannotBench, line_up
from transformer.bench.measure import Length
from transformer.bench.warm_up import past_warm_up
from transformer.commands import output
from transformer.commands.report import screen
from transformer.commands.script_args import WithScriptArgs, script_args
from transformer.commands.script_runs import (
    FILE,
    Bars,
    python_option,
    terminated_like_interrupted,
)
from transformer.commands.selection import together_option
from transformer.conversion.selection import SelectionError
from transformer.verify import names
from transformer.verify.run import Run, RunFailed
from transformer.verify.verify import STEPS

NONE = "none"
MODES = {
    names.FLAGS_OFF: FLAGS_OFF,
    names.COMPILED: "compile",
    names.GRAPHS: "cudagraphs",
    names.COMPILED_GRAPHS: "compile + cudagraphs",
}
"""The modes in which the converted script runs: by the names of verify's checks, the names in the table."""
SOMETHING_FAILED = 1
COULD_NOT_RUN = 2


def whole_numbers(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Click callback: the numbers in `0,2,4`; none if the option was not given."""
    words = (value or "").split(",") if value else []
    if not all(word.strip().isdecimal() for word in words):
        raise click.BadParameter(f"{value!r} is not a list of numbers like 0,2,4")
    return tuple(map(int, words))


def known_modes(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Click callback: the modes, by their names in the table; both kinds of names are accepted, and `none`."""
    known = {NONE: NONE, **MODES, **{mode: mode for mode in RUNGS}}
    for mode in value:
        if mode not in known:
            raise click.BadParameter(f"{mode!r} is not one of {', '.join([NONE, *MODES])}")
    return tuple(known[mode] for mode in value)


@click.command(cls=WithScriptArgs)
@click.argument("original", type=FILE)
@click.argument("converted", type=FILE, required=False)
@together_option
@python_option("The interpreter to run all scripts with.")
@click.option(
    "--against",
    multiple=True,
    metavar="'SCRIPT [ARGS]'",
    help="Another script to measure, with its own arguments after the shared ones. Repeatable.",
)
@click.option(
    "--against-rounds",
    type=click.IntRange(1),
    metavar="N",
    help="Measure these in the first N rounds only. [default: all rounds]",
)
@click.option(
    "--mode",
    "--rung",
    "modes",
    multiple=True,
    metavar="MODE",
    callback=known_modes,
    help=f"Run the converted script in this mode only: {', '.join(MODES)}, or none. Repeatable; all by default. "
    "(--rung is its former name.)",
)
@click.option("--tune", is_flag=True, help="Also measure each mode with the host tuned.")
@click.option("--fuse-envs", is_flag=True, help="Also measure each mode with fused wrappers, as `run` has them.")
@click.option(
    "--precision",
    is_flag=True,
    help="Convert with --precision, and also measure each mode in bf16 and tf32, in separate rows.",
)
@click.option(
    "--env-workers",
    metavar="N,N...",
    callback=whole_numbers,
    help="Also measure each mode with these numbers of worker processes for its environments: 0,2,4.",
)
@click.option("--rounds", default=2, show_default=True, type=click.IntRange(1), help="Runs of each script.")
@click.option(
    "--turns",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Turns of each script in a round.",
)
@click.option(
    "--burn-in",
    type=click.IntRange(1),
    metavar="N",
    help="Iterations of rollout and update before the measurement; off-policy, environment steps from the first update "
    f"on.  [default: {Length.burnin}, or {STEPS} such steps]",
)
@click.option("--iterations", type=click.IntRange(1), metavar="N", help="Maximum number of iterations in a turn.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Length of a turn, which is at least one iteration. [default: 2, or no limit with --iterations]",
)
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads for torch and numpy.")
@click.option(
    "--warm-cache", is_flag=True, help="Keep the compile cache between runs, and fill it by an extra run first."
)
@click.option(
    "--products",
    is_flag=True,
    help="Measure how long the original's matrix products and convolutions take, which compiling cannot shorten; on a "
    "CPU.",
)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Time limit for one run.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the result.",
)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw the result.")
@click.pass_context
def bench(
    ctx: click.Context,
    original: Path,
    converted: Path | None,
    together: tuple[Path, ...],
    python: str,
    against: tuple[str, ...],
    against_rounds: int | None,
    modes: tuple[str, ...],
    tune: bool,
    fuse_envs: bool,
    precision: bool,
    env_workers: tuple[int, ...],
    rounds: int,
    turns: int,
    burn_in: int | None,
    iterations: int | None,
    seconds: float | None,
    threads: int | None,
    warm_cache: bool,
    products: bool,
    timeout: float | None,
    form: str,
    plot: Path | None,
) -> None:
    """Measure how fast ORIGINAL and CONVERTED train, and after how long the conversion has paid off.

    Without CONVERTED, ORIGINAL is converted first, with the files given by --with. The original and the converted
    script, with its flags off, with --compile, and on CUDA with --cudagraphs and with both, run in separate processes.
    They train in turns of a few seconds while the others wait. The arguments after `--` go to all of them.
    docs/bench.md explains every number. With the defaults it takes five minutes or more; --rounds 1 --turns 3 gives a
    rough figure in two.

    Exit codes: 0 measured, 1 a script failed (the others were measured), 2 could not run.
    """
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs matplotlib, which is not installed: pip install matplotlib")
    if plot is not None:
        _check_plot(plot, [original, *([] if converted is None else [converted])])
    limit = Length.seconds if seconds is None and iterations is None else seconds
    length = Length(burn_in or Length.burnin, iterations, limit, turns)
    wanted = [mode for mode in modes or RUNGS if mode != NONE]
    run = Run(original, script_args(ctx), python=python, timeout=timeout, together=together, place=converted)
    bars = Bars(screen(to_stderr=True))
    with terminated_like_interrupted(), bars:
        try:
            contenders = line_up(
                run,
                converted,
                against,
                wanted,
                tune=tune,
                fuse_envs=fuse_envs,
                env_workers=env_workers,
                precision=precision,
            )
            task = Task(contenders, rounds, length, threads, against_rounds, warm_cache, products=products)
            benchmark = run_benchmark(past_warm_up(task, burn_in), bars)
        except SelectionError as error:
            raise click.UsageError(str(error)) from None
        except (RunFailed, CannotBench, OSError) as error:
            said = f"{original}: {error}" if isinstance(error, RunFailed) else str(error)
            if form == "json":
                click.echo(json.dumps({"error": said}, indent=2))
            click.echo(f"Error: {said}", err=True)
            sys.exit(COULD_NOT_RUN)
    if form == "json":
        click.echo(json.dumps(show.as_json(benchmark), indent=2))
    else:
        show.print_benchmark(benchmark, screen())
    if plot is not None:
        _draw(benchmark, plot)
    sys.exit(SOMETHING_FAILED if benchmark.failed else 0)


def _check_plot(plot: Path, scripts: Sequence[Path]) -> None:
    """Check that the plot can be written, before minutes of measuring."""
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if plot.suffix.removeprefix(".").lower() not in kinds:
        raise click.UsageError(
            f"{plot} does not have the extension of a picture: {', '.join(f'.{kind}' for kind in kinds)}"
        )
    try:
        output.check_target(plot, scripts)
    except output.OutputError as error:
        raise click.UsageError(str(error)) from None


def _draw(benchmark: Benchmark, plot: Path) -> None:
    try:
        with TemporaryDirectory(prefix="lean-convert-") as scratch:
            picture = Path(scratch, f"plot{plot.suffix}")
            plots.draw(benchmark, picture)
            output.write(plot, picture.read_bytes(), force=True)
    except (output.OutputError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(COULD_NOT_RUN)
    click.echo(f"wrote {plot}", err=True)
