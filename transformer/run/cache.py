"""The cache of conversions: a private folder with one entry for each script, version and set of options.

Files in the cache are executed, so nobody else may write them: before anything is read, every folder on the path is
checked.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from transformer.run.harness.program import SUMS, Damaged, Facts, Program, checked, facts_file, files_of

KEPT_DAYS = 90
"""Entries that were not used for this many days are removed."""
KEPT_BYTES = 100_000_000
"""If all entries together exceed this size, the least recently used are removed."""
_NEW = "new-"
"""The name prefix of folders that are being written, or were put aside."""
_KEY = re.compile("[0-9a-f]{32}")
_OURS = re.compile(rf"{_KEY.pattern}(\.jsonl)?|{_NEW}.*")
_PACKAGE = Path(__file__).parent.parent
NO_OTHERS: Mapping[str, bytes] = MappingProxyType({})
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(Exception):
    """Another user owns a part of the cache, or could have written to it. The message says which, and what to do."""


def default_folder() -> Path:
    """The user's cache folder according to the XDG specification, by which relative paths are ignored."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "lean-convert"  # noqa: PTH117


def key_of(source: bytes, name: str, options: Mapping[str, Any], others: Mapping[str, bytes] = NO_OTHERS) -> str:
    """The name of an entry: a digest of the script's content and name, the options, the converter, and `others`.

    `others` are the other files that the conversion depends on, if files were given with the script.

    The converter is identified by the sizes and times of its files, which change with a new version or an edit.
    """
    parts = [hashlib.sha256(source).hexdigest(), name, options, sys.version, sorted(_files(_PACKAGE))]
    if others:
        parts.append({file: hashlib.sha256(data).hexdigest() for file, data in others.items()})
    beside = _PACKAGE.parent / "templates"  # the place of the templates in a checkout
    if not (_PACKAGE / "templates").is_dir():
        parts.append(sorted(_files(beside)))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(Path(entry.path))
            elif entry.name.endswith((".py", ".j2")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns


@dataclass(frozen=True)
class Cache:
    """The folder of the cache; make it with :func:`open_cache` or :func:`open_temporary`."""

    folder: Path
    temporary: bool = False
    """Whether this cache is for a single run, because the user's own cannot be used."""

    def find(self, key: str, name: str) -> Program | None:
        """The conversion of the script `name` under a key; None if there is none.

        The entry is in use until this process ends, so no other process removes it.

        Raises:
            NotPrivate: another user owns the entry, or could have written it.
            Damaged: the entry is not what was written, or cannot be read.
        """
        lock = _lock(self.folder / key)
        try:
            program = self._read_program(key, name)
        except BaseException:
            _release(lock)
            raise
        if program is None:
            _release(lock)
        else:
            with suppress(OSError):  # a read-only cache can be used
                os.utime(program.text.parent)
        return program

    def _read_program(self, key: str, name: str) -> Program | None:
        text = self.folder / key / name
        try:
            _check_private(text.parent, text.parent.lstat())
            return checked(text, *(_read_file(file) for file in (text, facts_file(text), text.with_name(SUMS))))
        except FileNotFoundError as error:
            if not os.path.lexists(text.parent):
                return None
            raise Damaged(f"{error.filename} is gone") from error
        except OSError as error:
            raise Damaged(f"{error.filename or text.parent} cannot be read: {error.strerror or error}") from error

    def put(self, key: str, name: str, source: bytes, facts: Facts) -> None:
        """Store a conversion atomically; if another process was faster, keep its entry.

        Raises:
            OSError: the entry cannot be written.
        """
        import shutil  # imported here to keep cache hits fast
        import tempfile

        scratch = Path(tempfile.mkdtemp(prefix=_NEW, dir=self.folder))
        try:
            for file, data in files_of(Program(scratch / name, source, facts)).items():
                with file.open("wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                file.chmod(0o600)  # whatever the umask
            if not self._is_whole(key, name):
                _put_aside(self.folder / key)
            try:
                scratch.rename(self.folder / key)
            except OSError:
                if not self._is_whole(key, name):
                    raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._remove_old(key)

    def _is_whole(self, key: str, name: str) -> bool:
        try:
            return self._read_program(key, name) is not None
        except (Damaged, NotPrivate):
            return False

    def _remove_old(self, new: str) -> None:
        """Remove entries that were not used for long, and the least recently used ones until the rest fits."""
        now, room = time.time(), KEPT_BYTES
        for entry in sorted(self._entries(), key=lambda entry: entry.used, reverse=True):
            room -= entry.size
            days = 1 if entry.path.name.startswith(_NEW) else KEPT_DAYS
            if entry.path.name != new and (room < 0 or now - entry.used > days * 86400):
                _remove(entry.path)

    def _entries(self) -> Iterator[_Entry]:
        """All entries of the cache in the folder."""
        for path in self.folder.iterdir():
            if _OURS.fullmatch(path.name):
                with suppress(FileNotFoundError):  # another process has removed it
                    status = path.lstat()
                    inside = path.iterdir() if stat.S_ISDIR(status.st_mode) else [path]
                    yield _Entry(path, status.st_mtime, sum(file.lstat().st_size for file in inside))

    def clean(self) -> Cleaned:
        """Remove all entries except those in use."""
        cleaned = Cleaned()
        for entry in self._entries():
            if not _remove(entry.path):
                cleaned.in_use += 1
                continue
            cleaned.size += entry.size
            cleaned.conversions += _KEY.fullmatch(entry.path.name) is not None
        return cleaned

    def remove(self) -> None:
        """Remove the folder, if the cache is temporary."""
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)

    def history(self, script: Path) -> Path:
        """The file with the measurements of a script's earlier runs."""
        return self.folder / f"{hashlib.sha256(os.fsencode(script)).hexdigest()[:32]}.jsonl"


class _Entry(NamedTuple):
    path: Path
    used: float
    """The time of the last use, in seconds since the epoch."""
    size: int
    """The size in bytes."""


@dataclass
class Cleaned:
    """What was removed."""

    conversions: int = 0
    size: int = 0
    """The size in bytes."""
    in_use: int = 0
    """The number of entries that stay because they are in use."""


def open_cache(folder: Path | None = None) -> Cache:
    """The cache in `folder` (default: :func:`default_folder`), which is created if missing.

    Raises:
        NotPrivate: another user owns the folder or one above it, or may write there.
        OSError: the folder cannot be created.
    """
    try:
        folder = folder or default_folder()
    except RuntimeError as error:  # there is no home directory
        raise OSError(str(error)) from error
    for missing in reversed([p for p in (folder, *folder.parents) if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder = folder.resolve()  # from here on no link is followed, because somebody might change one
    for above in (folder, *folder.parents):
        _check_private(above, above.lstat(), sticky_is_fine=above != folder)
    if folder.stat().st_mode & 0o077:
        raise NotPrivate(f"{folder} is open to other users: `chmod 700 {folder}`, and check its content")
    return Cache(folder)


def open_temporary() -> Cache:
    """A cache for a single run, in a new temporary folder.

    Raises:
        OSError: none can be created.
    """
    import tempfile

    try:
        return Cache(Path(tempfile.mkdtemp(prefix="lean-convert-")).resolve(), temporary=True)
    except OSError:
        return Cache(Path(tempfile.mkdtemp(prefix="lean-convert-", dir="/dev/shm")), temporary=True)  # in memory


def _check_private(path: Path, status: os.stat_result, *, sticky_is_fine: bool = False) -> None:
    """Check that nobody but the user and root could have written to a path.

    Raises:
        NotPrivate: somebody else could.
    """
    me = os.getuid()
    elsewhere = "set XDG_CACHE_HOME to a private folder"
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivate(f"{path} is a link: remove it, or {elsewhere}")
    if status.st_uid not in (me, 0):
        raise NotPrivate(f"{path} belongs to another user (number {status.st_uid}, you are {me}): {elsewhere}")
    # In a sticky folder such as /tmp, users may add files, but not replace those of others
    if status.st_mode & _OTHERS_WRITE and not (sticky_is_fine and status.st_mode & stat.S_ISVTX):
        raise NotPrivate(f"other users may write to {path}: `chmod go-w {path}`, or {elsewhere}")


def _read_file(file: Path) -> bytes:
    # Do not block if the file is a pipe
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(file, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPrivate(f"{file} is a link: remove it") from error
        raise
    with os.fdopen(handle, "rb", closefd=True) as stream:
        status = os.fstat(handle)
        _check_private(file, status)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(file))
        return stream.read()


def _lock(folder: Path) -> int | None:
    """Lock a folder against removal until this process ends; returns None on a file system without locks."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _release(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _put_aside(entry: Path) -> None:
    """Move a damaged entry out of the way."""
    import shutil
    import tempfile

    if os.path.lexists(entry):
        aside = Path(tempfile.mkdtemp(prefix=_NEW, dir=entry.parent))
        with suppress(FileNotFoundError):  # another process was faster
            entry.rename(aside / "damaged")
        shutil.rmtree(aside, ignore_errors=True)


def _remove(entry: Path) -> bool:
    """Remove an entry unless it is in use; returns whether it is gone."""
    import shutil

    try:
        if not stat.S_ISDIR(entry.lstat().st_mode):  # links are not followed
            entry.unlink()
            return True
        handle = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return not os.path.lexists(entry)
    try:
        with suppress(OSError):  # without locks, nobody knows whether the entry is in use
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        shutil.rmtree(entry, ignore_errors=True)
    finally:
        os.close(handle)
    return not entry.exists()
