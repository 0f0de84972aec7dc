"""Copies of a tensor to the host in a hot loop: `.cpu()`, `.numpy()`, `np.asarray(x)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.study import Study, is_copy_to_host
from transformer.syntax.query import method, receiver


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Copies, except those of the actions, which the environment needs."""
    for call, heat in study.hot_calls():
        if study.for_environment(call) or not _copies(study, call):
            continue
        yield call, f"{study.text(call)} copies a tensor to the host and waits for it, {heat.where}", None


def _copies(study: Study, call: ast.Call) -> bool:
    if is_copy_to_host(call):
        copied = receiver(call)
        return study.uses_device and not study.network(copied) and not study.on_host(copied)
    if method(call) == "numpy" and not call.args:
        return study.tensor(receiver(call))
    if study.qualified(call.func) in ("numpy.array", "numpy.asarray") and call.args:
        return study.tensor(call.args[0])
    return False


RULE = Rule(
    code="LA002",
    title="a tensor is copied to the host in a hot loop",
    reason=(
        "`.cpu()` and `.numpy()` wait until the device has computed the tensor, and then for the copy. Actions must be "
        "copied to an environment on the CPU, but any other copy at every step adds another wait."
    ),
    instead="Compute with the tensor on the device, or collect the tensors and copy them once, after the loop.",
    weight="costly",
    find=find,
    bad=(
        Example("step", "seen.append(agent.act(next_obs).cpu())"),
        Example("minibatch", "ratios.append(loss.detach().cpu().numpy())"),
        Example("minibatch", "ratios.append(np.asarray(loss))"),
        Example("step", "values[step] = agent.act(next_obs).to('cpu')"),
    ),
    good=(
        Example("step", "seen.append(agent.act(next_obs))"),
        Example("step", "act = agent.act(next_obs).cpu().numpy()\nframe, reward, done, info = envs.step(act)"),
        Example(
            "step", "raw = agent.act(next_obs).cpu().numpy()\nact = raw.clip(-1, 1)\nframe, r, d, i = envs.step(act)"
        ),
        Example("iteration", "history.append(loss.cpu())"),
        Example("step", "frame = np.asarray(frame)"),
        Example("step", "if done:\n    break\nelif step % 50 == 0:\n    torch.save(agent.act(next_obs).cpu(), 'x')"),
        Example("iteration", "agent.cpu()"),
    ),
)
