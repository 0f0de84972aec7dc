"""Files beside a script that its conversion still imports."""

from pathlib import Path

import pytest

from transformer.conversion.of_files import not_looked_into


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("import networks", ["networks.py"]),
        ("from networks import Actor", ["networks.py"]),
        ("from parts import heads", ["parts/heads.py"]),
        ("import parts.heads as h", ["parts/heads.py"]),
        ("def main():\n    from parts.heads import Head", ["parts/heads.py"]),
        ("import networks, networks\nfrom networks import *", ["networks.py"]),
        ("import texts, numpy, missing", []),
        ("from . import networks", []),
    ],
)
def test_those_that_speak_of_torch(tmp_path: Path, imports: str, files: list[str]) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "heads.py").write_text("import torch\n")
    (tmp_path / "networks.py").write_text("from torch import nn\n")
    (tmp_path / "texts.py").write_text("words = []\n")
    assert not_looked_into(imports, tmp_path) == [tmp_path / file for file in files]
