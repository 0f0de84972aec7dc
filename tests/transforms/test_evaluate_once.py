"""One evaluation for a whole rollout: what the steps no longer do, that results stay equal, and what prevents it."""

import contextlib
import io
import sys
from typing import Any

import pytest
import torch
from cases import NoOp, turn
from golden import converted
from scripts import PARTS, edited, script

from transformer import Applied, Skipped

EVALUATED = """\
        if args.compile:  # for all steps in one call
            with torch.no_grad():
                _, logprob, _, value = agent.get_action_and_value(
                    torch.cat([t["obs"] for t in transitions]), action=torch.cat([t["actions"] for t in transitions])
                )
            rows = [result.chunk(len(transitions)) for result in (logprob, value)]
            for transition, logprob, value in zip(transitions, *rows):
"""
STEP = """\
                if args.compile:
                    action = act(next_obs)
                else:
                    action, logprob, _, value = policy(next_obs)
"""
ACT = """\
def act(observation):
    return agent.get_action_and_value(observation)[0]  # the other results are computed later


"""
NORMAL = """
    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
            self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
            self.log_std = nn.Parameter(torch.zeros(1, 1))

        def get_value(self, x):
            return self.critic(x)

        def get_action_and_value(self, x, action=None):
            mean = self.actor(x)
            probs = torch.distributions.Normal(mean, torch.exp(self.log_std.expand_as(mean)))
            if action is None:
                action = probs.sample()
            return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)
"""
CONTINUOUS = {
    "agent": NORMAL,
    "buffers": edited("buffers", "num_envs)).to(device)\nlogprobs", "num_envs, 1)).to(device)\nlogprobs"),
    "step": edited("step", "action.cpu().numpy()", "action.cpu().numpy()[:, 0] > 0"),
    "flatten": edited("flatten", "actions.reshape(-1)", "actions.reshape(-1, 1)"),
    "minibatch": edited("minibatch", "b_actions.long()[mb_inds]", "b_actions[mb_inds]"),
}


SEPARATE = {
    "agent": PARTS["agent"].replace("probs.entropy(), self.critic(x)", "probs.entropy()"),
    "act": """
        with torch.no_grad():
            action, logprob, _ = agent.get_action_and_value(next_obs)
            value = agent.get_value(next_obs)
            values[step] = value.flatten()
    """,
    "minibatch": edited(
        "minibatch",
        "_, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])",
        "_, newlogprob, entropy = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])\n"
        "newvalue = agent.get_value(b_obs[mb_inds])",
    ),
}
"""A call of its own computes the value."""


def separate(old: str, new: str, part: str = "act") -> dict[str, str]:
    assert SEPARATE[part].count(old) == 1, old
    return {**SEPARATE, part: SEPARATE[part].replace(old, new)}


def test_a_value_of_its_own_waits_too() -> None:
    step = turn("evaluate-once", script(SEPARATE))
    assert isinstance(step.outcome, Applied), step.outcome
    assert 'value = agent.get_value(torch.cat([t["obs"] for t in transitions]))' in step.after
    before, _, after = step.after.partition("if args.compile:\n                    action = act(next_obs)\n")
    assert after.split("\n\n")[0].count("value = agent.get_value(next_obs)") == 1
    assert "agent.get_value(next_obs)" not in before


@pytest.mark.parametrize(
    "parts",
    [
        separate("value = agent.get_value(next_obs)", "value = agent.get_value(next_obs * 2)"),
        separate("values[step] = value.flatten()", "values[step] = value.flatten()\n            print(value)"),
        separate("value = agent.get_value(next_obs)", "value = agent.get_value(next_obs) + 1"),
        separate("return self.critic(x)", "return self.critic(x - x.mean(0))", part="agent"),
        separate("return self.critic(x)", "return self.critic(x + torch.randn_like(x))", part="agent"),
        {**SEPARATE, "flatten": PARTS["flatten"] + "\nprint(value)"},
    ],
    ids=["of another input", "used", "changed", "mixes rows", "draws", "read after the rollout"],
)
def test_a_value_of_its_own_that_cannot_wait(parts: dict[str, str]) -> None:
    step = turn("evaluate-once", script(parts))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "get_value(torch.cat(" not in step.after


