"""`lean-convert run` with a damaged or unwritable cache, or interrupted by a signal: it trains, or says why not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running import COMMAND, Runner, heed_interrupts, quick

from transformer.run import cache
from transformer.run.cache import open_cache
from transformer.run.harness.program import Damaged
from transformer.run.start import Aside

NO_BODY = 65534
"""The user id of `nobody`."""
REFUSED = "print('ran')\n"
"""It cannot be converted, so a new conversion shows in the output."""


@pytest.fixture
def kept(runner: Runner) -> Path:
    """The folder of a cached conversion."""
    runner.keep(runner.write(REFUSED), REFUSED)
    return next(p for p in runner.cache.iterdir() if p.is_dir())


@pytest.fixture
def entry(runner: Runner, kept: Path) -> Path:
    """The folder of a cached conversion that has run once."""
    assert runner.run("-q", runner.folder / "ppo.py").stdout == "ran\n"
    return kept


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def turned(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


WAYS = (Path.unlink, emptied, cut, turned, a_folder, a_pipe)
FILES = ("ppo.py", "ppo.py.json", "SHA256SUMS")
IN_PROCESSES = (("ppo.py", a_pipe), ("SHA256SUMS", Path.unlink))
"""These also run in processes at every change; all combinations run in this process."""


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_conversion_is_not_found(runner: Runner, kept: Path, file: str, how: Callable[[Path], None]) -> None:
    cache = open_cache(runner.cache)
    assert cache.find(kept.name, "ppo.py") is not None
    how(kept / file)
    with pytest.raises(Damaged):
        cache.find(kept.name, "ppo.py")


@pytest.mark.parametrize(
    ("file", "how"),
    [
        pytest.param(file, how, marks=[] if (file, how) in IN_PROCESSES else pytest.mark.slow)
        for how in WAYS
        for file in FILES
    ],
)
def test_a_damaged_conversion_is_replaced_and_not_run(
    runner: Runner, entry: Path, file: str, how: Callable[[Path], None]
) -> None:
    how(entry / file)
    done = runner.run("-v", runner.folder / "ppo.py")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr  # converted again, which is refused
    assert "LC" in done.stderr and "Traceback" not in done.stderr
    assert "is damaged, and is replaced" in done.stderr
    assert "is damaged" not in runner.run(runner.folder / "ppo.py").stderr  # without -v


def test_a_damaged_one_is_replaced(runner: Runner, entry: Path) -> None:
    for file in ("ppo.py", "ppo.py.json", "SHA256SUMS"):
        emptied(entry / file)
        runner.keep(runner.folder / "ppo.py", REFUSED)
        assert runner.run("-q", runner.folder / "ppo.py").stdout == "ran\n"
    a_folder(entry / "ppo.py")
    runner.keep(runner.folder / "ppo.py", REFUSED)
    assert runner.run("-q", runner.folder / "ppo.py").stdout == "ran\n"
    assert [p.name for p in runner.cache.iterdir() if p.is_dir()] == [entry.name]


def test_an_entry_that_is_a_file(runner: Runner, entry: Path) -> None:
    import shutil

    shutil.rmtree(entry)
    entry.write_bytes(b"")
    runner.keep(runner.folder / "ppo.py", REFUSED)
    assert runner.run("-q", runner.folder / "ppo.py").stdout == "ran\n"


def test_a_spawned_process_does_not_run_a_damaged_conversion(runner: Runner) -> None:
    code = (
        "import multiprocessing, pathlib\n"
        "def work(): print('worked', flush=True)\n"
        "if __name__ == '__main__':\n"
        "    text = pathlib.Path(work.__code__.co_filename)\n"
        "    text.write_text('')\n"
        "    process = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    process.start(); process.join(); print(process.exitcode)\n"
    )
    script = runner.write(code)
    runner.keep(script, code)
    done = runner.run("-q", script)
    assert done.stdout == "1\n"
    assert "was damaged" in done.stderr


class TestWithoutACache:
    """The conversion is kept for this run only, and a line says so."""

    def trains(self, runner: Runner, script: Path, why: str) -> None:
        temporary = runner.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        temporary.chmod(0o700)
        done = runner.run(script, script_args=["-x"])
        assert done.returncode == 9, done.stderr
        assert done.stdout.splitlines()[-1].endswith(f"{[str(script), '--compile', '-x']}")
        (line,) = [line for line in done.stderr.splitlines() if "without a cache" in line]
        assert why in line
        assert "Traceback" not in done.stderr
        assert not any(temporary.iterdir())

    @pytest.fixture
    def script(self, stubbed: Runner) -> Path:
        stubbed.variables["TMPDIR"] = str(stubbed.folder / "temporary")
        return stubbed.write(quick("print(sys.argv)\nsys.exit(9)"))

    @pytest.mark.slow
    def test_where_its_folder_cannot_be_made(self, stubbed: Runner, script: Path) -> None:
        stubbed.cache.parent.write_bytes(b"")  # a file in the folder's place
        self.trains(stubbed, script, "Not a directory")

    @pytest.mark.slow
    def test_without_a_home(self, stubbed: Runner, script: Path) -> None:
        stubbed.variables["XDG_CACHE_HOME"] = ""
        stubbed.variables["HOME"] = "/dev/null"
        self.trains(stubbed, script, "Not a directory")

    def test_where_the_process_begins_anew(self, stubbed: Runner) -> None:
        """It finds the conversion that it made before, even without a cache, and removes it."""
        stubbed.variables["TMPDIR"] = str(stubbed.folder / "temporary")
        stubbed.cache.parent.write_bytes(b"")
        (stubbed.folder / "site" / "gym.py").write_text("AsyncVectorEnv = print\n")
        (stubbed.folder / "temporary").mkdir(mode=0o700)
        stop = "from gym import AsyncVectorEnv\nprint('up')\nsys.exit(9)"
        made = quick(stop).replace("Envs(args.num_envs)", "AsyncVectorEnv(args.num_envs)")
        done = stubbed.run(stubbed.write(made), "--tune")
        assert (done.returncode, done.stdout.splitlines()[-2:]) == (9, ["torch loads: 3000", "up"]), done.stderr
        assert done.stderr.count("without a cache") == 1
        assert not any((stubbed.folder / "temporary").iterdir())

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
    @pytest.mark.parametrize("mode", [0o555, 0o000])
    def test_as_a_user_who_may_not_write(self, mode: int, tmp_path: Path) -> None:
        """In a process of nobody's, since root may write anywhere."""
        folder = tmp_path / "home" / "lean-convert"
        folder.mkdir(parents=True, mode=0o700)
        os.chown(folder, NO_BODY, NO_BODY)
        folder.chmod(mode)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.chroot(tmp_path)  # the folders above belong to root, and let nobody in
                os.setgid(NO_BODY)
                os.setuid(NO_BODY)
                try:
                    open_cache(Path("/home/lean-convert")).put("key", "ppo.py", b"", cache.Facts())
                except cache.NotPrivate:
                    code = 2
                except OSError:
                    code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_on_a_full_disk(self, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
        """No half-written file is left, and the conversion goes where there is room."""
        made = open_cache(runner.cache)
        real = os.fsync

        def full(handle: int) -> None:
            if Path(f"/proc/self/fd/{handle}").resolve().is_relative_to(runner.cache):
                raise OSError(28, "No space left on device")
            real(handle)

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            made.put("key", "ppo.py", b"x", cache.Facts())
        assert not any(runner.cache.iterdir())
        other = cache.open_temporary()
        other.put("key", "ppo.py", b"x", cache.Facts())
        found = other.find("key", "ppo.py")
        assert found is not None and found.source == b"x"
        other.remove()
        assert not other.folder.exists()

    def test_a_cache_that_is_only_read(self, runner: Runner, entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def read_only(*_: object, **__: object) -> None:
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(os, "utime", read_only)
        monkeypatch.setattr(cache.fcntl, "flock", read_only)
        assert open_cache(runner.cache).find(entry.name, "ppo.py") is not None


class TestCleaning:
    def test_only_entries_are_removed(self, runner: Runner, entry: Path) -> None:
        (runner.cache / "mine.txt").write_text("")
        (runner.cache / "new-xyz").mkdir()
        done = runner.python("-m", "transformer", "run", "--clean")
        assert done.returncode == 0, done.stderr
        assert "removed 1 conversion, " in done.stderr and str(runner.cache) in done.stderr
        assert [p.name for p in runner.cache.iterdir()] == ["mine.txt"]
        assert "removed 0 conversions, " in runner.python("-m", "transformer", "run", "--clean").stderr

    def test_running_entries_stay(self, runner: Runner) -> None:
        code = "import sys\nprint('up', flush=True)\ninput()\n"
        script = runner.write(code)
        runner.keep(script, code)
        running = subprocess.Popen(
            [*COMMAND, str(script)], env=runner.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert running.stdout is not None and running.stdout.readline() == b"up\n"
        done = runner.python("-m", "transformer", "run", "--clean")
        running.communicate(b"\n")
        assert "1 is in use, and stays" in done.stderr
        assert "removed 1 conversion, " in runner.python("-m", "transformer", "run", "--clean").stderr

    def test_a_link_in_its_place_is_not_followed(self, runner: Runner, tmp_path: Path) -> None:
        precious = tmp_path / "precious"
        precious.mkdir()
        (precious / "file").write_text("")
        open_cache(runner.cache)
        (runner.cache / ("0" * 32)).symlink_to(precious)
        runner.python("-m", "transformer", "run", "--clean")
        assert (precious / "file").exists() and not any(runner.cache.iterdir())

    def test_with_a_script_it_is_bad_usage(self, runner: Runner) -> None:
        done = runner.run("--clean", runner.write(""))
        assert (done.returncode, "--clean" in done.stderr) == (2, True)

    def test_without_a_script_or_clean(self, runner: Runner) -> None:
        assert runner.python("-m", "transformer", "run").returncode == 2


def test_the_oldest_are_removed_if_the_cache_is_too_large(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    made = open_cache(runner.cache)
    monkeypatch.setattr(cache, "KEPT_BYTES", 25_000)
    for n in range(4):
        made.put(str(n) * 32, "ppo.py", b"#" * 10_000, cache.Facts())
        at = time.time() - 1000 + n
        if n == 0:
            made.find("0" * 32, "ppo.py")  # this process now uses it
        os.utime(runner.cache / (str(n) * 32), (at, at))
    made.put("9" * 32, "ppo.py", b"#" * 10_000, cache.Facts())
    assert {p.name[0] for p in runner.cache.iterdir()} == {"0", "3", "9"}


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
    def test_the_script_gets_signals(self, runner: Runner, number: signal.Signals) -> None:
        code = "import time\nprint('up', flush=True)\ntime.sleep(60)\n"
        script = runner.write(code)
        runner.keep(script, code)
        shell = subprocess.Popen(
            ["bash", "-c", f"{' '.join(COMMAND)} -q {script} & echo $!; wait $!; echo code $?"],
            env=runner.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert shell.stdout is not None
        told = {shell.stdout.readline(), shell.stdout.readline()}
        told.discard("up\n")
        os.kill(int(told.pop()), number)
        assert shell.communicate(timeout=30)[0] == f"code {128 + number}\n"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_during_conversion_leaves_nothing(self, number: signal.Signals, tmp_path: Path) -> None:
        told = tmp_path / "told"
        code = (
            "import os, time\nfrom pathlib import Path\nfrom transformer.run.start import Aside\n"
            "def work(say):\n"
            f"    Path({str(told)!r}).write_text(str(os.getpid()))\n"
            "    time.sleep(60)\n"
            "Aside(work).wait()\n"
        )
        process = subprocess.Popen([sys.executable, "-c", code], preexec_fn=heed_interrupts)
        deadline = time.monotonic() + 20
        while not (told.exists() and told.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(timeout=20) == -number
        child = int(told.read_text())
        with pytest.raises(ProcessLookupError):
            for _ in range(1000):  # 20 of the 60 seconds it would take; two are not enough on a busy machine
                os.kill(child, 0)
                time.sleep(0.02)

    def test_a_killed_conversion_is_reported(self, capsys: pytest.CaptureFixture[str]) -> None:
        aside = Aside(lambda say: os.kill(os.getpid(), signal.SIGKILL) or 0)  # type: ignore[func-returns-value]
        assert aside.wait() == 137
        assert "ended by SIGKILL" in capsys.readouterr().err

    def test_signal_handlers_are_restored(self) -> None:
        before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
        aside = Aside(lambda say: 3)
        assert aside.wait() == 3
        assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)] == before

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_verification_ends_with_them(self, number: signal.Signals, tmp_path: Path) -> None:
        """The verifying process gets the signal, and its exit code is returned."""
        told = tmp_path / "told"
        child = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        code = (
            "import sys\nfrom transformer.commands.run import run_and_hand_signals_on\n"
            f"sys.exit(run_and_hand_signals_on([sys.executable, '-c', {child!r}]))\n"
        )
        process = subprocess.Popen([sys.executable, "-c", code], preexec_fn=heed_interrupts, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not (told.exists() and told.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(timeout=20) == 128 + number
        with pytest.raises(ProcessLookupError):
            os.kill(int(told.read_text()), 0)
