"""`lean-convert diff --edits OUT`: shows user edits of a converted script, without needing the original."""

import subprocess
from pathlib import Path

import conversions
import pytest
from click.testing import CliRunner

from transformer.cli import main
from transformer.conversion import pipeline
from transformer.syntax import header


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script and its conversion, in which the user changed a number."""
    monkeypatch.setattr(pipeline, "convert", conversions.convert)
    monkeypatch.chdir(tmp_path)
    Path("ppo.py").write_text("x = 1\ny = 2\n")
    assert run("ppo.py", "-o", "out.py").exit_code == 0
    edit("x = 1", "x = 3")


def run(*args, **options):
    return CliRunner().invoke(main, args, **options)


def edit(old, new, file="out.py"):
    content = Path(file).read_bytes()
    assert old.encode() in content
    Path(file).write_bytes(content.replace(old.encode(), new.encode()))


def signs(text):
    return [line.split(None, 1)[1] for line in text.splitlines() if line.split()[1:2] in (["-"], ["+"])]


EDIT = ["- x = 1", "+ x = 3"]


def test_the_edit_is_shown():
    result = run("diff", "--edits", "out.py")
    assert (result.exit_code, signs(result.stdout)) == (0, EDIT)


@pytest.mark.parametrize("crlf", ["ppo.py", "out.py"])
def test_line_ends_are_no_edit(crlf):
    edit("\n", "\r\n", crlf)
    assert signs(run("diff", "--edits", "out.py").stdout) == EDIT


def test_what_was_not_edited_is_said_to_be_so():
    edit("x = 3", "x = 1")
    Path("ppo.py").unlink()
    result = run("diff", "--edits", "out.py")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "out.py was not edited" in result.stderr


def test_white_space_at_line_ends_is_named():
    edit("x = 3", "x = 1 ")
    result = run("diff", "--edits", "out.py")
    assert "whitespace" in result.stderr
    assert "+x = 1 " in run("diff", "--edits", "out.py", "--patch").stdout.splitlines()


def test_the_source_is_given_where_it_is_elsewhere():
    Path("src").mkdir()
    Path("ppo.py").rename("src/ppo.py")
    missing = run("diff", "--edits", "out.py")
    assert missing.exit_code == 2
    assert "was converted from ppo.py, which is not next to it: give its source" in missing.stderr
    assert signs(run("diff", "src/ppo.py", "--edits", "out.py").stdout) == EDIT
    assert signs(run("diff", "--edits", "out.py", "-", input=Path("src/ppo.py").read_bytes()).stdout) == EDIT


def test_a_result_of_the_same_name_is_not_its_own_source():
    Path("out.py").rename("ppo.py")
    assert "not next to it" in run("diff", "--edits", "ppo.py").stderr


def test_what_came_from_standard_input_names_no_source():
    Path("out.py").write_text(run("-", input="x = 1\n").stdout.replace("x = 1", "x = 3"))
    result = run("diff", "--edits", "out.py")
    assert result.exit_code == 2
    assert "from standard input" in result.stderr
    assert signs(run("diff", "--edits", "out.py", "-", input="x = 1\n").stdout) == EDIT


def test_a_source_that_changed_as_well_tells_nothing():
    Path("ppo.py").write_text("x = 1\ny = 4\n")
    result = run("diff", "--edits", "out.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "ppo.py does not convert to the original text of out.py: it has changed since" in result.stderr
    assert "version" not in result.stderr
    Path("ppo.py").write_text("REFUSE\n")
    refused = run("diff", "--edits", "out.py")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "LC004" in refused.stderr


def test_another_version_is_named_only_where_its_result_differs():
    source = Path("ppo.py").read_text()
    older = header.add(conversions.convert(source).source, "ppo.py", "0.0.1")
    Path("out.py").write_text(older.replace("x = 1", "x = 3"))
    assert signs(run("diff", "--edits", "out.py").stdout) == EDIT
    older = header.add(conversions.convert(source, line_length=9).source, "ppo.py", "0.0.1")
    Path("out.py").write_text(older.replace("x = 1", "x = 3"))
    assert "by version 0.0.1" in run("diff", "--edits", "out.py").stderr


@pytest.mark.parametrize("content", ["x = 1\n", "\0"])
def test_what_was_not_written_by_this_tool(content):
    Path("out.py").write_text(content)
    result = run("diff", "--edits", "out.py")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("Error: out.py")


def test_the_script_is_needed_without_it():
    result = run("diff")
    assert result.exit_code == 2
    assert "Missing argument 'SCRIPT'" in result.stderr


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_edits_are_carried_over_to_another_conversion_as_a_patch(line_end):
    Path("ppo.py").write_bytes(("x = 1\n" + "z = 0\n" * 9 + "y = 2\n").replace("\n", line_end).encode())
    run("ppo.py", "-o", "out.py", "--force")
    edit("y = 2", "y = 5")
    patch = run("diff", "--edits", "out.py", "--patch").stdout_bytes
    edit("x = 1", "x = 7", "ppo.py")
    assert run("ppo.py", "-o", "out.py", "--force").exit_code == 0
    subprocess.run(["git", "apply"], input=patch, check=True)
    assert {"x = 7", "y = 5"} < set(Path("out.py").read_text().splitlines())
    assert run("ppo.py", "-o", "out.py").exit_code == 2, "it holds edits, and is protected"
