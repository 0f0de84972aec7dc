"""Whether the environment is many at once, so that what it observes has an element for each."""

from __future__ import annotations

import ast
from collections.abc import Collection

from transformer.recognition.roles import Roles
from transformer.syntax.query import names_in, walk


def is_vector(roles: Roles, sizes: Collection[str]) -> bool:
    """Whether the environment tells its single spaces, or is made with a number that is one of the sizes, as written.

    A plain environment fits into buffers for one environment too, as what it observes is broadcast. One that the
    script itself gives single spaces may be plain.
    """
    step = roles.phases.env_step
    if not isinstance(step.func, ast.Attribute):
        return False
    told = [
        node
        for node in roles.tree.of(ast.Attribute)
        if node.attr in ("single_observation_space", "single_action_space")
        and ast.unparse(node.value) == ast.unparse(step.func.value)
    ]
    return bool(told and all(isinstance(node.ctx, ast.Load) for node in told)) or is_made_with(roles, sizes)


def is_made_with(roles: Roles, sizes: Collection[str]) -> bool:
    """Whether the environment is made with a number that is one of the sizes, as written."""
    step = roles.phases.env_step
    if not isinstance(step.func, ast.Attribute):
        return False
    names = sorted(names_in([step.func.value]))
    for name in names:  # grows: envs = Wrapper(envs), envs = made
        made = [value for stmt, value in roles.assignments(name) if stmt in roles.setup]
        for value in reversed(made):
            if any(ast.unparse(n) in sizes for n in walk(value) if isinstance(n, (ast.Name, ast.Attribute))):
                return True
            names += sorted(names_in([value]) - set(names))
            if name not in names_in([value]):  # what the name meant before is gone
                break
    return False
