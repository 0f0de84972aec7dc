"""Rollouts learned from at once, without epochs or minibatches: what is in update(), and when there is none."""

import ast
from pathlib import Path

import pytest
from forking import assert_same_output
from golden import FIXTURES

from transformer import convert

SCRIPT = (FIXTURES / "one_update_per_rollout.py").read_text(encoding="utf-8")
SHORT = ('"--total-timesteps", type=int, default=20000', '"--total-timesteps", type=int, default=160')
RETURNS = "targets = torch.tensor(discounted(rewards, ends, last, 0.95), dtype=torch.float32).to(device)"
LOOP = """\
targets = torch.zeros(len(rewards), len(last)).to(device)
        following = torch.tensor(last)
        for t in reversed(range(len(rewards))):
            following = torch.tensor(rewards[t] + 0.95 * following.numpy() * (1.0 - ends[t]), dtype=torch.float32)
            targets[t] = following"""
HELD = """\
def collate(states, actions):
    rows = []
    for state in states:
        rows.append(state)
    return torch.tensor(np.stack(rows), dtype=torch.float32), torch.stack(actions)


if __name__ == "__main__":
"""
MADE = """\
        seen = torch.tensor(np.stack(states), dtype=torch.float32).to(device)
        chosen = torch.stack(actions)
"""
OPTIMIZER = "    optimizer = optim.RMSprop(model.parameters(), lr=7e-4, alpha=0.99)\n"
TWO = """\
    optimizer = optim.RMSprop([*model.trunk.parameters(), *model.value.parameters()], lr=7e-4)
    slow = optim.Adam([*model.mean.parameters(), model.log_std], lr=1e-4)
"""
LEARNS = SCRIPT[SCRIPT.index("        dist, values = model(seen)\n") : SCRIPT.index("        print(f")]
IN_FUNCTION = "".join(line.removeprefix("    ") for line in LEARNS.rstrip().splitlines(keepends=True))


def edited(*edits: tuple[str, str]) -> str:
    code = SCRIPT
    for old, new in edits:
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code


@pytest.mark.parametrize(
    "edits",
    [
        (),
        ((RETURNS, LOOP),),
        (
            ('if __name__ == "__main__":\n', HELD),
            (MADE, "        seen, chosen = (x.to(device) for x in collate(states, actions))\n"),
        ),
        (
            ('if __name__ == "__main__":\n', HELD),
            (MADE, "        seen, chosen = collate(states, actions)\n"),
            ("        optimizer.zero_grad()\n", ""),
            (
                "        dist, values = model(seen)\n",
                "        optimizer.zero_grad()\n        dist, values = model(seen)\n",
            ),
        ),
        (
            (
                'if __name__ == "__main__":\n',
                f"def learn(seen, chosen, targets):\n{IN_FUNCTION}\n"
                '    return policy_loss, value_loss, entropy\n\n\nif __name__ == "__main__":\n',
            ),
            (LEARNS, "        policy_loss, value_loss, entropy = learn(seen, chosen, targets)\n"),
        ),
    ],
    ids=["fixture", "returns in a loop", "collated by a helper", "cleared above", "a function learns"],
)
def test_update_is_below_the_steps(edits: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    code = edited(SHORT, *edits)
    conversion = convert(code)
    assert {"policy", "update", "one-graph", "compile"} <= {s.transform.name for s in conversion.steps if s.applied}
    functions = {f.name: f for f in ast.walk(ast.parse(conversion.source)) if isinstance(f, ast.FunctionDef)}
    update = functions["update"]
    assert {a.arg for a in update.args.args} == {"seen", "chosen", "targets"}
    assert not any(isinstance(n, (ast.For, ast.While)) for n in ast.walk(update))
    assert_same_output(tmp_path, code, conversion.source)


def test_several_optimizers_step_in_one_update() -> None:
    steps = (
        (OPTIMIZER, TWO),
        ("        optimizer.zero_grad()\n", "        optimizer.zero_grad()\n        slow.zero_grad()\n"),
    )
    code = edited(*steps, ("        optimizer.step()\n", "        optimizer.step()\n        slow.step()\n"))
    source = convert(code).source
    assert "    optimizer.step()\n    slow.step()\n" in source[: source.index("if __name__")]


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        (
            (
                (
                    "            with torch.no_grad():\n                action",
                    "            if True:\n                action",
                ),
                ("        return dist.sample()\n", "        return dist.rsample()\n"),
                ("action.clamp(-2.0, 2.0)", "action.detach().clamp(-2.0, 2.0)"),
            ),
            "",
        ),
        (
            (
                (
                    "                action = model.act(torch.tensor(obs, dtype=torch.float32).to(device))\n",
                    "                pass\n"
                    "            dist, _ = model(torch.tensor(obs, dtype=torch.float32).to(device))\n"
                    "            action = dist.sample()\n            kept.append(dist.log_prob(action).sum(-1))\n",
                ),
                ("        states, actions,", "        kept = []\n        states, actions,"),
                ("-(dist.log_prob(chosen).sum(-1) *", "-(torch.stack(kept) *"),
            ),
            "",
        ),
    ],
    ids=["a graph through the actions", "log-probabilities of the rollout"],
)
def test_graphs_of_the_rollout_prevent_it(edits: tuple[tuple[str, str], ...], reason: str) -> None:
    (found,) = convert(edited(*edits)).errors
    assert found.code == "LC004"
    assert "looks like REINFORCE or A2C" in found.message
    assert reason in found.message
    assert "Below the rollout, call the networks again" in found.advice
