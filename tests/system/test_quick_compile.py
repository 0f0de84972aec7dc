"""With --compile a conversion prints what it prints without: compiled code keeps all its effects."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import PARTS, QUICK_COMPILE, script
from variations import VARIATIONS
from variations.base import Variation

from transformer import convert

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?|nan|inf")
RATE = "optimizer.param_groups[0]['lr']"
KL = "kl = ((ratio - 1) - ratio.log()).mean()"
ADAPT = f"""
if kl > 0.02:
    rate = max(1e-5, rate / 1.5)
elif kl < 0.005:
    rate = min(1e-1, rate * 1.5)
{RATE} = rate
"""
ROLLOUT = "print(b_actions.sum().item(), b_logprobs.sum().item(), b_returns.sum().item())"
"""The rollout in numbers: a policy that was compiled with old parameters shows here, but perhaps in no loss."""
CHANGES = [
    Variation(
        "a rate set in the minibatch, from a number",
        {
            "before_loop": "rate = args.learning_rate",
            "anneal": "",
            "metrics": f"{PARTS['metrics']}\n{KL}.item(){ADAPT}",
        },
    ),
    Variation(
        "a rate set in the minibatch, from its old value",
        {
            "anneal": "",
            "metrics": f"{PARTS['metrics']}\n{KL}{ADAPT.replace('rate', RATE).replace(f'{RATE} = {RATE}', '')}",
        },
    ),
    Variation(
        "a hook that counts gradients",
        {
            "before_loop": "seen = []\nagent.actor[0].weight.register_hook(lambda grad: seen.append(grad.shape[0]))",
            "report": PARTS["report"] + "\nprint(sum(seen))",
        },
    ),
    Variation(
        "a hook that counts forward passes",
        {
            "before_loop": "seen = []\nagent.actor[0].register_forward_hook(lambda *given: seen.append(1))",
            "report": PARTS["report"] + "\nprint(len(seen))",
        },
    ),
    Variation(
        "a stored callable that reads a name of the training loop",
        {
            "agent": PARTS["agent"]
            .replace("def __init__(self):", "def __init__(self, temperature):")
            .replace("super().__init__()\n", "super().__init__()\n        self.temperature = temperature\n")
            .replace("logits=self.actor(x)", "logits=self.actor(x) * self.temperature()"),
            "make_agent": "agent = Agent(lambda: 50.0 * (iteration - 2)).to(device)",
        },
    ),
    Variation(
        "dropout that is annealed, and on in the first rollout alone",
        {
            "agent": PARTS["agent"]
            .replace("super().__init__()\n", "super().__init__()\n        self.drop = nn.Dropout(0.5)\n")
            .replace("self.actor(x)", "self.actor(self.drop(x)) * 50"),
            "head": "agent.drop.p = 0.5 / iteration\nagent.drop.train(iteration == 1)",
            "flatten": PARTS["flatten"] + "\nagent.drop.train()",
        },
    ),
    Variation(
        "a layer that is replaced between the iterations",
        {
            "functions": "def renew(net):\n    net.actor[-1] = nn.Linear(8, 2)\n\n\n",
            "report": PARTS["report"] + "\nrenew(agent)",
        },
    ),
    Variation(
        "a hook that is registered during training",
        {"report": PARTS["report"] + "\nagent.actor[0].register_forward_hook(lambda m, given, result: result * 0.5)"},
    ),
    Variation(
        "statistics that count their updates",
        {
            "functions": """
                class Norm:
                    def __init__(self):
                        self.mean, self.count = torch.zeros(()), 0

                    def update(self, x):
                        self.count += 1
                        self.mean = self.mean + (x.mean() - self.mean) / self.count


            """,
            "before_loop": "norm = Norm()",
            "minibatch": "norm.update(b_returns[mb_inds])\n" + PARTS["minibatch"],
            "report": PARTS["report"] + "\nprint(norm.mean.item(), norm.count)",
        },
    ),
]


def printed(*command: str) -> list[float]:
    run = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return [float(number) for number in NUMBER.findall(run.stdout)]


def check(variation: Variation, tmp_path: Path) -> None:
    path = tmp_path / "ppo.py"
    parts = {"report": PARTS["report"], **variation.parts}
    rollout = ROLLOUT if parts.get("flatten", PARTS["flatten"]) else ""  # the loop has no such names
    path.write_text(convert(script({**parts, "report": f"{parts['report']}\n{rollout}"})).source, encoding="utf-8")
    eager = printed(str(path))
    assert len(eager) >= (9 if rollout else 3)
    assert printed(str(QUICK_COMPILE), str(path), "--compile") == pytest.approx(eager, rel=2e-3, abs=2e-5, nan_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("variation", [*CHANGES, *VARIATIONS], ids=str)
def test_variation(variation: Variation, tmp_path: Path) -> None:
    check(variation, tmp_path)
