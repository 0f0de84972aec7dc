import html
import io
import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import hand_made
import pytest
from golden import conversion_of, converted
from rich.console import Console
from test_verified import REPORT

from transformer import convert
from transformer.commands.report import Result, print_report
from transformer.conversion.result import Conversion, Skipped
from transformer.conversion.told import as_told, counts, left_as_it_was
from transformer.diff.highlight import html_line
from transformer.diff.outline import outline
from transformer.diff.page import render_page
from transformer.diff.verified import read_verified

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*.py"))


class Reader(HTMLParser):
    """What a browser would see: ids, links, and tags with what they refer to."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.fragments, self.references, self.scripts = [], [], [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.scripts += tag == "script"
        if "id" in attributes:
            self.ids.append(attributes["id"])
        for name in ("src", "href", "data", "poster", "action", "srcset"):
            target = attributes.get(name)
            if target is not None:
                (self.fragments if target.startswith("#") else self.references).append(target)


@pytest.fixture(scope="module")
def page():
    return render_page(hand_made.hand_made(), "train.py")


def visible(text):
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def test_the_page_refers_to_nothing_outside(page):
    reader = Reader(page)
    assert reader.references == []
    assert not re.search(r"url\(|@import|https?:", page)


def test_every_link_has_its_target_and_every_id_is_one(page):
    reader = Reader(page)
    assert {fragment[1:] for fragment in reader.fragments} <= set(reader.ids)
    assert len(set(reader.ids)) == len(reader.ids)
    assert {"overview", "whole", "step-flags", "step-rollout", "step-rollout-move-1", "step-storage"} <= set(reader.ids)


def test_source_is_shown_not_run(page):
    assert Reader(page).scripts == 1
    assert "<b>markup</b>" not in page
    assert hand_made.ORIGINAL.splitlines()[0] in visible(page)


def test_the_scripts_name_is_escaped():
    assert "<i>" not in render_page(hand_made.hand_made(), "<i>.py")


def test_reasons_warnings_and_versions_are_told(page):
    text = visible(page)
    for sentence in (
        "there is <nothing> to store",
        "Nothing that rate touches is read.",
        "The rate is a number.",
        "line 29, column 13",
        "print() reads total",
        "Moved here from lines 23-30, dedented by 4: 7 lines unchanged, 1 changed.",
        "Lines 23-30 moved to lines 14-21, dedented by 4.",
    ):
        assert sentence in text
    assert "Nothing that <code>rate</code> touches" in page
    assert re.search(r"<dt>Python</dt><dd>\d", page)


def test_a_verification_is_shown_with_its_figures():
    text = visible(render_page(hand_made.hand_made(), "train.py", read_verified(json.dumps(REPORT))))
    for part in (
        "Verdict: DIFFERENT: compiled",
        "over 3 iterations",
        "4,096",
        "more iterations are needed",
        "update: output, float32",
        "1e-05",
        "no CUDA device",
    ):
        assert part in text
    assert "update, call 3: <loss> is 0.5 away" in text


def test_every_line_of_the_result_is_there_with_its_history(page):
    rows = re.findall(r'<tr id="line-(\d+)".*?data-history="([^"]*)".*?<td class="code">(.*?)</td></tr>', page)
    assert [visible(code) for _, _, code in rows] == hand_made.COMPILE.splitlines()
    histories = {visible(code).strip(): history for _, history, code in rows}
    assert histories["total += reward"] == "rollout moved it, from line 28 of the original"
    assert histories["import numpy as np"] == "unchanged, from line 2 of the original"
    assert histories["if compile:"] == "compile wrote it"
    assert histories["action = int(state.mean() > 0.5)"] == ("rollout changed its words, from line 24 of the original")


def test_folded_lines_are_kept_once(page):
    table = page[page.index('<template id="lines">') : page.index("</template>")]
    lines = [visible(line) for line in re.findall(r"<code>(.*?)</code>", table)]
    assert len(set(lines)) == len(lines)
    for ranges, count in re.findall(r'data-lines="([^"]*)".*?>(\d+) unchanged lines', page):
        numbers = [n for r in ranges.split(",") for n in range(int(r.split("-")[0]), int(r.split("-")[1]) + 1)]
        assert len(numbers) == int(count)
        assert max(numbers) < len(lines)


def test_highlighting_changes_no_character():
    source = (
        'class A:\n    """<doc>\n    & more"""\n'
        '    x = f"\t{a!r} \\n" + b"\\x00" # <c>\n'
        "    if a < b > x & x: pass\n    y = a <b> x\n    @d\n    def f(self): return 1e-3\n"
    )
    found = outline(source)
    for i, line in enumerate(found.lines):
        assert visible(html_line(found, i, [(0, 1), (2, 4)])) == line
    assert '<span class="c">    &amp; more&quot;&quot;&quot;</span>' in html_line(found, 2)


def test_marks_and_colours_nest():
    found = outline("x = 'one two'\n")
    assert html_line(found, 0, [(2, 8)], "del") == (
        'x <del>= <span class="s">&#x27;one</span></del><span class="s"> two&#x27;</span>'
    )


def test_a_page_of_400_lines_is_small():
    source = max((path.read_text() for path in FIXTURES), key=len)
    source += "".join(f"# {'filler ' * 12}{i}\n" for i in range(400 - source.count("\n")))
    assert len(render_page(convert(source), "script.py").encode()) < 1_000_000


@pytest.mark.slow
def test_a_page_of_1500_lines_takes_no_longer_than_its_conversion():
    """0.7 s where the conversion takes 1.9 s; only their ratio is the same on a slow machine."""
    helpers = "".join(
        f"def helper_{k}(frames, scale={k}.5):\n"
        f'    """Scale part {k}."""\n'
        f"    low, high = frames.min() * {k}, frames.max()\n"
        f"    # part {k}\n"
        f'    return [f"{{x:.{k % 9}f}}" for x in (frames - low) / (high - low) * scale]\n\n\n'
        for k in range(200)
    )
    fixture = next(path for path in FIXTURES if path.name == "envpool_cnn.py")
    start = time.process_time()  # other processes may be using this machine
    conversion = convert(fixture.read_text().replace("\nclass ", f"\n{helpers}class ", 1))
    assert conversion.original.count("\n") >= 1500
    converted = time.process_time()
    render_page(conversion, "script.py")
    assert time.process_time() - converted < converted - start


def test_a_conversion_of_one_step_has_a_page():
    conversion = hand_made.hand_made()
    page = render_page(Conversion(conversion.original, conversion.steps[:1]), "train.py")
    assert "1 transform applied" in visible(page)


def test_the_verdict_and_what_was_left_stand_above_all_else():
    fixture = next(path for path in FIXTURES if path.name == "distributed.py")
    conversion = conversion_of(fixture)
    left = [s for s in conversion.steps if not s.applied and s.outcome.left_as_it_was]
    assert left
    page = render_page(conversion, fixture.name)
    head, _, overview = page.partition("<nav ")
    assert "No verification on this page" in head and f"{len(left_as_it_was(conversion))} left as" in head
    proved = render_page(conversion, fixture.name, read_verified(json.dumps(REPORT)))
    assert "Verified: DIFFERENT: compiled;" in visible(proved.partition("<nav ")[0])
    assert "<li>line 9: if done was never true</li>" in proved
    first = overview.partition('<section id="overview"')[2].partition("<table")[0]
    for step in left:
        assert step.transform.name in first
    unneeded = [s.transform.name for s in conversion.steps if not s.applied and s not in left]
    shown = re.sub(r'<details class="unneeded">.*?</details>', "", overview.partition("</table>")[0], flags=re.DOTALL)
    assert not [name for name in unneeded if f"#step-{name}" in shown]


def test_the_page_counts_as_the_terminal_does_and_gives_each_transform_one_reason():
    conversion = conversion_of(Path(FIXTURES[0].parent, "acts_into_memory.py"))
    page = render_page(conversion, "train.py")
    summaries = re.findall(r"<summary>(.*?)</summary>", page)
    report = io.StringIO()
    print_report(Console(file=report, width=200), [Result("train.py", conversion)])
    assert summaries.count(counts(conversion)) == 2
    assert f"{counts(conversion)}; -v says why" in report.getvalue()
    for one in left_as_it_was(conversion):
        for name in one.names:
            section = page.partition(f'<section id="step-{name}"')[2].partition("</section>")[0]
            assert html.escape(one.reason).replace("&#x27;", "&#39;") in re.sub(r"</?code>", "`", section)


@pytest.mark.parametrize("ignored", [[], ["shuffle"]])
def test_the_overview_says_what_the_notes_say(ignored: list[str]) -> None:
    fixture = next(path for path in FIXTURES if path.name == "gym_classic_discrete.py")
    conversion = converted(fixture.read_text(encoding="utf-8"), ignore=ignored)
    page = render_page(conversion, fixture.name)
    overview = page.partition('<section id="overview"')[2].partition("</section>")[0]
    noted = [s.transform.name for s in conversion.steps if s.applied and s.outcome.lesser_notes]
    assert ("shuffle" in noted) == (not ignored)
    told = overview.partition('<ul class="noted">')[2].partition("</ul>")[0]
    assert list(dict.fromkeys(re.findall(r'href="#step-([\w-]+)"', told))) == noted
    assert ("computes the same as the original, but for these notes." in visible(overview)) == bool(noted)


def test_a_transform_that_another_one_replaces_is_not_needed() -> None:
    conversion = converted(FIXTURES[0].with_name("acts_and_learns.py").read_text())
    steps = {s.transform.name: as_told(conversion, s).outcome for s in conversion.steps}
    replaced = {n: o.reason for n, o in steps.items() if isinstance(o, Skipped) and "does it instead" in o.reason}
    assert replaced
    page = render_page(conversion, "train.py")
    for name, reason in replaced.items():
        rows = [visible(row) for row in page.split("<tr") if f'href="#step-{name}"' in row]
        assert any("not needed" in row and reason in row for row in rows)
        assert name not in {n for left in left_as_it_was(conversion) for n in left.names}
