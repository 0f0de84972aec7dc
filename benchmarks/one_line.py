"""What one line of torch.compile by hand gains: cleanrl's PPO scripts with it, compared with their conversions.

    python benchmarks/one_line.py

Writes results/one-line-cpu.json (one-line-gpu.json if there is a CUDA device), which provides a column of the README's
table. Takes five minutes on two cores.
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import click
import fetch_cleanrl
import speed_page
from rich.console import Console
from speed import BURNIN, concise, has_cuda
from speed_rows import ROWS

from transformer.bench import show
from transformer.bench.bench import Task, bench
from transformer.bench.contenders import Contender, line_up
from transformer.bench.measure import Length
from transformer.bench.warm_up import past_warm_up
from transformer.commands.script_runs import Bars
from transformer.verify.run import Run

LINE = "agent.get_action_and_value = torch.compile(agent.get_action_and_value)"
"""The line. It compiles the method that acting and the update call; `torch.compile(agent)` would not compile it."""
KEYS = ("cartpole", "halfcheetah")


def by_hand(source: str) -> str:
    """The script with the line inserted below the statement that makes its optimizer.

    Raises:
        ValueError: there is none, or more than one.
    """
    changed, count = re.subn(r"^( *)optimizer = optim\..*$", rf"\g<0>\n\g<1>{LINE}", source, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{count} lines make an optimizer")
    return changed


@click.command()
@click.option("--row", "keys", multiple=True, type=click.Choice(KEYS), default=KEYS, help="Only this script.")
@click.option("--rounds", default=1, show_default=True)
@click.option("--turns", default=12, show_default=True)
def main(keys: tuple[str, ...], rounds: int, turns: int) -> None:
    """Measure, and write the results."""
    device = "gpu" if has_cuda() else "cpu"
    path = speed_page.RESULTS / f"one-line-{device}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"line": LINE, "rows": {}}
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder, Bars(console) as bars:
        scripts = fetch_cleanrl.fetch(Path(folder))
        for row in (r for r in ROWS if r.key in keys):
            original = Run(scripts / row.script, row.args, environment={"PYTHONPATH": str(scripts.parent)})
            line = replace(original, source=by_hand(original.script.read_text(encoding="utf-8")))
            rung = row.goals[device].rung
            taking_part = [*line_up(original, None, (), [rung]), Contender(speed_page.ONE_LINE, line, other=True)]
            measured = bench(
                past_warm_up(Task(taking_part, rounds, Length(BURNIN[device], None, 1.0, turns)), None), bars
            )
            show.print_benchmark(measured, console)
            found["rows"][row.key] = concise(show.as_json(measured))
            path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
