import textwrap

import pytest
from cases import NoOp, Rewrite

LAST = """\
    # nothing follows the last step
    alive = 1.0 - next_done
    advantages[t] = rewards[t] + args.gamma * next_value * alive
"""
OTHERS = """\
    alive = 1.0 - dones[t + 1]
    advantages[t] = rewards[t] + args.gamma * advantages[t + 1] * alive
"""


def branch(last: str = LAST, others: str = OTHERS, test: str = "t == args.num_steps - 1", after: str = "") -> str:
    """A loop in which a branch computes each step's result."""
    body = f"if {test}:\n{last}else:\n{others}"
    return "for t in reversed(range(args.num_steps)):\n" + textwrap.indent(body, "    ") + after


PEELED = "t = args.num_steps - 1\n" + textwrap.dedent(LAST) + "for t in reversed(range(args.num_steps - 1)):\n" + OTHERS
COUNTED_DOWN = branch(OTHERS, LAST, "t < args.num_steps - 1").replace(
    "reversed(range(args.num_steps))", "range(args.num_steps - 1, -1, -1)"
)

REWRITES = [
    Rewrite("the last step computes its own result", {"gae": branch()}, {"gae": PEELED}),
    Rewrite("counting down by hand, the branch the other way round", {"gae": COUNTED_DOWN}, {"gae": PEELED}),
    Rewrite("one more than the index is the number", {"gae": branch(test="t + 1 == args.num_steps")}, {"gae": PEELED}),
]

CHOICES = branch("    last = next_value\n", "    last = advantages[t + 1]\n")

NO_OPS = [
    NoOp(
        "one choice and a computation, which gae-hoist does for all steps",
        {},
        "it does more than choose",
        kind="not needed",
    ),
    NoOp("nothing but choices", {"gae": CHOICES}, "its branch only chooses values", kind="not needed"),
    NoOp(
        "another test",
        {"gae": branch(test="t == 0")},
        "the branch on line {line} does not test for the last step",
        at="if t == 0",
        kind="not needed",
    ),
    NoOp(
        "more than the branch",
        {"gae": branch() + "    lastgaelam += 1\n"},
        "it does more than choose",
        kind="not needed",
    ),
    NoOp(
        "no other side",
        {"gae": branch().partition("    else:")[0]},
        "it does more than choose",
        kind="not needed",
    ),
    NoOp("the index is read after the loop", {"gae": branch(after="print(t)\n")}, "t is read after it"),
    NoOp("the branch sets the index", {"gae": branch(LAST + "    t = 0\n")}, "line {line} sets t", at="t = 0"),
    NoOp(
        "the loop is left",
        {"gae": branch(others="    break\n")},
        "line {line} has a break statement",
        at="   break",
    ),
    NoOp(
        "training sets the number of steps",
        {"gae": branch(LAST + "    args.num_steps = 3\n")},
        "line {line} sets args.num_steps",
        at="args.num_steps = 3",
    ),
    NoOp(
        "a function sees the index",
        {"gae": branch(LAST + "    later = lambda: t\n")},
        "line {line} makes a function",
        at="lambda: t",
    ),
]


@pytest.mark.parametrize("case", REWRITES, ids=str)
def test_rewrite(case: Rewrite) -> None:
    case.check("last-step")


@pytest.mark.parametrize("case", NO_OPS, ids=str)
def test_no_op(case: NoOp) -> None:
    case.check("last-step")
