"""A benchmark as a terminal table and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from transformer.bench.bench import Benchmark, Result
from transformer.bench.figures import Figures, Spread

PHASES = ("rollout", "env_step", "gae", "update", "other")


def print_benchmark(benchmark: Benchmark, console: Console) -> None:
    """Print the speeds, where the time goes, what was compiled, and what did not run."""
    if (load := benchmark.machine["load"]) > 0.5:  # shown first, so that readers see it before any number
        busy = f"The machine was busy at the start (load {load}): the numbers may be off."
        console.print(Text(busy, style="yellow"), soft_wrap=True)
    console.print(_speeds(benchmark))
    console.print(_table_of_phases(benchmark))
    compiled = _table_of_compilations(benchmark)
    if compiled.row_count:
        console.print(compiled)
    for result in benchmark.results:
        for sentence in still_compiled(result):
            console.print(Text(f"{result.contender.name}: {sentence}", style="bold red"), soft_wrap=True)
    for result in benchmark.results:
        if result.status != "measured":
            style = "yellow" if result.status == "not run" else "bold red"
            console.print(Text(f"{result.contender.name}: {result.status}: {result.reason}", style=style))
    console.print(Text(_conditions(benchmark), style="dim"), soft_wrap=True)


def as_json(benchmark: Benchmark) -> dict[str, Any]:
    """The benchmark as JSON, including the numbers of each round and turn."""
    task = benchmark.task
    return {
        "machine": benchmark.machine,
        "cuda": benchmark.cuda,
        "versions": benchmark.versions,
        "script": task.contenders[0].run.script.name,
        "arguments": list(task.contenders[0].run.args),
        "rounds": task.rounds,
        "turns": task.length.turns,
        "burnin_iterations": task.length.burnin,
        "measured_iterations": task.length.iterations,
        "measured_seconds": task.length.seconds,
        "threads": task.threads,
        "warm_cache": task.warm_cache,
        "results": [_result_json(result) for result in benchmark.results],
    }


def _speeds(benchmark: Benchmark) -> Table:
    table = _table("Speed", "steps/s", "ratio", "warm-up s", "pays off after", "peak MiB")
    for result in benchmark.results:
        found = result.figures
        if found is None:
            table.add_row(result.contender.name, result.status, style="dim")
            continue
        speed, ratio = found.steps_per_second, found.ratio
        table.add_row(
            result.contender.name,
            f"{speed.median:,.0f} {_half_width(speed)}",
            f"{ratio.median:.2f} {_half_width(ratio)}",
            f"{found.warmup_seconds.median:.1f}",
            pays_off(result),
            _memory(found),
        )
    return table


def _half_width(spread: Spread) -> str:
    """Half the width of the median's interval, in percent."""
    return f"±{50 * (spread.high - spread.low) / spread.median:.0f}%"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def pays_off(result: Result) -> str:
    """The break-even point in words."""
    found = result.figures
    if found is None or result.contender.name == "original":
        return ""
    if found.break_even is None:
        return "never" if found.clear else "never?"
    if found.break_even.steps == 0:
        return "at once"
    words = f"{found.break_even.seconds:,.0f} s / {amount(found.break_even.steps)} steps"
    return words if found.clear else f"{words}?"


