"""The README's tables of transforms and diagnostics, made from the registry: `make docs`."""

import re
from pathlib import Path

from transformer import transforms
from transformer.diagnostics import CODES

README = Path(__file__).parent.parent / "README.md"


def transforms_table() -> str:
    """The transforms in order: what each does, what it needs, why the results stay equal."""
    rows = [
        f"| {number} | `{t.name}` | {_cell(t.summary)} | {', '.join(f'`{n}`' for n in t.needs)} | {_cell(t.safety)} |"
        for number, t in enumerate(transforms(), 1)
    ]
    return "\n".join(["| | transform | what it does | needs | why it is safe |", "|-|-|-|-|-|", *rows])


def diagnostics_table() -> str:
    """The diagnostics: what each means and what to do."""
    rows = [
        f"| {c.code} | {c.severity} | {_cell(c.title)} | {_cell(c.reason)} | {_cell(c.advice)} |"
        for c in CODES.values()
    ]
    return "\n".join(["| code | | title | why | what to do |", "|-|-|-|-|-|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


TABLES = {"transforms": transforms_table, "diagnostics": diagnostics_table}


def with_tables(document: str) -> str:
    """The document with what stands between `<!-- NAME -->` and `<!-- /NAME -->` made anew.

    Raises:
        ValueError: a pair of markers is missing.
    """
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
        document, count = pattern.subn(lambda m, table=table: f"{m[1]}{table()}{m[2]}", document)
        if count != 1:
            raise ValueError(f"the document has {count} places for the table {name!r}, not one")
    return document


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