LOWER = "def lower(x):\n    x.clamp_(-0.2, 0.2)\n\n\n"


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (
            {**separate("value = agent", "lower(next_obs)\n            value = agent"), "functions": LOWER},
            "may change it in place: the observations",
        ),
        (
            {**SEPARATE, "step": "if step == 3:\n    agent.load_state_dict(agent.state_dict())\n" + PARTS["step"]},
            "may change it in place: a network that is called once for all steps",
        ),
        (
            {
                **SEPARATE,
                "functions": "def decay():\n    for p in agent.parameters():\n        p.data.mul_(0.99)\n\n\n",
                "step": "decay()\n" + PARTS["step"],
            },
            "may change it in place: a network that is called once for all steps",
        ),
        (
            {"act": edited("act", "values[step] =", "value = value + 1\nvalues[step] =")},
            "is bound twice",
        ),
        ({"closures": "show = lambda: logprob.sum()"}, "or read in a function"),
    ],
    ids=["observations", "weights", "weights in a function", "value bound twice", "closure"],
)
def test_a_policy_that_the_steps_change_stays(parts: dict[str, str], why: str) -> None:
    """Each of these once gave another result, even with the flags off."""
    step = turn("evaluate-once", script(parts))
    assert isinstance(step.outcome, Skipped), step.outcome
    assert why in step.outcome.reason


@pytest.mark.parametrize("record", ["value.flatten() * args.scale", "value.flatten() * scales[0]"])
def test_a_record_that_depends_on_what_changes(record: str) -> None:
    parts = separate("values[step] = value.flatten()", f"values[step] = {record}")
    changing = {"before_loop": "scales = [1.0]\nargs.scale = 1.0", "head": "args.scale *= 0.9\nscales[0] *= 0.9"}
    step = turn("evaluate-once", script({**parts, **changing}))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "get_value(torch.cat(" not in step.after


def test_a_value_that_stands_alone_under_no_grad() -> None:
    alone = separate("            value =", "        with torch.no_grad():\n            value =")
    step = turn("evaluate-once", script(alone))
    assert isinstance(step.outcome, Applied), step.outcome
    assert "get_value(torch.cat(" not in step.after


def test_the_steps_draw_actions_only() -> None:
    step = turn("evaluate-once", script({}))
    assert isinstance(step.outcome, Applied), step.outcome
    assert EVALUATED in step.after
    assert STEP in step.after
    assert ACT in step.after
    body = step.after.partition(EVALUATED)[2].partition("storage =")[0].split("\n")
    assert {line.strip() for line in body if line.strip()} == {
        'transition["values"] = value.flatten()',
        'transition["logprobs"] = logprob.flatten()',
    }


