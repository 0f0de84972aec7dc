import hand_made
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.diff.compare import Departure, Row, compare
from transformer.diff.folding import Fold, fold


def story(before, after):
    """The comparison as a reader sees it, one entry a line: kind and text, moved rows with `>`."""
    diff = compare(before, after)
    told = []
    for entry in diff.entries:
        if isinstance(entry, Departure):
            told.append(f"departure of {len(entry.move.old)}")
            continue
        mark = ">" if entry.move else ""
        old = "" if entry.old is None else diff.old.lines[entry.old].strip()
        new = "" if entry.new is None else diff.new.lines[entry.new].strip()
        told.append(f"{mark}{entry.kind}: {new}" if entry.kind == "same" else f"{mark}{entry.kind}: {old} | {new}")
    return told


def test_moved_lines_are_told_from_the_one_that_changed():
    told = story(hand_made.RATE, hand_made.ROLLOUT)
    moved = [line for line in told if line.startswith(">")]
    assert moved == [
        ">same: # collect one batch",
        ">same: for step in range(5):",
        ">edited: action = int(state.sum() > 1.5) | action = int(state.mean() > 0.5)",
        ">same: state, reward = env.step(action)",
        ">same: if reward > 0.5:",
        ">same: # count only what counts",
        ">same: total += reward",
        '>same: print(f"{iteration}.{step}: {total:.1f}")',
    ]
    at = told.index("departure of 8")
    assert told[at + 1] == "added:  | state, total = rollout(iteration, state, total)"
    assert compare(hand_made.RATE, hand_made.ROLLOUT).moves[0].dedent == 4


def test_changed_words_of_moved_lines_are_columns_of_their_own_line():
    diff = compare(hand_made.RATE, hand_made.ROLLOUT)
    (row,) = [row for row in diff.rows if row.move and row.kind == "edited"]
    old, new = diff.old.lines[row.old], diff.new.lines[row.new]
    assert [old[a:b] for a, b in row.old_spans] == ["sum", "1.5"]
    assert [new[a:b] for a, b in row.new_spans] == ["mean", "0.5"]


def test_code_extracted_at_its_own_indentation_has_moved_too():
    body = "    alpha = first(1)\n    beta = second(alpha)\n    gamma = third(beta)\n"
    start, end = "    start = now()\n", "    return gamma\n"
    before = f"def train():\n{start}{body}{end}"
    after = f"def part():\n{body}{end}\n\ndef train():\n{start}    gamma = part()\n{end}"
    told = story(before, after)
    assert [line for line in told if line.startswith(">")][:3] == [
        ">same: alpha = first(1)",
        ">same: beta = second(alpha)",
        ">same: gamma = third(beta)",
    ]
    assert "same: start = now()" in told


def test_a_statement_wrapped_anew_at_the_end_of_moved_code_moved_with_it():
    before = (
        "def train():\n    for step in range(steps):\n        state, reward = env.step(policy(state))\n"
        "        storage = TensorDict({key: stack(key) for key in keys}).to(\n            device)\n"
    )
    after = (
        "def rollout():\n    state, reward = env.step(policy(state))\n"
        "    storage = TensorDict({key: stack(key) for key in keys}).to(device)\n\n\n"
        "def train():\n    for step in range(steps):\n        rollout()\n"
    )
    (move,) = compare(before, after).moves
    assert (move.old, move.new) == (range(2, 5), range(1, 3))


def test_code_indented_in_place_is_moved_without_departure():
    lines = ["first_result = compute_first(1)", "second_result = compute_second(2)"]
    before = "\n".join(["x = 1", *lines, "y = 2", ""])
    after = "\n".join(["x = 1", "if x:", *(f"    {line}" for line in lines), "y = 2", ""])
    diff = compare(before, after)
    assert [m.dedent for m in diff.moves] == [-4]
    assert not diff.departed
    assert story(before, after) == [
        "same: x = 1",
        "added:  | if x:",
        *(f">same: {line}" for line in lines),
        "same: y = 2",
    ]


def test_short_coincidences_are_no_moves():
    before = "a = 1\nelse_branch = 0\nx = 1\nb = 2\n"
    after = "x = 1\na = 1\nelse_branch = 0\nb = 2\n"
    assert not compare(before, after).moves


