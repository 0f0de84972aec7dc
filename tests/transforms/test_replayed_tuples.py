"""Steps kept as tuples and collated by hand, a function that acts and counts, targets moved through state_dict()."""

from pathlib import Path

import pytest
from cases import turn
from compiled import compiled_check
from forking import assert_same_output
from replayed_tuples import SCRIPT

from transformer import Applied, Skipped, Step, convert

LOOP = """\
        theirs = lagging.state_dict()
        ours = values.state_dict()
        for name in ours:
            theirs[name] = LAG * ours[name] + (1 - LAG) * theirs[name]
        lagging.load_state_dict(theirs)
"""
MOVED = (
    "        torch._foreach_mul_(targets, 1 - LAG)\n"
    "        torch._foreach_add_(targets, torch._foreach_mul(sources, LAG))\n"
)


FOLLOW = """\
def follow(target, source, rate):
    for t, s in zip(target.parameters(), source.parameters()):
        t.data.copy_((1 - rate) * t.data + rate * s.data)


values, lagging"""
MADE = "values, lagging = Values(4, 2), Values(4, 2)"
FOLLOWS = "        follow(lagging, values, LAG)\n"


def step(name: str, *changes: tuple[str, str]) -> Step:
    source = SCRIPT
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return turn(name, source, ("inline",))


def test_lists_of_parts_are_collated_above_the_update() -> None:
    after = step("update").after
    assert "def update(seen_1, chosen_1, goes_on, after_1, gained):\n" in after or "def update(" in after
    body = after[after.index("def update(") : after.index("for episode")]
    assert "torch.cat" not in body
    assert "zip(" not in body
    assert "values(" in body


def test_a_list_that_a_network_is_given_is_collated_in_the_update() -> None:
    after = step("update", ("now = values(seen)", "now = values(torch.cat(parts.seen))")).after
    body = after[after.index("def update(") : after.index("for episode")]
    assert "values(torch.cat(parts.seen))" in body


def test_a_function_that_acts_may_count() -> None:
    after = step("acting-statements").after
    assert "def decide(seen):\n" in after
    assert "        return values(seen).max(1).indices.view(1, 1)\n" in after.replace(
        "    return values", "        return values"
    )
    assert "        return decide(seen)\n" in after


@pytest.mark.parametrize(
    "loop",
    [
        LOOP,
        LOOP.replace("in ours:", "in ours.keys():"),
        LOOP.replace("in ours:", "in theirs:"),
        LOOP.replace("LAG * ours[name] + (1 - LAG) * theirs[name]", "theirs[name] * (1 - LAG) + ours[name] * LAG"),
        "\n".join([LOOP.splitlines()[i] for i in (1, 0, 2, 3, 4)]) + "\n",
        "        theirs, ours = lagging.state_dict(), values.state_dict()\n" + "".join(LOOP.splitlines(True)[2:]),
    ],
    ids=["as written", "keys()", "over the other", "factors behind", "the other way round", "both at once"],
)
def test_targets_are_moved_by_their_parameters(loop: str) -> None:
    found = step("target-update", (LOOP, loop))
    assert isinstance(found.outcome, Applied), found.outcome
    assert MOVED in found.after
    assert "state_dict()\n" not in found.after[found.after.index("for episode") :]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.ReLU())", "nn.ReLU(), nn.BatchNorm1d(24))"),
        ("        self.head =", "        self.register_buffer('scale', torch.ones(1))\n        self.head ="),
        ("    def forward(self, x):", "    def state_dict(self):\n        return {}\n\n    def forward(self, x):"),
        ("        lagging.load_state_dict(theirs)\n        if", "        values.load_state_dict(theirs)\n        if"),
        ("load_state_dict(theirs)\n", "load_state_dict(theirs, strict=False)\n"),
        ("            print(episode", "            print(len(theirs), episode"),
        ("        for name in ours:\n", "        ours = dict(ours)\n        for name in ours:\n"),
        ("LAG * ours[name]", "LAG * ours[name[:]]"),
        ("LAG * ours[name] + (1 - LAG) * theirs[name]", "LAG * ours[name] - (1 - LAG) * theirs[name]"),
        ("RARELY = 32, 0.01", "RARELY = 32, torch.tensor(0.01)"),
        ("            print(episode, t, asked)\n", "            print(episode)\n            LAG = LAG * 0.5\n"),
        ("values, lagging = Values(4, 2), Values(4, 2)", "values = Values(4, 2)\nlagging = values"),
        ("        ours = values.state_dict()\n", "        ours, shown = values.state_dict(), 1\n"),
    ],
    ids=["a normalization", "a buffer", "an own state", "into the other", "an option", "read later", "another dict",
         "another key", "a difference", "a tensor", "a changing number", "one network", "another at once"],
)  # fmt: skip
def test_other_moves_stay(old: str, new: str) -> None:
    found = step("target-update", (old, new))
    assert isinstance(found.outcome, Skipped), found.after


