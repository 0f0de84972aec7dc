"""Other arguments are chosen by what options do; the original decides how many can be used."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from toy import edited

from transformer.verify import Recording, RunFailed, compare
from transformer.verify import verify as checking
from transformer.verify.exercised import not_exercised, sites_of
from transformer.verify.harness.job import Episodes
from transformer.verify.length import Length, find_length
from transformer.verify.names import OTHER_ARGUMENTS
from transformer.verify.options import Option, with_option
from transformer.verify.other_arguments import (
    OTHER_ITERATIONS,
    every_other_switch,
    most_that_run,
    other_arguments,
    rare_log,
)
from transformer.verify.record import record_run
from transformer.verify.recording import Site
from transformer.verify.run import Run
from transformer.verify.show import as_json, print_verification
from transformer.verify.verify import Configuration, Task, Verification, verify

SCRIPT = """\
optimizer = torch.optim.Adam(net.parameters(), lr=args.rate)
args.part = args.total // args.pieces
for i in range(args.turns):
    envs.step(action)
    for start in range(0, args.total, args.part):
        if args.plain:
            loss = ratio
        ratio = torch.clamp(ratio, 1 - args.width, 1 + args.width)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), args.longest)
        if args.far is not None and kl > args.far:
            break
"""
OPTIONS = {
    "rate": 1e-3,
    "pieces": 4,
    "turns": 9,
    "plain": True,
    "width": 0.2,
    "longest": 0.5,
    "far": None,
    "gamma": 0.9,
}
TWO = ("true", "false")
CLIP = Site("clip", 8, "", "", ("lower bound", "upper bound"), frozenset({"reached"}), None, None)
PARTS = Site("parts", 5, "", "", (), frozenset({"reached"}), None, (64, 16))
NORM = Site("norm", 10, "", "", ("clipped",), frozenset({"reached"}), None, (0.01, 0.04))
EXIT = Site(
    "condition",
    11,
    "if args.far is not None and kl > args.far",
    "break",
    TWO,
    frozenset({"false"}),
    None,
    None,
)
PLAIN = Site("condition", 6, "if args.plain", "", TWO, frozenset({"true"}), None, None)
SITES = [CLIP, PARTS, NORM, EXIT, PLAIN]
EXPECTED = {
    "--pieces": "5",  # five parts of 12, and one of 4
    "--no-plain": "",
    "--far": "1e-05",
    "--longest": "0.02",
    "--width": "0.002",
    "--rate": "0.01",
}


def options_of(values: dict[str, int | float | bool | None]) -> list[Option]:
    return [
        Option(f"--{name}", name, value, (f"--no-{name}",) if isinstance(value, bool) else ())
        for name, value in values.items()
    ]


def arguments(script: str = SCRIPT, sites: list[Site] = SITES, **options: int | float | bool | None) -> dict[str, str]:
    found = other_arguments(script, options_of({**OPTIONS, **options}), sites)
    return {name: " ".join(value) for name, *value in found}


def test_each_option_by_what_it_does() -> None:
    assert arguments() == EXPECTED


@pytest.mark.parametrize(
    "edits",
    [
        [("args.width", "width"), ("for i in", "width = args.width\nfor i in")],
        [("args.width", "self.w"), ("for i in", "self.w = args.width * frac\nfor i in")],
        [("args.far", "far"), ("for i in", "far = args.far\nfor i in")],
        [("lr=args.rate", "lr=rate"), ("optimizer =", "rate = args.rate\noptimizer =")],
        [("net.parameters(), lr=args.rate", '[{"params": net.parameters(), "lr": args.rate}]')],
        [("net.parameters(), args.longest", "net.parameters(), max_norm=args.longest")],
    ],
)
def test_values_are_followed(edits: list[tuple[str, str]]) -> None:
    script = SCRIPT
    for old, new in edits:
        script = script.replace(old, new)
    moved = [
        dataclasses.replace(
            site, line=site.line + script.count("\n") - SCRIPT.count("\n"), text=site.text.replace(*edits[0])
        )
        for site in SITES
    ]
    assert arguments(script, moved) == EXPECTED


def test_values_are_followed_into_functions_and_properties() -> None:
    function = """\
def clipped(ratio, *, width): return torch.clamp(ratio, 1 - width, 1 + width)
class Args:
    pieces: int = 4
    @property
    def part(self): return self.total // self.pieces
