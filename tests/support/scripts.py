"""A small but complete PPO script in parts that a test can replace, and that runs in two seconds.

A line `<name>` stands for the part of that name, with the indentation of the line; an empty part leaves no line. Parts
may contain parts, so `functions="def rollout():\\n    <rollout>"` moves the rollout's statements into a function.
"""

import re
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path

QUICK_COMPILE = Path(__file__).with_name("quick_compile.py")
"""A program that runs a script with a torch.compile that takes only seconds."""

SCRIPT = """\
<imports>


<args>


class Envs:
    # Beads on a wire, pushed left or right; whoever leaves the wire, or is seven steps old, starts anew.
    def __init__(self, num_envs):
        self.state = np.zeros((num_envs, 2), dtype=np.float32)
        self.age = np.arange(num_envs)

    def reset(self):
        return self.state.copy()

    def step(self, action):
        self.state[:, 1] += np.where(action == 1, 0.1, -0.1)
        self.state[:, 0] += self.state[:, 1]
        self.age += 1
        reward = 1 - np.abs(self.state[:, 0]) + 0.1 * self.age
        done = (np.abs(self.state[:, 0]) > 0.5) | (self.age % 7 == 0)
        self.state[done] = 0
        return self.state.copy(), reward, done, {}


<agent>


<functions>
<main>
    <parse>
    args.batch_size = args.num_envs * args.num_steps
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    <setup>

    envs = Envs(args.num_envs)
    <make_agent>
    <optimizer>
    <copy>
    <allocate>

    <begin>

    <closures>
    <before_loop>
    <loop>
        <head>
        <anneal>

        <collect>
        <stack>

        <estimate>

        <flatten>

        <minibatches>

        <report>
<end>
"""

