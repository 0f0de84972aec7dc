"""Checkpoints: what is saved, what prevents them, and runs that are killed."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cases import turn
from forking import python_forked
from golden import converted
from lasting_cases import HELD_BACK, forgetful
from scripts import PARTS, script

from transformer import Applied, Skipped, Step, convert
from transformer.verify import compare, record

RUN = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
FIXTURES = Path(__file__).parents[2] / "fixtures"


def checkpointed(source: str) -> Step:
    conversion = converted(source, checkpoint=True)
    assert conversion.converted, conversion.diagnostics
    return next(s for s in conversion.steps if s.transform.name == "checkpoint")


def saved(step: Step) -> set[str]:
    """The keys of a checkpoint."""
    call = step.after[step.after.rindex("save_checkpoint(") :]
    return set(re.findall(r'^\s+"(\w+)":', call[: call.index("}")], re.MULTILINE))


def test_what_is_saved_and_loaded() -> None:
    step = checkpointed(script())
    assert isinstance(step.outcome, Applied), step.outcome
    assert saved(step) == {"iteration", "global_step", "agent", "optimizer"}
    assert 'parser.add_argument("--checkpoint-every", type=int, default=0' in step.after
    assert "weights_only=True" in step.after
    assert "envs, next_obs, next_done begin anew" in " ".join(step.outcome.notes)


def test_nothing_is_added_unasked() -> None:
    assert "checkpoint" not in converted(script()).source


def test_counters_and_clocks_and_schedulers() -> None:
    parts = {
        "stdlib": "import time",
        "begin": PARTS["begin"] + "\nseen, began = 0, time.time()\nschedule = optim.lr_scheduler.ConstantLR(optimizer)",
        "report": PARTS["report"] + "\nseen += args.num_envs\nprint(seen, time.time() - began)\nschedule.step()",
    }
    step = checkpointed(script(parts))
    assert isinstance(step.outcome, Applied), step.outcome
    assert saved(step) == {"iteration", "global_step", "seen", "began", "agent", "optimizer", "schedule"}
    assert 'began = time.time() - state["began"]' in step.after


@pytest.mark.parametrize("kind", HELD_BACK)
def test_objects_of_unknown_kinds_prevent_checkpoints(kind: str) -> None:
    parts, reason = HELD_BACK[kind]
    step = turn("checkpoint", script(parts))
    assert isinstance(step.outcome, Skipped) and step.outcome.left_as_it_was, step.outcome
    assert reason in step.outcome.reason
    assert re.search(r"line \d+", step.outcome.reason)
    assert "checkpoint" not in step.after


def test_a_script_that_loads_its_own_needs_none() -> None:
    loads = "\nif args.seed < 0:\n    agent.load_state_dict(torch.load('agent.pt'))"
    step = checkpointed(script({"begin": PARTS["begin"] + loads}))
    assert isinstance(step.outcome, Skipped) and step.outcome.kind == "not needed"


def test_stored_steps_are_not_saved() -> None:
    step = checkpointed((FIXTURES / "deep_q.py").read_text(encoding="utf-8"))
    assert isinstance(step.outcome, Skipped) and "keeps steps, which no checkpoint saves" in step.outcome.reason


def runnable(tmp_path: Path, *, dying: str = "", alone: bool = False) -> list[str]:
    """A script that prints each iteration and what was learned in it; `dying` runs at the end of each.

    Where checkpoint is applied alone, it imports no tensordict, and starts in half the time.
    """
    learned = "sum(p.double().sum() for p in agent.parameters()).item()"
    told = f'print(iteration, optimizer.param_groups[0]["lr"], {learned}, flush=True)\n'
    source = forgetful({"stdlib": "import os\nimport signal", "report": told + dying})
    if alone:
        step = turn("checkpoint", source)
        text = step.after
    else:
        conversion = convert(source, checkpoint=True)
        (step,) = (s for s in conversion.steps if s.transform.name == "checkpoint")
        text = conversion.source
    assert step.applied, step.outcome
    path = tmp_path / "ppo.py"
    path.write_text(text)
    return [sys.executable, str(path)]


def run(command: list[str], *more: str) -> subprocess.CompletedProcess[str]:
    return python_forked(Path(command[1]), *command[2:], *more, **RUN)


@pytest.mark.slow  # make kill compares such runs too
def test_saving_changes_no_bit_and_leaves_nothing(tmp_path: Path) -> None:
    command = runnable(tmp_path)
    off, on = run(command), run(command, "--checkpoint-every", "1")
    assert off.returncode == on.returncode == 0, on.stderr
    assert off.stdout == on.stdout and len(off.stdout.splitlines()) > 2
    assert not any((tmp_path / "checkpoints").iterdir())


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    dying = """\
if iteration == 3 and not os.path.exists("died"):
    open("died", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    command = runnable(tmp_path, dying=dying)
    first = run(command, "--checkpoint-every", "2")
    assert first.returncode == -signal.SIGKILL
    (path,) = (tmp_path / "checkpoints").glob("*.pt")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    other = run(command, "--checkpoint-every", "1")  # another command line is another run
    assert "goes on" not in other.stdout and path.exists()
    second = run(command, "--checkpoint-every", "2")
    assert second.returncode == 0, second.stderr
    (path_told, *lines) = second.stdout.splitlines()
    told = f"goes on with iteration 3, from {path.relative_to(tmp_path)}; envs, next_obs, next_done begin anew"
    assert path_told == told
    whole = other.stdout.splitlines()
    assert len(whole) == 3 and first.stdout.splitlines() == whole
    assert lines == whole[2:]  # the same bits, since the environments have nothing to forget
    assert not any((tmp_path / "checkpoints").iterdir())


DYING = """\
if iteration == 2 and not os.path.exists("died"):
    open("died", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def command_in(place: Path, dying: str = "") -> list[str]:
    """The command of a run, which decides on the name of its checkpoint. With `dying`, the script is written too."""
    python = runnable(place, dying=dying, alone=True) if dying else [sys.executable, str(place / "ppo.py")]
    return [*python, "--checkpoint-every", "1"]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The folder of the script, its files before any run, and its files after a killed run."""
    folder = tmp_path_factory.mktemp("states")
    place, new, killed = (folder / name for name in ("place", "new", "killed"))
    place.mkdir()
    command = command_in(place, dying=DYING.replace("== 2", "== 3"))
    shutil.copytree(place, new)
    assert run(command).returncode == -signal.SIGKILL
    shutil.copytree(place, killed)
    return place, new, killed


class TestFiles:
    """A fault is told in one sentence, with the file's name and the remedy: exit code 2, no traceback."""

    @pytest.fixture
    def command(self, states: tuple[Path, Path, Path]) -> list[str]:
        place, new, _ = states
        shutil.rmtree(place)
        shutil.copytree(new, place)
        return command_in(place)

    @pytest.fixture
    def kept(self, command: list[str], states: tuple[Path, Path, Path]) -> Path:
        place, _, killed = states
        shutil.rmtree(place)
        shutil.copytree(killed, place)
        (path,) = (place / "checkpoints").glob("*.pt")
        return path

    def ends(self, command: list[str], *words: str) -> None:
        done = run(command)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        (line,) = done.stderr.splitlines()
        assert all(word in line for word in words), line

    @pytest.mark.parametrize("size", [100, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, -10))])
    def test_a_damaged_one_and_the_one_before_it(self, command: list[str], kept: Path, size: int) -> None:
        kept.write_bytes(kept.read_bytes()[:size])
        self.ends(
            command, str(kept.name), "remove it", f"goes on from the one before it, checkpoints/{kept.name}.before"
        )
        if size:
            return
        kept.unlink()
        done = run(command)
        assert (done.returncode, done.stdout.splitlines()[0][:25]) == (0, "goes on with iteration 2,"), done.stderr

    @pytest.mark.slow
    def test_without_one_before_it(self, command: list[str], kept: Path) -> None:
        kept.with_name(f"{kept.name}.before").unlink()
        kept.write_bytes(b"")
        self.ends(command, kept.name, "remove it, and the same command begins anew")

    def test_of_another_run(self, command: list[str], kept: Path) -> None:
        other = kept.with_name("0123456789abcdef-0.pt")
        saved = torch.load(kept, weights_only=True)
        torch.save({**saved, "run": other.name}, kept)
        self.ends(command, kept.name, f"it belongs to {other.name}")

    def test_a_second_start(self, command: list[str], kept: Path) -> None:
        import fcntl

        with kept.with_name(f"{kept.name}.lock").open("a+") as lock:  # like the first run, but in this process
            lock.seek(0)
            assert re.fullmatch(r"process \d+ on \S+", lock.read())
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.ends(command, kept.name, "is in use: the same command is running as process")
        assert run(command).returncode == 0

    @pytest.mark.slow
    def test_a_folder_that_cannot_be_made(self, command: list[str]) -> None:
        Path(command[1]).with_name("checkpoints").touch()
        self.ends(command, "checkpoints/", "cannot be written to")

    @pytest.mark.parametrize(
        "trouble",
        [
            "os.fsync = lambda _: (_ for _ in ()).throw(OSError(28, 'No space left on device'))",
            pytest.param("torch.load = None", marks=pytest.mark.slow),
        ],
    )
    def test_unwritable_and_unreadable_checkpoints(self, command: list[str], kept: Path, trouble: str) -> None:
        before = kept.read_bytes()
        path = Path(command[1])
        done = subprocess.run(
            [sys.executable, "-c", f"import os, torch\n{trouble}\n" + CALLED, str(path), str(kept)],
            capture_output=True, text=True, check=False, cwd=path.parent, env={**os.environ, **RUN},
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        (line,) = done.stderr.splitlines()
        assert str(kept) in line and "training ends" in line
        assert kept.read_bytes() == before
        assert not [p for p in kept.parent.iterdir() if p.suffix not in (".pt", ".before", ".lock")]


CALLED = """\
import ast, random, sys, numpy as np
functions = [n for n in ast.parse(open(sys.argv[1]).read()).body if isinstance(n, ast.FunctionDef)]
wanted = [f for f in functions if f.name in ("stop", "plain_numbers", "save_checkpoint")]
exec(compile(ast.Module(wanted, []), "x", "exec"))
save_checkpoint(sys.argv[2], {"iteration": 3})
"""
"""Saves as the script does, without training."""


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--checkpoint-every", "1"]], ids=["off", "on"])
def test_the_original_bits(options: list[str], tmp_path: Path) -> None:
    path = tmp_path / "ppo.py"
    path.write_text(script())
    left, right = record(path, []), record(path, options, source=converted(script(), checkpoint=True).source)
    assert left.steps and right.iterations == 3
    assert compare(left, right) == ()


WRITING = """\
replace, replaced = os.replace, []


def dying(old, new):
    replaced.append(old)
    if len(replaced) == 3 and os.environ.get("DYING") == "writing":
        os.kill(os.getpid(), 9)
    replace(old, new)


os.replace = dying
"""
"""Dies in the second save, between the two renames that put the file in place."""


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["1", "0", "01", "writing"])
def test_two_ranks_go_on_together_when_some_were_killed(killed: str, tmp_path: Path) -> None:
    source = convert((FIXTURES / "distributed.py").read_text(encoding="utf-8"), checkpoint=True).source
    saving = "        if args.checkpoint_every and update >"
    assert source.count(saving) == 1
    dies = 'os.environ["RANK"] in os.environ.get("DYING")'
    died = f"if update == 4 and {dies}:"
    learned = "sum(p.double().sum() for p in agent.parameters()).item()"
    told = f'print(update, {learned}, file=open("told" + os.environ["RANK"], "a"))'
    source = source.replace(saving, f"        {told}\n        {died}\n            os.kill(os.getpid(), 9)\n{saving}")
    path = tmp_path / "ppo.py"
    above, imports, below = source.partition("import os\n")
    path.write_text(f"{above}{imports}{WRITING}{below}")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    options = ["--total-timesteps", "384", "--local-num-envs", "2", "--num-steps", "16", "--num-minibatches", "2"]
    told_by = []
    for dying in (killed, "none"):
        done = subprocess.run(
            [*torchrun, path, *options, "--checkpoint-every", "2"],
            capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **RUN, "DYING": dying}, check=False,
            timeout=200,
        )  # fmt: skip
        assert (done.returncode == 0) == (dying == "none"), done.stderr
        files = [tmp_path / f"told{rank}" for rank in range(2)]
        told_by.append([file.read_text().splitlines() for file in files])
        for file in files:
            file.unlink()
    assert done.stdout.count("goes on with iteration 3") == 2
    first, second = told_by
    assert [line.split()[0] for line in second[1]] == ["3", "4", "5", "6"]
    assert second[0] == second[1]  # all ranks have the same parameters
    assert second[0][0] == first[0][2]  # the saved ones
    assert not any((tmp_path / "checkpoints").iterdir())


@pytest.mark.slow
def test_torchrun_restarts_two_ranks_when_one_was_killed(tmp_path: Path) -> None:
    """The launcher keeps no store from one try to the next, as docs/checkpoint.md advises."""
    source = convert((FIXTURES / "gymnasium_continuous.py").read_text(), distribute=True, checkpoint=True).source
    saving = "        if args.checkpoint_every and "
    assert source.count(saving) == 1
    counter = source.partition(saving)[2].split()[0]
    dies = f'{counter} == 4 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"'
    path = tmp_path / "ppo.py"
    path.write_text(source.replace(saving, f"        if {dies}:\n            os.kill(os.getpid(), 9)\n{saving}"))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    options = "--env-id Hopper-v4 --total-timesteps 384 --num-envs 2 --num-steps 32 --num-minibatches 4".split()
    done = subprocess.run(
        [*torchrun, path, *options, "--update-epochs", "1", "--eval-episodes", "1", "--checkpoint-every", "2"],
        capture_output=True, text=True, cwd=tmp_path, check=False, timeout=200,
        env={**os.environ, **RUN, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("goes on with iteration 3") == 1
    assert "exitcode: -9" in done.stderr
    assert not any((tmp_path / "checkpoints").iterdir())
