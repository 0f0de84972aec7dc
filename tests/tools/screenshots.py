"""Make the README's pictures: `make screenshots`. Needs Chromium, as the browser tests do."""

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console

from transformer import Conversion, convert
from transformer.diff.page import render_page
from transformer.diff.story import chapters
from transformer.diff.terminal import print_story

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
FIXTURE = ROOT / "fixtures" / "gymnasium_continuous.py"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking".split()
STEP = "rollout"
TERMINAL_STEPS = ("tensor-lr", "gae")
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""Rich's frame without its web fonts: a picture in a README must not load anything."""


def main() -> None:
    """Write docs/images/ anew."""
    if CHROMIUM is None:
        sys.exit("Chromium is not installed; set CHROMIUM to its path")
    IMAGES.mkdir(parents=True, exist_ok=True)
    conversion = convert(FIXTURE.read_text(encoding="utf-8"))
    picture_terminal(conversion, IMAGES / "diff-terminal.svg")
    picture_page(conversion)


def picture_terminal(conversion: Conversion, target: Path) -> None:
    """Picture the output of `lean-convert diff` for two steps."""
    console = Console(file=io.StringIO(), width=120, record=True, force_terminal=True, color_system="truecolor")
    print_story(console, conversion, chapters(conversion, TERMINAL_STEPS), context=1, side_by_side=False)
    command = f"lean-convert diff {FIXTURE.name} -U 1 --transform {','.join(TERMINAL_STEPS)}"
    target.write_text(console.export_svg(title=command, code_format=SVG, unique_id="diff"), encoding="utf-8")


def picture_page(conversion: Conversion) -> None:
    """Picture one step of the page, in light and dark."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder, "page.html")
        page_file.write_text(render_page(conversion, FIXTURE.name), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1400, "height": 860}, color_scheme=scheme)
            page.goto(f"{page_file.as_uri()}#step-{STEP}")
            page.screenshot(path=IMAGES / f"diff-page-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
