"""The tables and examples of the README and docs/, from the registries, a conversion and results (`make docs`)."""

import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from transformer import TransformInfo, all_transforms, convert
from transformer.advise import RULES
from transformer.commands.explain import flag
from transformer.migrate.differences import DIFFERENCES
from transformer.syntax.diagnostics import CODES, Code

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
import results_page  # noqa: E402  (stand beside the results that they show)
import speed_page  # noqa: E402

EXAMPLE = "fixtures/gymnasium_continuous.py"
APPLIED = ROOT / "benchmarks" / "results" / "family_applied.json"
"""The transforms that apply to each script of cleanrl, as benchmarks/family.py found."""


def transforms_table() -> str:
    """The transforms in order: what each does, what it needs, and a link to its page."""
    head = "| step | transform | what it does | needs |"
    rows = [
        f"| {number} | [`{t.name}`](transforms/{t.name}.md) | {_cell(t.summary)} | {_asked(t)} |"
        for number, t in enumerate(all_transforms(), 1)
    ]
    return "\n".join([head, "|-|-|-|-|", *rows])


def _asked(info: TransformInfo) -> str:
    """The option that requests a transform, and the transforms that it needs."""
    return ", ".join([*([f"`{flag(info.option)}`"] if info.option else []), *(f"`{n}`" for n in info.needs)])


def transform_page(info: TransformInfo) -> str:
    """The page of a transform: what it does, an example, when it applies, why it is safe, its costs, how often."""
    links = ", ".join(f"[`{n}`]({n}.md)" for n in info.needs)
    needs = f" It needs {links}." if links else ""
    asked = f"\n\nIt is applied only with `{flag(info.option)}`." if info.option else ""
    regroups = f"\n\nUnder the flags, arithmetic is done in another order: {info.regroups}." if info.regroups else ""
    applied = _applied()
    count = sum(info.name in names for names in applied.values())
    often = f"To {count or 'none'} of the {len(applied)} PyTorch scripts of [cleanrl](../../benchmarks/logs/family.md)."
    often = often if not info.option else "Only if its option is given."
    return (
        f"# `{info.name}`\n\n{_sentence(info.summary)}{needs}{asked}\n\n"
        f'## Before and after\n\n```python title="before"\n{_code(info.before)}\n```\n\n'
        f'```python title="after"\n{_code(info.after)}\n```\n\n'
        f"## When it is applied\n\n{_sentence(info.applies)}\n\n"
        f"## Why results stay equal\n\n{info.safety}{regroups}\n\n"
        "## When it is left out\n\nThe report names the line that prevents it. What that costs, and what to write "
        f"instead: {info.costs}\n\n## How often it is applied\n\n{often}\n"
    )


@cache
def _applied() -> dict[str, list[str]]:
    """The transforms that apply, by script of cleanrl."""
    applied: dict[str, list[str]] = json.loads(APPLIED.read_text(encoding="utf-8"))
    return applied


def code_page(code: Code) -> str:
    """The page of a diagnostic: what it means and what to do."""
    what = {"error": "An error: the script is not converted.", "warning": "A warning: the script is converted."}
    return (
        f"# {code.code}: {code.title}\n\n{what[code.severity]}\n\n## Why\n\n{code.reason}\n\n"
        f"## What to do\n\n{code.advice}\n"
    )


