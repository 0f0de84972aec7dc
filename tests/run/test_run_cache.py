"""The cache: its keys, whole entries, and no entry that another user may have written."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from transformer.run import cache
from transformer.run.cache import Cache, NotPrivate, key_of, open_cache
from transformer.run.harness.program import Facts, facts_file

FACTS = Facts(origins=[1], transforms=[None], options={"compile": "--compile"}, loop=1, counter="steps")

KEYS = {name: f"{n:032x}" for n, name in enumerate(("used", "unused", "new"))}


@pytest.fixture
def kept(tmp_path: Path) -> Cache:
    made = open_cache(tmp_path / "lean-convert")
    made.put("key", "ppo.py", b"x = 1\n", FACTS)
    return made


def test_a_stored_entry_is_found(kept: Cache) -> None:
    found = kept.find("key", "ppo.py")
    assert found is not None
    assert (found.source, found.facts) == (b"x = 1\n", FACTS)
    assert found.text.read_bytes() == b"x = 1\n"
    assert kept.find("other", "ppo.py") is None


def test_it_is_the_users_alone(kept: Cache) -> None:
    previous = os.umask(0)
    try:
        kept.put("open", "ppo.py", b"", FACTS)
    finally:
        os.umask(previous)
    found = [kept.folder, *kept.folder.rglob("*")]
    assert {p.stat().st_mode & 0o777 for p in found} == {0o700, 0o600}


def test_new_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        open_cache(tmp_path / "home" / ".cache" / "lean-convert")
    finally:
        os.umask(previous)
    assert (tmp_path / "home" / ".cache").stat().st_mode & 0o777 == 0o700


def test_the_first_of_two_is_kept(kept: Cache) -> None:
    kept.put("key", "ppo.py", b"x = 2\n", FACTS)
    found = kept.find("key", "ppo.py")
    assert found is not None and found.source == b"x = 1\n"
    assert [p.name for p in kept.folder.iterdir()] == ["key"]


def test_many_processes_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from transformer.run.cache import open_cache;"
        "from transformer.run.harness.program import Facts\n"
        f"cache = open_cache(Path({str(tmp_path / 'lean-convert')!r}))\n"
        "print(flush=True); sys.stdin.readline()\n"
        "for key in range(50):\n"
        "    cache.put(str(key), 'ppo.py', b'x' * 100_000, Facts())\n"
        "    found = cache.find(str(key), 'ppo.py')\n"
        "    assert found and found.source == b'x' * 100_000\n"
    )
    many = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)
    ]
    for one in many:
        assert one.stdout is not None
        one.stdout.readline()
    for one in many:
        one.communicate(b"\n")
        assert one.returncode == 0
    assert len(list((tmp_path / "lean-convert").iterdir())) == 50


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o770, 0o777])
def test_a_folder_that_is_open_to_others_is_not_used(kept: Cache, mode: int) -> None:
    kept.folder.chmod(mode)
    with pytest.raises(NotPrivate, match="chmod"):
        open_cache(kept.folder)


def test_a_folder_below_a_writable_one_is_not_used(kept: Cache) -> None:
    above = kept.folder.parent
    above.chmod(0o777)
    with pytest.raises(NotPrivate, match=f"other users may write to {above}: "):
        open_cache(kept.folder)
    above.chmod(0o1777)  # as /tmp, where others cannot replace what is not theirs
    assert open_cache(kept.folder) == kept


def test_a_folder_of_another_user_is_not_used(kept: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    status = kept.folder.stat()
    monkeypatch.setattr(os, "getuid", lambda: status.st_uid + 1)
    if status.st_uid == 0:  # files of root count as one's own
        os.chown(kept.folder, 12345, -1)
    with pytest.raises(NotPrivate, match="belongs to another user"):
        open_cache(kept.folder)


@pytest.mark.parametrize("what", ["entry", "text", "facts"])
@pytest.mark.parametrize("how", ["writable", "link", "foreign"])
def test_an_entry_that_another_user_could_have_written_is_not_read(kept: Cache, what: str, how: str) -> None:
    text = kept.folder / "key" / "ppo.py"
    path = {"entry": text.parent, "text": text, "facts": facts_file(text)}[what]
    if how == "writable":
        path.chmod(path.stat().st_mode | 0o020)
    elif how == "link":
        elsewhere = kept.folder.parent / "elsewhere"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
    elif os.getuid() == 0:
        os.chown(path, 12345, -1)
    else:
        pytest.skip("only root can give files away")
    with pytest.raises((NotPrivate, OSError)):
        kept.find("key", "ppo.py")


def test_a_link_is_followed_once(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    assert open_cache(tmp_path / "home" / "lean-convert").folder == (tmp_path / "disk" / "lean-convert").resolve()


@pytest.mark.parametrize(
    ("variable", "expected"),
    [("/elsewhere", "/elsewhere"), ("", "~/.cache"), ("relative", "~/.cache"), (None, "~/.cache")],
)
def test_where_it_is(variable: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if variable is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", variable)
    assert cache.default_folder() == Path(expected).expanduser() / "lean-convert"


def test_unused_entries_are_removed(kept: Cache) -> None:
    old = time.time() - (cache.KEPT_DAYS + 1) * 86400
    for key in ("used", "unused"):
        kept.put(KEYS[key], "ppo.py", b"", FACTS)
    for key in ("used", "unused"):
        os.utime(kept.folder / KEYS[key], (old, old))
    (kept.folder / f"{KEYS['unused']}.jsonl").touch()
    os.utime(kept.folder / f"{KEYS['unused']}.jsonl", (old, old))
    assert kept.find(KEYS["used"], "ppo.py") is not None  # this marks it as used
    kept.put(KEYS["new"], "ppo.py", b"", FACTS)
    assert {p.name for p in kept.folder.iterdir()} == {"key", KEYS["used"], KEYS["new"]}


class TestKeys:
    def test_content_name_and_options_count(self) -> None:
        keys = [
            key_of(source, name, options)
            for source in (b"x", b"y")
            for name in ("a.py", "b.py")
            for options in ({"select": None}, {"select": ("a",)})
        ]
        assert len(set(keys)) == 8
        assert key_of(b"x", "a.py", {"select": ("a",)}) == key_of(b"x", "a.py", {"select": ("a",)})

    def test_files_beside_the_script_count_if_some_were_given(self) -> None:
        keys = [key_of(b"x", "a.py", {}, others) for others in ({}, {"b.py": b"x"}, {"c.py": b"x"}, {"b.py": b"y"})]
        assert len(set(keys)) == 4

    def test_the_converter_counts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "package"
        (package / "templates").mkdir(parents=True)
        monkeypatch.setattr(cache, "_PACKAGE", package)
        keys = [key_of(b"x", "a.py", {})]
        for file in ("module.py", "templates/new.py.j2"):
            (package / file).write_text("")
            keys.append(key_of(b"x", "a.py", {}))
            (package / file).write_text("# another version")
            keys.append(key_of(b"x", "a.py", {}))
        assert len(set(keys)) == 5

    def test_a_checkouts_templates_count(self) -> None:
        assert [p for p, _, _ in cache._files(cache._PACKAGE.parent / "templates") if p.endswith(".j2")]
