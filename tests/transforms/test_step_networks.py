"""Calls of further networks in a step: which get a name, and that they compute the same."""

from pathlib import Path

import pytest
from cases import converted_by, turn
from forking import preload
from judge import judge
from scripts import PARTS, edited, script

from transformer import Applied, Skipped, convert

BONUS = """


class Bonus(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.actions = actions
        self.encoder = nn.Sequential(nn.Linear(2, 8), nn.ReLU())
        self.ahead = nn.Linear(8 + actions, 8)

    def forward(self, obs, next_obs, action):
        known = torch.cat([self.encoder(obs), F.one_hot(action.long(), self.actions).float()], 1)
        return self.ahead(known), self.encoder(next_obs)

    def surprise(self, obs, next_obs, action):
        guess, met = self.forward(obs, next_obs, action)
        return (guess - met).pow(2).mean(1)
"""
OPTIMIZER = """
    bonus = None
    if args.seed:
        bonus = Bonus(2).to(device)
    optimizer = optim.Adam([*agent.parameters(), *bonus.parameters()], lr=args.learning_rate, eps=1e-5)
"""
QUIET = "\nwith torch.no_grad():\n    rewards[step] += 0.1 * bonus.surprise(obs[step], next_obs, action)"


def source(step: str = QUIET, bonus: str = BONUS, optimizer: str = OPTIMIZER) -> str:
    parts = {
        "third_party": "import torch.nn.functional as F",
        "agent": PARTS["agent"] + bonus,
        "optimizer": optimizer,
        "step": PARTS["step"] + step,
        "minibatch": edited(
            "minibatch", "<optimize>", "loss = loss + bonus.encoder(b_obs[mb_inds]).mean()\n<optimize>"
        ),
    }
    return script(parts)


def reason(text: str) -> str:
    outcome = turn("step-networks", text).outcome
    assert isinstance(outcome, Skipped), outcome
    return outcome.reason


@pytest.mark.parametrize(
    ("step", "function"),
    [
        (QUIET, "surprise(obs, next_obs, action):\n    ...\n    return bonus.surprise(obs, next_obs, action)"),
        (
            QUIET.replace("next_obs, action", "action=action, next_obs=next_obs"),
            "surprise(obs, action, next_obs):\n    ...\n"
            "    return bonus.surprise(obs, action=action, next_obs=next_obs)",
        ),
        (
            "\nmet = bonus.encoder(next_obs)\nrewards[step] += met.mean(1).detach()",
            "encoder(x):\n    ...\n    return bonus.encoder(x)",
        ),
        (
            "\nguess, met = bonus(obs[step], next_obs, action)\nrewards[step] += (guess - met).mean(1).data",
            None,  # two results: it is not analysed whether something reads their graphs
        ),
    ],
)
def test_a_call_that_only_computes_has_a_name(step: str, function: str | None) -> None:
    one = turn("step-networks", source(step))
    if function is None:
        assert isinstance(one.outcome, Skipped)
        return
    assert isinstance(one.outcome, Applied), one.outcome
    head, _, rest = function.partition(":\n    ...\n")
    assert f"def {head}:\n" in one.after
    assert f"{rest}\n" in one.after


@pytest.mark.slow
@pytest.mark.parametrize("step", [QUIET, "\nmet = bonus.encoder(next_obs)\nrewards[step] += met.mean(1).detach()"])
def test_it_computes_the_same(step: str, tmp_path: Path) -> None:
    preload()
    outcome = judge(tmp_path / "bonus.py", source(step))
    assert outcome.kind == "equal", (outcome.kind, *outcome.said)


def test_flags_compile_and_capture_it() -> None:
    text = converted_by(source(), "step-networks", "compile", "cudagraphs").source
    assert "surprise = torch.compile(surprise, options=options)" in text
    assert "surprise = CudaGraphModule(surprise, warmup=20)" in text
    assert ('help="replay policy' in text) is ("policy = CudaGraphModule(policy" in text)
    assert "networks of a step" in text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (source(QUIET.replace("\nwith torch.no_grad():\n    ", "\n").replace("0.1 *", "")), "with gradients"),
        (source("\nmet = bonus.encoder(next_obs)\nprint(met)"), "with gradients"),
        (source("\nmet = bonus.encoder(next_obs)\nkept = met.requires_grad\nprint(kept)"), "with gradients"),
        (source(QUIET.replace("action)", "step)")), "step, which is not known to be a tensor"),
        (source(bonus=BONUS.replace("guess, met =", "self.calls = 1\n        guess, met =")), "more than compute"),
        (source(bonus=BONUS.replace("guess, met =", "print(1)\n        guess, met =")), "more than compute"),
        (source(bonus=BONUS.replace("guess, met =", "np.random.rand()\n        guess, met =")), "more than compute"),
        (source("\nbonus = bonus if step else Bonus(2)" + QUIET), "not made once"),
        (source(optimizer=OPTIMIZER.replace("Bonus(2).to(device)", "make()")), "not made once"),
    ],
)
def test_calls_with_effects_stay(text: str, why: str) -> None:
    assert why in reason(text)


def test_not_needed_where_only_the_policy_is_called() -> None:
    assert "no network but the one" in reason(script())


OUTSIDE = "\nguess = bonus.encoder(next_obs)\nrewards[step] += 0.1 * guess.pow(2).mean(1).data"


@pytest.mark.parametrize(("step", "captured"), [(QUIET, True), (OUTSIDE, False)])
def test_a_graph_returns_nothing_with_gradients(step: str, captured: bool) -> None:
    (outcome,) = (s.outcome for s in convert(source(step)).steps if s.transform.name == "cudagraphs")
    assert isinstance(outcome, Applied), outcome
    told = [note for note in outcome.left if "calls it with gradients: put it under torch.no_grad()" in note]
    assert bool(told) is not captured
