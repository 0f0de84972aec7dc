"""`lean-convert transforms`: the transforms in the order in which they are applied."""

from __future__ import annotations

import json

import click

from transformer.conversion import pipeline


@click.command()
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the list.")
def transforms(form: str) -> None:
    """List the transforms in order, one line each."""
    infos = pipeline.all_transforms()
    if form == "json":
        entries = [{"name": i.name, "summary": i.summary, "needs": list(i.needs), "option": i.option} for i in infos]
        click.echo(json.dumps(entries, indent=2))
        return
    width = max(len(i.name) for i in infos)
    for info in infos:
        needs = f" (needs {', '.join(info.needs)})" if info.needs else ""
        asked = f" (with --{info.option})" if info.option else ""
        click.echo(f"{info.name:<{width}}  {info.summary}{asked}{needs}")
