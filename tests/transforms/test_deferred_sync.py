import sys
import warnings

import numpy as np
import pytest
from cases import NoOp, Rewrite, turn
from programs import printed
from scripts import PARTS, edited, script

from transformer import Applied

STACKED = {"report": edited("report", "clipfracs", "torch.stack(clipfracs).tolist()")}
SINGLY = {"report": edited("report", "clipfracs", "[x.item() for x in clipfracs]")}
MEAN = "print(np.mean({}))"
TOGETHER = "torch.stack(clipfracs).tolist()"
ONE_BY_ONE = "[x.item() for x in clipfracs]"
ASKED = "print(np.mean({}) if clipfracs and args.seed else 0)\nif not clipfracs:\n    print('none')"
AFTER = {
    "metrics": """
        with torch.no_grad():
            clipfrac = ((ratio - 1.0).abs() > args.clip_coef).float().mean()
    """,
    "optimize": PARTS["optimize"] + "\nclipfracs += [clipfrac]",
    **STACKED,
}
BEGIN = PARTS["begin"]
COLLECTED = "\nwith torch.no_grad():\n    clipfracs += [((ratio - 1.0).abs() > args.clip_coef).float().mean().item()]"
KL = "kl = ((ratio - 1.0) - ratio.log()).mean().item()"


NO_MERE_REPORTS = (
    "if iteration > 1:\n    b_obs[b_obs == 0] = 1",
    "if iteration > 1:\n    print(epoch)\n    b_obs[0] = 1",
    "if iteration > 1:\n    print(epoch)\nelse:\n    args.clip_coef = 0.1",
    "if iteration > 1:\n    agent.training = False",
    "if iteration > 1:\n    sizes = b_obs.shape",
    "if (late := iteration) > 1:\n    print(late)",
    "print(late := iteration)",
    "print([(late := i) for i in (1, iteration)])",
)
"""Statements of a minibatch that bind or change something, beside what they report."""


def reading(metrics: str, **parts: str) -> dict[str, str]:
    """A minibatch that reads what `metrics` reads, and nothing else."""
    return {"metrics": metrics, "report": "print(iteration, global_step, v_loss.item())", **parts}


