"""The checks run in order, and each outcome has its verdict."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from transformer.cli import main
from transformer.commands.script_runs import CheckBars
from transformer.syntax import header
from transformer.verify import Recording, RunFailed
from transformer.verify import verify as checking
from transformer.verify.call_error import CallError
from transformer.verify.checks import Check
from transformer.verify.length import Length
from transformer.verify.lockstep import Function, Lockstep
from transformer.verify.names import CHECKS, OTHER_ARGUMENTS
from transformer.verify.recording import Log
from transformer.verify.run import Run
from transformer.verify.show import print_verdict
from transformer.verify.verify import CannotVerify, NoProgress, Task, verify

CONVERTED = """
if args.compile:
    policy = torch.compile(policy)
if args.cudagraphs:
    policy = CudaGraphModule(policy)
"""
ERROR = CallError("policy", 5, True, "output", "output[0]", "float32", 8, 1e-6, 1e-7)
EQUAL = Lockstep((Function("policy", 9, 8),), (ERROR,), (), 2, 1.0)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, toy_recording: Recording) -> Callable[..., list[Run]]:
    """Replace the subprocesses: each source has a given outcome. Returns the runs made."""

    def install(
        outcomes: dict[str | None, Any], lockstep: Any = EQUAL, cuda: bool = False, emulated_only: bool = False
    ) -> list[Run]:
        """If `emulated_only`, these are outcomes on the emulated device, and all others are equal."""
        made: list[Run] = []

        def outcome_of(outcome: Any) -> Any:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        def record_run(run: Run, *, emulated: bool = False, **_: Any) -> Recording:
            made.append(run)
            outcome = toy_recording if emulated_only and not emulated else outcomes.get(run.source, toy_recording)
            if isinstance(outcome, list):
                outcome = outcome.pop(0)
            recording: Recording = outcome_of(outcome)
            return dataclasses.replace(recording, versions={"cuda": cuda})

        def run_in_lockstep(run: Run, **_: Any) -> Lockstep:
            made.append(run)
            result: Lockstep = outcome_of(lockstep)
            log = Log(toy_recording.scalars, toy_recording.prints, toy_recording.actions)
            return result if result.logs else dataclasses.replace(result, logs=(log,))

        monkeypatch.setattr(checking, "find_length", lambda run: Length("--updates", 1, 100))
        monkeypatch.setattr(checking, "record_run", record_run)
        monkeypatch.setattr(checking, "run_in_lockstep", run_in_lockstep)
        return made

    return install


SEEN = tuple(name for name in CHECKS if name != OTHER_ARGUMENTS)
"""The toy has no option that could be a further argument."""


def statuses(task: Task) -> dict[str, str]:
    return {check.name: check.status for check in verify(task).checks}


@pytest.fixture
def task(toy_script: Path) -> Task:
    return Task(Run(toy_script, ("--updates", "7")), CONVERTED, iterations=2)


def less(recording: Recording) -> Recording:
    return dataclasses.replace(recording, scalars=(), prints=recording.prints[:-1])


def test_all_checks_with_cuda(runs: Callable[..., list[Run]], task: Task) -> None:
    made = runs({}, cuda=True)
    assert statuses(task) == dict.fromkeys(SEEN, "equal")
    assert [run.args for run in made] == [
        ("--updates", "2"),
        ("--updates", "2"),
        ("--updates", "2", "--compile"),
        ("--updates", "2", "--compile"),
        ("--updates", "2"),  # the original's first iteration, with another clock
        ("--updates", "2", "--compile", "--cudagraphs"),
        ("--updates", "2", "--cudagraphs"),
        ("--updates", "2", "--compile", "--cudagraphs"),
    ]


def test_an_emulated_check_is_not_passed(runs: Callable[..., list[Run]], task: Task) -> None:
    runs({})
    verification = verify(task)
    expected = ["equal", "equal", "equal", "emulated", "emulated", "emulated"]
    assert [r.status for r in verification.checks] == expected
    assert verification.verdict() is None
    required = verification.verdict(["cuda-graphs"])
    assert required is not None
    assert required.name == "cuda-graphs"


def test_the_last_check_can_be_chosen(runs: Callable[..., list[Run]], task: Task) -> None:
    runs({}, cuda=True)
    assert list(statuses(dataclasses.replace(task, up_to="compiled"))) == ["flags-off", "flags-on", "compiled"]
    assert statuses(dataclasses.replace(task, up_to="flags-off")) == {"flags-off": "equal"}


def test_a_script_without_flags(runs: Callable[..., list[Run]], task: Task) -> None:
    runs({}, cuda=True)
    assert statuses(dataclasses.replace(task, converted="pass")) == {"flags-off": "equal"} | dict.fromkeys(
        SEEN[1:], "not run"
    )


def test_the_first_check_that_fails_is_named(
    runs: Callable[..., list[Run]], task: Task, toy_recording: Recording
) -> None:
    made = runs({CONVERTED: less(toy_recording)}, cuda=True)
    verification = verify(task)
    assert [r.status for r in verification.checks] == ["different", *["not run"] * 5]
    failing = verification.verdict()
    assert failing is not None
    assert failing.name == "flags-off"
    assert "print at line 4" in failing.findings[0]
    assert "points to" in failing.findings[0]
    assert verification.checks[1].reason == "flags-off comes first"
    assert len(made) == 3, "the original is run once more, to see that it repeats itself"


def test_each_transform(runs: Callable[..., list[Run]], task: Task, toy_recording: Recording) -> None:
    runs({"broken": less(toy_recording)})
    prefixes = (("after flags", "fine"), ("after gae", "broken"), ("after update", "fine too"))
    verification = verify(dataclasses.replace(task, prefixes=prefixes))
    assert [(r.name, r.status) for r in verification.checks[:4]] == [
        ("after flags", "equal"),
        ("after gae", "different"),
        ("after update", "not run"),
        ("flags-off", "not run"),
    ]


def test_a_crash_of_the_converted_script(runs: Callable[..., list[Run]], task: Task) -> None:
    runs({CONVERTED: RunFailed("exit status 1", "ValueError: no")})
    failing = verify(task).verdict()
    assert failing is not None
    assert (failing.name, failing.status) == ("flags-off", "failed")
    assert "ValueError: no" in failing.reason


def test_a_crash_with_a_flag(runs: Callable[..., list[Run]], task: Task) -> None:
    runs({}, lockstep=RunFailed("exit status 1", "Unsupported"))
    expected = ["equal", "equal", "failed", *["not run"] * 3]
    assert statuses(task) == dict(zip(SEEN, expected, strict=True))


@pytest.mark.parametrize("original", [False, True])
def test_code_that_is_not_emulated_is_not_run(runs: Callable[..., list[Run]], task: Task, original: bool) -> None:
    failure = RunFailed("exit status 83", "NotImplementedError: aten::fft", not_emulated=True)
    runs({None: failure, CONVERTED: failure} if original else {CONVERTED: failure}, emulated_only=True)
    checks = {check.name: check for check in verify(task).checks}
    assert checks["flags-on"].status == "equal"
    assert checks["flags-on-cuda-graphs"].status == "not run"
    assert "NotImplementedError: aten::fft" in checks["flags-on-cuda-graphs"].reason


def test_code_that_cuda_refuses_fails_when_emulated(runs: Callable[..., list[Run]], task: Task) -> None:
    runs({CONVERTED: RunFailed("exit status 1", "Devices: two devices")}, emulated_only=True)
    failing = verify(task).verdict()
    assert failing is not None
    assert (failing.name, failing.status) == ("flags-on-cuda-graphs", "failed")


def test_runs_by_torchrun_are_not_emulated(
    runs: Callable[..., list[Run]], task: Task, toy_recording: Recording
) -> None:
    runs({})
    several = dataclasses.replace(task, original=dataclasses.replace(task.original, processes=1))
    assert verify(several).checks[3].status == "not run"


def test_an_error_above_the_tolerance(runs: Callable[..., list[Run]], task: Task) -> None:
    far = dataclasses.replace(ERROR, relative=2e-4)
    runs({}, lockstep=dataclasses.replace(EQUAL, errors=(ERROR, far)))
    check = verify(task).checks[2]
    assert check.status == "different"
    assert (check.rows[0].error, check.rows[0].tolerance, check.rows[0].values, check.rows[0].equal) == (
        2e-4,
        1e-4,
        16,
        False,
    )
    assert "policy, call 5 (after its warm-up): output[0] is 0.0002 away" in check.findings[0]


def test_another_log_of_the_first_iteration(
    runs: Callable[..., list[Run]], task: Task, toy_recording: Recording
) -> None:
    lines = tuple(dataclasses.replace(p, line=p.line.replace("loss ", "loss 1")) for p in toy_recording.prints)
    runs({}, lockstep=dataclasses.replace(EQUAL, logs=(Log((), lines, toy_recording.actions),)))
    check = verify(task).checks[2]
    assert check.status == "different"
    assert [row.what for row in check.rows if not row.equal] == ["first iteration's log"]
    assert "printed line 1 in the first iteration" in check.findings[0]


def test_an_original_that_does_not_repeat_itself(
    runs: Callable[..., list[Run]], task: Task, toy_recording: Recording
) -> None:
    runs({None: [toy_recording, less(toy_recording)], CONVERTED: less(toy_recording)})
    with pytest.raises(
        CannotVerify, match="two runs of the original differ, so nothing can be compared: print at line 4"
    ):
        verify(task)


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ({"steps": ()}, "stepped no torch optimizer"),
        ({"actions": ()}, "never calls step"),
    ],
)
def test_an_original_that_gives_nothing_to_compare(
    runs: Callable[..., list[Run]], task: Task, toy_recording: Recording, lacking: dict[str, Any], message: str
) -> None:
    runs({None: dataclasses.replace(toy_recording, **lacking)})
    with pytest.raises(CannotVerify, match=message):
        verify(task)


class Told(NoProgress):
    """Records the calls it gets, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    @contextmanager
    def run(self, name: str, iterations: int | None) -> Iterator[Callable[[int], None]]:
        self.events.append(("run", name))
        yield lambda done: None

    def plan(self, lines: Sequence[str]) -> None:
        self.events.append(("plan", *lines))

    def begin(self, line: str) -> None:
        self.events.append(("begin", line))

    def finish(self, line: str, checks: Sequence[Check]) -> None:
        self.events.append(("finish", line, [check.status for check in checks]))


