"""The registry, the README, docs/ and `explain` agree."""

import ast
import dataclasses
import importlib.resources
import pkgutil
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from scripts import script

import docs
from transformer import TransformInfo, all_transforms, cli
from transformer.advise import RULES, Rule
from transformer.conversion.first_state import read, recognise
from transformer.conversion.settings import settings_of
from transformer.syntax.diagnostics import CODES, Code

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
by_name = pytest.mark.parametrize("info", all_transforms(), ids=lambda t: t.name)
by_code = pytest.mark.parametrize("code", CODES.values(), ids=lambda c: c.code)


def squeezed(text: str) -> str:
    return " ".join(text.split())


def run(*args: str) -> str:
    result = CliRunner().invoke(cli.main, list(args))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("path", docs.PAGES, ids=lambda p: p.name)
def test_pages_have_the_present_tables(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert docs.with_tables(page, docs.PAGES[path]) == page, "run `make docs`"


def test_the_example_for_contributors_works() -> None:
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^   ```python\n(.*?)^   ```$", page, re.MULTILINE | re.DOTALL)
    shown: dict[str, Any] = {}
    exec(textwrap.dedent(code), shown)
    state = recognise(read(script({}), 120))
    edited = state.after(shown["apply"](state).edits, None).tree.code
    line = shown["INFO"].after.partition("\n")[0]
    assert set(edited.splitlines()) - set(script({}).splitlines()) == {f"    {line}", "import sys"}
    with pytest.raises(shown["NotNeeded"]):
        shown["apply"](recognise(read(script({"setup": f"{line}\ndevice = 'cpu'"}), 120)))


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 8_000


def test_the_glossary_is_short() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert 0 < len(re.findall(r"^\| (?!word)\w", page, re.MULTILINE)) <= 15


@pytest.mark.parametrize("path", [README, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert not [t for t in targets if not (path.parent / t).exists()]
    assert "OWNER" not in path.read_text(encoding="utf-8")


def test_page_of_settings_shows_every_key(tmp_path: Path) -> None:
    shown = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "settings.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    (tmp_path / "pyproject.toml").write_text(shown[1], encoding="utf-8")
    chosen = settings_of(tmp_path)
    assert {f.name for f in dataclasses.fields(chosen) if getattr(chosen, f.name) is None} == {"select"}


def test_page_of_speeds_shows_the_results() -> None:
    for module in (docs.speed_page, docs.results_page):
        assert module.page() == module.PAGE.read_text(encoding="utf-8"), "run `make docs`"


def test_every_file_of_rules_is_in_the_list() -> None:
    modules = {m.name for m in pkgutil.iter_modules([str(ROOT / "transformer" / "advise" / "rules")])}
    assert {r.find.__module__.rpartition(".")[2] for r in RULES} == modules


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_explain_knows_every_piece_of_advice(rule: Rule) -> None:
    text = squeezed(run("explain", rule.code))
    for part in (rule.code, rule.weight, rule.title, rule.reason, rule.instead, rule.bad[0].code, rule.good[0].code):
        assert squeezed(part) in text


def test_every_file_of_transforms_is_in_the_order() -> None:
    files = (ROOT / "transformer" / "transforms").rglob("*.py")
    modules = {p.stem for p in files if "\nTRANSFORM = " in p.read_text(encoding="utf-8")}
    assert {t.name.replace("-", "_") for t in all_transforms()} == modules


def test_transforms_lists_all_in_order() -> None:
    lines = run("transforms").splitlines()
    assert [line.split()[0] for line in lines] == [t.name for t in all_transforms()]
    for line, info in zip(lines, all_transforms(), strict=True):
        assert info.summary in line


def test_explain_lists_under_headings() -> None:
    lines = run("explain").splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["transforms", "diagnostics", "advice"]
    assert all(any(line.startswith(f"  {t.name} ") for line in lines) for t in all_transforms())


@by_name
def test_explain_shows_the_registry(info: TransformInfo) -> None:
    text = run("explain", info.name)
    assert info.summary in squeezed(text)
    assert squeezed(info.safety) in squeezed(text)
    for condition in re.split(r"; (?:and )?|\. ", info.applies):
        assert squeezed(condition) in squeezed(text)
    for example in (info.before, info.after):
        assert squeezed(example) in squeezed(text)


@by_code
def test_explain_knows_every_code(code: Code) -> None:
    text = squeezed(run("explain", code.code.lower()))
    for part in (code.code, code.severity, code.title, code.reason, code.advice):
        assert squeezed(part) in text


def test_explain_refuses_what_it_does_not_know() -> None:
    result = CliRunner().invoke(cli.main, ["explain", "LC0001"])
    assert result.exit_code == 2
    assert "did you mean 'LC001'?" in result.stderr


@by_name
def test_summary_is_one_line_without_full_stop(info: TransformInfo) -> None:
    assert info.summary
    assert "\n" not in info.summary
    assert not info.summary.endswith(".")


@by_name
def test_example_is_python_and_shows_a_change(info: TransformInfo) -> None:
    assert ast.dump(ast.parse(info.before)) != ast.dump(ast.parse(info.after))


@by_name
def test_needs_come_earlier(info: TransformInfo) -> None:
    names = [t.name for t in all_transforms()]
    assert set(info.needs) <= set(names[: names.index(info.name)])


@by_code
def test_every_code_is_raised_somewhere(code: Code) -> None:
    sources = (p.read_text(encoding="utf-8") for p in (ROOT / "transformer").rglob("*.py"))
    assert sum(source.count(f'"{code.code}"') for source in sources) > 1, "declared, but never raised"


def test_commands_of_the_readme_exist() -> None:
    readme = "".join(p.read_text(encoding="utf-8") for p in (README, *(ROOT / "docs").glob("*.md")))
    mentioned = set(re.findall(r"`lean-convert ([a-z]+)\b(?![./])", readme))
    assert mentioned <= set(cli.COMMANDS)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", readme)) <= targets


def test_templates_are_packaged_and_fit_every_encoding() -> None:
    found = [f for f in (importlib.resources.files("transformer.templates") / "emitted").iterdir() if f.is_file()]
    assert found
    for template in found:
        if template.name.endswith(".py.j2"):
            assert template.read_text(encoding="utf-8").isascii(), template.name
