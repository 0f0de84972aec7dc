import io

import pytest
from hand_made import COMPILE, ORIGINAL, hand_made
from rich.console import Console

from transformer.diff.compare import compare
from transformer.diff.story import chapters
from transformer.diff.terminal import print_blame, print_stats, print_story


def printed(render, width=100, colour=False):
    buffer = io.StringIO()
    render(
        Console(
            file=buffer,
            width=width,
            highlight=False,
            force_terminal=colour,
            color_system="standard" if colour else None,
            no_color=not colour,
        )
    )
    return buffer.getvalue()


def told(names=None, context=1, **options):
    conversion = hand_made()
    side_by_side = options.pop("side_by_side", False)
    return printed(
        lambda c: print_story(c, conversion, chapters(conversion, names), context=context, side_by_side=side_by_side),
        **options,
    )


def test_the_story_names_each_transform_with_its_reason():
    text = told()
    positions = [text.index(f"{k}/4 {name}") for k, name in enumerate(("flags", "rate", "rollout", "compile"), 1)]
    assert positions == sorted(positions)
    assert "Safe: Nothing that `rate` touches is read." in text
    assert "Needs: flags, rollout" in text
    assert "Note: The rate is a number." in text
    assert text.rstrip().endswith("storage: there is <nothing> to store")


def test_only_the_chosen_transforms_are_told():
    text = told(["rate"])
    assert "2/4 rate" in text
    assert "flags" not in text
    assert "storage" not in text


def test_moved_code_is_told_where_it_went_and_where_it_was():
    lines = told(["rollout"]).splitlines()
    assert "          moved from lines 23-30, dedented by 4: 7 unchanged, 1 changed" in lines
    assert "          lines 23-30 moved to lines 14-21, dedented by 4" in lines
    assert "25    -             action = int(state.sum() > 1.5)" in lines
    assert "   16 +         action = int(state.mean() > 0.5)" in lines
    assert "26 17 >         state, reward = env.step(action)" in lines
    assert "          ⋮ 3 lines moved unchanged" in lines


def test_without_folds_all_lines_are_there():
    text = told(["flags"], context=1000)
    assert "⋮" not in text
    assert all(line in text for line in ORIGINAL.splitlines())


def test_changed_words_stand_out():
    text = told(["rate"], colour=True)
    line = next(line for line in text.splitlines() if "np.multiply" in line)
    changed = [part.split("m", 1)[1] for part in line.split("\x1b[") if part.startswith("1;7;32m")]
    assert changed == ["np.multiply(", ",", ")"]


def test_plain_output_has_no_escapes():
    assert "\x1b" not in told()


def test_two_columns_hold_both_versions_of_a_line():
    lines = told(["rollout"], side_by_side=True, width=140).splitlines()
    (edit,) = [line for line in lines if "state.mean()" in line]
    left, right = edit.split(" │ ")
    assert left.rstrip() == "25 -             action = int(state.sum() > 1.5)"
    assert right.rstrip() == "16 +         action = int(state.mean() > 0.5)"
    assert {len(line.split(" │ ")[0]) for line in lines if " │ " in line} == {len(left)}


def test_two_columns_lose_nothing_of_long_lines():
    conversion = hand_made()
    long = conversion.steps[1]
    text = told(["rate"], side_by_side=True, width=120, context=1000)
    right = "".join(line.split(" │ ")[1][5:].ljust(55)[:55] for line in text.splitlines() if " │ " in line)
    assert "".join(long.after.split()) == "".join(right.split())


def test_a_narrow_terminal_gets_one_column():
    assert " │ " not in told(["rate"], side_by_side=True, width=119)


@pytest.mark.parametrize("total", [True, False])
def test_statistics_add_up(total):
    conversion = hand_made()
    whole = compare(conversion.original, conversion.source).stats
    text = printed(lambda c: print_stats(c, [] if total else chapters(conversion), whole))
    rows = {line.split()[0]: line.split()[1:4] for line in text.splitlines()[1:]}
    assert rows["total"] == [f"+{whole.added}", f"-{whole.removed}", str(whole.moved)]
    assert set(rows) == ({"total"} if total else {"flags", "rate", "rollout", "compile", "total"})
    if not total:
        assert rows["rollout"] == ["+6", "-1", "7"]


def test_blame_is_beside_each_line():
    lines = printed(lambda c: print_blame(c, hand_made())).splitlines()
    assert [line.split("│ ", 1)[1] for line in lines] == COMPILE.splitlines()
    beside = {line.split("│ ", 1)[1].strip(): line.split("│ ", 1)[0].split() for line in lines}
    assert beside["compile = False  # compile rollout()"] == ["flags", "26"]
    assert beside["total += reward"] == ["moved:", "rollout", "28", "20"]
    assert beside["import numpy as np"] == ["2", "2"]