IN_PLACE = """\
        with torch.no_grad():
            for ours, theirs in zip(values.parameters(), lagging.parameters()):
                theirs.data.mul_(KEPT)
                theirs.data.add_((1 - KEPT) * ours.data)
"""


@pytest.mark.parametrize(
    "loop",
    [
        IN_PLACE,
        IN_PLACE.replace(".data", ""),
        IN_PLACE.replace("(1 - KEPT) * ours.data", "ours.data * (1 - KEPT)"),
    ],
    ids=["data", "parameters", "the factor behind"],
)
def test_targets_are_moved_in_place(loop: str) -> None:
    found = step("target-update", (LOOP, loop), ("LAG, DISCOUNT", "KEPT, DISCOUNT"))
    assert isinstance(found.outcome, Applied), found.outcome
    assert "        torch._foreach_mul_(targets, KEPT)\n" in found.after
    assert "torch._foreach_add_(targets, torch._foreach_mul(sources, 1 - KEPT))\n" in found.after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add_((1 - KEPT) * ours.data)", "sub_(ours.data, alpha=1 - KEPT)"),
        ("theirs.data.add_(", "ours.data.add_("),
        ("(1 - KEPT) * ours.data", "(1 - KEPT) * theirs.data"),
        ("theirs.data.mul_(KEPT)", "theirs.data.mul_(torch.rand(1))"),
        (
            "                theirs.data.mul_(KEPT)\n",
            "                theirs.data.mul_(KEPT)\n                print(ours)\n",
        ),
    ],
)
def test_other_moves_in_place_stay(old: str, new: str) -> None:
    found = step("target-update", (LOOP, IN_PLACE.replace(old, new)), ("LAG, DISCOUNT", "KEPT, DISCOUNT"))
    assert isinstance(found.outcome, Skipped), found.after


SLOW = pytest.mark.slow


@pytest.mark.parametrize("way", ["state", pytest.param("in place", marks=SLOW), pytest.param("a function", marks=SLOW)])
def test_it_is_the_same(way: str, tmp_path: Path) -> None:
    loop = {"state": LOOP, "in place": IN_PLACE.replace("KEPT", "LAG"), "a function": FOLLOWS}[way]
    source = SCRIPT.replace(LOOP, loop).replace(
        "values, lagging", FOLLOW if way == "a function" else "values, lagging", 1
    )
    assert_same_output(tmp_path, source, convert(source).source)


@pytest.mark.slow
def test_it_is_the_same_compiled(tmp_path: Path) -> None:
    assert compiled_check(tmp_path, SCRIPT, convert(SCRIPT).source)["status"] == "equal"


def helped(*changes: tuple[str, str]) -> Step:
    source = SCRIPT.replace(LOOP, FOLLOWS).replace("values, lagging", FOLLOW, 1)
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new, 1)
    return turn("target-update", source, ("inline",))


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(FOLLOWS, FOLLOWS + "        follow(source=values, target=lagging, rate=0.5)\n")],
        [("        t.data.copy_((1 - rate) * t.data + rate * s.data)\n",
          "        t.data.mul_(1 - rate)\n        t.data.add_(rate * s.data)\n")],
        [(MADE, "import copy\nvalues = Values(4, 2)\nlagging = copy.deepcopy(values)")],
    ],
    ids=["as written", "called twice", "in place", "a copy"],
)  # fmt: skip
def test_a_function_moves_what_it_is_given(changes: list[tuple[str, str]]) -> None:
    found = helped(*changes)
    assert isinstance(found.outcome, Applied), found.outcome
    body = found.after[found.after.index("def follow") : found.after.index("def choose")]
    assert "    torch._foreach_mul_(targets, 1 - rate)\n" in body
    assert "    for t, s in zip(" not in body


@pytest.mark.parametrize(
    "changes",
    [
        [(FOLLOWS, FOLLOWS + "        follow(values, values, LAG)\n")],
        [(FOLLOWS, FOLLOWS + "        follow(values.head, values.head, LAG)\n")],
        [(MADE, MADE + "\nlagging.head = values.head")],
        [(MADE, "values = Values(4, 2)\nlagging = unknown(values)")],
        [(FOLLOWS, "        follow(lagging, values, torch.rand(1))\n")],
        [(FOLLOWS, "        follow(lagging, values, optimizer.param_groups[0]['params'][0])\n")],
        [("    for t, s in zip(", "    target = target.body\n    for t, s in zip(")],
        [("rate * s.data)\n", "rate * s.data)\n    print(t)\n")],
        [("        t.data.copy_(", "        print(t)\n        t.data.copy_(")],
    ],
    ids=["one network", "parts of one", "a shared part", "not known", "a tensor", "a possible network",
         "another network", "read below", "printed"],
)  # fmt: skip
def test_functions_with_other_moves_stay(changes: list[tuple[str, str]]) -> None:
    found = helped(*changes)
    assert isinstance(found.outcome, Skipped), found.after