def test_equal_statements_that_swapped_places_are_moved_once():
    one, two = "first_value = compute(alpha, beta)", "second_value = compute(gamma, delta)"
    diff = compare(f"{one}\n{two}\n", f"{two}\n{one}\n")
    assert len(diff.moves) == 1
    assert diff.stats.moved == 1
    assert (diff.stats.added, diff.stats.removed) == (0, 0)


def test_a_wrapped_statement_is_one_edit():
    before = "optimizer = Adam(agent.parameters(), lr=rate)\n"
    after = "optimizer = Adam(\n    agent.parameters(),\n    lr=tensor(rate),\n)\n"
    rows = list(compare(before, after).rows)
    assert {row.kind for row in rows} == {"edited"}
    assert [row.new for row in rows if row.old is not None] == [0]
    diff = compare(before, after)
    assert [diff.new.lines[r.new][a:b] for r in rows for a, b in r.new_spans] == ["tensor(", ",", ")"]


def test_equal_texts_have_nothing_to_tell():
    diff = compare(hand_made.ORIGINAL, hand_made.ORIGINAL.replace("\n", "\r\n"))
    assert {row.kind for row in diff.rows} == {"same"}
    assert (diff.stats.added, diff.stats.removed, diff.stats.moved) == (0, 0, 0)


def test_stats_count_moved_lines_apart():
    stats = compare(hand_made.RATE, hand_made.ROLLOUT).stats
    assert (stats.added, stats.removed, stats.moved) == (1 + 1 + 1 + 1 + 2, 1, 7)


LINES = st.sampled_from(
    [
        "",
        "pass",
        "else:",
        "    value = compute_something(alpha)",
        "value = compute_something(alpha)",
        "        value = compute_something(alpha)",
        "other_value = compute_another(beta, gamma)",
        "    other_value = compute_another(beta, gamma)",
        "other_value = compute_another(beta, delta)",
        "def function():",
        "    return value",
        "x = (",
        "    1)",
    ]
)
TEXTS = st.lists(LINES, max_size=14).map(lambda lines: "".join(f"{line}\n" for line in lines))


@settings(max_examples=400, deadline=None)
@given(TEXTS, TEXTS)
def test_every_line_of_both_texts_is_told_once(before, after):
    diff = compare(before, after)
    assert [row.new for row in diff.rows if row.new is not None] == list(range(len(diff.new.lines)))
    olds = [row.old for row in diff.rows if row.old is not None]
    assert sorted(olds) == list(range(len(diff.old.lines)))
    assert [row.old for row in diff.rows if row.old is not None and not row.move] == sorted(
        row.old for row in diff.rows if row.old is not None and not row.move
    )
    for row in diff.rows:
        if row.kind == "same":
            old, new = diff.old.lines[row.old], diff.new.lines[row.new]
            assert old.strip() == new.strip() if row.move else old == new
    assert {e.move for e in diff.entries if isinstance(e, Departure)} <= set(diff.moves)


@given(TEXTS, TEXTS, st.integers(0, 3), st.booleans())
@settings(deadline=None)
def test_folds_hide_unchanged_lines_only_and_lose_none(before, after, context, within_moves):
    entries = compare(before, after).entries
    shown = fold(entries, context, within_moves=within_moves)
    unfolded = [row for entry in shown for row in (entry.rows if isinstance(entry, Fold) else (entry,))]
    assert unfolded == list(entries)
    for entry in shown:
        if isinstance(entry, Fold):
            assert {row.kind for row in entry.rows} == {"same"}
            assert len({row.move for row in entry.rows}) == 1
            assert within_moves or entry.rows[0].move is None


def test_context_stays_around_a_change():
    before = "".join(f"line_{i} = {i}\n" for i in range(20))
    shown = fold(compare(before, before.replace("line_10 = 10", "line_10 = 11")).entries, 2)
    assert [len(e.rows) if isinstance(e, Fold) else e.new for e in shown] == [8, 8, 9, 10, 11, 12, 7]
    assert isinstance(shown[3], Row)
