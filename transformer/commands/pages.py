"""Where names that are printed lead to in a terminal that shows links: the pages that the documentation has of them."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def linked(console: Console, page: str, style: str = "") -> str:
    """A style of rich that makes a text a link to a page: `codes/LC005`, `advise#la001`.

    The style alone where the console shows no links, and where the package names no address of its documentation.
    """
    site = published() if console.color_system is not None else ""
    name, _, anchor = page.partition("#")
    return f"{style} link {site}/{name}.html{anchor and f'#{anchor}'}".strip() if site else style


@cache
def published() -> str:
    """The address in `[project.urls]` under Documentation; nothing where there is none."""
    try:
        urls = metadata.metadata("lean-convert").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # it is run from its folder
        return ""
    named: dict[str, str] = dict(url.split(", ", 1) for url in urls)
    return named.get("Documentation", "").rstrip("/")