"""
    script = SCRIPT.replace("torch.clamp(ratio, 1 - args.width, 1 + args.width)", "clipped(ratio, width=args.width)")
    script = script.replace("args.part = args.total // args.pieces\n", "") + function
    sites = [dataclasses.replace(site, line=site.line - 1) for site in SITES]
    sites[0] = dataclasses.replace(CLIP, line=12)
    assert arguments(script, sites) == EXPECTED


def test_exercised_branches_need_no_switch_or_limit() -> None:
    sites = [CLIP, PARTS, NORM, *(dataclasses.replace(s, seen=frozenset(TWO)) for s in (EXIT, PLAIN))]
    assert arguments(sites=sites).keys() == EXPECTED.keys() - {"--no-plain", "--far"}


def test_a_switch_stays_where_turning_it_would_hide_something() -> None:
    assert "--no-plain" not in arguments(sites=[dataclasses.replace(CLIP, guard=(4, "true")), *SITES[1:]])


def test_a_size_of_minibatches() -> None:
    script = SCRIPT.replace("args.part = args.total // args.pieces\n", "\n")
    assert arguments(script, part=16)["--part"] == "15", "four parts, and one of 4"
    uneven = [CLIP, dataclasses.replace(PARTS, amounts=(64, 15)), NORM, EXIT, PLAIN]
    assert arguments(script, uneven, part=15).keys() == EXPECTED.keys() - {"--pieces"}


def test_options_are_set_once() -> None:
    assert with_option(["--a", "1", "--b_c=2", "--d"], ["--b-c", "3"]) == ("--a", "1", "--d", "--b-c", "3")
    assert with_option(["--a", "1", "--d"], ["--a", "2"]) == ("--d", "--a", "2")
    assert with_option(["--d", "--a", "1"], ["--no-d"]) == ("--a", "1", "--no-d")
    assert with_option(["--no-d", "--a"], ["--d"]) == ("--a", "--d")
    assert with_option(["--x.no-d", "--a"], ["--x.d"]) == ("--a", "--x.d")


@pytest.mark.parametrize("bad", [set(), {"c"}, {"a", "e"}, set("abcde")])
def test_options_that_end_the_original_are_left_out(bad: set[str]) -> None:
    tried: list[str] = []

    def run(changes: tuple[tuple[str, ...], ...]) -> str:
        tried.append("".join(c for (c,) in changes))
        if bad & set(tried[-1]):
            raise RunFailed("no")
        return tried[-1]

    kept, outcome = most_that_run(tuple((c,) for c in "abcde"), run)
    good = "".join(c for c in "abcde" if c not in bad)
    assert "".join(c for (c,) in kept) == good
    assert outcome == (good or None)
    assert len(tried) == len(set(tried)) or bad == set("abcde")


@pytest.mark.parametrize(("other", "fails"), [(True, ()), (True, ("--lr",)), (False, ())])
def test_checks_with_other_arguments(
    toy_recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bool, fails: tuple[str, ...]
) -> None:
    script = tmp_path / "script.py"
    script.write_text("Adam(lr=args.lr)")
    made: list[tuple[str, ...]] = []
    site = Site("condition", 3, "if args.x", "", TWO, frozenset({"true"}), None, None)

    def record_run(run: Run, **_: object) -> Recording:
        if set(run.args) & set(fails):
            raise RunFailed("the script ended", "ValueError: too fast")
        made.append(run.args)
        return dataclasses.replace(toy_recording, sites=(site,))

    length = Length("--updates", 1, 100, (Option("--lr", "lr", 1e-3),))
    monkeypatch.setattr(checking, "find_length", lambda run: length)
    monkeypatch.setattr(checking, "record_run", record_run)
    verification = verify(Task(Run(script, ("--lr=0.5", "--x")), "pass", up_to=OTHER_ARGUMENTS, other_arguments=other))
    usual = ("--lr=0.5", "--x", "--updates", "3")
    others = ("--x", "--lr", "0.01", "--updates", "2")
    exercised = other and not fails
    assert made == [usual] * 2 + [others] * 2 * exercised
    assert [r.name for r in verification.checks] == ["flags-off", "flags-on", "flags-off-other-arguments"][
        : 2 + exercised
    ]
    assert verification.other_arguments == ((Configuration(others, None),) if exercised else ())
    notes = [n for n in verification.notes if "With other arguments" in n]
    assert notes == [
        "With other arguments, the original fails with --lr 0.01, which was left out: ValueError: too fast"
    ] * len(fails)
    console = Console(record=True, width=120)
    print_verification(verification, console)
    shown = console.export_text()
    assert "line 3: if args.x was never false" in shown
    assert ("other arguments: flags off: EQUAL" in shown) == ("other arguments: --x --lr 0.01" in shown) == exercised
    as_data = as_json(verification, (), None)
    assert as_data["not_exercised"] == ["line 3: if args.x was never false"]
    given = {"other-arguments": {"arguments": list(others), "episodes": None}}
    assert as_data["other_arguments"] == (given if exercised else {})
    assert as_data["verdict"] == "equal"


def test_every_other_switch() -> None:
    options = options_of({"a": True, "b": True, "c": True, "lr": 0.1})
    number, *flips = ("--lr", "1"), ("--no-a",), ("--no-b",), ("--no-c",)
    assert every_other_switch((*flips, number), options) == (flips[0], flips[2], number)
    assert every_other_switch((flips[1], number), options) == (number,)
    assert every_other_switch((number,), options) == (number,)


@pytest.mark.parametrize("fails", [False, True])
def test_the_check_with_short_episodes(
    toy_recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    script = tmp_path / "script.py"
    script.write_text("for i in x:\n    if args.x:\n        loss.backward()\nAdam(lr=args.lr)")
    site = Site("condition", 2, "if args.x", "", TWO, frozenset({"true"}), None, None)
    made: list[tuple[tuple[str, ...], object]] = []

    def record_run(run: Run, episodes: Episodes | None = None, **_: object) -> Recording:
        if fails and episodes is not None:
            raise RunFailed("the script ended", "TypeError: too short")
        made.append((run.args, episodes))
        return dataclasses.replace(toy_recording, sites=(site,))

    options = options_of({"lr": 1e-3, "x": True})
    monkeypatch.setattr(checking, "find_length", lambda run: Length("--updates", 1, 100, tuple(options)))
    monkeypatch.setattr(checking, "record_run", record_run)
    verification = verify(Task(Run(script), "pass", up_to=OTHER_ARGUMENTS))
    both = ("--no-x", "--lr", "0.01", "--updates", "2")
    more = (*both[1:-1], "3")
    other = [(more, Episodes(4, 8))] * (not fails)  # a rollout has four steps
    assert made == [(("--updates", "3"), None)] * 2 + [(both, None), *other] * 2
    assert [r.name for r in verification.checks][3:] == ["flags-off-short-episodes"] * (not fails)
    console = Console(record=True, width=150)
    print_verification(verification, console)
    assert ("other arguments, short episodes: --lr 0.01 --updates 3, episodes" in console.export_text()) == (not fails)
    assert as_json(verification, (), None)["other_arguments"].get("short-episodes") == (
        None if fails else {"arguments": [*more], "episodes": {"truncated": 4, "barren": 8}}
    )


EPISODES = """\
import GYM, torch
env, net = GYM.make("CartPole-v1"), torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
env.reset(seed=1)
for step in range(6):
    _, reward, *ended, info = env.step(step % 2)
    print(reward, *ended, info)
    if any(ended):
        env.reset()
