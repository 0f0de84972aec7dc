"""Networks that choose actions while gradients are recorded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformer.advise.base import Example, Rule
from transformer.advise.heat import is_network
from transformer.advise.study import Study
from transformer.dataflow.grad_mode import without_gradients
from transformer.syntax.query import method, receiver
from transformer.values.effects.recorded import Recorded
from transformer.values.effects.world import World


def find(study: Study) -> Iterator[tuple[ast.AST, str, str | None]]:
    """Calls of networks at each environment step whose results have a graph that no loss needs.

    An update in a loop of its own calls networks itself to compute its losses. So only other losses may need the graph.
    """
    calls = [(c, heat) for c, heat in study.hot_calls() if not _inside_network(study, c)]
    if not {"environment", "update"} <= {heat.role for _, heat in calls}:
        return
    world, recorded = study.roles.get(World), study.roles.get(Recorded)
    passes = [(c, heat) for c, heat in calls if _calls_network(world, c)]
    if all(heat.role != "update" for _, heat in passes):
        return
    losses = [receiver(c) for c, heat in calls if method(c) == "backward" and heat.role != "update"]
    needed = frozenset(t for x in losses if x is not None for thing in world.of(x) for t in recorded.behind(thing))
    for call, heat in passes:
        made = {t for thing in world.of(call) for t in (thing, *world.contents(thing)) if t.kind == "tensor"}
        graph = any(map(world.is_module_object, (t for thing in made for t in recorded.behind(thing))))
        asked = heat.role == "environment" and not without_gradients(study.tree, call)
        if asked and graph and needed.isdisjoint(made):
            yield call, f"{study.text(call.func)}() records a graph {heat.where}", "acting"


def _calls_network(world: World, call: ast.Call) -> bool:
    return world.is_module(call.func) or (isinstance(call.func, ast.Attribute) and world.is_module(call.func.value))


def _inside_network(study: Study, call: ast.Call) -> bool:
    """Whether a call is inside a network's class; only the call of the whole network is reported."""
    classes = (n for n in study.tree.ancestors(call) if isinstance(n, ast.ClassDef))
    return any(is_network(study.tree, cls) for cls in classes)


RULE = Rule(
    code="LA309",
    title="actions are chosen while gradients are recorded",
    reason=(
        "Each call of a network keeps what its backward pass would need, until the results are gone. Here no loss is "
        "computed from them: the update computes them anew."
    ),
    instead="Act under `with torch.no_grad():`.",
    weight="costly",
    find=find,
    bad=(
        Example("step", "value = agent.act(next_obs)\ntotal += value.mean().item()"),
        Example("step", "logits = agent.body(next_obs)\nkept = Categorical(logits=logits).sample()"),
        Example("step", "def choose(x):\n    return agent.act(x).argmax(1)\nchosen = choose(next_obs).tolist()"),
    ),
    good=(
        Example("step", "with torch.no_grad():\n    value = agent.act(next_obs)\ntotal += value.mean().item()"),
        Example("step", "value = agent.act(next_obs)\nvalue.mean().backward()"),
        Example("iteration", "value = agent.act(next_obs)"),
        Example("setup", "agent.act = torch.no_grad()(agent.act)"),
    ),
)
