"""The first states of a conversion: a script of a known kind, and the facts that are computed once."""

from __future__ import annotations

import ast
from dataclasses import replace

import libcst as cst

from transformer.dataflow.access import access
from transformer.facts.torch_api import dtypes, others
from transformer.recognition import refusals
from transformer.recognition.history import Asked
from transformer.recognition.refusals import Unconvertible
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.query import statements, unparse
from transformer.values.effects.tied_parameters import tied
from transformer.values.effects.world import World
from transformer.values.networks.uses import restructured, unsteady
from transformer.values.tensor_environment import find_tensor_env

PRECISIONS = others("precision", "autocast") | dtypes(kind="float", bits=(16, 64))


def read(code: str, line_length: int, asked: Asked | None = None) -> State:
    """The state of a script of a known kind, before its training loop is searched for.

    Raises:
        Unconvertible: the text is not Python, or the script is of another kind.
    """
    tree = refusals.written_by_this_tool(code) or refusals.tree_or_refusal(code)
    if isinstance(tree, Diagnostic):
        raise Unconvertible(tree)
    state = State.first(tree, line_length)
    found = refusals.unsuitable(state.tree)
    if found:
        raise Unconvertible(*found)
    return state if asked is None else state.knowing(replace(state.history, asked=asked))


def recognise(state: State) -> State:
    """Find the training loop, and return the state with the facts about the whole script.

    Raises:
        Unconvertible: there is no such loop, or nothing in it chooses the actions.
    """
    tree, roles = state.tree, state.roles
    _ = roles.phases
    if "\t" in tree.code:
        try:
            _ = state.source.module
        except cst.ParserSyntaxError:
            raise Unconvertible(refusals.mixed_tabs(tree.code)) from None
    bound = {name for stmt in statements(roles.scope.body) for name in access(stmt).binds}
    asked = bound if roles.kind == "off-policy" else frozenset[str]()
    found = [*refusals.own_builtins(tree), *refusals.all_names_seen(tree, roles.scope, roles.outermost, asked)]
    if found:
        raise Unconvertible(*(state.placed(d) for d in found))
    others = (n for n in (*tree.of(ast.Name), *tree.of(ast.Attribute)) if n not in roles.autocast_headers)
    other = next((n for n in others if _is_other_precision(roles, n)), None)
    in_turns = roles.kind == "on-policy" and not roles.phases.steps
    at_once = roles.kind == "off-policy" and roles.phases.replay is None
    history = replace(
        state.history,
        other_precision=None if other is None else state.recorded(f"line {other.lineno} uses {tree.last_name(other)}"),
        environment=unparse(roles.phases.env_step.func) if len(roles.env_steps) > 1 else None,
        replay=roles.phases.replay,
        in_turns=in_turns,
        at_once=at_once,
        too_large=roles.get(World).gave_up,
    )
    state = state.knowing(replace(history, tensor_env=find_tensor_env(roles)))
    changing, remade = (
        {n: state.recorded(why) for n, why in of.items()} for of in (unsteady(state.roles), restructured(state.roles))
    )
    given = tied(state.roles)
    part = None if given is None else state.recorded(f"line {given.lineno}")
    return state.knowing(replace(state.history, unsteady=changing, restructured=remade, tied=part))


def _is_other_precision(roles: Roles, node: ast.expr) -> bool:
    """Whether a name may be a precision of torch, and not a number type of another library or an option's value."""
    tree = roles.tree
    if tree.last_name(node) not in PRECISIONS or roles.get(World).are_numbers(node):  # `args.double`
        return False
    call, library = tree.parents[node], (tree.qualified(node) or "torch").partition(".")[0]
    given = isinstance(call, ast.Call) and call.func is node and bool(call.args or call.keywords)
    return library == "torch" or (library != "numpy" and given)