REWRITES = [
    Rewrite("a list of numbers, grown by +=", {}, AFTER),
    Rewrite(
        "a list of numbers that an f-string shows",
        {"report": "print(f'{np.mean(clipfracs):.3f}', v_loss.item())"},
        {
            **{k: v for k, v in AFTER.items() if k != "report"},
            "minibatches": PARTS["minibatches"] + "\nclipfracs = torch.stack(clipfracs).tolist()",
        },
    ),
    Rewrite(
        "a list of numbers, grown by append, with gradients",
        {"metrics": "clipfracs.append(((ratio - 1.0).abs() > args.clip_coef).float().mean().item())"},
        {
            "metrics": "clipfrac = ((ratio - 1.0).abs() > args.clip_coef).float().mean().detach()",
            "optimize": PARTS["optimize"] + "\nclipfracs.append(clipfrac)",
            **STACKED,
        },
    ),
    Rewrite(
        "a minibatch that is left before its computation",
        {"learn": "if len(mb_inds) < args.minibatch_size:\n    break\n<minibatch>"},
        {**AFTER, **SINGLY, "learn": "if len(mb_inds) < args.minibatch_size:\n    break\n<minibatch>"},
    ),
    Rewrite(
        "a list that may be empty without an error",
        {"report": MEAN.format("clipfracs")},
        {**AFTER, "report": MEAN.format(ONE_BY_ONE)},
    ),
    Rewrite(
        "a list that is asked whether it is empty",
        {"report": ASKED.format("clipfracs")},
        {**AFTER, "report": ASKED.format(ONE_BY_ONE)},
    ),
    Rewrite(
        "a list that is asked for its length",
        {"report": "print(sum(clipfracs) / len(clipfracs))"},
        {**AFTER, "report": f"print(sum({ONE_BY_ONE}) / len(clipfracs))"},
    ),
    Rewrite(
        "a list that an f-string shows and that may be empty",
        {"report": "print(f'{np.mean(clipfracs):.3f}')"},
        {
            **{k: v for k, v in AFTER.items() if k != "report"},
            "minibatches": PARTS["minibatches"] + f"\nclipfracs = {ONE_BY_ONE}",
        },
    ),
    Rewrite(
        "a list that is read between the epochs, and that an f-string shows below them",
        {
            "minibatches": PARTS["minibatches"] + "\n    if np.mean(clipfracs[-2:]) > 0.9:\n        break",
            "report": "print(f'{np.mean(clipfracs):.3f}', v_loss.item())",
        },
        {
            **{k: v for k, v in AFTER.items() if k != "report"},
            "minibatches": (
                PARTS["minibatches"]
                + f"\n    if np.mean({TOGETHER}[-2:]) > 0.9:\n        break\nclipfracs = {TOGETHER}"
            ),
            "report": "print(f'{np.mean(clipfracs):.3f}', v_loss.item())",
        },
    ),
    Rewrite(
        "a list that may be empty in a later turn",
        {"minibatches": edited("minibatches", "range(args.update_epochs)", "range(3 - iteration)")},
        {
            **AFTER,
            **SINGLY,
            "minibatches": edited("minibatches", "range(args.update_epochs)", "range(3 - iteration)"),
        },
    ),
    Rewrite(
        "a list whose loop has the same length in each turn",
        {"minibatches": edited("minibatches", "range(args.update_epochs)", "range(epochs)"), "head": "epochs = 1 + 1"},
        {**AFTER, "minibatches": edited("minibatches", "range(args.update_epochs)", "range(epochs)")},
    ),
    Rewrite(
        "a list whose loop's length changes in the loop",
        {"report": PARTS["report"] + "\nargs.update_epochs -= 1"},
        {**AFTER, "report": SINGLY["report"] + "\nargs.update_epochs -= 1"},
    ),
    Rewrite(
        "a result that is read with the list, under a condition",
        {"report": "if iteration > 1:\n    print(v_loss.item())\n    print(np.mean(clipfracs))"},
        {**AFTER, "report": f"if iteration > 1:\n    print(v_loss.item())\n    {MEAN.format(TOGETHER)}"},
    ),
    Rewrite(
        "a result that is read under another condition",
        {"report": "if iteration > 1:\n    print(v_loss.item())\nprint(np.mean(clipfracs))"},
        {**AFTER, "report": f"if iteration > 1:\n    print(v_loss.item())\n{MEAN.format(ONE_BY_ONE)}"},
    ),
    Rewrite(
        "a result that may be left out",
        {"report": "print(args.seed and v_loss.item())\nprint(np.mean(clipfracs))"},
        {**AFTER, "report": f"print(args.seed and v_loss.item())\n{MEAN.format(ONE_BY_ONE)}"},
    ),
    Rewrite(
        "a result that is bound before as well",
        {"begin": BEGIN + "\nv_loss = torch.zeros(())"},
        {**AFTER, **SINGLY},
    ),
    Rewrite(
        "a result below a continue",
        {"report": "print(np.mean(clipfracs))\nif iteration > 5:\n    continue\nprint(v_loss.item())"},
        {
            **AFTER,
            "report": f"{MEAN.format(ONE_BY_ONE)}\nif iteration > 5:\n    continue\nprint(v_loss.item())",
        },
    ),
    Rewrite(
        "a result that may be missing",
        {"report": "try:\n    print(np.mean(clipfracs), v_loss.item())\nexcept NameError:\n    pass"},
        {
            **AFTER,
            "report": f"try:\n    print(np.mean({ONE_BY_ONE}), v_loss.item())\nexcept NameError:\n    pass",
        },
    ),
    Rewrite(
        "a number under a name",
        reading(KL, report="print(iteration, kl, v_loss.item())"),
        reading(KL.replace(".item()", ".detach()"), report="print(iteration, kl.item(), v_loss.item())"),
    ),
    Rewrite(
        "a number without gradients",
        reading("with torch.no_grad():\n    " + KL, report="print(iteration, kl, v_loss.item())"),
        reading(
            "with torch.no_grad():\n    " + KL.replace(".item()", ""),
            report="print(iteration, kl.item(), v_loss.item())",
        ),
    ),
    Rewrite(
        "a list of numbers below the step",
        {"metrics": "", "optimize": PARTS["optimize"] + COLLECTED},
        {"optimize": PARTS["optimize"] + COLLECTED.replace(".item()", ""), **STACKED},
    ),
    Rewrite(
        "a print",
        reading("spread = ratio.std()\nprint(epoch, spread.item())"),
        reading("spread = ratio.std()", optimize=PARTS["optimize"] + "\nprint(epoch, spread.item())"),
    ),
    Rewrite(
        "a print under a condition of numbers",
        reading("spread = ratio.std()\nif epoch == 0:\n    print(spread.item())"),
        reading("spread = ratio.std()", optimize=PARTS["optimize"] + "\nif epoch == 0:\n    print(spread.item())"),
    ),
]

