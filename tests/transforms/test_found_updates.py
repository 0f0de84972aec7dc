"""Updates in unusual places: below an episode's loop, in a branch, in helpers that step an optimizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from forking import assert_same_output
from test_several_critics import SCRIPT

from transformer import convert

ACT = "    push = learner.act(x)\n    after, gain, over = walk.step(push)\n"
LEARN = "    if step > 16:\n        learner.learn()\n"
KEEP = "    learner.keep(x, push, gain)\n    x = walk.reset() if over else after\n"
CHOSEN = ("inline", "update")


def edited(*edits: tuple[str, str], text: str = SCRIPT) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def indented(text: str, by: str = "    ") -> str:
    return "".join(f"{by}{line}\n" for line in text.splitlines())


def extracted(script: str, folder: Path) -> str:
    """The conversion, which has an update and prints what the script prints."""
    converted = convert(script, select=CHOSEN)
    assert converted.converted, converted.diagnostics
    assert "def update(" in converted.source
    assert_same_output(folder, script, converted.source)
    return converted.source


# --- which step of the environment is trained on ----------------------------------------------------------------------

JUDGED = (
    "    if step % 7 == 6:\n        after, gain, over = walk.step(0.5)\n        x = walk.reset() if over else after\n"
)
TRAINED = f"    else:\n{indented(ACT + KEEP + LEARN)}"


def test_a_step_in_the_other_branch_of_an_if_is_not_the_updates(tmp_path: Path) -> None:
    extracted(edited((ACT + KEEP + LEARN, JUDGED + TRAINED)), tmp_path)


def test_nor_is_a_step_in_the_branch_below(tmp_path: Path) -> None:
    trained = TRAINED.replace("    else:", "    if step % 7 < 6:", 1)
    extracted(edited((ACT + KEEP + LEARN, trained + JUDGED.replace("if step % 7 == 6:", "else:"))), tmp_path)


def test_the_only_step_in_the_other_branch_is_no_training_loop() -> None:
    steps = f"    if step % 2 or step < 17:\n{indented(ACT + KEEP)}    else:\n        learner.learn()\n"
    converted = convert(edited((ACT + KEEP + LEARN, steps)), select=CHOSEN)
    assert not converted.converted and converted.errors[0].code in ("LC004", "LC005")


@pytest.mark.parametrize(
    "below",
    ["    if step > 2:\n        learner.learn()\n", "    for _ in range(step % 3 + 1):\n        learner.learn()\n"],
    ids=["once", "several times"],
)
@pytest.mark.parametrize("while_", [True, False], ids=["while", "for"])
def test_an_episode_is_learned_from_below_its_loop(below: str, while_: bool, tmp_path: Path) -> None:
    head = "    over = False\n    while not over:\n" if while_ else "    for _ in range(16):\n"
    extracted(edited((ACT + KEEP + LEARN, head + indented(ACT + KEEP) + below), ("range(60)", "range(5)")), tmp_path)


# --- helpers that step the optimizer they are given -------------------------------------------------------------------

PASS = "        self.adam_{0}.zero_grad()\n        loss_{0}.backward()\n        self.adam_{0}.step()\n"
HELPER = """def descend(loss, adam):
    adam.zero_grad()
    loss.mean().backward()
    adam.step()


"""


def helped(helper: str = HELPER, one: str = "descend({0}, {1})", two: str = "") -> str:
    calls = "".join(
        f"        {call.format(f'loss_{n}', f'self.adam_{n}')}\n" for n, call in (("one", one), ("two", two or one))
    )
    return edited((PASS.format("one") + PASS.format("two"), calls), ("class Learner:", f"{helper}class Learner:"))


CLIPS = HELPER.replace(
    "    adam.step()", "    nn.utils.clip_grad_norm_(adam.param_groups[0]['params'], most)\n    adam.step()"
).replace("adam):", "adam, most=0.5):")


@pytest.mark.parametrize(
    "script",
    [
        helped(),
        helped(CLIPS),
        helped(CLIPS, "descend({0}, adam={1}, most=0.25)", "descend({0}, {1})"),
        helped(
            HELPER.replace("    adam.step()", "    adam.step()\n    return loss.item()"), "told = descend({0}, {1})"
        ),
        helped(HELPER.replace(".mean()", "").replace("    adam.zero", "    # One pass\n    adam.zero")),
    ],
    ids=["plain", "clips", "by name", "returns", "comments"],
)
def test_a_helper_for_several_optimizers_is_written_out(script: str, tmp_path: Path) -> None:
    source = extracted(script, tmp_path)
    assert "descend" not in source
    assert source.count(".backward()") == 2


STEP = "    adam.step()"
GROWS = HELPER.replace("adam):", "adam, seen=[]):").replace(STEP, f"    seen.append(1)\n    print(len(seen))\n{STEP}")
RETURNS = HELPER.replace(STEP, "    for _ in range(2):\n        if loss < 0:\n            return\n        adam.step()")


@pytest.mark.parametrize(
    "script",
    [
        helped(two="[descend(*both) for both in [({0}, {1})]]"),
        helped(two="for f in (descend,):\n            f({0}, {1})"),
        helped(GROWS),
        helped("from functools import lru_cache\n\n\n@lru_cache\n" + HELPER),
        helped(RETURNS),
        helped(HELPER + "descend.calls = 0\n\n\n"),
        helped(HELPER, two="globals()['descend']({0}, {1})"),
    ],
    ids=["unpacked", "another name", "a default that grows", "decorated", "returns early", "attributes", "by text"],
)
def test_other_helpers_stay(script: str, tmp_path: Path) -> None:
    converted = convert(script, select=CHOSEN)
    if converted.converted:
        assert "descend(" in converted.source
        assert_same_output(tmp_path, script, converted.source)
