"""Write the converted script: completely or not at all, and never over the input, a foreign file, or edits."""

from __future__ import annotations

import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from transformer.syntax import header, text


class OutputError(Exception):
    """The output must not, or cannot, be written; the message names the file and the reason."""


def check_target(target: Path, inputs: Iterable[Path]) -> None:
    """Check, before any work is done, that writing `target` leaves the inputs alone.

    Raises:
        OutputError: the target is a directory, or one of `inputs` under any name (including symbolic and hard links);
            or its directory cannot be created or written to.
    """
    try:
        if target.is_dir():
            raise OutputError(f"{target} is a directory; give a file, or use --output-dir")
        if target.exists():
            for script in inputs:
                if script.exists() and target.samefile(script):
                    raise OutputError(f"{target} is the script itself, which is never overwritten")
            if not target.is_file():  # the output goes into a device or a pipe, and does not replace it
                return
    except OSError as error:
        raise OutputError(f"{target} cannot be inspected: {error.strerror or error}") from error
    check_folder(Path(os.path.realpath(target)).parent)


def check_folder(folder: Path) -> None:
    """Check, before any work is done, that files can be written into `folder`, which may not exist yet.

    Raises:
        OutputError: they cannot; the message names the folder at fault.
    """
    try:
        there = next(f for f in (folder, *folder.absolute().parents) if f.exists())
    except OSError as error:
        raise OutputError(f"{folder} cannot be written to: {error.strerror or error}") from error
    if not there.is_dir():
        raise OutputError(f"{there} is not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise OutputError(f"{there} cannot be written to: no permission, or a read-only file system")


def write(target: Path, data: bytes, *, mode: int | None = None, force: bool = False) -> None:
    """Write `data` to `target` atomically: another process sees the old file or the new one, never a part.

    Args:
        target: a new file, whose directories are created, or a file that this tool wrote and nobody edited since. A
            symbolic link is followed.
        data: the whole content.
        mode: permission bits for a new file, masked by the umask; 0o666 if None. An existing file keeps its own.
        force: overwrite any file.

    Raises:
        OutputError: the file was edited or not written by this tool, and `force` is not given; or writing fails.
    """
    target = Path(os.path.realpath(target))
    try:
        if target.exists() and not target.is_file():  # a device or a pipe cannot be renamed over
            target.write_bytes(data)
            return
        if target.exists():
            if not force:
                _check_replaceable(target, data, diff_shows=True)
            permissions = stat.S_IMODE(target.stat().st_mode)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            permissions = (0o666 if mode is None else mode) & ~_umask()
        _replace(target, data, permissions)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror or error}") from error


def write_together(
    script: Path, files: Mapping[Path, bytes], modes: Mapping[Path, int | None], *, force: bool = False
) -> None:
    """Write a script and the files that it imports, each as `write` does; write none if one must not be overwritten.

    Args:
        script: the script.
        files: the content of each file, the script's included.
        modes: permission bits for new files.
        force: overwrite any file.

    Raises:
        OutputError: a file was edited or not written by this tool, and `force` is not given; or writing fails.
    """
    for target, data in files.items():
        if not force and target.is_file():
            _check_replaceable(Path(os.path.realpath(target)), data, diff_shows=target == script)
    new = [target for target in files if not target.exists()]
    try:
        for target, data in files.items():
            write(target, data, mode=modes.get(target), force=force)
    except BaseException:
        for target in new:
            target.unlink(missing_ok=True)
        raise


def write_all(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write new files into a folder, which is created if missing: all of them, or none.

    Raises:
        OutputError: writing fails.
    """
    done: list[Path] = []
    try:
        for name, data in files.items():
            write(folder / name, data, force=True)
            done.append(folder / name)
    except BaseException:
        for file in done:
            file.unlink(missing_ok=True)
        raise
    return done


def staleness(target: Path, data: bytes) -> tuple[str, bool] | None:
    """How the file `target` differs from its expected content `data`, and whether by edits; None if it does not.

    Raises:
        OutputError: the file cannot be read.
    """
    try:
        current = target.read_bytes()
    except FileNotFoundError:
        return f"{target} does not exist", False
    except OSError as error:
        raise OutputError(f"{target} cannot be read: {error.strerror or error}") from error
    if current == data:
        return None
    try:
        edited = not header.is_unedited(text.decode(current).content)
    except text.NotText:
        edited = True
    return f"{target} {'was edited' if edited else 'is out of date'}", edited


def write_stdout(data: bytes) -> None:
    """Write `data` to standard output as it is.

    Raises:
        OutputError: the reader has closed the pipe, or writing fails.
    """
    stream = sys.stdout.buffer
    # Bypass the buffer, which would fail again at exit. A raw stream may write only part of the data at a time.
    unbuffered = getattr(stream, "raw", stream)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[unbuffered.write(rest) :]
    except OSError as error:
        raise OutputError(f"standard output cannot be written: {error.strerror or error}") from error


def _check_replaceable(target: Path, data: bytes, *, diff_shows: bool) -> None:
    """Check that replacing the content of `target` by `data` loses nobody's work.

    Raises:
        OutputError: the file has no digest that matches its text.
    """
    current = target.read_bytes()
    try:
        content = text.decode(current).content
    except text.NotText:
        content = ""
    if current == data or header.is_unedited(content):
        return
    ways_out = "--force overwrites it, another name keeps it"
    if header.find(content) is None:
        raise OutputError(f"{target} exists and was not written by lean-convert; {ways_out}")
    shown = f", as `{shows_edits(target, content)}` shows" if diff_shows else ""
    raise OutputError(f"{target} was edited since lean-convert wrote it{shown}; {ways_out}")


def shows_edits(file: Path, content: str) -> str:
    """The command that shows how a converted file was edited, with SCRIPT for its source if that is not beside it."""
    head = header.find(content)
    beside = head is not None and head.source_name is not None and (file.parent / head.source_name).is_file()
    return shlex.join(["lean-convert", "diff", *([] if beside else ["SCRIPT"]), "--edits", str(file)])


def _replace(target: Path, data: bytes, permissions: int) -> None:
    """Write a temporary file beside `target`, then rename it over `target`; leave nothing behind on failure."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(permissions)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's umask, which can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
