"""Commands write complete files or none, and report an unwritable destination before they start to work."""

import json
import os
from pathlib import Path

import conversions
import pytest
from click.testing import CliRunner, Result

from transformer import cli
from transformer.commands import bench, diff, output, verify
from transformer.conversion import pipeline
from transformer.conversion.settings import SettingsError


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(a) for a in args])


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pipeline, "convert", conversions.convert)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    path = Path("ppo.py")
    path.write_text("x = 1\n")
    return path


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if anything is converted, run or measured."""

    def worked(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(pipeline, "convert", worked)
    monkeypatch.setattr(verify, "run_checks", worked)
    monkeypatch.setattr(bench, "line_up", worked)


def closed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make a folder read as not writable: the tests may run as root, who could write anyway."""
    may = os.access

    def access(path: Path, mode: int) -> bool:
        return not (mode & os.W_OK and Path(path).resolve() == folder.resolve()) and may(path, mode)

    monkeypatch.setattr(os, "access", access)


COMMANDS = [
    ["convert", "ppo.py", "-o", "closed/out"],
    ["convert", "ppo.py", "--output-dir", "closed/out"],
    ["convert", "ppo.py", "--output-dir", "closed"],
    ["diff", "ppo.py", "--html", "closed/out"],
    ["diff", "ppo.py", "--html", "closed/new/out"],
    ["diff", "ppo.py", "--patch-series", "closed/out"],
    ["verify", "ppo.py", "--report", "closed/out"],
    ["verify", "ppo.py", "--report", "closed"],
    ["bench", "ppo.py", "--plot", "closed/out.png"],
]


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_a_folder_that_is_closed_is_told_before_the_work(
    script: Path, args: list[str], monkeypatch: pytest.MonkeyPatch, no_work: None
) -> None:
    Path("closed").mkdir()
    closed(monkeypatch, Path("closed"))
    result = run(*args)
    assert result.exit_code == 2, (result.output, result.exception)
    assert "closed cannot be written to: " in result.output
    assert not any(Path("closed").iterdir())


@pytest.mark.parametrize("args", [a for a in COMMANDS if a[:3] != ["convert", "ppo.py", "-o"]], ids=" ".join)
def test_a_file_where_a_folder_should_be(script: Path, args: list[str], no_work: None) -> None:
    Path("closed").touch()
    result = run(*args)
    assert result.exit_code == 2, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert "closed" in result.output


@pytest.mark.parametrize("name", ["plot.nonsense", "plot"])
def test_what_is_no_picture_is_told_before_the_work(script: Path, no_work: None, name: str) -> None:
    result = run("bench", script, "--plot", name)
    assert (result.exit_code, "does not have the extension of a picture" in result.output) == (2, True), result.output


def test_a_verification_that_is_none_is_told_before_the_work(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "convert_script", lambda *_, **__: pytest.fail("the work has begun"))
    assert run("diff", script, "--html", "page.html", "--verified", script).exit_code == 2


def test_a_page_says_its_name_and_is_whole(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("diff", script, "--html", "page.html")
    assert (result.exit_code, result.stderr) == (0, "wrote page.html\n"), result.output
    before = Path("page.html").read_bytes()
    full(monkeypatch)
    result = run("diff", script, "--html", "page.html")
    assert (result.exit_code, "No space left" in result.output) == (2, True)
    assert Path("page.html").read_bytes() == before
    assert {p.name for p in Path().iterdir()} == {"ppo.py", "page.html"}


def test_of_a_series_all_or_nothing_is_written(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(monkeypatch, after=1)
    result = run("diff", script, "--patch-series", "series")
    assert (result.exit_code, "No space left" in result.output) == (2, True), result.output
    assert not any(Path("series").iterdir())


def full(monkeypatch: pytest.MonkeyPatch, *, after: int = 0) -> None:
    """Let the disk be full once `after` files have been written."""
    real, written = os.fsync, []

    def fsync(handle: int) -> None:
        if len(written) >= after:
            raise OSError(28, "No space left on device")
        written.append(handle)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)


class TestSeveral:
    """One failing file does not stop the others, and the last line counts the failures."""

    @pytest.fixture
    def three(self, script: Path) -> list[str]:
        for name, code in (("a.py", "x = 1\n"), ("b.py", "REFUSE\n"), ("c.py", "x = 2\n")):
            Path(name).write_text(code)
        return ["a.py", "b.py", "c.py"]

    def test_refused_ones_are_counted(self, three: list[str]) -> None:
        result = run(*three, "--output-dir", "out")
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1] == "2 converted, 1 refused"
        assert sorted(p.name for p in Path("out").iterdir()) == ["a.py", "c.py"]

    def test_all_converted(self, three: list[str]) -> None:
        assert run("a.py", "c.py", "--output-dir", "out").stdout.splitlines()[-1] == "2 converted"

    def test_one_that_is_not_there_or_a_folder(self, three: list[str]) -> None:
        Path("folder.py").mkdir()
        result = run("nowhere.py", *three, "folder.py", "--output-dir", "out")
        assert result.exit_code == 2
        assert "File 'nowhere.py' does not exist." in result.stderr
        assert "folder.py cannot be read: Is a directory" in result.stderr
        assert result.stderr.splitlines()[-1] == "2 converted, 1 refused, 2 failed"
        assert sorted(p.name for p in Path("out").iterdir()) == ["a.py", "c.py"]

    @pytest.mark.parametrize("error", [ValueError("oops"), SettingsError("bad settings"), RecursionError()])
    def test_one_that_lean_convert_fails_on(
        self, three: list[str], error: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def convert(source: str, **options: object) -> object:
            if source == "REFUSE\n":
                raise error
            return conversions.convert(source)

        monkeypatch.setattr(pipeline, "convert", convert)
        result = run(*three, "--output-dir", "out")
        assert result.exit_code == 2
        assert f"b.py: {error}" in result.stderr or f"b.py: {error!r}; `lean-convert b.py`" in result.stderr
        assert result.stderr.splitlines()[-1] == "2 converted, 1 failed"
        assert sorted(p.name for p in Path("out").iterdir()) == ["a.py", "c.py"]

    def test_one_that_cannot_be_written(self, three: list[str]) -> None:
        Path("out").mkdir()
        Path("out/a.py").write_text("mine = 1\n")
        result = run("a.py", "c.py", "--output-dir", "out")
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "1 converted, 1 failed")
        assert Path("out/a.py").read_text() == "mine = 1\n" and Path("out/c.py").exists()

    def test_a_report_for_machines_is_nothing_else(self, three: list[str]) -> None:
        result = run(*three, "--output-dir", "out", "--format", "json")
        assert len(json.loads(result.stdout)["scripts"]) == 3


def test_a_device_is_written_to(tmp_path: Path) -> None:
    output.check_target(Path("/dev/null"), [])
    output.write(Path("/dev/null"), b"x")
