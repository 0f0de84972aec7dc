"""The line length is that of the nearest project that has one."""

from pathlib import Path

import pytest

from transformer.conversion.line_length import line_length_of


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, None),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 99\n"}, 99),
        ({"pyproject.toml": "[tool.black]\nline-length = 99\n"}, 99),
        ({"pyproject.toml": "[tool.black]\nline-length = 90\n[tool.ruff]\nline-length = 99\n"}, 99),
        ({"pyproject.toml": "[tool.black]\nline-length = 90\n[tool.ruff]\n"}, 90),
        ({"pyproject.toml": "[tool.ruff]\n"}, 88),
        ({"ruff.toml": "line-length = 101\n", "pyproject.toml": "[tool.ruff]\nline-length = 99\n"}, 101),
        ({".ruff.toml": "line-length = 103\n", "ruff.toml": "line-length = 101\n"}, 103),
        ({"pyproject.toml": "[tool.ruff\n"}, None),
        ({"pyproject.toml": "tool = 3\n"}, None),
        ({"../pyproject.toml": "[tool.ruff]\nline-length = 99\n", "pyproject.toml": "[tool.pytest]\n"}, 99),
        ({"../ruff.toml": "line-length = 99\n", "pyproject.toml": "[tool.black]\nline-length = 79\n"}, 79),
    ],
)
def test_nearest_configuration_decides(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    folder = tmp_path / "project" / "scripts"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(content)
    assert line_length_of(folder) == expected