def test_a_line_appears_when_its_last_check_ends(runs: Callable[..., list[Run]], task: Task) -> None:
    runs({})
    told = Told()
    verify(task, told, then=["1-rank"])
    another_clock = ("run", "original by another clock")
    assert told.events == [
        ("plan", "flags off", "flags on, not compiled", "other arguments", "compiled", "CUDA graphs", "1-rank"),
        ("run", "original"),
        ("begin", "flags off"),
        ("run", "flags-off"),
        ("finish", "flags off", ["equal"]),
        ("begin", "flags on, not compiled"),
        ("run", "flags-on"),
        ("finish", "flags on, not compiled", ["equal"]),
        ("begin", "other arguments"),
        ("finish", "other arguments", []),
        ("begin", "compiled"),
        ("run", "compiled"),
        another_clock,
        ("finish", "compiled", ["equal"]),
        ("begin", "CUDA graphs"),
        ("run", "original, emulated"),
        ("run", "flags-on-cuda-graphs"),
        ("run", "cuda-graphs"),
        another_clock,
        ("run", "compiled-cuda-graphs"),
        ("finish", "CUDA graphs", ["emulated"] * 3),
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def plain(file: io.StringIO, height: int = 24) -> Console:
    return Console(file=file, force_terminal=file.isatty(), color_system=None, width=120, height=height)


@pytest.mark.parametrize("terminal", [False, True])
def test_lines_appear_while_checks_run(runs: Callable[..., list[Run]], task: Task, terminal: bool) -> None:
    runs({})
    shown, lines, verdict = Terminal() if terminal else io.StringIO(), io.StringIO(), io.StringIO()
    before: dict[str, str] = {}

    class Watched(CheckBars):
        @contextmanager
        def run(self, name: str, iterations: int | None) -> Iterator[Callable[[int], None]]:
            with super().run(name, iterations) as on_iteration:
                before.setdefault(name, (shown if terminal else lines).getvalue())
                yield on_iteration

    with Watched(plain(shown), plain(lines)) as bars:
        verification = verify(task, bars)
    line = re.compile("flags off +same bits ")
    assert not line.search(before["flags-off"])
    assert line.search(before["flags-on"])
    assert re.search("compiled +within 1e-06 ", before["cuda-graphs"])
    assert ("check 5 of 5: CUDA graphs" in before["cuda-graphs"]) == bars.shown == terminal
    print_verdict(verification, plain(verdict), lines_were_told=not bars.shown)
    assert len(line.findall(lines.getvalue() + verdict.getvalue())) == 1
    assert verdict.getvalue().splitlines()[-1].startswith("EQUAL on all that can run here")


def test_a_low_terminal_shows_the_last_lines(runs: Callable[..., list[Run]], task: Task) -> None:
    runs({})
    shown = Terminal()
    with CheckBars(plain(shown, height=4), plain(io.StringIO())) as bars:
        verify(task, bars)
    above = [frame.splitlines()[-1] for frame in shown.getvalue().split("\ncheck 5 of 5")[:-1]]
    assert above
    assert all(re.search("compiled  within 1e-06", line) for line in above)
    assert not re.search("same bits.*\ncompiled", shown.getvalue())


@pytest.fixture
def command(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`verify toy.py out.py`, in a folder where out.py holds the given text."""
    monkeypatch.chdir(tmp_path)

    def call(*options: str, converted: str = CONVERTED) -> Result:
        Path("out.py").write_text(converted)
        return CliRunner().invoke(main, ["verify", str(task.original.script), "out.py", *options])

    return call


def test_lines_are_no_part_of_json(runs: Callable[..., list[Run]], command: Callable[..., Result]) -> None:
    runs({})
    as_text, as_json = command(), command("--format", "json")
    assert as_text.exit_code == as_json.exit_code == 0
    assert as_text.stderr == ""
    assert as_text.stdout.count("flags off  ") == 1
    assert [check["name"] for check in json.loads(as_json.stdout)["checks"]] == list(SEEN)
    assert as_json.stderr.splitlines() == as_text.stdout.splitlines()[:-1]


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (header.quoted(Path("dqn.py")), "dqn.py"),
        (header.quoted(Path("two words.py")), "two words.py"),
        (header.quoted(Path("\x1b[2J.py")), "%1B%5B2J.py"),
        (header.quoted(Path("elsewhere/toy.py")), None),
        (header.NO_FILE, None),
        (None, None),
    ],
)
def test_a_header_that_names_another_source(
    runs: Callable[..., list[Run]], command: Callable[..., Result], source: str | None, named: str | None
) -> None:
    runs({})
    converted = CONVERTED if source is None else header.add(CONVERTED, source)
    for form in "text", "json":
        result = command("--format", form, "--up-to", "flags-off", converted=converted)
        assert result.exit_code == 0, "a script may have been renamed"
        note = f"Note: out.py says that it was converted from {named}, not from toy.py"
        assert [line for line in result.stderr.splitlines() if "converted from" in line] == [note] * (named is not None)
        assert "converted from" not in result.stdout


def test_a_conversion_that_was_edited_since(runs: Callable[..., list[Run]], command: Callable[..., Result]) -> None:
    runs({})
    whole = header.add(CONVERTED, header.quoted(Path("toy.py")))
    for converted, told in ((whole, False), (whole + "# mine\n", True)):
        result = command("--up-to", "flags-off", converted=converted)
        assert result.exit_code == 0
        assert ("Note: out.py was edited since it was converted" in result.stderr) == told


def test_the_screen_of_a_crash(runs: Callable[..., list[Run]], command: Callable[..., Result]) -> None:
    said = "ValueError: " + "no walk today, " * 12
    where = 'Traceback (most recent call last):\n  File "toy.py", line 7, in <module>'
    runs({CONVERTED: RunFailed("the script ended with exit status 1", f"{where}\n{said}")})
    result = command()
    assert (result.exit_code, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[:4]] == [
        "flags off",
        "flags on, not compiled",
        "compiled",
        "CUDA graphs",
    ]
    assert lines[0].split()[2] == "FAILED"
    assert lines[4:-2] == [
        "the converted script out.py failed: the script ended with exit status 1",
        "Traceback (most recent call last):",
        '  File "out.py", line 7, in <module>',
        said,
    ]
    assert "a bug in lean-convert" in lines[-2]
    assert lines[-1].startswith("FAILED: flags off   ")


def test_the_screen_of_a_check_that_differs(
    runs: Callable[..., list[Run]], command: Callable[..., Result], toy_recording: Recording
) -> None:
    runs({CONVERTED: dataclasses.replace(less(toy_recording), final={})})
    result = command()
    assert (result.exit_code, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert lines[0].split()[2] == "DIFFERENT"
    assert lines[4].startswith("This points to: ")
    assert lines[5].startswith("  print at line 4: ")
    assert lines[6].endswith("more that may follow from it: -v shows them")
    assert sum("DIFFERENT" in line for line in lines) == 3, "its line, its table, the verdict"
    assert lines[-1].startswith("DIFFERENT: flags off   ")


def test_a_small_first_difference_does_not_hide_a_large_one(
    runs: Callable[..., list[Run]], command: Callable[..., Result], toy_recording: Recording
) -> None:
    norms = [dataclasses.replace(s, gradient_norm=s.gradient_norm + 1e-7) for s in toy_recording.steps]
    rates = [dataclasses.replace(s, numbers={name: x + 26.9 for name, x in s.numbers.items()}) for s in norms]
    runs({CONVERTED: dataclasses.replace(toy_recording, steps=tuple(rates))})
    output = command().stdout
    assert "(largest difference 1e-07)" in output
    assert re.search(r"more that may follow from it, with differences of up to 26\.9 \(\w", output)
