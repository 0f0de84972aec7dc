"""The command line with a small stand-in converter: streams, files, exit codes and reports."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import conversions
import pytest
from click.testing import CliRunner, Result

from transformer import cli, commands
from transformer.conversion import pipeline
from transformer.syntax import header
from transformer.syntax.diagnostics import CODES


def written(content: str, source: str = "ppo.py", line_length: int = 127) -> str:
    """The file that the small converter writes for a script, header included."""
    return header.add(conversions.convert(content, line_length=line_length).source, source)


@pytest.fixture(autouse=True)
def small_converter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pipeline, "convert", conversions.convert)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "ppo.py"
    path.write_text("x = 1\n")
    return path


def run(*args: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli.main, [str(a) for a in args], input=stdin)


def test_an_interrupt_is_no_verdict(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "convert", interrupted)
    result = run(script)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "Interrupted" in result.stderr


class TestStreams:
    def test_source_to_stdout_and_report_to_stderr(self, script: Path) -> None:
        result = run(script)
        assert result.exit_code == 0
        assert result.stdout == written("x = 1\n")
        assert "flags is done" in result.stderr
        assert "python CONVERTED.py --compile" in result.stderr

    def test_standard_input(self) -> None:
        result = run("-", stdin=b"x = 1\r\n")
        assert result.exit_code == 0
        assert result.stdout_bytes == written("x = 1\r\n", "<stdin>").encode()

    def test_standard_input_in_diagnostics(self) -> None:
        assert "<stdin>:3:5: LC004" in run("-", stdin=b"REFUSE").stderr

    def test_standard_output_by_name(self, script: Path) -> None:
        assert run(script, "-o", "-").stdout == run(script).stdout
        assert not Path("-").exists()

    @pytest.mark.parametrize("codec", ["utf-8-sig", "latin-1"])
    def test_bytes_are_kept(self, script: Path, codec: str) -> None:
        content = ("# coding: latin-1\r\n" if codec == "latin-1" else "") + "x = 'é'\r\n"
        script.write_bytes(content.encode(codec))
        assert run(script, "-o", "out.py").exit_code == 0
        assert run(script).stdout_bytes == Path("out.py").read_bytes()
        assert Path("out.py").read_bytes().decode(codec) == written(content)

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    def test_closed_pipe_is_an_error_and_no_traceback(self, script: Path, unbuffered: str) -> None:
        script.write_text("x = 1\n" * 100_000)
        code = (
            "import conversions; from transformer import cli; from transformer.conversion import pipeline;"
            f"pipeline.convert = conversions.convert; cli.main([{str(script)!r}])"
        )
        helpers = str(Path(conversions.__file__).parent)
        environment = {**os.environ, "PYTHONPATH": helpers, "PYTHONUNBUFFERED": unbuffered}
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        _, errors = process.communicate()
        assert process.returncode == 2
        assert b"Error: standard output cannot be written: Broken pipe" in errors
        assert b"Traceback" not in errors
        assert b"ignored" not in errors


class TestFiles:
    def test_output_file(self, script: Path) -> None:
        result = run(script, "-o", "out.py")
        assert result.exit_code == 0
        assert Path("out.py").read_text() == written("x = 1\n")
        assert "python out.py --compile" in result.stdout
        assert script.read_text() == "x = 1\n"

    def test_executable_script_gives_executable_output(self, script: Path) -> None:
        script.chmod(0o755)
        run(script, "-o", "out.py")
        assert Path("out.py").stat().st_mode & 0o111 == 0o111

    def test_same_command_twice(self, script: Path) -> None:
        assert run(script, "-o", "out.py").exit_code == 0
        script.write_text("x = 2\n")
        assert run(script, "-o", "out.py").exit_code == 0
        assert Path("out.py").read_text() == written("x = 2\n")

    def test_what_was_edited_since_needs_force(self, script: Path) -> None:
        Path("out.py").write_text(run(script).stdout.replace("x = 1", "x = 3"))
        result = run(script, "-o", "out.py")
        assert result.exit_code == 2
        assert "was edited since" in result.stderr
        assert f"lean-convert diff --edits {Path('out.py').resolve()}" in result.stderr
        assert "x = 3" in Path("out.py").read_text()
        assert run(script, "-o", "out.py", "--force").exit_code == 0
        assert Path("out.py").read_text() == written("x = 1\n")

    def test_foreign_file_needs_force(self, script: Path) -> None:
        Path("out.py").write_text("mine = 1\n")
        result = run(script, "-o", "out.py")
        assert result.exit_code == 2
        assert "--force" in result.stderr
        assert "python out.py" not in result.output
        assert "transform" not in result.output  # a discarded conversion is not reported
        assert Path("out.py").read_text() == "mine = 1\n"
        assert run(script, "-o", "out.py", "--force").exit_code == 0
        assert Path("out.py").read_text() == written("x = 1\n")

    def test_input_is_never_overwritten(self, script: Path) -> None:
        result = run(script, "-o", script, "--force")
        assert result.exit_code == 2
        assert "is the script itself" in result.stderr
        assert script.read_text() == "x = 1\n"

    def test_refused_script_writes_nothing(self, script: Path) -> None:
        script.write_text("REFUSE\n")
        before = set(Path().iterdir())
        assert run(script, "-o", "out.py").exit_code == 1
        assert run(script, "--output-dir", "out").exit_code == 1
        assert set(Path().iterdir()) == before

    def test_refused_script_prints_nothing_to_stdout(self, script: Path) -> None:
        script.write_text("REFUSE\n")
        assert run(script).stdout == ""

    def test_a_directory_that_is_not_there_is_not_made_for_a_single_file(self, script: Path) -> None:
        result = run(script, "-o", "typo/out.py")
        assert (result.exit_code, Path("typo").exists()) == (2, False)
        assert "typo does not exist" in result.stderr

    @pytest.mark.parametrize("args", [("verify", "ppo.py", "nope.py"), ("diff", "nope.py"), ("bench", "nope.py")])
    def test_a_missing_script_is_told_in_plain_words(self, script: Path, args: tuple[str, ...]) -> None:
        result = run(*args)
        assert result.exit_code == 2
        assert "Error: File 'nope.py' does not exist." in result.stderr

    def test_a_file_with_a_similar_name_is_suggested(self, script: Path) -> None:
        result = run("convert", script.name[:-4] + "x" + script.name[-4:])
        assert f"does not exist. Did you mean {script.name}?" in " ".join(result.stderr.split())

    def test_line_length_of_the_scripts_project(self, script: Path, tmp_path: Path) -> None:
        elsewhere = tmp_path / "project"
        elsewhere.mkdir()
        (elsewhere / "pyproject.toml").write_text("[tool.ruff]\nline-length = 99\n")
        (elsewhere / "ppo.py").write_text("x = 1\n")
        assert "line_length=99" in run(elsewhere / "ppo.py").stdout
        assert "line_length=127" in run(script).stdout


class TestSeveralScripts:
    @pytest.fixture
    def scripts(self, tmp_path: Path) -> list[Path]:
        for name, content in (("a.py", "a = 1\n"), ("b.py", "REFUSE\n"), ("c.py", "WARN\n")):
            (tmp_path / name).write_text(content)
        return [Path(n) for n in ("a.py", "b.py", "c.py")]

    def test_each_is_written_or_reported(self, scripts: list[Path]) -> None:
        result = run(*scripts, "--output-dir", "new/out")
        assert result.exit_code == 1
        assert sorted(p.name for p in Path("new/out").iterdir()) == ["a.py", "c.py"]
        assert "refused: LC004, LC005" in result.stdout
        assert "c.py:2:9: LC101 loss.item() remains" in result.stdout
        assert "b.py:3:5: LC004" in result.stderr

    def test_long_names_are_not_shortened(self, scripts: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "60")
        long = Path("a" * 70 + ".py")
        scripts[0].rename(long)
        report = run(long, scripts[2], "--output-dir", "out").stdout
        assert "…" not in report
        assert report.count("a") >= 2 * 70

    def test_unwritable_output_counts_more_than_a_refusal(self, scripts: list[Path]) -> None:
        Path("out").mkdir()
        Path("out/c.py").write_text("mine\n")
        result = run(*scripts, "--output-dir", "out")
        assert result.exit_code == 2
        assert Path("out/a.py").exists()
        assert "not written" in result.stdout

    def test_output_dir_of_the_inputs(self, scripts: list[Path]) -> None:
        result = run(*scripts, "--output-dir", ".", "--force")
        assert result.exit_code == 2
        assert Path("a.py").read_text() == "a = 1\n"

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["a.py", "b.py"], "--output-dir"),
            (["a.py", "b.py", "-o", "out.py"], "--output-dir"),
            (["a.py", "-o", "out.py", "--output-dir", "out"], "exclude"),
            (["-", "--output-dir", "out"], "standard input"),
            (["a.py", "sub/a.py", "--output-dir", "out"], "a.py"),
        ],
    )
    def test_impossible_targets(self, scripts: list[Path], args: list[str], words: str) -> None:
        Path("sub").mkdir()
        Path("sub/a.py").write_text("x\n")
        result = run(*args)
        assert result.exit_code == 2
        assert words in result.stderr
        assert not Path("out").exists()
        assert not Path("out.py").exists()


class TestUsage:
    @pytest.mark.parametrize(
        "args",
        [
            ["missing.py"],
            ["."],
            ["ppo.py", "-o", "."],
            ["ppo.py", "--select", "nonsense"],
            ["ppo.py", "--ignore", "flags,nonsense"],
            ["ppo.py", "--format", "xml"],
            ["--nonsense"],
            ["transfroms"],
        ],
    )
    def test_exit_code_2_and_a_reason(self, script: Path, args: list[str]) -> None:
        result = run(*args)
        assert result.exit_code == 2
        assert "Error: " in result.stderr
        assert result.stdout == ""

    def test_misspelled_command(self) -> None:
        assert "did you mean 'transforms'?" in run("transfroms").stderr

    def test_script_with_a_commands_like_name(self) -> None:
        Path("transfrom").write_text("x = 1\n")
        assert run("transfrom").exit_code == 0

    def test_names_are_separated_by_commas_or_repeated(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: dict[str, object] = {}

        def record(source: str, **options: object) -> object:
            seen.update(options)
            return conversions.convert(source)

        monkeypatch.setattr(pipeline, "convert", record)
        run(script, "--select", "flags, storage", "--select", "compile")
        assert (seen["select"], seen.get("ignore")) == (("flags", "storage", "compile"), None)

    @pytest.mark.parametrize("args", [["convert", "ppo.py"], ["ppo.py"], ["-q", "ppo.py"], ["--", "ppo.py"]])
    def test_convert_is_the_default_command(self, script: Path, args: list[str]) -> None:
        assert run(*args).stdout == written("x = 1\n")

    @pytest.mark.parametrize("args", [["--help"], ["-h"], ["convert", "--help"]])
    def test_help(self, args: list[str]) -> None:
        result = run(*args)
        assert result.exit_code == 0
        assert "Usage:" in result.stdout

    def test_help_lists_the_commands(self) -> None:
        text = run("--help").stdout
        for name, command in cli.COMMANDS.items():
            assert f"  {name} " in text
            assert command.summary in text

    @pytest.mark.parametrize("name", cli.COMMANDS)
    def test_every_command_is_there(self, name: str) -> None:
        assert f"lean-convert {name}" in CliRunner().invoke(cli.main, [name, "-h"], prog_name="lean-convert").stdout

    def test_every_command_has_its_module(self) -> None:
        files = Path(commands.__file__).parent.glob("*.py")
        modules = {p.stem for p in files if "@click.command(" in p.read_text(encoding="utf-8")}
        assert {c.module for c in cli.COMMANDS.values()} == modules

    def test_command_that_needs_more_than_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "transformer.commands.explain", raising=False)
        monkeypatch.setitem(sys.modules, "difflib", None)
        result = run("explain", "LC001")
        assert result.exit_code == 2
        assert "explain needs difflib, which is not installed" in result.stderr

    @pytest.mark.parametrize("name", ["verify", "bench"])
    def test_help_needs_neither_numpy_nor_torch(self, name: str) -> None:
        code = (
            "import sys; sys.modules.update(dict.fromkeys(('numpy', 'torch', 'tensordict', 'matplotlib'))); "
            f"from transformer.cli import main; main(['{name}', '--help'])"
        )
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "--timeout SECONDS" in shown.stdout

    def test_version(self) -> None:
        assert run("--version").stdout.startswith("lean-convert, version ")


class TestReport:
    def test_table(self, script: Path) -> None:
        rows = [line.split() for line in run(script, "-o", "out.py").stdout.splitlines()]
        assert ["flags", "+1", "-0", "flags", "is", "done"] in rows
        assert ["Two", "flags."] in rows
        held = rows.index(["left", "as", "it", "was,", "because"])
        assert rows[held + 1 : held + 3] == [["storage", "buffers", "of", "[unknown]", "shape"], ["storage", "costs."]]
        assert ["next", "lean-convert", "verify", str(script), "out.py"] in rows

    def test_what_is_not_needed_is_counted_and_told_on_demand(self, script: Path) -> None:
        short, full = (run(script, "-o", "out.py", *more).stdout for more in ((), ("-v",)))
        assert "1 not needed here; -v says why, `lean-convert explain NAME` explains a transform" in short
        assert "nothing to [see]" not in short
        assert "not needed here\n" in full and "nothing to [see]" in full
        assert "do flags" in full and "do flags" not in short

    def test_warnings_have_positions_and_advice(self, script: Path) -> None:
        script.write_text("WARN\n")
        result = run(script, "-o", "out.py")
        assert result.exit_code == 0
        assert f"{script}:2:9: LC101 loss.item() remains\n    {CODES['LC101'].advice}\n" in result.stdout

    def test_all_errors_at_once_with_advice(self, script: Path) -> None:
        script.write_text("REFUSE\n")
        errors = run(script).stderr
        assert f"{script}:3:5: LC004 no [loop] found\n    {CODES['LC004'].advice}\n" in errors
        assert f"{script}:7:1: LC005 two phases\n    {CODES['LC005'].advice}\n" in errors

    def test_long_lines_are_not_wrapped(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "30")
        script.write_text("REFUSE\n")
        assert f"{script}:3:5: LC004 no [loop] found\n    {CODES['LC004'].advice}\n" in run(script).stderr

    def test_the_line_that_is_meant(self, script: Path) -> None:
        script.write_text("# REFUSE\n\nx = [env.step(a)]\n")
        errors = run(script).stderr
        assert "LC004 no [loop] found\n    3 | x = [env.step(a)]\n      |     ^^^^^^^^^^^^^\n" in errors
        entry = json.loads(run(script, "--format", "json").stderr)["scripts"][0]["diagnostics"][0]
        assert (entry["source"], entry["end_column"]) == ("x = [env.step(a)]", 18)

    def test_carets_end_where_a_terminal_does(self, script: Path) -> None:
        script.write_text(f"# REFUSE\n\nx = [env.step(a{' + a' * 40})]\n")
        errors = run(script).stderr.splitlines()
        line = next(i for i, text in enumerate(errors) if "3 | x" in text)
        assert len(errors[line]) > 150 and len(errors[line + 1]) == 104 and errors[line + 1].endswith("^^^")

    def test_binary_input(self, script: Path) -> None:
        script.write_bytes(b"\x89PNG\r\n\0")
        result = run(script, "-o", "out.py")
        assert result.exit_code == 1
        assert f"{script}:2:1: LC001" in result.stderr

    def test_quiet(self, script: Path) -> None:
        script.write_text("WARN\n")
        result = run(script, "-o", "out.py", "-q")
        assert (result.exit_code, result.output) == (0, "")

    def test_quiet_reports_errors(self, script: Path) -> None:
        script.write_text("REFUSE\n")
        assert "LC004" in run(script, "-q").stderr

    def test_no_progress_bar_without_a_terminal(self, script: Path) -> None:
        (script.parent / "b.py").write_text("x\n")
        assert run(script, "b.py", "--output-dir", "out").stderr == ""

    def test_json(self, script: Path) -> None:
        script.write_text("WARN\n")
        result = run(script, "-o", "out.py", "--format", "json")
        (entry,) = json.loads(result.stdout)["scripts"]
        assert entry == {
            "script": str(script),
            "output": "out.py",
            "others": [],
            "converted": True,
            "failure": None,
            "stale": None,
            "headlines": [],
            "gone": [],
            "transforms": [
                _transform("flags", "applied", "Two flags.", 1),
                _transform("storage", "left as it was", "buffers of [unknown] shape", 0, "held back"),
                _transform("shuffle", "not needed", "nothing to [see]", 0, "not needed"),
                _transform("compile", "applied", "", 1),
            ],
            "diagnostics": [_diagnostic("LC101", "warning", 2, 9, "loss.item() remains")],
            "not_looked_into": [],
            "commands": {"cpu": "python out.py --compile"},
        }

    def test_json_of_a_refusal(self, script: Path) -> None:
        script.write_text("REFUSE\n")
        result = run(script, "--format", "json")
        assert result.exit_code == 1
        (entry,) = json.loads(result.stderr)["scripts"]
        assert (entry["converted"], entry["output"], entry["transforms"], entry["commands"]) == (False, None, [], {})
        assert entry["diagnostics"] == [
            _diagnostic("LC004", "error", 3, 5, "no [loop] found"),
            _diagnostic("LC005", "error", 7, 1, "two phases"),
        ]

    def test_json_of_a_failure(self, script: Path) -> None:
        Path("out.py").write_text("mine\n")
        (entry,) = json.loads(run(script, "-o", "out.py", "--format", "json").stdout)["scripts"]
        assert not entry["converted"]
        assert "--force" in entry["failure"]


def _transform(name: str, result: str, reason: str, added: int, kind: str | None = None) -> dict[str, object]:
    return {
        "name": name,
        "summary": f"do {name}",
        "result": result,
        "reason": reason,
        "places": [],
        "lines_added": added,
        "lines_removed": 0,
        "lines_moved": 0,
        "outcome": "skipped" if kind else result,
        "kind": kind,
    }


def _diagnostic(code: str, severity: str, line: int, column: int, message: str) -> dict[str, object]:
    return {
        "code": code,
        "severity": severity,
        "line": line,
        "column": column,
        "message": message,
        "advice": CODES[code].advice,
    }


class TestCheck:
    def test_todays_output_passes_and_nothing_is_written(self, script: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.py"
        assert run(script, "-o", out).exit_code == 0
        before = out.stat().st_mtime_ns
        result = run(script, "-o", out, "--check")
        assert (result.exit_code, result.output, out.stat().st_mtime_ns) == (0, "", before)

    @pytest.mark.parametrize(
        ("content", "why"),
        [(None, "does not exist"), (header.add("old = 1\n", "ppo.py"), "out of date"), ("mine = 1\n", "edited")],
    )
    def test_another_output_fails(self, script: Path, tmp_path: Path, content: str | None, why: str) -> None:
        out = tmp_path / "out.py"
        if content is not None:
            out.write_text(content)
        result = run(script, "-o", out, "--check")
        assert result.exit_code == 1
        assert why in result.stderr and f"lean-convert {script} -o {out}" in result.stderr
        assert (out.read_text() if out.exists() else None) == content

    @pytest.mark.parametrize("options", [("--ignore", "shuffle"), ("--force",), ()])
    @pytest.mark.parametrize("edited", [False, True])
    def test_the_advised_command_makes_it_pass(
        self, script: Path, tmp_path: Path, options: tuple[str, ...], edited: bool
    ) -> None:
        out = tmp_path / "out.py"
        out.write_text("mine = 1\n" if edited else header.add("old = 1\n", "ppo.py"))
        advice = run(script, "-o", out, *options, "--check").stderr
        command = [words for words in re.findall(r"`lean-convert (.*?)`", advice) if not words.startswith("diff ")]
        assert len(command) == 1
        assert (f"`lean-convert diff SCRIPT --edits {out}`" in advice) == edited
        assert run(*shlex.split(command[0])).exit_code == 0
        assert run(script, "-o", out, *options, "--check").exit_code == 0

    def test_it_needs_a_file_to_look_at(self, script: Path) -> None:
        result = run(script, "--check")
        assert result.exit_code == 2
        assert "--check needs a file" in result.stderr

    def test_a_script_that_cannot_be_converted_fails(self, tmp_path: Path) -> None:
        bad = tmp_path / "bad.py"
        bad.write_text("REFUSE\n")
        result = run(bad, "-o", tmp_path / "out.py", "--check")
        assert result.exit_code == 1 and "LC" in result.stderr and "does not exist" not in result.stderr


class TestDiff:
    def test_a_patch_of_the_script_and_nothing_is_written(self, script: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.py"
        result = run(script, "-o", out, "--diff")
        assert result.exit_code == 0 and not out.exists()
        assert result.stdout.startswith(f"--- {script}\n+++ {out}\n@@")
        patched = tmp_path / "patched.py"
        patched.write_text(script.read_text())
        subprocess.run(["patch", "-s", str(patched)], input=result.stdout, text=True, check=True)
        assert patched.read_text() == written("x = 1\n")

    def test_several_scripts_need_no_folder(self, script: Path, tmp_path: Path) -> None:
        (other := tmp_path / "b.py").write_text("y = 1\n")
        result = run(script, other, "--diff")
        assert result.exit_code == 0
        assert result.stdout.count("--- ") == 2


@pytest.mark.parametrize("command", ["verify", "run", "bench"])
def test_an_option_of_convert_alone_is_said_to_be_one(command: str, tmp_path: Path) -> None:
    script = tmp_path / "ppo.py"
    script.write_text("", encoding="utf-8")
    result = CliRunner().invoke(cli.main, [command, str(script), "--output-dir", "out"])
    assert result.exit_code == 2
    assert "It is an option of convert" in result.output
    assert "Did you mean" not in result.output


@pytest.mark.parametrize("flag", ["--compile", "--cudagraphs"])
@pytest.mark.parametrize(("command", "advice"), [("run", "--eager turns it off"), ("verify", "python out.py --c")])
def test_a_flag_of_converted_scripts_is_said_to_be_one(command: str, flag: str, advice: str, script: Path) -> None:
    result = run(command, script, flag)
    assert result.exit_code == 2
    assert f"{flag} is a flag of the converted script" in result.output and advice in result.output
