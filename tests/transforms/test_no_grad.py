import textwrap

import pytest
from cases import NoOp, Parts, Rewrite
from scripts import PARTS

STEP = "\n".join(["<store>", "<act>", "<record>", "<step>"])


def under(text: str, head: str = "with torch.no_grad():") -> str:
    return head + "\n" + textwrap.indent(textwrap.dedent(text), "    ")


def loop(body: str, head: str = "for step in range(0, args.num_steps):") -> str:
    return under("global_step += args.num_envs\n" + body, head)


def stepwise(body: str = STEP, head: str = "for step in range(0, args.num_steps):") -> str:
    return under(under("global_step += args.num_envs\n" + body), head)


ADVANTAGES = textwrap.dedent(PARTS["advantages"]).partition("\n")[2]
"""The estimation without the block around it."""

REWRITES = [
    Rewrite("around the loop alone", {"rollout": under(loop(STEP))}, {"rollout": stepwise()}),
    Rewrite(
        "comments stay",
        {"rollout": "# act and look\n" + under("# step by step\n" + loop("# in turn\n" + STEP))},
        {
            "rollout": "# act and look\n# step by step\n"
            + under(under("global_step += args.num_envs\n# in turn\n" + STEP), "for step in range(0, args.num_steps):")
        },
    ),
    Rewrite(
        "around statements above, and the advantages below",
        {
            "rollout": under("ended = 0\n" + loop(STEP) + "\n<advantages>"),
            "advantages": textwrap.dedent(ADVANTAGES),
            "estimate": "",
        },
        {"rollout": under("ended = 0") + "\n" + stepwise() + "\n" + under("<advantages>")},
    ),
    Rewrite(
        "inference mode, and a progress bar",
        {
            "third_party": "from tqdm import tqdm",
            "rollout": under(loop(STEP, "for step in tqdm(range(args.num_steps)):"), "with torch.inference_mode():"),
        },
        {
            "rollout": under(
                under("global_step += args.num_envs\n" + STEP, "with torch.inference_mode():"),
                "for step in tqdm(range(args.num_steps)):",
            )
        },
    ),
]

NOTHING = "no torch.no_grad() stands around the rollout loop"


def around(head: str, **parts: str) -> Parts:
    return {"rollout": under(loop(STEP), head), **parts}


NOOPS = [
    NoOp("not around the loop", {}, NOTHING, kind="not needed"),
    NoOp("another context", around("with torch.autograd.detect_anomaly():"), NOTHING, kind="not needed"),
    NoOp("two contexts", around("with torch.no_grad(), open(__file__):"), NOTHING),
    NoOp("with a name", around("with torch.no_grad() as mode:"), "line {line} does more than entering", at="as mode"),
    NoOp("inference mode by a switch", around("with torch.inference_mode(True):"), "does more than entering"),
    NoOp(
        "an else block",
        {"rollout": under(loop(STEP) + "\nelse:\n    print('all')")},
        "an else block (line {line})",
        at="'all'",
    ),
    NoOp(
        "over more than numbers",
        {"rollout": under(loop(STEP, "for step, _ in enumerate(agent.parameters()):"))},
        "line {line} runs over more than numbers",
        at="in enumerate",
    ),
    NoOp(
        "gradients switched by hand",
        {"rollout": under(loop(STEP + "\ntorch.set_grad_enabled(False)"))},
        "line {line} switches gradients",
        at="set_grad",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrites(rewrite: Rewrite) -> None:
    rewrite.check("no-grad")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noops(noop: NoOp) -> None:
    noop.check("no-grad")