def trained(text: str, monkeypatch: pytest.MonkeyPatch, *flags: str) -> tuple[list[torch.Tensor], list[int]]:
    """The parameters at a script's end, run without a compiler, and the number of rows of each call of its policy."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(sys, "argv", ["script.py", *flags])
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    rows: list[int] = []
    text = text.replace(
        "def get_action_and_value(self, x, action=None):",
        "def get_action_and_value(self, x, action=None):\n        rows.append(len(x))",
    )
    space: dict[str, Any] = {"__name__": "__main__", "rows": rows}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(text, "script.py", "exec"), space)
    return list(space["agent"].parameters()), rows


@pytest.mark.parametrize("parts", [{}, CONTINUOUS, SEPARATE], ids=["discrete", "continuous", "separate"])
def test_the_results_are_those_of_the_steps(parts: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    conversion = converted(script(parts))
    assert "evaluate-once" in {s.transform.name for s in conversion.steps if s.applied}
    stepwise, seen = trained(conversion.source, monkeypatch)
    at_once, seen_at_once = trained(conversion.source, monkeypatch, "--compile")
    assert seen == ([2] * 8 + [4] * 8) * 3
    assert seen_at_once == ([2] * 8 + [16] + [4] * 8) * 3
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(stepwise, at_once, strict=True))


def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    text = converted(script()).source
    wrong = text.replace("for result in (logprob, value)]", "for result in (logprob + 0.01, value)]")
    assert wrong != text
    at_once, _ = trained(wrong, monkeypatch, "--compile")
    stepwise, _ = trained(text, monkeypatch)
    assert not all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(stepwise, at_once, strict=True))


METHOD = "probs = Categorical(logits=self.actor(x))"


@pytest.mark.parametrize(
    "case",
    [
        NoOp(
            "a method that sees the other rows",
            {"agent": edited("agent", METHOD, "x = x - x.mean(0)\n" + METHOD)},
            "calls x.mean(), which may mix the rows of a batch",
        ),
        NoOp(
            "a sum over the rows",
            {"agent": edited("agent", "probs.entropy(), self", "probs.entropy().sum(), self")},
            "calls probs.entropy().sum(), which may mix the rows of a batch",
        ),
        NoOp(
            "a number of rows",
            {"agent": edited("agent", METHOD, "x = x * x.shape[0]\n" + METHOD)},
            "indexes x.shape[0]",
        ),
        NoOp(
            "one row of them",
            {"agent": edited("agent", METHOD, "x = x - x[0]\n" + METHOD)},
            "indexes x[0]",
        ),
        NoOp(
            "noise",
            {"agent": PARTS["agent"].replace("nn.Tanh()", "nn.Dropout(0.1)", 1)},
            "makes a nn.Dropout, which uses more than one row or is costly",
        ),
        NoOp(
            "convolutions",
            {
                "agent": PARTS["agent"].replace(
                    "nn.Tanh()", "nn.Unflatten(1, (8, 1)), nn.Conv1d(8, 8, 1), nn.Flatten()", 1
                )
            },
            "convolves, and the convolutions would be computed again",
            kind="not needed",
        ),
        NoOp(
            "a method that draws where actions are given, too",
            {"agent": edited("agent", "action = probs.sample()", "action = probs.sample()\nmore = probs.sample()")},
            "cannot take the actions",
        ),
        NoOp(
            "a second draw",
            {"agent": edited("agent", METHOD, METHOD + "\nother = probs.sample()")},
            "cannot take the actions",
        ),
        NoOp(
            "a value that the step prints",
            {"record": PARTS["record"] + "\nprint(value)"},
            "value (line {line}) is used for more than recording",
            at="print(value)",
        ),
        NoOp(
            "a value that is read after the rollout",
            {"flatten": PARTS["flatten"] + "\nprint(value)"},
            "value (line",
        ),
        NoOp(
            "a record of two results",
            {"record": edited("record", "= logprob", "= logprob + value.flatten()")},
            "depends on more than",
        ),
        NoOp(
            "an action that is changed",
            {"record": PARTS["record"] + "\naction = 1 - action"},
            "changes action",
        ),
        NoOp(
            "observations that are not those that are recorded",
            {"act": "next_obs = next_obs / 2\n" + PARTS["act"]},
            "line {line} changes next_obs between its record and the policy",
            at="next_obs / 2",
        ),
        NoOp(
            "observations of which a part is recorded",
            {"store": edited("store", "= next_obs", "= next_obs.abs()")},
            "next_obs is not recorded as it is",
        ),
        NoOp(
            "a policy that is given a mask",
            {
                "agent": edited("agent", "action=None):", "action=None, mask=1.0):").replace(
                    "self.actor(x)", "self.actor(x) * mask"
                ),
                "act": edited("act", "(next_obs)", "(next_obs, mask=1.0)"),
            },
            "passes the policy more than the observations",
        ),
    ],
    ids=str,
)
def test_left_alone(case: NoOp) -> None:
    case.check("evaluate-once")
