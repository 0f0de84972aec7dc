"""The speed benchmark: conversions of cleanrl's published scripts, compared with the originals and with LeanRL's.

    python benchmarks/speed.py [--leanrl CHECKOUT] [--cleanrl CHECKOUT]

Writes results/speed-cpu.json (speed-gpu.json if there is a CUDA device), a plot for each script, and speed.md, which is
made from these files alone. Takes about 25 minutes on two cores; nothing else should run on the machine.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import fetch_cleanrl
import mend_leanrl
import speed_page
from rich.console import Console
from speed_rows import ROWS, Row

from transformer.bench import plots, show
from transformer.bench.bench import Task, bench
from transformer.bench.contenders import RUNGS, Contender, line_up
from transformer.bench.measure import Length
from transformer.bench.warm_up import past_warm_up
from transformer.commands.script_runs import Bars
from transformer.migrate.to_envpool import migrate
from transformer.verify.run import Run

BY_HAND = "LeanRL, mended"
BURNIN = {"cpu": 2, "gpu": 23}
"""Iterations of burn-in. On a GPU, a function that is called once per iteration is captured after 20 calls."""


def contenders(row: Row, scripts: Path, checkout: Path | None, cuda: bool, folder: Path) -> Iterator[Contender]:
    """The original, the modes of its conversion, those with other environments, and LeanRL's; files go to `folder`."""
    path = os.pathsep.join(filter(None, (str(scripts.parent), os.environ.get("PYTHONPATH"))))
    original = Run(scripts / row.script, row.args, environment={"PYTHONPATH": path})
    yield from line_up(original, None, (), RUNGS)
    yield from (c for c in line_up(original, None, (), (speed_page.FUSED,), fuse_envs=True) if "fused" in c.name)
    rungs = list(dict.fromkeys(goal.rung for device, goal in row.goals.items() if (device == "gpu") == cuda))
    if row.workers:
        yield from (c for c in line_up(original, None, (), rungs, env_workers=row.workers)[1:] if "worker" in c.name)
    if row.migrated:
        migrated = Path(tempfile.mkdtemp(dir=folder), row.script)
        migrated.write_text(migrate(original.script.read_text(encoding="utf-8")).source, encoding="utf-8")
        game = replace(original, script=migrated, args=(*row.args, *row.migrated))
        for rung in line_up(game, None, (), rungs)[1:]:
            yield replace(rung, name=f"{rung.name}, migrated to envpool", other=True)
    if row.leanrl is None:
        return
    if checkout is None:
        yield Contender(BY_HAND, original, reason="no checkout of LeanRL was given (--leanrl)", other=True)
        return
    path = checkout / "leanrl" / row.leanrl
    flags = ("--compile", "--cudagraphs") if cuda else ("--compile",)
    try:
        run = replace(original, script=path, source=mend_leanrl.mended(path), args=(*row.args, *flags))
    except (mend_leanrl.CannotMend, OSError) as error:
        yield Contender(BY_HAND, original, reason=str(error), other=True)
    else:
        yield Contender(BY_HAND, run, other=True)


def has_cuda() -> bool:
    """Whether torch finds a CUDA device here."""
    import torch

    return bool(torch.cuda.is_available())


def concise(measured: dict[str, Any]) -> dict[str, Any]:
    """A benchmark's JSON without its largest parts: the times of iterations and each compilation."""
    for result in measured["results"]:
        for one in result.get("rounds", ()):
            del one["iteration_starts"], one["compilations"]
    return measured


@click.command()
@click.option("--leanrl", "checkout", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="CHECKOUT")
@click.option("--cleanrl", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="CHECKOUT")
@click.option("--row", "keys", multiple=True, type=click.Choice([r.key for r in ROWS]), help="Only this script.")
@click.option("--rounds", default=2, show_default=True)
@click.option("--turns", default=8, show_default=True)
@click.option("--seconds", default=1.0, show_default=True, help="Length of a turn, whole iterations.")
@click.option(
    "--results",
    default=speed_page.RESULTS,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to; the page is made only from the one in this repository.",
)
def main(
    checkout: Path | None,
    cleanrl: Path | None,
    keys: tuple[str, ...],
    rounds: int,
    turns: int,
    seconds: float,
    results: Path,
) -> None:
    """Measure, write the results, and make the page.

    LeanRL's scripts, and those of cleanrl's repository, are measured where there is a CHECKOUT of theirs.
    """
    cuda = has_cuda()
    device = "gpu" if cuda else "cpu"
    console = Console(stderr=True)
    began = time.monotonic()
    results.mkdir(exist_ok=True, parents=True)
    path = results / f"speed-{device}.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() and keys else {"rows": {}, "minutes": 0}
    rows, minutes = known["rows"], known["minutes"]
    with tempfile.TemporaryDirectory() as folder, Bars(console) as bars:
        scripts = fetch_cleanrl.fetch(Path(folder))
        for row in (r for r in ROWS if (r.key in keys or not keys) and device in r.goals):
            if row.repository and cleanrl is None:
                console.print(f"{row.title} is left out: it needs a checkout of cleanrl (--cleanrl)")
                continue
            published = cleanrl / "cleanrl" if row.repository and cleanrl is not None else scripts
            taking_part = list(contenders(row, published, checkout, cuda, Path(folder)))
            length = Length(BURNIN[device], None, seconds, turns)
            other_rounds = None if cuda else row.leanrl_rounds
            task = past_warm_up(Task(taking_part, rounds, length, None, other_rounds), None)
            measured = bench(task, bars)
            show.print_benchmark(measured, console)
            rows[row.key] = concise(show.as_json(measured))
            plots.draw_json(rows[row.key], results / f"speed-{device}-{row.key}.png")
            written = {"minutes": round(minutes + (time.monotonic() - began) / 60, 1), "rows": rows}
            path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    console.print(f"written: {path}, after {(time.monotonic() - began) / 60:.1f} minutes")
    if results == speed_page.RESULTS:
        speed_page.write()
        console.print(f"written: {speed_page.PAGE}; `make docs` takes its table into the README")


if __name__ == "__main__":
    main()
