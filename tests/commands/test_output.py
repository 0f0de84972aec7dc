"""Writing output: all or nothing, and never over the input, an unrelated file, or user edits."""

import os
import stat
from pathlib import Path

import pytest

from transformer.commands import output
from transformer.syntax import header

OURS = header.add("old = 1\n", "ppo.py")


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_new_file(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "out.py"
    output.write(target, b"x = 1\r\n")
    assert target.read_bytes() == b"x = 1\r\n"


def test_new_file_has_the_given_mode_less_the_umask(tmp_path: Path) -> None:
    target = tmp_path / "out.py"
    before = os.umask(0o027)
    try:
        output.write(target, b"x", mode=0o755)
    finally:
        os.umask(before)
    assert mode_of(target) == 0o750


def test_own_output_is_overwritten_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "out.py"
    target.write_text(OURS)
    target.chmod(0o640)
    output.write(target, b"new", mode=0o755)
    assert target.read_bytes() == b"new"
    assert mode_of(target) == 0o640


@pytest.mark.parametrize("ours", [OURS.replace("\n", "\r\n"), "\ufeff" + OURS, header.add("old = 1\n", "b.py", "9.9")])
def test_own_output_is_known_in_other_line_ends_and_of_other_versions(tmp_path: Path, ours: str) -> None:
    target = tmp_path / "renamed.py"
    target.write_bytes(ours.encode())
    output.write(target, b"new")
    assert target.read_bytes() == b"new"


FOREIGN = (
    b"mine = 1\n",
    b"\x89PNG\0\0",
    b"",
    b"old = 1\n",  # the line was deleted
    b"import os\n" + OURS.encode(),
    b"\xff" + OURS.encode(),
)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((content, "was not written by lean-convert") for content in FOREIGN),
        (OURS.replace("1", "2").encode(), "was edited since"),
        (OURS.encode() + b"\n", "was edited since"),
        (b"# a note\n" + OURS.encode(), "was edited since"),
        (OURS.replace("ppo.py", "other.py").encode(), "was edited since"),
    ],
)
def test_foreign_and_edited_files_need_force(tmp_path: Path, content: bytes, reason: str) -> None:
    target = tmp_path / "out.py"
    target.write_bytes(content)
    with pytest.raises(output.OutputError, match=f"{reason}.*--force overwrites it, another name keeps it"):
        output.write(target, b"new")
    assert target.read_bytes() == content
    output.write(target, b"new", force=True)
    assert target.read_bytes() == b"new"


def test_same_bytes_are_nobodys_loss(tmp_path: Path) -> None:
    target = tmp_path / "out.py"
    target.write_bytes(b"same")
    output.write(target, b"same")
    assert target.read_bytes() == b"same"


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    target = tmp_path / "out.py"
    target.write_text(OURS)
    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), fail)
    with pytest.raises((output.OutputError, KeyboardInterrupt)) as caught:
        output.write(target, b"new")
    assert isinstance(caught.value, KeyboardInterrupt) or "No space left" in str(caught.value)
    assert target.read_text() == OURS
    assert list(tmp_path.iterdir()) == [target]


def test_symbolic_link_is_followed_and_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "out.py", tmp_path / "link.py"
    target.write_text(OURS)
    link.symlink_to(target)
    output.write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        output.write(pipe, b"new", force=True)
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("alias", ["same", "symbolic", "hard", "dotted"])
def test_input_is_never_the_target(tmp_path: Path, alias: str) -> None:
    script, other = tmp_path / "ppo.py", tmp_path / "other.py"
    script.write_text("x = 1\n")
    if alias == "symbolic":
        other.symlink_to(script)
    elif alias == "hard":
        other.hardlink_to(script)
    else:
        other = script if alias == "same" else tmp_path / ".." / tmp_path.name / "ppo.py"
    with pytest.raises(output.OutputError, match="is the script itself"):
        output.check_target(other, [tmp_path, script])


def test_directory_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(output.OutputError, match="is a directory"):
        output.check_target(tmp_path, [])