NOTHING = "no tensor is read as a number before the optimizer's step that could be read after it"
LEAVES = "line {line} may leave a minibatch before the optimizer's step"
STILL = "line {line} still reads a tensor on the host"
METER = """
class Meter:
    value = 0.0

    def __gt__(self, limit):
        return self

    def float(self):
        return self

    def item(self):
        self.value += 1.0
        return self.value


"""
WIDTH = "\n        self.width = nn.Parameter(torch.ones(1))"
NOOPS = [
    NoOp("nothing is read", reading(""), NOTHING, kind="not needed"),
    NoOp(
        "a list of numbers of all iterations that an f-string shows",
        {
            "begin": BEGIN + "\nclipfracs = []",
            "minibatches": edited("minibatches", "clipfracs = []\n", ""),
            "report": "print(f'{np.mean(clipfracs):.3f}')",
        },
        STILL,
        at="clipfracs += [",
    ),
    *(
        NoOp(
            f"a list that gets whole numbers and others: {item}",
            {
                "metrics": f"big = ratio.max()\nif start:\n    big = (ratio > 1).sum()\nclipfracs += [({item}).item()]",
                "report": "print(clipfracs)",
            },
            STILL,
            at="clipfracs += [(",
        )
        for item in ("ratio.max() if start else (ratio > 1).sum()", "big", "big + 1")
    ),
    NoOp(
        "a list that is asked in each minibatch whether it is empty",
        {"optimize": PARTS["optimize"] + "\nif not clipfracs:\n    print('none')", "report": MEAN.format("clipfracs")},
        STILL,
        at="clipfracs += [",
    ),
    NoOp(
        "a list, or a mean of it",
        {"report": "print(clipfracs and np.mean(clipfracs), v_loss.item())"},
        STILL,
        at="clipfracs += [",
    ),
    NoOp(
        "a list that an f-string shows between the epochs",
        {
            "minibatches": PARTS["minibatches"] + "\n    print(f'{np.mean(clipfracs):.3f}')",
            "report": "print(f'{np.mean(clipfracs):.3f}', v_loss.item())",
        },
        STILL,
        at="clipfracs += [",
    ),
    NoOp(
        "a list that a function may keep between the epochs, and that an f-string shows",
        {
            "before_loop": "kept = []",
            "minibatches": PARTS["minibatches"] + "\n    kept.append(clipfracs)",
            "report": "print(f'{np.mean(clipfracs):.3f}', len(kept[0]), v_loss.item())",
        },
        STILL,
        at="clipfracs += [",
    ),
    NoOp(
        "a list below the step that may stay empty",
        {"metrics": "", "optimize": PARTS["optimize"] + "\nif epoch == 0:\n    continue" + COLLECTED},
        "waits for the device in each minibatch: a minibatch may end above it",
    ),
    NoOp(
        "read after the step",
        reading("", optimize=PARTS["optimize"] + "\nmean = ratio.mean().item()"),
        "line {line} waits for the device in each minibatch: let mean be the tensor, and read its number below",
        at="mean = ratio",
    ),
    NoOp(
        "appended to a list in a dict",
        reading("", optimize=PARTS["optimize"] + "\nseen = {'kl': []}\nseen['kl'].append(ratio.mean().item())"),
        "append the number to a list in a variable",
    ),
    NoOp("read after the epochs", reading("kl = ratio.mean()"), NOTHING, kind="not needed"),
    NoOp("a condition on the number", reading(KL + "\nif kl > 0.1:\n    epoch = 0"), STILL, at="kl = (("),
    NoOp("a number that decides", reading("coef = 1.0 if ratio.max().item() > 2 else 0.5"), STILL, at="coef = 1.0"),
    NoOp(
        "a class of the script's that can be cast as tensors are",
        reading("far = (meter > 0.1).float().item()", functions=METER, before_loop="meter = Meter()"),
        STILL,
        at="far = (",
    ),
    NoOp(
        "a number that is accumulated",
        reading("ema = 0.9 * ema + 0.1 * ratio.mean().item()", begin=BEGIN + "\nema = 0.0"),
        STILL,
        at="ema = 0.9",
    ),
    *(
        NoOp(
            f"a distribution's view of a parameter, which the step changes: {made}.{part}",
            reading(
                f"bounds = torch.distributions.{made}\nwidth = bounds.{part}[0].item()",
                agent=PARTS["agent"].replace("super().__init__()", f"super().__init__(){WIDTH}"),
                report="print(width)",
            ),
            STILL,
            at="width = bounds",
        )
        for made, part in (
            ("Normal(ratio.detach(), agent.width)", "stddev"),
            ("Normal(ratio.detach(), scale=agent.width)", "scale"),
            ("Normal(agent.width, 1.0)", "mean"),
            ("Laplace(agent.width, 1.0)", "mode"),
            ("Bernoulli(logits=agent.width)", "logits"),
            ("Independent(torch.distributions.Normal(agent.width, 1.0), 0)", "mean"),
        )
    ),
    *(
        NoOp(
            f"changed in place by a function: {code}",
            reading(f"low = ratio.mean()\nkl = low.item()\n{code}", third_party="import torch.nn.functional as F"),
            STILL,
            at="kl = low",
        )
        for code in (
            "F.hardtanh(low, 5, 6, True)",
            "F.threshold_(low, 0.0, 0.3)",
            "F.rrelu(low, 0.1, 0.2, False, True)",
        )
    ),
    NoOp("formatted with its type", reading(KL, report='print(f"{kl!r}")'), STILL, at="kl = (("),
    *(
        NoOp(
            f"a list that also changes otherwise: {code}",
            reading(f"{PARTS['metrics']}\n{code}"),
            STILL,
            at="clipfracs += [",
        )
        for code in (
            "clipfracs += ratio[:2].tolist()",
            "clipfracs *= 2",
            "clipfracs, other = clipfracs[-3:], 0",
            "for clipfracs in [clipfracs]:\n    pass",
        )
    ),
    NoOp("bound elsewhere too", reading(KL, head="kl = 0.0", report="print(kl)"), STILL, at="kl = (("),
    NoOp(
        "a list that also takes other numbers",
        reading(PARTS["metrics"], report="clipfracs.append(0.5)\nprint(sum(clipfracs))"),
        STILL,
        at="clipfracs += ",
    ),
    NoOp(
        "a list that is filled under a condition",
        reading("if epoch == 0:\n    clipfracs.append(ratio.mean().item())"),
        STILL,
        at="clipfracs.append(",
    ),
    NoOp(
        "a list that is sorted",
        reading(PARTS["metrics"], report="clipfracs.sort()\nprint(clipfracs[0])"),
        STILL,
        at="clipfracs += ",
    ),
    NoOp(
        "a list that may be empty where it is read",
        reading(
            "losses.append(ratio.mean().item())",
            begin=BEGIN + "\nlosses = []",
            head="if losses:\n    print(losses[-1])",
        ),
        STILL,
        at="losses.append",
    ),
    NoOp(
        "a number of numpy",
        reading("clipfracs.append(np.float32(0.5).item())", report="print(clipfracs)"),
        NOTHING,
        kind="not needed",
    ),
    NoOp(
        "a tensor that is changed in place",
        reading(
            "total += ratio.mean().detach()\nclipfracs.append(total.item())",
            begin=BEGIN + "\ntotal = torch.zeros(())",
            report="print(clipfracs)",
        ),
        STILL,
        at="clipfracs.append",
    ),
    NoOp(
        "a parameter, which the step changes",
        reading("clipfracs.append(agent.critic[2].bias.item())", report="print(clipfracs)"),
        STILL,
        at="clipfracs.append",
    ),
    NoOp(
        "a parameter under a name",
        reading("bias = agent.critic[2].bias.item()", report="print(bias)"),
        STILL,
        at="bias = agent",
    ),
    NoOp("a print of parameters", reading("print(agent.critic[2].bias.item())"), STILL, at="print(agent"),
    NoOp(
        "a print of parameters under another name",
        reading("print(params[0].sum().item())", begin=BEGIN + "\nparams = list(agent.parameters())"),
        STILL,
        at="print(params",
    ),
    NoOp(
        "a continue between the print and the step",
        reading("print(ratio.mean().item())\nif epoch > 5:\n    continue"),
        LEAVES,
        at="    continue",
    ),
    NoOp(
        "a break between the number and the step",
        reading("clipfracs.append(ratio.mean().item())\nif epoch > 5:\n    break", report="print(clipfracs)"),
        LEAVES,
        at="    break",
    ),
    *(NoOp(f"no mere report: {what}", reading(what), NOTHING, kind="not needed") for what in NO_MERE_REPORTS),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("deferred-sync")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("deferred-sync")


def test_no_minibatch_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an epoch, the mean of an empty list is printed, as in the original."""
    monkeypatch.setattr(sys, "argv", ["script.py", "--update-epochs", "0"])
    before = script({"report": "print(iteration, np.mean(clipfracs))"})
    after = turn("deferred-sync", before).after
    assert "clipfracs += [clipfrac]" in after
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert printed(before) == printed(after) == "1 nan\n2 nan\n3 nan\n"


@pytest.mark.parametrize(
    ("value", "deferred"),
    [
        ("nn.functional.smooth_l1_loss(newvalue, b_returns[mb_inds].view(-1, 1))", True),
        ("nn.SmoothL1Loss()(newvalue, b_returns[mb_inds].view(-1, 1))", False),
        ("torch.distributions.Normal(b_returns[mb_inds], 1.0).mean.mean()", True),
        ("torch.distributions.Normal(b_returns[mb_inds], 1.0).stddev.mean()", True),
    ],
)
def test_a_number_of_what_torch_computes(value: str, deferred: bool) -> None:
    metrics = f"extra = {value}\nextras.append(extra.item())"
    parts = reading(metrics, head="extras = []", report="print(np.mean(extras))\nextra = None")
    after = turn("deferred-sync", script(parts)).after
    assert ("extras.append(extra.item())" not in after) == deferred


def test_a_number_that_stays_below_the_step_is_told() -> None:
    below = PARTS["optimize"] + "\nkl = (ratio - 1).mean().item()\nkls.append(kl)"
    outcome = turn("deferred-sync", script({"optimize": below, "head": "kls = []"})).outcome
    assert isinstance(outcome, Applied)
    assert "waits for the device in each minibatch: let kl be the tensor" in outcome.notes[0]
