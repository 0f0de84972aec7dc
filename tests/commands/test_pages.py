"""In a terminal, names of transforms and codes are links to their pages, where these are published."""

import re
from email.message import Message
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from transformer import all_transforms, cli
from transformer.advise import RULES
from transformer.commands import report
from transformer.syntax.diagnostics import CODES

pytestmark = pytest.mark.usefixtures("converted_once")
ROOT = Path(__file__).parents[2]
FIXTURE = str(ROOT / "fixtures" / "one_step_per_turn.py")
NAMES = (*(t.name for t in all_transforms()), *CODES, *(r.code for r in RULES))
LINK = re.compile(r"\x1b\]8;[^;]*;(https://docs\.example/[^\x1b]+)\x1b\\([^\x1b]|\x1b\[)*")


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(report, "published", lambda: "https://docs.example")


def links(*command: str) -> set[str]:
    return {found[1] for found in LINK.finditer(CliRunner().invoke(cli.main, command).output)}


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("name", NAMES)
def test_each_has_a_page(name: str) -> None:
    (link,) = links("explain", name)
    page, _, anchor = link.removeprefix("https://docs.example/").partition("#")
    text = (ROOT / "docs" / page).with_suffix(".md").read_text(encoding="utf-8")
    assert name in text.splitlines()[0] or (anchor and f"### {name}\n" in text and anchor == name.lower())


@pytest.mark.usefixtures("published")
def test_reports_link_to_what_they_name(tmp_path: Path) -> None:
    told = links("convert", FIXTURE, "-o", str(tmp_path / "new.py"))
    assert {link.split("/")[-2] for link in told} == {"transforms"}
    assert {link.partition("#")[0] for link in links("advise", FIXTURE)} == {"https://docs.example/advise.html"}
    refused = tmp_path / "no.py"
    refused.write_text("import torch\n")
    assert links("convert", str(refused)) == {"https://docs.example/codes/LC004.html"}


def test_nothing_is_a_link_where_nothing_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b]8;" not in CliRunner().invoke(cli.main, ["explain", "LC005"]).output


def test_the_address_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Message()
    told["Project-URL"] = "Documentation, https://docs.example/"
    monkeypatch.setattr(metadata, "metadata", lambda name: told)
    assert report.published.__wrapped__() == "https://docs.example"
