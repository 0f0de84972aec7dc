"""The real command on real files, in its own processes."""

import json
import subprocess
import sys
from pathlib import Path

import golden
import pytest
from click.testing import CliRunner

from transformer import cli
from transformer.syntax import header

FIXTURE = golden.FIXTURES / "in_main.py"


def written(fixture: Path, source: str | None = None) -> bytes:
    """The golden conversion of a fixture with its header, as it is written."""
    return header.add((golden.CONVERTED / fixture.name).read_text(encoding="utf-8"), source or fixture.name).encode()


def lean_convert(
    *args: str | Path, stdin: bytes | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "transformer", *map(str, args)]
    return subprocess.run(command, input=stdin, cwd=cwd, capture_output=True, check=False)


def test_fixture_to_file(tmp_path: Path) -> None:
    out = tmp_path / "out.py"
    assert lean_convert(FIXTURE, "-o", out).returncode == 0
    assert out.read_bytes() == written(FIXTURE)
    again = lean_convert(FIXTURE, "-o", out)
    assert again.returncode == 0, "its own output may be overwritten"
    other = lean_convert(golden.FIXTURES / "plain_prints.py", "-o", out)
    assert other.returncode == 0, "another conversion is recognised as such"


def test_fixture_through_pipes(tmp_path: Path) -> None:
    result = lean_convert("-", stdin=FIXTURE.read_bytes(), cwd=tmp_path)  # no project sets the line length there
    assert result.stdout == written(FIXTURE, header.NO_FILE)


def test_carriage_returns_and_byte_order_mark_are_kept(tmp_path: Path) -> None:
    script, out = tmp_path / "ppo.py", tmp_path / "out.py"
    script.write_bytes(b"\xef\xbb\xbf" + FIXTURE.read_bytes().replace(b"\n", b"\r\n"))
    assert lean_convert(script, "-o", out).returncode == 0
    assert out.read_bytes() == b"\xef\xbb\xbf" + written(FIXTURE, "ppo.py").replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "LC001"),
        (b"\n\n# nothing\n", "LC001"),
        (b"def f(:\n", "LC001"),
        (b"x = 1\n  y = 2\n", "LC001"),
        (b"\x89PNG\r\n\x1a\n\0\0", "LC001"),
        (b"\xff\xfe\x00x", "LC001"),
        (b"print('hello')\n", "LC004"),
        (b"import jax\nimport flax\n\n@jax.jit\ndef update(x):\n    return x\n", "LC003"),
    ],
)
def test_refused_files(tmp_path: Path, content: bytes, code: str) -> None:
    script, out = tmp_path / "script.py", tmp_path / "out.py"
    script.write_bytes(content)
    result = CliRunner().invoke(cli.main, ["convert", str(script), "-o", str(out)])
    errors = result.stderr
    assert result.exit_code == 1
    assert f" {code} " in errors
    assert errors.startswith(f"{script}:")
    assert "Traceback" not in errors
    assert not out.exists()


def test_converting_twice_says_so(tmp_path: Path) -> None:
    result = lean_convert(golden.CONVERTED / FIXTURE.name, "-o", tmp_path / "out.py")
    assert result.returncode == 1
    assert " LC002 " in result.stderr.decode()


def test_impossible_selection() -> None:
    result = lean_convert(FIXTURE, "--ignore", "flags", "--format", "json")
    assert result.returncode == 2
    assert "needs flags" in result.stderr.decode()


def test_ignored_transforms_are_left_out(tmp_path: Path) -> None:
    result = lean_convert(FIXTURE, "--ignore", "measure", "-o", tmp_path / "out.py", "--format", "json")
    (entry,) = json.loads(result.stdout)["scripts"]
    outcomes = {t["name"]: t["outcome"] for t in entry["transforms"]}
    assert outcomes.pop("measure") == "not selected"
    assert "applied" in outcomes.values()


def printed(script: Path, *args: str) -> list[str]:
    """The lines that a script prints, except those about its speed."""
    done = subprocess.run(
        [sys.executable, script, *args], cwd=script.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if "SPS" not in line]


@pytest.mark.slow
def test_only_the_order_of_minibatches_changes_the_output(tmp_path: Path) -> None:
    original, torchs, numpys = (tmp_path / name for name in ("ppo.py", "torchs.py", "numpys.py"))
    original.write_bytes((golden.FIXTURES / "gym_classic_discrete.py").read_bytes())
    assert b"--ignore shuffle" in lean_convert(original, "-o", torchs).stdout
    assert b"--ignore shuffle" not in lean_convert(original, "-o", numpys, "--ignore", "shuffle").stdout
    batch = 4 * 16
    args = ["--num-steps", "16", "--total-timesteps", str(20 * batch)]
    expected = printed(original, *args)
    assert printed(numpys, *args) == expected
    other = printed(torchs, *args)
    steps = [int(line.split()[0].removeprefix("step=")) for line in expected]
    first = [line for line, step in zip(expected, steps, strict=True) if step <= batch]
    assert first and other[: len(first)] == first, "before the first minibatch nothing differs"
    assert other != expected


@pytest.mark.slow
def test_several_fixtures_in_one_call(tmp_path: Path) -> None:
    fixtures = sorted(golden.FIXTURES.glob("*.py"))[:4]
    assert lean_convert(*fixtures, "--output-dir", tmp_path).returncode == 0
    for fixture in fixtures:
        assert (tmp_path / fixture.name).read_bytes() == written(fixture)


@pytest.mark.parametrize("args", [["--help"], ["transforms"], ["explain", "LC001"], [str(FIXTURE)]])
def test_nothing_heavy_is_imported(args: list[str]) -> None:
    code = (
        "import sys; from transformer.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "print(sorted({'torch', 'numpy', 'tensordict', 'gym'} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, check=True)
    assert result.stderr.decode().splitlines()[-1] == "[]"
