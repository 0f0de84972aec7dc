"""Small programs in files: `=== title`, then the code, then `--- ` and what is expected of its rewriting."""

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[1] / "transforms" / "data"


@dataclass(frozen=True)
class Program:
    """A program, and what is expected: a line, or a piece of the reason why the program is left alone."""

    title: str
    code: str
    expected: str

    def __str__(self) -> str:
        return self.title


def programs(name: str) -> list[Program]:
    """The programs of a file."""
    text = (DATA / name).read_text(encoding="utf-8")
    found = re.findall(r"^=== (.*)\n((?:(?!===|---).*\n)+)(?:--- (.*)\n)?", text, flags=re.MULTILINE)
    assert len(found) == text.count("===")
    return [Program(title, code.strip("\n") + "\n", expected) for title, code, expected in found]


def printed(code: str) -> str:
    """The output of a program."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "program", "exec"), {"__name__": "__main__"})
    return out.getvalue()
