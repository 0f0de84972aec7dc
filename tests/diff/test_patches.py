import subprocess
from pathlib import Path

import pytest
from golden import ARGS, conversion_of
from hand_made import ORIGINAL, hand_made

from transformer import convert
from transformer.diff.patches import path_in_repository, series, unified
from transformer.syntax import text

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").glob("*.py"))

REPRESENTATIVE = ("in_methods", "envpool_cnn")
"""A class that is dissolved, and a script to which most transforms apply."""

SHORTEST = min((f for f in FIXTURES if "together" not in ARGS.get(f.name, {})), key=lambda f: f.stat().st_size)


def git(folder, *args):
    # No configuration of the machine or the user: neither line ends nor white space may be "repaired".
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    subprocess.run(["git", *identity, *args], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """Make a git repository that holds one file."""

    def make(name, data):
        folder = tmp_path / "repository"
        script = folder / name
        script.parent.mkdir(parents=True)
        script.write_bytes(data)
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "start")
        return folder, script

    return make


def check_patches(repository, tmp_path, conversion, source, name="script.py"):
    """The patch series with git am, and the whole patch with git apply and patch, give the converted file."""
    original, converted = source.encode(conversion.original), source.encode(conversion.source)
    assert original != converted
    folder, script = repository(name, original)
    assert path_in_repository(script) == name

    whole = tmp_path / "whole.patch"
    whole.write_bytes(unified(original, converted, name))
    git(folder, "apply", str(whole))
    assert script.read_bytes() == converted
    git(folder, "checkout", "--", ".")
    subprocess.run(["patch", "-p1", "--binary", "-i", whole], cwd=folder, check=True, capture_output=True)
    assert script.read_bytes() == converted
    git(folder, "checkout", "--", ".")

    mails = tmp_path / "series"
    mails.mkdir()
    for patch in series(conversion, name, source.encode):
        (mails / patch.filename).write_bytes(patch.mail)
    git(folder, "am", *(str(mail) for mail in sorted(mails.iterdir())))
    assert script.read_bytes() == converted
    return folder


@pytest.mark.parametrize(
    "fixture",
    [pytest.param(f, id=f.stem, marks=[] if f.stem in REPRESENTATIVE else pytest.mark.slow) for f in FIXTURES],
)
def test_patches_of_a_fixture_compose(repository, tmp_path, fixture):
    check_patches(repository, tmp_path, conversion_of(fixture), text.read(fixture))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.rstrip(b"\n"),
        lambda data: data.replace(b"\n", b"\r\n").rstrip(b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: "# \u2028 \x0c größte\n".encode() + data,
        lambda data: "# -*- coding: latin-1 -*-\n# größte\n".encode("latin-1") + data,
    ],
    ids=["crlf", "no final newline", "crlf, no final newline", "byte order mark", "odd characters", "latin-1"],
)
def test_patches_keep_a_files_own_bytes(repository, tmp_path, change):
    source = text.decode(change(SHORTEST.read_bytes()))
    check_patches(repository, tmp_path, convert(source.content), source)


@pytest.mark.parametrize("name", ["sub/folder/a b.py", 'quote"d.py', "back\\slash.py", "größe.py", "tab\t.py"])
def test_patches_name_the_file_as_git_does(repository, tmp_path, name):
    check_patches(repository, tmp_path, hand_made(), text.Text(ORIGINAL), name)


def test_each_patch_says_why(repository, tmp_path):
    folder = check_patches(repository, tmp_path, hand_made(), text.Text(ORIGINAL))
    log = subprocess.run(["git", "log", "--reverse", "--format=%s%n%b"], cwd=folder, capture_output=True, text=True)
    subjects = [line for line in log.stdout.splitlines() if ": do what" in line]
    assert subjects == [f"{n}: do what {n} does" for n in ("flags", "rate", "rollout", "compile")]
    assert "Nothing that `rate` touches is read." in log.stdout
    assert "The rate is a number." in log.stdout
    assert "Needs: flags, rollout." in log.stdout


@pytest.mark.parametrize("before", [b"a", b"a\n", b"a\nb", b"a\r", b"\n"])
@pytest.mark.parametrize("after", [b"c", b"c\n", b"a\nb\n", b"a\nc", b"a\x0cb"])
def test_the_last_line_is_exact(repository, tmp_path, before, after):
    folder, script = repository("script.py", before)
    patch = tmp_path / "whole.patch"
    patch.write_bytes(unified(before, after, "script.py"))
    git(folder, "apply", str(patch))
    assert script.read_bytes() == after


def test_equal_files_need_no_patch():
    assert unified(b"x\n", b"x\n", "x.py") == b""


def test_a_script_outside_of_a_repository_is_named_alone(tmp_path):
    script = tmp_path / "deep" / "script.py"
    assert path_in_repository(script) == "script.py"
