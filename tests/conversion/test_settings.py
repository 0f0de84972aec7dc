"""`[tool.lean-convert]`: the nearest table applies, unknown keys are errors, and options take precedence."""

from pathlib import Path

import conversions
import pytest
from click.testing import CliRunner, Result

from transformer import cli
from transformer.conversion import pipeline
from transformer.conversion.settings import Settings, SettingsError, settings_of


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, Settings(line_length=127)),
        ({"pyproject.toml": "[tool.lean-convert]\n"}, Settings(line_length=127)),
        (
            {"pyproject.toml": "[tool.lean-convert]\nline-length = 90\n[tool.ruff]\nline-length = 80\n"},
            Settings(line_length=90),
        ),
        (
            {"pyproject.toml": "[tool.lean-convert]\nselect = ['flags']\n[tool.ruff]\n"},
            Settings(("flags",), line_length=88),
        ),
        (
            {"../pyproject.toml": "[tool.lean-convert]\nignore = ['measure']\n"},
            Settings(ignore=("measure",), line_length=127),
        ),
        # a nearer pyproject.toml without the table is ignored; tables are not merged
        (
            {"../pyproject.toml": "[tool.lean-convert]\nignore = ['measure']\n", "pyproject.toml": "[tool.other]\n"},
            Settings(ignore=("measure",), line_length=127),
        ),
        (
            {
                "../pyproject.toml": "[tool.lean-convert]\nignore = ['measure']\n",
                "pyproject.toml": "[tool.lean-convert]\nselect = ['flags']\n",
            },
            Settings(("flags",), line_length=127),
        ),
        (
            {"pyproject.toml": "[tool.lean-convert]\ntune = true\nmeasure = false\ntarget = 'cpu'\n"},
            Settings(tune=True, measure=False, target="cpu", line_length=127),
        ),
        ({"pyproject.toml": "[project\n"}, Settings(line_length=127)),  # malformed: for other tools to report
    ],
)
def test_nearest_table_decides(tmp_path: Path, files: dict[str, str], expected: Settings) -> None:
    folder = tmp_path / "project" / "scripts"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(content)
    assert settings_of(folder) == expected


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[tool.lean-convert]\nselct = []", "has no key 'selct'; did you mean 'select'?"),
        ("[tool.lean-convert]\nline_length = 90", "did you mean 'line-length'?"),
        ("[tool.lean-convert.ignored]", "did you mean 'ignore'?"),
        ("[tool.lean-convert]\nselect = 'flags'", "select is 'flags', but must be a list of names of transforms"),
        ("[tool.lean-convert]\nignore = [3]", "ignore is [3], but must be"),
        ("[tool.lean-convert]\nline-length = true", "line-length is True, but must be a number of columns"),
        ("[tool.lean-convert]\nline-length = 0", "line-length is 0, but must be"),
        ("[tool]\nlean-convert = 3", "is not a table"),
        ("[tool.lean-convert\n", "pyproject.toml: "),
    ],
)
def test_what_means_nothing_is_an_error(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "pyproject.toml").write_text(table)
    with pytest.raises(SettingsError) as error:
        settings_of(tmp_path)
    assert message in str(error.value)
    assert str(tmp_path / "pyproject.toml") in str(error.value)


def test_every_setting_is_an_argument_of_convert() -> None:
    assert pipeline.convert("", **Settings(line_length=80).arguments).original == ""


class TestCommands:
    @pytest.fixture(autouse=True)
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(pipeline, "convert", conversions.convert)
        (tmp_path / "ppo.py").write_text("x = 1\n")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def run(self, *args: str) -> Result:
        return CliRunner().invoke(cli.main, args)

    def test_options_come_first(self) -> None:
        Path("pyproject.toml").write_text("[tool.lean-convert]\nselect = ['nonsense']\nline-length = 33\n")
        assert "no transform named 'nonsense'" in self.run("ppo.py").stderr
        assert "line_length=33" in self.run("ppo.py", "--select", "flags").stdout

    @pytest.mark.parametrize("command", ["convert", "diff", "blame", "verify", "bench"])
    def test_a_wrong_table_is_bad_usage_in_every_command_that_converts(self, command: str) -> None:
        Path("pyproject.toml").write_text("[tool.lean-convert]\nselct = []\n")
        result = self.run(command, "ppo.py")
        assert result.exit_code == 2
        assert "did you mean 'select'?" in result.stderr

    def test_standard_input_belongs_to_the_current_folder(self) -> None:
        Path("pyproject.toml").write_text("[tool.lean-convert]\nline-length = 33\n")
        assert "line_length=33" in CliRunner().invoke(cli.main, ["-"], input="x = 1\n").stdout
