"""Fixtures cut into files at random: the conversion into several files does what the one into a single file does."""

import random
import re
from pathlib import Path

import pytest
from forking import python_forked
from golden import ARGS, FIXTURES
from splitting import split

from transformer.conversion.of_file import convert_script

SPEED = re.compile(r"(?i)(sps|fps|speed|steps/s|steps per second)[^,;]*")
SCRIPTS = [path for path in sorted(FIXTURES.glob("*.py")) if path.stem not in ("several_files", "distributed")]


def printed(script: Path, fixture: str) -> str:
    done = python_forked(script, *map(str, ARGS.get(fixture, {}).get("args", ())))
    assert not done.returncode, done.stderr[-2000:]
    return SPEED.sub("", done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("fixture", SCRIPTS, ids=lambda path: path.stem)
def test_several_files_do_what_one_does(fixture: Path, seed: int, tmp_path: Path) -> None:
    script, files = split(fixture.read_text(encoding="utf-8"), random.Random(f"{seed} {fixture.stem}"))
    for name, text in {"train.py": script, **files}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    given = [tmp_path / name for name in files]
    _, conversion = convert_script(str(tmp_path / "train.py"), given, separately=bool(files))
    assert conversion.converted, conversion.diagnostics
    (tmp_path / "one.py").write_text(conversion.source, encoding="utf-8")
    if not files:
        return
    assert conversion.several is not None
    several = {Path("train.py"): conversion.several.script.encode(), **conversion.several.others}
    (tmp_path / "out").mkdir()
    for path, data in several.items():
        (tmp_path / "out" / path).write_bytes(data)
    assert len(several) > 1 or conversion.several.merged
    assert printed(tmp_path / "out" / "train.py", fixture.name) == printed(tmp_path / "one.py", fixture.name)
