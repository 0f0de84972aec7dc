"""Two critics with an optimizer each, whose passes follow each other in a method of the agent."""

import subprocess
import sys
from pathlib import Path

import pytest
from agent_script import agent_script

from transformer import convert

CHANGES = {
    "        self.critic = Net(n_obs + n_act, 1, False)\n": "        self.critic = Net(n_obs + n_act, 1, False)\n"
    "        self.other = Net(n_obs + n_act, 1, False)\n        self.seen = []\n"
    "        self.other_optimizer = torch.optim.Adam(self.other.parameters(), lr=1e-3)\n",
    "    def learn(self, replay):\n        obs, action, reward, next_obs = replay.sample(64)\n": ""
    "    def keep(self, *step):\n        self.seen.append(step)\n\n    def learn(self, replay):\n"
    "        drawn = [self.seen[i] for i in np.random.randint(len(self.seen), size=64)]\n"
    "        obs = torch.tensor(np.array([x[0] for x in drawn]))\n"
    "        action = torch.tensor(np.array([x[1] for x in drawn]))\n"
    "        reward = torch.tensor([[x[2]] for x in drawn])\n"
    "        next_obs = torch.tensor(np.array([x[3] for x in drawn]))\n",
    "        self.critic_optimizer.step()\n": "        self.critic_optimizer.step()\n"
    "        other_loss = F.mse_loss(self.other(torch.cat([obs, action], 1)), target)\n"
    "        self.other_optimizer.zero_grad()\n        other_loss.backward()\n        self.other_optimizer.step()\n",
    "        replay.store(obs, action, reward, next_obs)\n": "        agent.keep(obs, action, reward, next_obs)\n",
    "<freeze>": "",
    "<thaw>": "",
}


@pytest.mark.parametrize("last", [True, False], ids=["critics alone", "and the actor"])
def test_steps_that_a_method_stores(last: bool, tmp_path: Path) -> None:
    source = agent_script(CHANGES)
    if last:
        actor = source[source.index("        actor_loss") : source.index("def evaluate")]
        source = source.replace(actor, "\n\n")
    converted, told = convert(source), []
    assert converted.converted, converted.errors
    for name, text in (("original.py", source), ("converted.py", converted.source)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        run = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=True)
        told.append(run.stdout)
    assert told[0] == told[1]
