"""The templates of emitted code, filled in and parsed: an unfilled placeholder or bad syntax is an error here."""

from __future__ import annotations

from functools import cache

import jinja2
import libcst as cst

from transformer.source import Line, lines_of

@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("transformer.templates", ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )

def render(template: str, **values: object) -> list[Line]:
    """A template's statements, as LibCST nodes.

    Raises:
        jinja2.UndefinedError: a placeholder has no value.
        libcst.ParserSyntaxError: the filled template is not Python.
    """
    text = _environment().get_template(f"{template}.py.j2").render(**values)
    return lines_of(cst.parse_module(text))
