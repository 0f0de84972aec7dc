"""`lean-convert transforms` lists the transforms; `explain` explains a transform, a diagnostic or a piece of advice."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from transformer.advise import RULES
from transformer.commands.report import linked, screen
from transformer.conversion import pipeline
from transformer.conversion.together import ONE_FILE
from transformer.syntax.diagnostics import CODES, Code

if TYPE_CHECKING:
    from rich.console import Console

    from transformer.advise import Rule
    from transformer.transforms.base import TransformInfo


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
        asked = f" (with {flag(info.option)})" if info.option else ""
        click.echo(f"{info.name:<{width}}  {info.summary}{asked}{needs}")


@click.command()
@click.argument("topic", metavar="[NAME|CODE]", required=False)
def explain(topic: str | None) -> None:
    """Explain a transform (`explain gae`), a diagnostic (`explain LC005`) or a piece of advice (`explain LA001`).

    Without a topic, list all of them.
    """
    infos = {i.name: i for i in (*pipeline.all_transforms(), ONE_FILE)}
    console = screen()
    if topic is None:
        _list_all(infos.values())
    elif info := infos.get(topic.lower()):
        _explain_transform(console, info)
    elif code := CODES.get(topic.upper()):
        _explain_code(console, code)
    elif rule := {r.code: r for r in RULES}.get(topic.upper()):
        _explain_rule(console, rule)
    else:
        similar = difflib.get_close_matches(topic, [*infos, *CODES, *(r.code for r in RULES)], n=1)
        hint = f"; did you mean {similar[0]!r}?" if similar else "; `lean-convert explain` lists all"
        raise click.UsageError(f"there is no transform, diagnostic or advice {topic!r}{hint}")


def _list_all(infos: Iterable[TransformInfo]) -> None:
    parts = {
        "transforms": [(i.name, i.brief) for i in infos],
        "diagnostics": [(code.code, code.title) for code in CODES.values()],
        "advice": [(rule.code, rule.title) for rule in RULES],
    }
    width = max(len(name) for told in parts.values() for name, _ in told)
    for heading, told in parts.items():
        click.echo(heading)
        for name, title in told:
            click.echo(f"  {name:<{width}}  {title}")


def flag(option: str) -> str:
    """The option that turns a transform on, as typed on the command line."""
    return f"--{option.replace('_', '-')}"


def _explain_transform(console: Console, info: TransformInfo) -> None:
    from rich.text import Text

    style = "bold" if info is ONE_FILE else linked(console, f"transforms/{info.name}", "bold")
    console.print(Text.assemble((info.name, style), f": {info.summary}"))
    console.print(Text(f"\n{info.safety}"))
    conditions = re.split(r"; (?:and )?|\. ", info.applies)
    listed = "".join(f"\n- {condition}" for condition in conditions)
    console.print(Text(f"\nApplies{listed if len(conditions) > 1 else f' {info.applies}.'}"))
    if info.regroups:
        console.print(Text(f"\nUnder the flags, arithmetic is done in another order: {info.regroups}."))
    console.print(Text(f"\nIf the script is left as it was: {info.costs}"))
    if info.option:
        console.print(Text(f"\nApplied with {flag(info.option)}."))
    if info.needs:
        console.print(Text(f"\nNeeds: {', '.join(info.needs)}"))
    _print_examples(console, (("Before", info.before), ("After", info.after)))


def _print_examples(console: Console, examples: Iterable[tuple[str, str]]) -> None:
    """Print code under headings."""
    from rich.syntax import Syntax
    from rich.text import Text

    for heading, example in examples:
        console.print(Text(f"\n{heading}", "bold"))
        code = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(example.strip("\n"))
        code.rstrip()
        console.print(code, soft_wrap=True)  # a Syntax object would cut lines at the terminal's width


def _explain_code(console: Console, code: Code) -> None:
    from rich.text import Text

    console.print(
        Text.assemble((code.code, linked(console, f"codes/{code.code}", "bold")), f" ({code.severity}): {code.title}")
    )
    console.print(Text(f"\n{code.reason}"))
    console.print(Text.assemble("\n", ("What to do: ", "bold"), code.advice))


def _explain_rule(console: Console, rule: Rule) -> None:
    from rich.text import Text

    style = linked(console, f"advise#{rule.code.lower()}", "bold")
    console.print(Text.assemble((rule.code, style), f" ({rule.weight}): {rule.title}"))
    console.print(Text(f"\n{rule.reason}"))
    console.print(Text.assemble("\n", ("Instead: ", "bold"), rule.instead))
    _print_examples(console, (("Costs time", rule.bad[0].code), ("Instead", rule.good[0].code)))
