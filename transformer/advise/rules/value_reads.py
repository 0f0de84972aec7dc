"""Reads of a tensor's value in a hot loop: `.item()`, `.tolist()`, `float(x)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study
from transformer.facts.python import CONVERTS
from transformer.syntax.query import method, receiver


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Reads of values that are known to be tensors."""
    for call, heat in study.hot_calls():
        read = None
        if method(call) in ("item", "tolist"):
            read = receiver(call)
        elif isinstance(call.func, ast.Name) and call.func.id in CONVERTS and len(call.args) == 1:
            read = call.args[0]
        if read is not None and study.tensor(read) and not (_feeds_loop(study, call) or study.for_environment(call)):
            transform = "deferred-sync" if heat.role == "update" else None
            if method(read) == "exp":  # the exponential of a learned temperature's logarithm
                transform = "tensor-temperature"
            yield call, f"{study.text(call)} waits for the device {heat.where}", transform


def _feeds_loop(study: Study, call: ast.Call) -> bool:
    """Whether a loop iterates over the values, which reads them at once instead of one by one."""
    outer = study.tree.parents[call]
    if isinstance(outer, ast.Call):  # enumerate, zip
        outer = study.tree.parents[outer]
    return method(call) == "tolist" and isinstance(outer, ast.For)


RULE = Rule(
    code="LA001",
    title="a tensor's value is read in a hot loop",
    reason=(
        "`.item()`, `.tolist()` and `float(x)` return only when the device has computed everything before them, so it "
        "is left idle at every iteration. A compiled function has a graph break there, and a CUDA graph cannot hold it."
    ),
    instead="Keep the values as tensors (`x.detach()`, a list of them) and read them once, after the loop.",
    weight="costly",
    find=find,
    bad=(
        Example("minibatch", "losses.append(loss.item())"),
        Example("minibatch", "total += float(loss)"),
        Example("minibatch", "clipfracs += [(loss > 1).float().mean().item()]"),
        Example("step", "actions = agent.act(next_obs).argmax(1).tolist()"),
        Example(
            "module",
            "def train(obs):\n    for i in range(4):\n        l = torch.sum(obs)\n        optimizer.step()\n"
            "        h.append(l.item())",
        ),
        Example("step", "if step % 4 == 0:\n    optimizer.step()\n    alpha = agent.act(next_obs).mean().item()"),
        Example(
            "step", "def entropy(x):\n    return agent.act(x).mean()\nvalue = entropy(next_obs)\ntotal += value.item()"
        ),
    ),
    good=(
        Example("minibatch", "losses.append(loss.detach())"),
        Example("iteration", "writer.add_scalar('loss', loss.item(), step)"),
        Example("step", "total += reward.item()"),
        Example("step", "if step % 100 == 0:\n    print(agent.act(next_obs).mean().item())"),
        Example("step", "for a in agent.act(next_obs).tolist():\n    print(a)"),
        Example("setup", "n = torch.ones(3, device=device).sum().item()"),
        Example("step", "act = agent.act(next_obs)[0].item()\nframe, reward, done, info = envs.step(act)"),
        Example("step", "if done.any():\n    print(agent.act(next_obs).mean().item())"),
        Example(
            "iteration",
            "def collect(x):\n    for i in range(9):\n        o, r, d, i = envs.step(1)\ncollect(loss.item())",
        ),
        Example("minibatch", "width = int(loss.shape[0])"),
        Example(
            "step",
            "def choose(x):\n    a = agent.act(x)\n    return a.argmax().item(), a\n"
            "act, logits = choose(next_obs)\nframe, reward, done, info = envs.step(act)",
        ),
        Example("minibatch", "n = torch.randperm(4).tolist()"),
    ),
)