def amount(number: float) -> str:
    """A number of steps in short form."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:,.{1 if number < 10 * unit else 0}f}{letter}"
    return f"{number:.0f}"


def _memory(found: Figures) -> str:
    gpu = found.peak_mib.get("cuda_allocated_mib")
    words = f"{found.peak_mib['rss_mib']:,.0f}"
    return words if gpu is None else f"{words} + GPU {gpu:,.0f} ({found.peak_mib['cuda_reserved_mib']:,.0f} reserved)"


def _table_of_phases(benchmark: Benchmark) -> Table:
    headings = ("all", "rollout", "of it env", "gae", "update", "other")
    table = _table("Where the time goes: microseconds per environment step", *headings)
    for result in benchmark.results:
        if result.figures is not None:
            split = result.figures.seconds_per_step
            whole = 1 / result.figures.steps_per_second.median
            missing = "not apart" if "rollout" in split else "not known"
            cells = (f"{split[name] * 1e6:,.1f}" if name in split else missing for name in PHASES)
            table.add_row(result.contender.name, f"{whole * 1e6:,.1f}", *cells)
    return table


def _table_of_compilations(benchmark: Benchmark) -> Table:
    headings = ("compiled", "again", "after burn-in", "graph breaks", "seconds")
    table = _table("What torch.compile did", *headings)
    for result in benchmark.results:
        functions = result.figures.functions if result.figures is not None else {}
        if functions:
            table.add_row(Text(result.contender.name, style="bold"))
        for name, f in functions.items():
            counts = (f.compilations, f.recompilations, f.recompilations_after_burnin, f.graph_breaks)
            style = "red" if f.recompilations_after_burnin else ""
            table.add_row(f"  {escape(name)}", *map(str, counts), f"{f.compile_seconds:.1f}", style=style)
    return table


def still_compiled(result: Result) -> tuple[str, ...]:
    """The functions that were recompiled after the burn-in, in any round, each with the guard that failed last."""
    found: dict[str, list[str]] = {}
    for measurement in result.measurements:
        for one in measurement.compiled["compilations"]:
            if one["after_burnin"] and one["reason"]:
                found.setdefault(one["function"], []).append(one["reason"].partition("  #")[0].strip())
    return tuple(
        f"{name} was still compiled after the burn-in, {len(reasons)} times: its numbers are not those of long "
        f"training. The guard that failed last: {reasons[-1]}"
        for name, reasons in found.items()
    )


def _conditions(benchmark: Benchmark) -> str:
    task, here = benchmark.task, benchmark.machine
    versions = ", ".join(f"{name} {version}" for name, version in benchmark.versions.items())
    rounds, turns = _amount(task.rounds, "round"), _amount(task.length.turns, "turn")
    limits = [f"{task.length.iterations} iterations"] if task.length.iterations is not None else []
    limits += [f"{task.length.seconds:g} s"] if task.length.seconds is not None else []
    lines = [
        f"{rounds} of {turns} of {' or '.join(limits)} after {task.length.burnin} iterations of burn-in; "
        f"{'warm' if task.warm_cache else 'empty'} compile cache; steps are those of all environments.",
        f"{benchmark.cuda or 'no CUDA device'}; {here['processor']}, {here['cores']} cores; {versions}.",
    ]
    if benchmark.cuda is not None:
        lines.append("Phases are from an extra run of each, which waited for the GPU at their boundaries.")
    original = benchmark.results[0].figures
    if original is not None and "products" in original.seconds_per_step:
        whole, spent = 1 / original.steps_per_second.median, original.seconds_per_step["products"]
        lines.append(
            f"Matrix products and convolutions are {spent * 1e6:,.1f} microseconds of an original's step "
            f"({spent / whole:.0%}); compiled code calls the same routines."
        )
    if any(pays_off(r).endswith("?") for r in benchmark.results):
        lines.append("?: the measured speed cannot be told apart from the original's.")
    return "\n".join(lines)


def _amount(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _result_json(result: Result) -> dict[str, Any]:
    found = result.figures
    described: dict[str, Any] = {
        "name": result.contender.name,
        "arguments": list(result.contender.run.args),
        "status": result.status,
        "reason": result.reason or None,
    }
    if found is None:
        return described
    return {
        **described,
        "steps_per_second": _spread_json(found.steps_per_second),
        "ratio": _spread_json(found.ratio),
        "warmup_seconds": _spread_json(found.warmup_seconds),
        "seconds_per_step": dict(found.seconds_per_step),
        "peak_mib": dict(found.peak_mib),
        "still_compiled": list(still_compiled(result)),
        "functions": {name: asdict(f) for name, f in found.functions.items()},
        "break_even": None if found.break_even is None else asdict(found.break_even),
        "told_apart": found.clear,
        "rounds": [
            {
                "steps_per_second": 1 / m.seconds_per_step,
                "steps": m.steps,
                "iterations": m.iterations,
                "warmup_seconds": m.warmup_seconds,
                "seconds_per_step": m.split,
                "turns": [1 / turn for turn in m.turns],
                "peak_mib": dict(m.memory),
                "iteration_starts": [[row.seconds, row.steps] for row in m.rows],
                "compilations": m.compiled["compilations"],
            }
            for m in result.measurements
        ],
    }


def _spread_json(spread: Spread) -> dict[str, float]:
    return asdict(spread)
