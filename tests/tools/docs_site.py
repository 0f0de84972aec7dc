"""The documentation as a site (`make site`): hooks for mkdocs that add pages from outside docs/."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from transformer import all_transforms
from transformer.syntax.diagnostics import CODES

ROOT = Path(__file__).parents[2]
BROUGHT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results.md": "results.md",
    "benchmarks/did_not_help.md": "did_not_help.md",
    **{f"benchmarks/logs/{p.name}": f"logs/{p.name}" for p in sorted((ROOT / "benchmarks" / "logs").glob("*.md"))},
    **{
        f"benchmarks/results/{p.name}": f"results/{p.name}"
        for p in sorted((ROOT / "benchmarks" / "results").glob("*.png"))
    },
}
"""Pages and pictures of the repository, each with its place in the site."""
PLACES = {target: source for source, target in BROUGHT.items()}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
LONG = "---\nsearch:\n  exclude: true\n---\n"
"""The beginning of a page of logs, which excludes it from the search."""


def on_config(config: Any) -> Any:
    """Put a page for each transform and each diagnostic into the navigation."""
    pages = {
        "Transforms": ["transforms.md", *({f"{t.name}": f"transforms/{t.name}.md"} for t in all_transforms())],
        "What is refused": ["refusals.md", *({f"{c}": f"codes/{c}.md"} for c in CODES)],
    }
    for entry in config.nav:
        for title in entry.keys() & pages.keys():
            entry[title] = pages[title]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the files from outside docs/."""
    for source, target in BROUGHT.items():
        if target.endswith(".md"):
            text = (ROOT / source).read_text(encoding="utf-8")
            content = (LONG if target.startswith("logs/") else "") + text
            files.append(File.generated(config, target, content=content))
        else:
            files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links to the site's pages. A link to a file that is no page, such as a test, becomes plain text."""
    here = page.file.src_uri
    folder = posixpath.dirname(PLACES.get(here, f"docs/{here}"))

    def led(found: re.Match[str]) -> str:
        picture, text, target, anchor = found.groups()
        source = posixpath.normpath(posixpath.join(folder, target))
        place = BROUGHT.get(source, source.removeprefix("docs/"))
        if files.get_file_from_path(place) is None:
            return text
        start = posixpath.dirname(here) or "."
        return f"{picture}[{text}]({posixpath.relpath(place, start)}{anchor or ''})"

    parts = re.split(r"(^ *```.*?^ *```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if i % 2 else LINK.sub(led, part) for i, part in enumerate(parts))