optimizer.step()
env.close()
"""
TRUNCATED = {
    "gymnasium": ["1.0 False False {}"] * 2 + ["1.0 False True {}", *["0.0 False True {}"] * 3],
    "gym": ["1.0 False {}"] * 2 + [f"{reward} True {{'TimeLimit.truncated': True}}" for reward in (1.0, 0.0, 0.0, 0.0)],
}


@pytest.mark.parametrize("gym", TRUNCATED)
def test_short_episodes(tmp_path: Path, gym: str) -> None:
    pytest.importorskip(gym)
    script = tmp_path / "episodes.py"
    script.write_text(EPISODES.replace("GYM", gym))
    usual, short = (record_run(Run(script), episodes=episodes) for episodes in (None, Episodes(3, 3)))
    assert [p.line for p in usual.prints] == TRUNCATED[gym][:1] * 6
    assert [p.line for p in short.prints] == TRUNCATED[gym]


def test_an_original_that_does_not_repeat_itself_with_other_arguments(
    toy_recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    script.write_text("Adam(lr=args.lr)")
    turns = iter(range(100))

    def record_run(run: Run, **_: object) -> Recording:
        return dataclasses.replace(toy_recording, files=(f"{next(turns)}",) if "--lr" in run.args else ())

    monkeypatch.setattr(checking, "find_length", lambda run: Length("--updates", 1, 9, (Option("--lr", "lr", 1e-3),)))
    monkeypatch.setattr(checking, "record_run", record_run)
    verification = verify(Task(Run(script), "pass", up_to=OTHER_ARGUMENTS))
    assert off(verification) == [
        ("flags-off", "equal"),
        ("flags-off-other-arguments", "not run"),
    ]
    assert "two runs of the original differ" in verification.checks[2].reason


def off(verification: Verification) -> list[tuple[str, str]]:
    """Names and outcomes of the checks with the flags off."""
    return [(r.name, r.status) for r in verification.checks if r.name.startswith("flags-off")]


DATA = Path(__file__).parent / "data"
ORIGINAL = DATA / "small_ppo.py"
CONVERTED = (DATA / "small_ppo_converted.py").read_text()
CALM = Run(
    ORIGINAL,
    (
        *("--total-timesteps", "192", "--learning-rate", "1e-4", "--clip-coef", "0.5"),
        *("--max-grad-norm", "100", "--target-kl", "1"),
    ),
)
"""Nothing is clipped, and no epoch ends early."""

WRONG = {
    "lower bound of the ratio": ("1 - args.clip_coef", "1 - 2 * args.clip_coef"),
    "upper bound of the ratio": ("1 + args.clip_coef", "1 + 2 * args.clip_coef"),
    "values clipped too late": ("-args.clip_coef, args.clip_coef)", "-2 * args.clip_coef, 2 * args.clip_coef)"),
    "value loss not clipped": ("torch.max(v_loss_unclipped, v_loss_clipped).mean()", "v_loss_unclipped.mean()"),
    "policy loss not clipped": ("torch.max(pg_loss1, pg_loss2).mean()", "pg_loss1.mean()"),
    "longer gradients": ("args.max_grad_norm)", "2 * args.max_grad_norm)"),
    "no early exit": ("if args.target_kl is not None and approx_kl > args.target_kl:", "if False:"),
    "last, smaller minibatch dropped": (
        ".split(args.minibatch_size)",
        ".split(args.minibatch_size)[: args.batch_size // args.minibatch_size]",
    ),
}


@cache
def found() -> Length:
    return find_length(CALM)


@cache
def original(other: bool) -> tuple[Run, Recording]:
    run = CALM
    if other:
        _, calm = original(other_arguments=False)
        for change in other_arguments(ORIGINAL.read_text(), found().options, sites_of([calm])):
            run = dataclasses.replace(run, args=with_option(run.args, change))
    run = found().shortened(run, OTHER_ITERATIONS if other else 3)
    return run, record_run(run, watch=True)


def is_equal(source: str, other: bool) -> bool:
    run, recording = original(other)
    return compare(recording, record_run(dataclasses.replace(run, source=source))) == ()


@pytest.mark.slow
def test_a_right_conversion_is_equal_with_other_arguments() -> None:
    assert is_equal(CONVERTED, other_arguments=True)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_that_only_other_arguments_exercise(mistake: str) -> None:
    wrong = edited(*WRONG[mistake], CONVERTED)
    assert is_equal(wrong, other_arguments=False), "or it needs no other arguments"
    assert not is_equal(wrong, other_arguments=True)


@pytest.mark.slow
def test_watching_changes_nothing() -> None:
    run, watched = original(other_arguments=False)
    assert compare(watched, record_run(run)) == ()
    assert not_exercised(sites_of([watched, original(other_arguments=True)[1]])) == (
        "line 191: np.nan if var_y == 0 else 1 - np.var(y_true - y_pred) / var_y was never true",
    )


@pytest.mark.slow
def test_verify_with_other_arguments() -> None:
    wrong = edited(*WRONG["upper bound of the ratio"], CONVERTED)
    task = Task(CALM, wrong, up_to=OTHER_ARGUMENTS)
    verification = verify(task)
    assert off(verification) == [
        ("flags-off", "equal"),
        ("flags-off-other-arguments", "different"),
    ]
    assert verification.verdict() is verification.checks[2]
    calm = verify(dataclasses.replace(task, other_arguments=False))
    assert off(calm) == [("flags-off", "equal")]
    assert any("clamp(ratio" in sentence for sentence in calm.not_exercised)
    assert not any("clamp(ratio" in sentence for sentence in verification.not_exercised)


@pytest.mark.slow
def test_options_that_break_the_original_are_left_out(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    picky = edited(
        "    return args\n",
        "    assert args.batch_size % args.num_minibatches == 0\n    return args\n",
        ORIGINAL.read_text(),
    )
    script.write_text(picky)
    verification = verify(Task(dataclasses.replace(CALM, script=script), picky, up_to=OTHER_ARGUMENTS))
    assert [status for _, status in off(verification)] == ["equal", "equal"]
    assert not any("--num-minibatches" in other.args for other in verification.other_arguments)
    (note,) = (n for n in verification.notes if "--num-minibatches" in n)
    assert "AssertionError" in note


RARE = """
import argparse
for episode in range(9):
    score = play()
    if episode % <every> == 0:
        print(score)
"""


@pytest.mark.parametrize(
    ("every", "how"), [("args.log_every", "`-- --log-every 1` lets it"), ("20", "with more --iterations it may")]
)
def test_advice_where_a_script_would_log(every: str, how: str) -> None:
    source, options = RARE.replace("<every>", every), [Option("--log-every", "log_every", 50)]
    test = f"episode % {every} == 0"
    site = Site("condition", 5, f"if {test}", "", TWO, frozenset({"false"}), None, None)
    assert rare_log(source, options, [site]) == f"line 5 logs where `{test}`: {how}"
    seen = dataclasses.replace(site, seen=frozenset(TWO))
    assert rare_log(source, options, [seen]) == "with more --iterations they may be"
