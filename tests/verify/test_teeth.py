"""Wrong conversions, made by editing a right one: each is caught, and the first finding names the right quantity."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from toy import edited

from transformer.verify import Recording, compare, record

DATA = Path(__file__).parent / "data"
ORIGINAL = DATA / "small_ppo.py"
CONVERTED = (DATA / "small_ppo_converted.py").read_text()
ARGS = ["--total-timesteps", "192", "--learning-rate", "0.02", "--target-kl", "0.01"]
"""Three iterations of 32 environment steps and at most 12 optimizer steps, so large that epochs end early."""

STEP = "next_obs, reward, done, info = envs.step(action.cpu().numpy())\n"
NEXT = """        next_obs, next_done = (
            torch.as_tensor(next_obs).to(device, torch.float32, non_blocking=True),
"""
CALL = """                approx_kl, clipfrac, pg_loss, v_loss, entropy_loss = update_1(
                    b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns, b_values
                )
"""


@dataclass(frozen=True)
class Wrong:
    """A mistake, its edits, and the quantity, name and place that its first finding must give."""

    mistake: str
    edits: list[tuple[str, str]]
    quantity: str
    name: str = ""
    where: str = ""


FIRST = "optimizer step 1"
SECOND_ITERATION = "optimizer step 9"
LR = "lr of group 0"

WRONG = [
    Wrong(
        "GAE off by one in dones",
        [('storage["dones"][1:], (1', 'storage["dones"][:-1], (1')],
        "gradient norm",
        where=FIRST,
    ),
    Wrong(
        "GAE off by one in values", [('storage["values"][1:]', 'storage["values"][:-1]')], "gradient norm", where=FIRST
    ),
    Wrong(
        "dones of the wrong step",
        [
            ('["dones"] = next_done.flatten().clone()', '["dones"] = next_done * 0'),
            (
                NEXT,
                NEXT.replace(
                    "next_obs, next_done", 'transition["dones"] = torch.as_tensor(done)\n        next_obs, next_done', 1
                ),
            ),
        ],
        "gradient norm",
        where=FIRST,
    ),
    Wrong(
        "episodes' ends ignored at the boundary",
        [("(1.0 - next_done).expand_as", "torch.ones_like(next_done).expand_as")],
        "gradient norm",
    ),
    Wrong(
        "advantages normalised over the batch",
        [
            ("    mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)\n", ""),
            (
                "b_advantages = advantages.reshape(-1)",
                "b_advantages = advantages.reshape(-1)\n"
                "        b_advantages = (b_advantages - b_advantages.mean()) / (b_advantages.std() + 1e-8)",
            ),
        ],
        "gradient norm",
        where=FIRST,
    ),
    Wrong(
        "learning rate annealed an iteration late",
        [("(update - 1.0)", "max(update - 2.0, 0.0)")],
        "hyperparameter",
        LR,
        SECOND_ITERATION,
    ),
    Wrong("learning rate in float32", [("dtype=torch.float64", "dtype=torch.float32")], "hyperparameter", LR, FIRST),
    Wrong(
        "learning rate not annealed",
        [(".fill_(frac * args.learning_rate)", ".fill_(args.learning_rate)")],
        "hyperparameter",
        LR,
        SECOND_ITERATION,
    ),
    Wrong(
        "early stop per minibatch",
        [
            (
                "                clipfracs += [clipfrac]\n",
                "                clipfracs += [clipfrac]\n"
                "                if approx_kl > args.target_kl:\n                    break\n",
            )
        ],
        "optimizer",
        "step",
    ),
    Wrong(
        "last minibatch dropped",
        [(".split(args.minibatch_size)", ".split(args.minibatch_size)[:-1]")],
        "optimizer",
        "step",
        "optimizer step 4",
    ),
    Wrong(
        "stale weights in the rollout",
        [("policy = agent.get_action_and_value", 'policy = __import__("copy").deepcopy(agent).get_action_and_value')],
        "action",
        where="action 3",
    ),
    Wrong("extra draw from torch", [(STEP, STEP + "        torch.rand(1)\n")], "action"),
    Wrong(
        "extra draw from numpy",
        [(STEP, STEP + "        np.random.rand()\n")],
        "random state",
        "numpy",
        "the update of iteration 1",
    ),
    Wrong("reward not clipped", [("np.clip(reward, -1.0, 1.0)", "reward")], "gradient norm", where=FIRST),
    Wrong(
        "log-prob of another action",
        [('storage["logprobs"].reshape(-1)', 'storage["logprobs"].roll(1, 0).reshape(-1)')],
        "gradient norm",
        where=FIRST,
    ),
    Wrong("entropy's sign", [("pg_loss - args.ent_coef", "pg_loss + args.ent_coef")], "gradient norm", where=FIRST),
    Wrong(
        "value loss not clipped",
        [("torch.max(v_loss_unclipped, v_loss_clipped).mean()", "v_loss_unclipped.mean()")],
        "gradient norm",
    ),
    Wrong(
        "gradient not clipped",
        [("    nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)\n", "")],
        "gradient norm",
        where=FIRST,
    ),
    Wrong(
        "optimizer state not carried over",
        [("        clipfracs = []\n", "        clipfracs = []\n        optimizer.state.clear()\n")],
        "optimizer state",
        ": step",
        SECOND_ITERATION,
    ),
    Wrong(
        "obs of the next step stored",
        [
            ('        transition["obs"] = next_obs.clone()\n', ""),
            ("    storage = TensorDict(", '        transition["obs"] = next_obs\n    storage = TensorDict('),
        ],
        "gradient norm",
        where=FIRST,
    ),
    Wrong(
        "a buffer shared by all steps",
        [
            ('"obs"] = next_obs.clone()', '"obs"] = next_obs'),
            (
                NEXT,
                NEXT.replace(
                    "next_obs, next_done = (\n            torch.as_tensor(next_obs)",
                    "next_obs, next_done = (\n            shared.copy_(torch.as_tensor(next_obs))",
                ),
            ),
            ("    transitions = []\n", "    transitions = []\n    shared = next_obs\n"),
        ],
        "gradient norm",
        where=FIRST,
    ),
    Wrong(
        "a scalar not logged",
        [('        writer.add_scalar("losses/approx_kl", approx_kl.item(), global_step)\n', "")],
        "scalar",
        "losses/approx_kl",
        "step 64",
    ),
    Wrong(
        "a scalar at another step",
        [
            (
                '"losses/entropy", entropy_loss.item(), global_step',
                '"losses/entropy", entropy_loss.item(), global_step - 1',
            )
        ],
        "scalar",
        "losses/entropy",
        "step 64",
    ),
    Wrong(
        "mean of means in float32",
        [("np.mean(torch.stack(clipfracs).tolist())", "torch.stack(clipfracs).mean()")],
        "scalar",
        "losses/clipfrac",
    ),
    Wrong(
        "a line not printed",
        [('            print(f"global_step={global_step}, episodic_return={score}")\n', "")],
        "print",
        "",
        "line 1",
    ),
    Wrong(
        "parameters changed after training",
        [("    writer.close()", "    agent.actor[0].bias.data.mul_(0.5)\n    writer.close()")],
        "final parameter",
        "Agent.actor.0.bias",
        "the end",
    ),
]

MORE_WRONG = [
    Wrong(
        "lambda left out", [("args.gamma * args.gae_lambda * next", "args.gamma * next")], "gradient norm", where=FIRST
    ),
    Wrong(
        "returns without the values",
        [('advantages + storage["values"]', "advantages + 0")],
        "gradient norm",
        where=FIRST,
    ),
    Wrong(
        "another standard deviation",
        [("mb_advantages.std()", "mb_advantages.std(unbiased=False)")],
        "gradient norm",
        where=FIRST,
    ),
    Wrong("another epsilon", [("eps=1e-5", "eps=1e-8")], "hyperparameter", "eps of group 0", FIRST),
    Wrong(
        "no early stop",
        [("            if args.target_kl is not None and approx_kl > args.target_kl:\n                break\n", "")],
        "optimizer",
        "step",
    ),
    Wrong("an epoch less", [("range(args.update_epochs)", "range(args.update_epochs - 2)")], "optimizer", "step"),
    Wrong(
        "a second agent is made",
        [("policy = agent.get_action_and_value", "policy = Agent().get_action_and_value")],
        "action",
        where="action",
    ),
    Wrong(
        "action of another step",
        [('storage["actions"].reshape(-1)', 'storage["actions"].roll(1, 0).reshape(-1)')],
        "gradient norm",
        where=FIRST,
    ),
    Wrong("value loss without its weight", [("v_loss * args.vf_coef", "v_loss")], "gradient norm", where=FIRST),
    Wrong("gradients added up", [("    optimizer.zero_grad()\n", "")], "gradient norm", where="optimizer step 2"),
    Wrong("greedy actions", [("probs.sample()", "probs.logits.argmax(-1)")], "action", where="action"),
]
"""Mistakes that show in the same way as one above."""


@pytest.fixture(scope="module")
def original() -> Recording:
    return record(ORIGINAL, ARGS)


def test_the_script_is_right_before_the_edits(original: Recording) -> None:
    assert compare(original, record(ORIGINAL, ARGS, source=CONVERTED)) == ()
    assert len(original.steps) < 3 * 12, "no epoch ended early, so a mistake there would not show"
    assert any(s.value > 0 for s in original.scalars if s.tag == "losses/clipfrac"), "nothing was clipped"


@pytest.mark.parametrize(
    "wrong",
    [pytest.param(w, id=w.mistake, marks=[] if w in WRONG[::4] else pytest.mark.slow) for w in (*WRONG, *MORE_WRONG)],
)
def test_a_wrong_conversion_is_caught(original: Recording, wrong: Wrong) -> None:
    source = CONVERTED
    for old, new in wrong.edits:
        source = edited(old, new, source)
    first, *_ = compare(original, record(ORIGINAL, ARGS, source=source))
    assert first.quantity == wrong.quantity, str(first)
    assert wrong.name in first.name, str(first)
    assert first.where.startswith(wrong.where), str(first)