_PARTS = {
    "imports": """
        import argparse
        <stdlib>

        import numpy as np
        import torch
        import torch.nn as nn
        import torch.optim as optim
        <third_party>
        from torch.distributions.categorical import Categorical
    """,
    "stdlib": "",
    "third_party": "",
    "args": """
        def parse_args():
            <parser>
            return parser.parse_args()
    """,
    "parser": """
        parser = argparse.ArgumentParser()
        <options>
        <flags>
    """,
    "options": """
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--num-iterations", type=int, default=3)
        parser.add_argument("--num-envs", type=int, default=2)
        parser.add_argument("--num-steps", type=int, default=8)
        parser.add_argument("--update-epochs", type=int, default=2)
        parser.add_argument("--minibatch-size", type=int, default=4)
        parser.add_argument("--learning-rate", type=float, default=3e-2)
        parser.add_argument("--gamma", type=float, default=0.99)
        parser.add_argument("--gae-lambda", type=float, default=0.95)
        parser.add_argument("--clip-coef", type=float, default=0.2)
    """,
    "flags": "",
    "agent": """
        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
                self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

            def get_value(self, x):
                return self.critic(x)

            def get_action_and_value(self, x, action=None):
                probs = Categorical(logits=self.actor(x))
                if action is None:
                    action = probs.sample()
                return action, probs.log_prob(action), probs.entropy(), self.critic(x)
    """,
    "functions": "",
    "main": 'if __name__ == "__main__":',
    "parse": "args = parse_args()",
    "setup": 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "make_agent": "agent = Agent().to(device)",
    "optimizer": "optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)",
    "copy": "",
    "allocate": "\n\n<buffers>",
    "buffers": """
        obs = torch.zeros((args.num_steps, args.num_envs, 2)).to(device)
        actions = torch.zeros((args.num_steps, args.num_envs)).to(device)
        logprobs = torch.zeros((args.num_steps, args.num_envs)).to(device)
        rewards = torch.zeros((args.num_steps, args.num_envs)).to(device)
        dones = torch.zeros((args.num_steps, args.num_envs)).to(device)
        values = torch.zeros((args.num_steps, args.num_envs)).to(device)
    """,
    "begin": """
        global_step = 0
        next_obs = torch.Tensor(envs.reset()).to(device)
        next_done = torch.zeros(args.num_envs).to(device)
    """,
    "closures": "",
    "before_loop": "",
    "loop": "for iteration in range(1, args.num_iterations + 1):",
    "head": "",
    "anneal": """
        frac = 1.0 - (iteration - 1.0) / args.num_iterations
        optimizer.param_groups[0]["lr"] = frac * args.learning_rate
    """,
    "collect": "<rollout>",
    "rollout": """
        for step in range(0, args.num_steps):
            global_step += args.num_envs
            <store>
            <act>
            <record>
            <step>
    """,
    "store": """
        obs[step] = next_obs
        dones[step] = next_done
    """,
    "act": """
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
    """,
    "record": """
        actions[step] = action
        logprobs[step] = logprob
    """,
    "step": """
        next_obs, reward, done, info = envs.step(action.cpu().numpy())
        rewards[step] = torch.tensor(reward).to(device).view(-1)
        next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)
    """,
    "stack": "",
    "estimate": "<advantages>",
    "advantages": """
        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards).to(device)
            lastgaelam = 0
            <gae>
            returns = advantages + values
    """,
    "gae": """
        for t in reversed(range(args.num_steps)):
            if t == args.num_steps - 1:
                nextnonterminal = 1.0 - next_done
                nextvalues = next_value
            else:
                nextnonterminal = 1.0 - dones[t + 1]
                nextvalues = values[t + 1]
            delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam
    """,
    "flatten": """
        b_obs = obs.reshape((-1, 2))
        b_actions = actions.reshape(-1)
        b_logprobs = logprobs.reshape(-1)
        b_advantages = advantages.reshape(-1)
        b_returns = returns.reshape(-1)
    """,
    "minibatches": """
        b_inds = np.arange(args.batch_size)
        clipfracs = []
        for epoch in range(args.update_epochs):
            np.random.shuffle(b_inds)
            for start in range(0, args.batch_size, args.minibatch_size):
                end = start + args.minibatch_size
                mb_inds = b_inds[start:end]
                <learn>
    """,
    "learn": "<minibatch>",
    "minibatch": """
        _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])
        ratio = (newlogprob - b_logprobs[mb_inds]).exp()
        <metrics>
        mb_advantages = b_advantages[mb_inds]
        pg_loss1 = -mb_advantages * ratio
        pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
        pg_loss = torch.max(pg_loss1, pg_loss2).mean()
        v_loss = 0.5 * ((newvalue.view(-1) - b_returns[mb_inds]) ** 2).mean()
        loss = pg_loss + 0.5 * v_loss - 0.01 * entropy.mean()
        <optimize>
    """,
    "metrics": """
        with torch.no_grad():
            clipfracs += [((ratio - 1.0).abs() > args.clip_coef).float().mean().item()]
    """,
    "optimize": """
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
    """,
    "report": """
        print(iteration, global_step, v_loss.item(), np.mean(clipfracs), optimizer.param_groups[0]["lr"])
    """,
    "end": "",
}


PARTS = {name: textwrap.dedent(text).removeprefix("\n").rstrip() for name, text in _PARTS.items()}


def edited(part: str, old: str, new: str) -> str:
    """A part with one piece of its text, which must occur exactly once, replaced; new lines are indented as it was."""
    text = PARTS[part]
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {part}"
    line = text[: text.index(old)].rpartition("\n")[2]
    indent = line[: len(line) - len(line.lstrip())]
    return text.replace(old, new.replace("\n", "\n" + indent))


def script(parts: Mapping[str, str] | None = None, *, spare: bool = False) -> str:
    """The script with some of its parts replaced; these may contain further parts of a test's own.

    Raises:
        KeyError: a part is missing, or (unless `spare` ones are allowed) has no place.
    """
    used: set[str] = set()
    text = _filled(SCRIPT, {**PARTS, **(parts or {})}, used)
    if (unused := set(parts or ()) - used) and not spare:
        raise KeyError(f"no place for {sorted(unused)}")
    return text


@cache
def _block(text: str) -> str:
    """A part as lines of its own."""
    text = textwrap.dedent(text).removeprefix("\n")
    return text if not text or text.endswith("\n") else f"{text}\n"


@cache
def _indented(text: str, by: str) -> str:
    return textwrap.indent(text, by)


def _filled(text: str, parts: Mapping[str, str], used: set[str]) -> str:
    def part(marker: re.Match[str]) -> str:
        used.add(marker["name"])
        text = _block(parts[marker["name"]])
        return _indented(_filled(text, parts, used) if "<" in text else text, marker["indent"])

    return re.sub(r"^(?P<indent> *)<(?P<name>\w+)>\n", part, text, flags=re.MULTILINE)
