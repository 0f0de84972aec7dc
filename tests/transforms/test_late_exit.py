import textwrap

import pytest
from cases import NoOp, Rewrite
from scripts import PARTS, edited

HEAD, TAIL = (part.strip("\n") for part in PARTS["minibatch"].split("<metrics>"))
KL = "kl = ((ratio - 1.0) - ratio.log()).mean().item()"
PLAIN = {"report": "print(iteration, global_step, v_loss.item())"}


def leaving(condition: str, *, below: str = "") -> dict[str, str]:
    """A minibatch that leaves the loop above its step; what stands `below` the step stays there."""
    optimize = f"{PARTS['optimize']}\n{below}" if below else PARTS["optimize"]
    return {**PLAIN, "metrics": f"{KL}\n{condition}", "optimize": optimize}


def left(condition: str, block: str, *, below: str = "", stop: str = "stop") -> dict[str, str]:
    """The same, left below its step."""
    tail = textwrap.indent(TAIL.replace("<optimize>", PARTS["optimize"]), "    ")
    lines = [HEAD, KL, f"{stop} = bool({condition})", f"if not {stop}:", tail, f"if {stop}:"]
    return {**PLAIN, "learn": "\n".join([*lines, textwrap.indent(block, "    "), below])}


REWRITES = [
    Rewrite("a break", leaving("if kl > 0.5:\n    break"), left("kl > 0.5", "break")),
    Rewrite(
        "a continue, and statements below the step",
        leaving("if kl > 0.5:\n    continue", below="print(kl)"),
        left("kl > 0.5", "continue", below="print(kl)"),
    ),
    Rewrite(
        "statements and a comment go along",
        leaving("if kl > 0.5:\n    # far enough\n    print(kl)\n    break"),
        left("kl > 0.5", "# far enough\nprint(kl)\nbreak"),
    ),
    Rewrite(
        "conditions inside each other",
        leaving("if args.gamma < 1 or args.seed:\n    if kl > 0.5 and epoch:\n        break"),
        left("(args.gamma < 1 or args.seed) and kl > 0.5 and epoch", "break"),
    ),
    Rewrite(
        "the name is taken",
        {**leaving("if kl > 0.5:\n    break"), "before_loop": "stop = None"},
        {**left("kl > 0.5", "break", stop="stop_1"), "before_loop": "stop = None"},
    ),
    Rewrite(
        "a loop of its own is left inside",
        leaving("for _ in range(3):\n    if kl > 1:\n        break\nif kl > 0.5:\n    break"),
        {
            **PLAIN,
            "learn": left("kl > 0.5", "break")["learn"].replace(
                "stop = bool", "for _ in range(3):\n    if kl > 1:\n        break\nstop = bool"
            ),
        },
    ),
]

NOTHING = "nothing leaves the minibatch loop between its computation and the optimizer's step"
OTHERWISE = "line {line} leaves the minibatch loop in another way than at the end of a condition"

NOOPS = [
    NoOp("nothing leaves", {}, NOTHING, kind="not needed"),
    NoOp(
        "below the step",
        {"optimize": edited("optimize", "optimizer.step()", "optimizer.step()\nbreak")},
        NOTHING,
        kind="not needed",
    ),
    NoOp(
        "above the computation",
        {"minibatch": "if len(mb_inds) < args.minibatch_size:\n    break\n" + PARTS["minibatch"]},
        NOTHING,
        kind="not needed",
    ),
    NoOp("of a loop inside", leaving("for _ in range(3):\n    if kl > 1:\n        break"), NOTHING, kind="not needed"),
    NoOp(
        "two conditions",
        leaving("if kl > 1:\n    break\nif kl < 0:\n    continue"),
        "the minibatch loop is left above the optimizer's step in 2 places",
    ),
    NoOp(
        "from the statement of the step itself",
        leaving("", below="")
        | {"optimize": "optimizer.zero_grad()\nloss.backward()\nif kl > 1:\n    break\nelse:\n    optimizer.step()"},
        "the minibatch loop is left above the optimizer's step in other places",
    ),
    NoOp(
        "with an else", leaving("if kl > 0.5:\n    break\nelse:\n    print(kl)"), "or does something else", at="if kl >"
    ),
    NoOp(
        "in a with block",
        leaving("with torch.no_grad():  # here\n    if kl > 0.5:\n        break"),
        OTHERWISE,
        at="# here",
    ),
    NoOp(
        "somewhere in the middle",
        leaving("if kl > 0.5:\n    if kl > 1:\n        break\n    print(kl)"),
        OTHERWISE,
        at="if kl > 0.5",
    ),
    NoOp(
        "a return",
        {"main": "def main():", "end": "\n\nmain()", **leaving("if kl > 0.5:  # far\n    return")},
        OTHERWISE,
        at="# far",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrites(rewrite: Rewrite) -> None:
    rewrite.check("late-exit")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noops(noop: NoOp) -> None:
    noop.check("late-exit")
