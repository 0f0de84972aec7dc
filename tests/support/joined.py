"""Writes the files of a script into a folder, merges them into one text, and runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from transformer.conversion.together.one_file import OneFile, one_file
from transformer.recognition.refusals import Unconvertible


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files by name; returns the path of the script, train.py."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder / "train.py"


def join(folder: Path, files: Mapping[str, str], *given: str) -> OneFile:
    """The script merged with the given files; by default agent.py."""
    path = write(folder, files)
    found = one_file(path, files["train.py"], [path.parent / name for name in given or ("agent.py",)])
    assert found is not None
    return found


def refusals(folder: Path, files: Mapping[str, str], *given: str) -> list[str]:
    """Why files cannot be merged: the place, code and message of each reason."""
    with pytest.raises(Unconvertible) as refused:
        join(folder, files, *given)
    return [
        f"{d.file.removeprefix(f'{folder}/')}:{d.line}: {d.code} {d.message.replace(f'{folder}/', '')}"
        for d in refused.value.diagnostics
    ]


def printed(folder: Path, code: str) -> str:
    """The output of a script in a folder."""
    path = folder / "ran.py"
    path.write_text(code)
    done = subprocess.run([sys.executable, str(path)], cwd=folder, capture_output=True, text=True, check=False)
    path.unlink()
    assert not done.returncode, done.stderr
    return done.stdout


def written(one: OneFile, text: str) -> str:
    """The output for a state of a merged text, with imports of the files that stay."""
    assert one.staying is not None
    return "".join(line for line, _ in one.staying.written(text, 120))
