"""`lean-convert advise SCRIPT...`: what costs time in scripts, without converting them."""

from __future__ import annotations

import json
import sys

import click

from transformer.commands.advice_report import advise_script, as_json, print_advice, print_unread
from transformer.commands.convert import SCRIPT


@click.command()
@click.argument("scripts", nargs=-1, required=True, type=SCRIPT, metavar="SCRIPT...")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the report.")
@click.option("--strict", is_flag=True, help="Exit with 1 where there is advice.")
def advise(scripts: tuple[str, ...], form: str, strict: bool) -> None:
    """Tell what costs time in each eager SCRIPT (`-` is standard input), whether or not it can be converted.

    Each piece of advice has its place, its reason and what to write instead; `lean-convert explain CODE` tells more.

    Exit codes: 0 advice or none; 1 a script is not Python, or --strict was given and there is advice; 2 bad usage, or a
    file cannot be read.
    """
    from rich.console import Console

    results = [advise_script(script) for script in scripts]
    if form == "json":
        click.echo(json.dumps(as_json(results), indent=2))
    else:
        print_advice(Console(highlight=False), results)
        print_unread(Console(stderr=True, highlight=False), results)
    if any(r.failure is not None for r in results):
        sys.exit(2)
    if any(not r.read or (strict and r.findings) for r in results):
        sys.exit(1)
