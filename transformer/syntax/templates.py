"""Render the templates of emitted code; a missing value or invalid syntax raises immediately."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


@cache
def _environment() -> jinja2.Environment:
    import jinja2  # imported here because it is slow, and not every command renders templates

    return jinja2.Environment(
        loader=jinja2.PackageLoader("transformer.templates", "emitted"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(template: str, **values: object) -> str:
    """The statements that a template renders to.

    Raises:
        jinja2.UndefinedError: a placeholder has no value.
        SyntaxError: the result is not Python.
    """
    text = _environment().get_template(f"{template}.py.j2").render(**values)
    ast.parse(text)
    return text


def tuple_of(keys: Iterable[str]) -> str:
    """The source text of a tuple of strings."""
    quoted = [f'"{key}"' for key in keys]
    return f"({quoted[0]},)" if len(quoted) == 1 else f"({', '.join(quoted)})"
