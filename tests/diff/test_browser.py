"""The page in a real browser: Chromium, driven by Playwright. Skipped where either is missing."""

import json
import os
import shutil
from pathlib import Path

import hand_made
import pytest
from golden import conversion_of
from test_verified import REPORT
from tiers import slow_but_each

from transformer.diff.page import render_page
from transformer.diff.verified import read_verified

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FIXTURE = Path(__file__).parents[2] / "fixtures" / "gymnasium_continuous.py"
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (or set CHROMIUM to its path)"),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The page of the conversion made by hand, with a verification."""
    file = tmp_path_factory.mktemp("page") / "small.html"
    file.write_text(render_page(hand_made.hand_made(), "train.py", read_verified(json.dumps(REPORT))), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The page of a fixture's conversion."""
    file = tmp_path_factory.mktemp("page") / "real.html"
    file.write_text(render_page(conversion_of(FIXTURE), FIXTURE.name), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def visit(browser):
    """Open a page; the test fails if the page then logs, throws, or asks for anything but itself."""
    contexts, complaints = [], []

    def open_page(url, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                request.url.split("#")[0] == url.split("#")[0] or complaints.append(f"request: {request.url}")
            ),
        )
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def in_view(element):
    return element.evaluate("e => { const r = e.getBoundingClientRect(); return r.top < innerHeight && r.bottom > 0; }")


def shown(page):
    """The id of the section that is shown; exactly one is. The page hears of a new address in a task of its own."""
    page.evaluate("() => new Promise(done => setTimeout(done, 50))")
    (section,) = page.locator("main > section:visible").all()
    return section.get_attribute("id")


def test_it_opens_at_the_overview_and_steps_with_the_mouse(visit, small):
    page = visit(small)
    assert shown(page) == "overview"
    page.get_by_role("navigation").get_by_role("link", name="rollout").click()
    assert shown(page) == "step-rollout"
    assert page.url.endswith("#step-rollout")
    assert page.locator("nav [aria-current=step]").inner_text().split()[1] == "rollout"
    page.get_by_role("link", name="compile →").last.click()
    assert shown(page) == "step-compile"
    page.go_back()
    assert shown(page) == "step-rollout"


def test_it_steps_with_the_arrow_keys(visit, small):
    page = visit(small)
    visited = []
    for _ in range(6):
        page.keyboard.press("ArrowRight")
        visited.append(shown(page))
    steps = [f"step-{name}" for name in ("flags", "rate", "rollout", "compile")]  # not what changed nothing
    assert visited == [*steps, "whole", "whole"]
    page.keyboard.press("ArrowLeft")
    assert shown(page) == "step-compile"
    assert page.evaluate("document.activeElement.textContent").strip().endswith("compile")


def test_in_the_rail_arrows_move_the_focus_along(visit, small):
    page = visit(small)
    page.locator("nav a").first.focus()
    page.keyboard.press("ArrowDown")
    assert shown(page) == "step-flags"
    assert page.evaluate("document.activeElement.hash") == "#step-flags"


def test_all_is_reached_with_the_tab_key(visit, small):
    page = visit(f"{small}#step-rollout")
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.hash || document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.evaluate("document.activeElement === document.body")
    assert {"#content", "#step-rollout-move-1", "#step-rollout-move-1-from", "Show all unchanged lines"} <= reached


def test_a_fragment_opens_its_step_and_its_line(visit, small, real):
    page = visit(f"{real}#step-update")
    assert shown(page) == "step-update"
    assert page.locator("h1").is_visible()
    assert shown(visit(f"{small}#original-28")) == "whole"
    assert shown(visit(f"{small}#nowhere")) == "overview"


def test_moved_blocks_lead_to_each_other(visit, real):
    page = visit(f"{real}#step-update")
    page.get_by_role("link", name="See where they were").click()
    assert shown(page) == "step-update"
    note = page.locator("#step-update-move-1-from")
    assert note.evaluate("e => e === document.activeElement")
    assert in_view(note)
    assert "moved to lines" in note.inner_text()
    note.get_by_role("link").click()
    moved = page.locator("#step-update-move-1")
    assert in_view(moved)
    assert moved.locator("tr.same").count() > 20


def test_unchanged_lines_unfold_and_fold(visit, small):
    page = visit(f"{small}#step-rate")
    fold = page.locator("#step-rate .fold button").first
    assert fold.get_attribute("aria-expanded") == "false"
    before = page.locator("#step-rate tr:visible").count()
    fold.press("Enter")
    assert fold.get_attribute("aria-expanded") == "true"
    body = page.locator(f"#{fold.get_attribute('aria-controls')}")
    source = hand_made.FLAGS.splitlines()
    assert body.locator("td.new").all_text_contents() == source[: body.locator("tr").count()]
    assert body.locator("td.n").all_text_contents()[:4] == ["1", "1", "2", "2"]
    fold.click()
    assert fold.get_attribute("aria-expanded") == "false"
    assert page.locator("#step-rate tr:visible").count() == before


def test_all_folds_open_at_once_and_give_the_whole_state(visit, small):
    page = visit(f"{small}#step-rate")
    button = page.get_by_role("button", name="Show all unchanged lines")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    lines = page.locator("#step-rate td.new:visible").all_text_contents()
    assert lines == hand_made.RATE.splitlines()
    button.click()
    assert len(page.locator("#step-rate td.new:visible").all()) < len(lines)


def test_blame_is_told_on_hover_and_on_focus_and_leads_to_the_step(visit, small):
    page = visit(f"{small}#whole", height=400)
    line = hand_made.COMPILE.splitlines().index("            total += reward") + 1
    page.locator(f"#line-{line}").hover()
    history = page.locator("#history")
    assert history.inner_text().startswith(f"Line {line}: rollout moved it, from line 28 of the original.")
    assert "pointed" in page.locator("#original-28").get_attribute("class")
    page.mouse.move(0, 0)  # away: a page that scrolls under the pointer would point at another line
    page.locator("#result tbody tr").first.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.querySelector('#history').innerText.startsWith('Line 2: unchanged, from line 2')")
    for _ in range(line - 2):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert shown(page) == "step-rollout"
    landed = page.locator("tr.landed")
    assert landed.locator("td.new").inner_text().strip().endswith("total += reward")
    assert in_view(landed)


def test_blame_leads_to_the_original_line(visit, small):
    page = visit(f"{small}#whole")
    page.locator(f"#line-{len(hand_made.COMPILE.splitlines())}").hover()
    page.get_by_role("link", name="of the original").click()
    last = len(hand_made.ORIGINAL.splitlines())
    assert page.url.endswith(f"#original-{last}")
    assert page.evaluate("document.querySelector(':target').textContent").endswith("(iteration + 1))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_systems_colours_and_the_button(visit, small, scheme):
    def brightness():
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour[4:-1].split(",")[:3])) / 765

    page = visit(small, color_scheme=scheme)
    assert (brightness() > 0.9) == (scheme == "light")
    button = page.get_by_role("button", name="Colours")
    button.click()
    assert brightness() > 0.9
    button.click()
    assert brightness() < 0.1


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        *(pytest.param(*other, marks=pytest.mark.slow) for other in ((1280, "light"), (360, "light"), (1280, "dark"))),
    ],
)
def test_axe_finds_nothing(visit, small, real, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The small page has a verification and every kind of row; the real one has the colours of all transforms.
    places = [(small, "overview"), (small, "step-rollout"), (small, "step-storage"), (small, "whole")]
    for url, fragment in places if width < 600 else [*places, (real, "whole")]:
        page = visit(f"{url}#{fragment}", width=width, color_scheme=scheme)
        for button in page.locator(f"#{fragment} .fold button").all():
            button.click()
        results = axe.run(page)
        assert results.violations_count == 0, results.generate_report()


@pytest.mark.parametrize("fragment", slow_but_each(3, ["step-rollout", "overview", "whole"]))
def test_at_phone_width_and_at_400_percent_nothing_needs_sideways_scrolling(visit, real, fragment):
    # 1280 pixels at 400 % are 320 by 256 pixels for the layout.
    for width, height in ((360, 780), (320, 256)):
        page = visit(f"{real}#{fragment}", width, height)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(f"#{fragment} h2").is_visible()


def test_on_a_phone_each_unchanged_line_is_shown_once(visit, small):
    page = visit(f"{small}#step-rate", width=360)
    changed = page.locator("#step-rate tr.changed")
    assert changed.locator("td.old").is_visible()
    assert changed.locator("td.new").is_visible()
    assert not page.locator("#step-rate tr.same td.old").first.is_visible()
    assert page.locator("#step-rate tr.same td.new").first.is_visible()


def test_print_holds_every_step(visit, small):
    page = visit(small)
    page.emulate_media(media="print")
    visible = [s.get_attribute("id") for s in page.locator("main > section:visible").all()]
    assert visible == ["overview", "step-flags", "step-rate", "step-storage", "step-rollout", "step-compile", "whole"]
    assert not page.locator("nav").is_visible()
    assert page.pdf().startswith(b"%PDF")


def test_without_scripts_every_step_can_be_read(visit, small):
    page = visit(f"{small}#step-rate", java_script_enabled=False)
    assert page.locator("main > section:visible").count() == 7
    assert not page.get_by_role("button", name="Show all").first.is_visible()


def test_source_with_markup_is_text(visit, small):
    page = visit(f"{small}#whole")
    first = hand_made.ORIGINAL.splitlines()[0]
    assert page.locator("#line-1 td.code").text_content() == first
    assert page.locator("td.code b, td.old b, td.new b").count() == 0


def test_changed_words_are_marked_for_all_senses(visit, small):
    page = visit(f"{small}#step-rollout")
    edited = page.locator("#step-rollout-move-1 tr.changed")
    assert edited.locator("del").all_text_contents() == ["sum", "1.5"]
    assert edited.locator("ins").all_text_contents() == ["mean", "0.5"]
    sign = "e => getComputedStyle(e, '::before').content"
    assert "removed" in edited.locator("td.old").evaluate(sign)
    assert "added" in edited.locator("td.new").evaluate(sign)
    assert "moved" in page.locator("#step-rollout-move-1 tr.same td.new").first.evaluate(sign)
