"""Where conversions are kept: a folder that is the user's alone, one entry for each script, version and set of options.

What is executed out of it must not be another user's work, so nothing is read before every folder on the way was seen
to be written by nobody else.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.run.harness.program import Facts, Program, facts_file

KEPT_DAYS = 90
"""An entry that was not used for so long is removed."""
_PACKAGE = Path(__file__).parent.parent
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(Exception):
    """Another user owns a part of the cache, or could have written it. The message says which, and what to do."""


def default_folder() -> Path:
    """The place of the user's cache, by the XDG specification, which has relative paths ignored."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "lean-convert"  # noqa: PTH117


def key_of(source: bytes, name: str, options: Mapping[str, Any]) -> str:
    """The name of an entry: a digest of the script's content and name, of the options, and of what converts.

    The converter is told by its files' sizes and times, which a new version changes as an edit in a checkout does.
    """
    parts = [hashlib.sha256(source).hexdigest(), name, options, sys.version, sorted(_files(_PACKAGE))]
    beside = _PACKAGE.parent / "templates"  # where a checkout has them
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
    """The folder; made by :func:`open_cache`."""

    folder: Path

    def find(self, key: str, name: str) -> Program | None:
        """The conversion of the script `name` under a key; None where there is none.

        Raises:
            NotPrivate: it is another user's, or could be.
            OSError: it cannot be read.
        """
        entry = self.folder / key
        try:
            _check(entry, os.lstat(entry))
            source, facts = _read(entry / name), Facts.from_json(_read(facts_file(entry / name)))
            os.utime(entry)  # it is in use
        except FileNotFoundError:
            return None
        return Program(entry / name, source, facts)

    def put(self, key: str, name: str, source: bytes, facts: Facts) -> None:
        """Keep a conversion, all of it or nothing; where another process was earlier, that one's.

        Raises:
            OSError: it cannot be written.
        """
        import shutil  # these are not needed on a hit, which should cost little
        import tempfile

        scratch = Path(tempfile.mkdtemp(prefix="new-", dir=self.folder))
        try:
            for file, data in ((scratch / name, source), (facts_file(scratch / name), facts.to_json())):
                with file.open("wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                file.chmod(0o600)  # whatever the umask
            try:
                scratch.rename(self.folder / key)
            except OSError:
                if not (self.folder / key).is_dir():
                    raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._remove_old()

    def _remove_old(self) -> None:
        import shutil

        oldest = time.time() - KEPT_DAYS * 86400
        for entry in self.folder.iterdir():
            try:
                if entry.is_dir() and entry.stat().st_mtime < oldest:
                    shutil.rmtree(entry, ignore_errors=True)
            except FileNotFoundError:  # by another process
                continue

    def history(self, script: Path) -> Path:
        """The file for what earlier runs of a script measured."""
        return self.folder / f"{hashlib.sha256(os.fsencode(script)).hexdigest()[:32]}.jsonl"


def open_cache(folder: Path | None = None) -> Cache:
    """The cache in `folder`, which is made where it does not exist; in :func:`default_folder` where None.

    Raises:
        NotPrivate: another user owns it or a folder above it, or may write there.
        OSError: it cannot be made.
    """
    folder = folder or default_folder()
    for missing in reversed([p for p in (folder, *folder.parents) if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder = folder.resolve()  # from here on no link is followed, which somebody might turn
    for above in (folder, *folder.parents):
        _check(above, above.lstat(), sticky_is_fine=above != folder)
    if folder.stat().st_mode & 0o077:
        raise NotPrivate(f"{folder} is open to other users: `chmod 700 {folder}`, and look at what is in it")
    return Cache(folder)


def _check(path: Path, status: os.stat_result, *, sticky_is_fine: bool = False) -> None:
    """Make sure that nobody but the user, and root, has written there.

    Raises:
        NotPrivate: somebody may have.
    """
    me = os.getuid()
    elsewhere = "set XDG_CACHE_HOME to a folder that is yours alone"
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivate(f"{path} is a link: remove it, or {elsewhere}")
    if status.st_uid not in (me, 0):
        raise NotPrivate(f"{path} belongs to another user (number {status.st_uid}, you are {me}): {elsewhere}")
    # In a sticky folder, /tmp, others may add what is theirs, and not replace what is not
    if status.st_mode & _OTHERS_WRITE and not (sticky_is_fine and status.st_mode & stat.S_ISVTX):
        raise NotPrivate(f"other users may write to {path}: `chmod go-w {path}`, or {elsewhere}")


def _read(file: Path) -> bytes:
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as stream:
        _check(file, os.fstat(stream.fileno()))
        return stream.read()
