"""The documentation as a site (`make site`): each transform and diagnostic has a page, and pages have no faults.

Chromium is driven by Playwright; what needs it is skipped where either is missing.
"""

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiers import slow_but_each

from transformer import all_transforms
from transformer.syntax.diagnostics import CODES

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
pytest.importorskip("material", reason="mkdocs-material is not installed")
ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (or set CHROMIUM to its path)")
PAGES = ("index", "transforms", "transforms/one-graph", "codes/LC005", "verify", "advise", "results", "settings")
AT_EVERY_CHANGE = (("index", "light"), ("transforms/one-graph", "dark"), ("results", "light"))
"""The pages that axe checks at every change: one of each kind."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def test_each_transform_and_each_diagnostic_has_a_page(site: Path) -> None:
    for info in all_transforms():
        text = (site / "transforms" / f"{info.name}.html").read_text(encoding="utf-8")
        assert "Why results stay equal" in text
        assert f'href="transforms/{info.name}.html"' in (site / "transforms.html").read_text(encoding="utf-8")
    for code in CODES.values():
        assert "What to do" in (site / "codes" / f"{code.code}.html").read_text(encoding="utf-8")


def test_all_links_lead_to_pages_of_the_site(site: Path) -> None:
    wrong = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                wrong.append((page.relative_to(site), target))
    assert not wrong


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open a page; the test fails if the page logs, throws, or loads anything from another host."""
    contexts, complaints = [], list[str]()

    def open_page(name: str, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda r: r.url.startswith(address) or complaints.append(f"request: {r.url}"))
        page.goto(f"{address}/{name}.html")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        pytest.param(name, scheme, marks=[] if (name, scheme) in AT_EVERY_CHANGE else pytest.mark.slow)
        for name in PAGES
        for scheme in ("light", "dark")
    ],
)
def test_axe_finds_nothing(visit: Callable[..., Any], name: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    results = axe.run(visit(name, color_scheme=scheme))
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("name", slow_but_each(3, PAGES))
def test_nothing_needs_sideways_scrolling_on_a_phone(visit: Callable[..., Any], name: str) -> None:
    page = visit(name, width=420)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.locator("h1").first.is_visible()


@pytest.mark.browser
@needs_chromium
def test_search_finds_a_transform(visit: Callable[..., Any]) -> None:
    page = visit("index")
    page.keyboard.press("/")
    page.keyboard.type("gae-hoist")
    found = page.locator("a.md-search-result__link[href*='gae-hoist']").first
    found.wait_for(timeout=10_000)
    found.click()
    page.wait_for_url("**/transforms/gae-hoist.html*")
