import json
import os
import pty
import subprocess
import sys
import webbrowser
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner
from hand_made import COMPILE, ORIGINAL, hand_made
from test_verified import REPORT

from transformer.cli import main
from transformer.conversion import pipeline
from transformer.conversion.result import Conversion
from transformer.conversion.selection import SelectionError
from transformer.syntax import header
from transformer.syntax.diagnostics import Diagnostic
from transformer.transforms import ORDER

FIXTURE = Path(__file__).parents[2] / "fixtures" / "renamed.py"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script, and a converter that knows its conversion."""

    def convert(source, *, select=None, ignore=None, line_length=127):
        if "nonsense" in (select or ()):
            raise SelectionError("there is no transform named 'nonsense'")
        if source == ORIGINAL:
            return hand_made()
        code = "LC002" if source == COMPILE else "LC004"
        return Conversion(source, diagnostics=(Diagnostic(1, 1, code, "refused"),))

    monkeypatch.setattr(pipeline, "convert", convert)
    path = tmp_path / "train.py"
    path.write_text(ORIGINAL, encoding="utf-8")
    return path


def run(*args, **options):
    return CliRunner().invoke(main, [str(a) for a in args], **options)


def test_the_story_is_plain_when_piped(script):
    result = run("diff", script)
    assert result.exit_code == 0
    assert "3/4 rollout" in result.stdout
    assert "\x1b" not in result.stdout


def test_context_is_chosen(script):
    assert "import numpy" not in run("diff", script, "-U", 1).stdout
    assert "import numpy" in run("diff", script, "-U", 100).stdout


def test_transforms_are_chosen_by_name(monkeypatch):
    names = [transform.info.name for transform in ORDER]
    result = run("diff", FIXTURE, "--transform", "shuffle,gae")
    assert [name for name in names if f" {name}  +" in result.stdout] == ["shuffle", "gae"]
    result = run("diff", FIXTURE, "--transform", "replay,lstm-cells")
    assert result.exit_code == 0
    told = [line.partition(" does not apply: ") for line in result.stderr.splitlines()]
    assert [name for name, _, why in told if why] == ["lstm-cells", "replay"]
    result = run("diff", FIXTURE, "--transform", "shufle")
    assert result.exit_code == 2
    assert "there is no transform named 'shufle'; did you mean 'shuffle'?" in result.stderr


def test_total_is_one_flat_diff(script):
    text = run("diff", script, "--total").stdout
    assert text.count("def rollout(") == 1
    assert "Safe:" not in text


def test_stat_is_a_table(script):
    assert run("diff", script, "--stat").stdout.splitlines()[-1].split()[0] == "total"
    assert len(run("diff", script, "--stat", "--total").stdout.splitlines()) == 2


def test_side_by_side_says_where_it_does_not_fit(script):
    narrow = run("diff", script, "--side-by-side", env={"COLUMNS": "80"})
    assert "needs 120 columns" in narrow.stderr
    assert " │ " not in narrow.stdout
    wide = run("diff", script, "--side-by-side", env={"COLUMNS": "160"})
    assert wide.stderr == ""
    assert " │ " in wide.stdout


def test_the_patch_applies(script):
    patch = run("diff", script, "--patch")
    subprocess.run(["patch", "-p1"], cwd=script.parent, input=patch.stdout_bytes, check=True, capture_output=True)
    assert script.read_text() == COMPILE


def test_the_patch_series_is_written_once(script, tmp_path):
    folder = tmp_path / "a" / "series"
    result = run("diff", script, "--patch-series", folder)
    names = ["0001-flags.patch", "0002-rate.patch", "0003-rollout.patch", "0004-compile.patch"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert result.stdout.splitlines() == [str(folder / name) for name in names]
    again = run("diff", script, "--patch-series", folder)
    assert again.exit_code == 2
    assert "not empty" in again.stderr


@pytest.mark.parametrize(("source", "code"), [(ORIGINAL, 1), (COMPILE, 0)])
def test_check_says_by_its_exit_code_whether_the_file_would_change(script, source, code):
    script.write_text(source, encoding="utf-8")
    result = run("diff", script, "--check")
    assert (result.exit_code, result.output) == (code, "")


@pytest.mark.parametrize("command", [["diff"], ["diff", "--check"], ["diff", "--html", "page.html"], ["blame"]])
def test_a_refused_script_is_reported(script, command):
    script.write_text("pass\n", encoding="utf-8")
    result = run(command[0], script, *command[1:])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"{script}:1:1: LC004 refused" in result.stderr
    assert not Path("page.html").exists()


@pytest.mark.parametrize("command", ["diff", "blame"])
def test_bytes_that_are_no_text_are_reported(script, command):
    script.write_bytes(b"\0")
    result = run(command, script)
    assert result.exit_code == 1
    assert "LC001" in result.stderr


def test_standard_input_is_a_script(script):
    assert "3/4 rollout" in run("diff", "-", input=ORIGINAL).stdout
    assert "+++ b/stdin.py" in run("diff", "-", "--patch", input=ORIGINAL).stdout
    assert "moved: rollout" in run("blame", "-", input=ORIGINAL).stdout


def test_blame_prints_the_converted_script(script):
    lines = run("blame", script).stdout.splitlines()
    assert [line.split("│ ", 1)[1] for line in lines] == COMPILE.splitlines()


def scripts(**changed):
    """Names and digests as in a verification of the made-up conversion; `changed` replaces texts."""
    texts = {"original": ORIGINAL, "converted": hand_made().source} | changed
    return {k: {"name": "other.py", "digest": sha256(v.encode()).hexdigest()} for k, v in texts.items()}


@pytest.mark.parametrize(
    ("proof", "message"),
    [
        ({"scripts": scripts(original="another")}, "of another script, other.py"),
        ({"scripts": scripts(converted="another")}, "is not the conversion that is shown here: it was edited"),
        ({}, "does not say which"),
    ],
)
def test_the_proof_of_another_script_is_refused(script, tmp_path, proof, message):
    report, page = tmp_path / "verified.json", tmp_path / "page.html"
    report.write_text(json.dumps(REPORT | proof), encoding="utf-8")
    result = run("diff", script, "--html", page, "--verified", report)
    assert (result.exit_code, page.exists()) == (2, False)
    assert message in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("written", [False, True])
def test_the_page_is_written_with_the_verification(script, tmp_path, written):
    report = tmp_path / "verified.json"
    seen = scripts()
    if written:  # `convert -o` puts a header above it
        seen["converted"]["digest"] = header.digest(header.add(hand_made().source, "train.py"))
    report.write_text(json.dumps(REPORT | {"scripts": seen}), encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text("an older page", encoding="utf-8")
    assert run("diff", script, "--html", page, "--verified", report).exit_code == 0
    assert "train.py" in page.read_text(encoding="utf-8")
    assert "Both runs were served the same permutations." in page.read_text(encoding="utf-8")


def test_open_shows_the_page(script, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert run("diff", script, "--open").exit_code == 0
    (url,) = opened
    assert url.startswith("file:///")
    assert "train.py" in Path(url.removeprefix("file://")).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--patch", "--stat"], "--stat and --patch exclude each other"),
        (["--html", "x.html", "--patch-series", "x"], "exclude each other"),
        (["--open", "--check"], "exclude each other"),
        (["--transform", "gae", "--patch"], "--transform works only with"),
        (["--verified", __file__], "--verified needs"),
        (["--html", "x.html", "--verified", __file__], "not JSON"),
        (["--select", "nonsense"], "no transform named"),
        (["--html", "."], "is a directory"),
    ],
)
def test_impossible_usage_is_refused(script, options, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("diff", script, *options)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_second_script_is_no_edit(script):
    result = run("diff", script, "out.py")
    assert result.exit_code == 2
    assert "`lean-convert diff --edits out.py` shows" in result.stderr


def test_the_script_is_never_overwritten(script):
    result = run("diff", script, "--html", script)
    assert result.exit_code == 2
    assert script.read_text() == ORIGINAL


@pytest.mark.slow
def test_a_pager_is_used_on_a_terminal(tmp_path):
    """On a terminal, the diff of a real script is coloured and piped into the pager."""
    pager = tmp_path / "less"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    pager.chmod(0o755)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NO_COLOR": "", "PAGER": str(pager), "TERM": "xterm", "LINES": "24", "COLUMNS": "100"}
    command = [sys.executable, "-m", "transformer", "diff", str(FIXTURE)]
    subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, check=True, timeout=60)
    os.close(theirs)
    os.close(ours)
    paged = (tmp_path / "paged").read_text(encoding="utf-8")
    assert "extract the rollout loop" in paged
    assert "\x1b[32m+" in paged