def _code(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def _sentence(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return f"{text[0].upper()}{text[1:]}."


def diagnostics_table() -> str:
    """The diagnostics, with links to their pages."""
    rows = [f"| [{c.code}](codes/{c.code}.md) | {c.severity} | {_cell(c.title)} |" for c in CODES.values()]
    return "\n".join(["| code | kind | title |", "|-|-|-|", *rows])


def differences_table() -> str:
    """The differences between a script and its migration to envpool."""
    rows = [f"| {_cell(d.what)} | {_cell(d.wrappers)} | {_cell(d.envpool)} |" for d in DIFFERENCES]
    return "\n".join(["| what | gymnasium's wrappers | envpool |", "|-|-|-|", *rows])


def advice_table() -> str:
    """The pieces of advice: what each finds, why it costs time, what to write instead."""
    rows = [
        f"| [{r.code}](#{r.code.lower()}) | {r.weight} | {_cell(r.title)} | {_cell(r.reason)} | {_cell(r.instead)} |"
        for r in RULES
    ]
    return "\n".join(["| code | weight | what is found | why it costs time | instead |", "|-|-|-|-|-|", *rows])


def advice_examples() -> str:
    """For each piece of advice, tested examples of what it finds, and of what it does not find."""
    places = {
        "setup": "above the training loop",
        "step": "in the loop that steps the environment",
        "iteration": "between rollout and update",
        "minibatch": "in the minibatch loop",
        "module": "at the top of the file",
    }
    parts: list[str] = []
    for rule in RULES:
        parts.append(f"### {rule.code}\n\n{rule.title[0].upper()}{rule.title[1:]}.\n")
        for heading, examples in (("Found", rule.bad), ("Not found", rule.good)):
            lines = [f"# {places[e.place]}\n{e.code.strip()}" for e in examples]
            parts.append(f"{heading}:\n\n```python\n" + "\n\n".join(lines) + "\n```\n")
    return "\n".join(parts).rstrip("\n")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def example() -> str:
    """The lines of a script's update before and after its conversion, side by side."""
    conversion = convert((ROOT / EXAMPLE).read_text(encoding="utf-8"))
    before = _part(conversion.original, "for epoch in", "optimizer.step()", left_out="# ... the losses ...")
    flags = (("compile", "update = torch.compile("), ("cudagraphs", "update = CudaGraphModule("))
    behind = [f"if args.{flag}:\n    {_part(conversion.source, line, line)}" for flag, line in flags]
    cells = (before, "\n".join([*behind, "...", _part(conversion.source, "for epoch in", ")")]))
    rows = "</td><td>".join(f"\n\n```python\n{cell}\n```\n\n" for cell in cells)
    return f"<table>\n<tr><th>before</th><th>after</th></tr>\n<tr><td>{rows}</td></tr>\n</table>"


def _part(source: str, first: str, last: str, left_out: str = "") -> str:
    """The lines from the one that begins with `first` to the next one that begins with `last`, without indentation.

    If `left_out` is given, it replaces the lines from the first to the last blank line among them.

    Raises:
        ValueError: no line begins with `first`.
    """
    lines = source.splitlines()
    starts = [i for i, line in enumerate(lines) if line.strip().startswith(first)]
    if not starts:
        raise ValueError(f"no line begins with {first!r}")
    end = next(i for i in range(starts[0], len(lines)) if lines[i].strip().startswith(last))
    shown = lines[starts[0] : end + 1]
    blank = [i for i, line in enumerate(shown) if not line.strip()]
    if left_out and blank:
        indentation = re.match(" *", shown[blank[-1] + 1])
        assert indentation is not None
        shown[blank[0] : blank[-1] + 1] = [f"{indentation[0]}{left_out}"]
    return textwrap.dedent("\n".join(shown))


PAGES: dict[Path, dict[str, Callable[[], str]]] = {
    ROOT / "README.md": {
        "example": example,
        "speed": speed_page.readme_table,
        "age": speed_page.age,
        "unseen": results_page.as_they_came,
    },
    ROOT / "docs" / "transforms.md": {"transforms": transforms_table},
    ROOT / "docs" / "refusals.md": {"diagnostics": diagnostics_table},
    ROOT / "docs" / "migrate.md": {"differences": differences_table},
    ROOT / "docs" / "advise.md": {"advice": advice_table, "examples": advice_examples},
}
"""The pages with generated tables, and the tables by the names of their markers."""


def whole_pages() -> dict[Path, str]:
    """The pages that are generated as a whole: one per transform, one per diagnostic."""
    transforms = {ROOT / "docs" / "transforms" / f"{t.name}.md": transform_page(t) for t in all_transforms()}
    return transforms | {ROOT / "docs" / "codes" / f"{c.code}.md": code_page(c) for c in CODES.values()}


def with_tables(document: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The document with new text between each pair of markers `<!-- NAME -->` and `<!-- /NAME -->`.

    Raises:
        ValueError: a pair of markers is missing.
    """
    for name, table in tables.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
        document, count = pattern.subn(lambda m, table=table: f"{m[1]}{table()}{m[2]}", document)
        if count != 1:
            raise ValueError(f"the document has {count} places for the table {name!r}, not one")
    return document


if __name__ == "__main__":
    for path, tables in PAGES.items():
        path.write_text(with_tables(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
    for path, text in whole_pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    speed_page.write()
    results_page.write()
