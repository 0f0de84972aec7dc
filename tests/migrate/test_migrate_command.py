"""`lean-convert migrate`: files, streams, exit codes, messages."""

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from transformer import cli
from transformer.migrate.differences import DIFFERENCES

DATA = Path(__file__).parent / "data" / "atari_wrappers.py"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    path = tmp_path / "ppo.py"
    path.write_bytes(DATA.read_bytes())
    return path


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["migrate", *map(str, args)])


def test_a_file_is_written_and_all_differences_are_listed(script: Path) -> None:
    result = run(script, "-o", "out.py")
    assert result.exit_code == 0, result.output
    assert "envpool.make(" in Path("out.py").read_text()
    assert "results are not equal" in result.stdout
    for difference in DIFFERENCES:
        assert all(part in result.stdout for part in difference)
    assert "lean-convert out.py -o out_lean.py" in result.stdout
    assert script.read_bytes() == DATA.read_bytes()


def test_the_script_goes_to_standard_output_and_the_report_beside_it(script: Path) -> None:
    result = run(script)
    assert ast.parse(result.stdout)
    assert "results are not equal" in result.stderr
    assert run(script, "-q").stderr == ""


def test_a_patch(script: Path) -> None:
    result = run(script, "--diff", "-o", "out.py")
    assert result.exit_code == 0 and not Path("out.py").exists()
    assert "+import envpool\n" in result.stdout and "-def game(name, index, film, folder):\n" in result.stdout


def test_a_refusal_names_its_line_and_writes_nothing(script: Path) -> None:
    script.write_text(script.read_text().replace("skip=4", "skip=2"))
    line = 1 + script.read_text()[: script.read_text().index("skip=2")].count("\n")
    result = run(script, "-o", "out.py")
    assert result.exit_code == 1 and not Path("out.py").exists()
    assert f"ppo.py:{line}:" in result.stderr and "LC201 MaxAndSkipEnv is given 2" in result.stderr


def test_files_are_not_overwritten(script: Path) -> None:
    Path("out.py").write_text("mine = 1\n")
    assert run(script, "-o", "out.py").exit_code == 2
    assert Path("out.py").read_text() == "mine = 1\n"
    assert run(script, "-o", "out.py", "--force").exit_code == 0
    assert run(script, "-o", script, "--force").exit_code == 2


@pytest.mark.parametrize("content", [b"\0", b"x = ("])
def test_no_script(script: Path, content: bytes) -> None:
    script.write_bytes(content)
    result = run(script)
    assert result.exit_code == 1 and "LC001" in result.stderr
