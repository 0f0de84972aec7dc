"""How a CUDA graph can draw from a network's distribution: the computation of `sample()`, without the checks.

The checks of `torch.normal()` and `torch.multinomial()` read a tensor on the host.
"""

from __future__ import annotations

import ast

from transformer.dataflow.access import access
from transformer.facts.libraries import module_methods
from transformer.facts.torch_api import DISTRIBUTIONS, OF_DISTRIBUTIONS, SETS_CHECKS, layers, names, of_layers
from transformer.syntax.query import names_in, parameters, statements, walk
from transformer.syntax.tree import Tree
from transformer.values.networks.attributes import kept_by

NORMAL = "{torch}.randn_like({x}.loc).mul_({x}.scale).add_({x}.loc).detach()"
"""As `torch.normal(loc, scale)`: standard normal numbers in the dtype of `loc`, scaled and shifted in place."""
CATEGORICAL = "({x}.probs / {torch}.empty_like({x}.probs).exponential_(1)).argmax(-1)"
"""As `torch.multinomial(probs, 1)`: of exponential clocks with these rates, the one that rings first."""
BY_CLASS = {"Normal": (NORMAL, "loc", 0), "Categorical": (CATEGORICAL, "logits", 1)}
"""By class of torch.distributions: the draw, the parameter whose memory layout it depends on, and that one's index."""
KEEPS_LAYOUT = names("tensor", "torch", rows="element", memory="new")
"""Functions and methods whose result has the memory layout of their argument."""
LEFT_AS_IT_IS = of_layers() | module_methods(finds="parameters")
"""Attributes of a module whose use does not change it."""


def in_one_line(tree: Tree, call: ast.Call) -> str | None:
    """An expression that draws the same bits as `x.sample()`, in a method of a network.

    Args:
        tree: the script.
        call: `x.sample()`, for a plain name x.

    Returns:
        the expression; None unless x is shown to be one of BY_CLASS with a contiguous parameter, because numbers are
        drawn in memory order.
    """
    assert isinstance(call.func, ast.Attribute)
    assert isinstance(call.func.value, ast.Name)
    method = tree.scope_of(call)
    cls = tree.parents[method] if isinstance(method, ast.FunctionDef) else None
    if not isinstance(method, ast.FunctionDef) or not isinstance(cls, ast.ClassDef):
        return None
    name = call.func.value.id
    made = _only_value(method, name)
    if not tree.mentioned.isdisjoint(SETS_CHECKS):
        return None  # otherwise, the checks of the draw might be the only ones
    qualified = (tree.qualified(made.func) or "") if isinstance(made, ast.Call) else ""
    kind = qualified.rpartition(".")[2]
    if not qualified.startswith(DISTRIBUTIONS) or kind not in BY_CLASS or not isinstance(made, ast.Call):
        return None
    draw, parameter, place = BY_CLASS[kind]
    given = [k.value for k in made.keywords if k.arg == parameter] or made.args[place : place + 1]
    checked = len(made.args) < 3 and all(k.arg in OF_DISTRIBUTIONS for k in made.keywords)
    if len(given) != 1 or not checked or not _is_dense(tree, cls, method, given[0]):
        return None
    return draw.format(torch="torch", x=name)


def _only_value(function: ast.FunctionDef, name: str) -> ast.expr | None:
    """The value of a name that is bound by exactly one statement of a function."""
    if name in parameters(function):
        return None
    bound = [s for s in statements(function.body) if name in access(s).binds]
    if len(bound) != 1 or not isinstance(bound[0], ast.Assign) or len(bound[0].targets) != 1:
        return None
    return bound[0].value if isinstance(bound[0].targets[0], ast.Name) else None


def _is_dense(tree: Tree, cls: ast.ClassDef, method: ast.FunctionDef, value: ast.expr, depth: int = 6) -> bool:
    """Whether a tensor is known to be contiguous: the output of a linear layer, after elementwise functions."""
    if isinstance(value, ast.Name):
        made = _only_value(method, value.id)
        return made is not None and _is_dense(tree, cls, method, made, depth)
    if not isinstance(value, ast.Call):
        return False
    if (tree.qualified(value.func) or "").startswith("torch."):
        keeps = (tree.qualified(value.func) or "").rpartition(".")[2] in KEEPS_LAYOUT
        single = keeps and len(value.args) == 1 and not value.keywords
        return single and _is_dense(tree, cls, method, value.args[0], depth)
    own = method.args.args[0].arg if method.args.args else ""
    called = value.func
    if (other := _own_method(tree, cls, called, own)) is not None and depth:  # all of its results are contiguous
        returned = [n.value for n in walk(other) if isinstance(n, ast.Return)]
        return bool(returned) and all(v is not None and _is_dense(tree, cls, other, v, depth - 1) for v in returned)
    if not (isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == own):
        return False
    methods = [m for m in cls.body if isinstance(m, ast.FunctionDef)]
    kept = [v for m in methods if m.name == "__init__" for name, v in kept_by(m) if name == called.attr]
    sets = [n for n in tree.of(ast.Attribute) if n.attr == called.attr and not isinstance(n.ctx, ast.Load)]
    if len(kept) != 1 or len(sets) != 1 or any(m.name == called.attr for m in methods):
        return False
    uses = [n for n in tree.of(ast.Attribute) if n.attr == called.attr and n not in sets]
    if not all(_is_call_or_read(tree, n) for n in uses):
        return False
    return kept[0] is not None and _ends_dense(tree, kept[0])


def _own_method(tree: Tree, cls: ast.ClassDef, called: ast.expr, own: str) -> ast.FunctionDef | None:
    """The method that `self(x)` or `self.name(x)` runs, unless something else in the file may run instead."""
    if isinstance(called, ast.Name) and called.id == own:
        name = "forward"
    elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == own:
        name = called.attr
    else:
        return None
    methods = [m for m in cls.body if getattr(m, "name", "") in (name, "__call__")]
    derived = any(cls.name in names_in(other.bases) for other in tree.classes.values())
    replaced = any(n.attr == name and not isinstance(n.ctx, ast.Load) for n in tree.of(ast.Attribute))
    if len(methods) != 1 or derived or replaced or not isinstance(methods[0], ast.FunctionDef):
        return None
    plain = methods[0].name == name and not methods[0].decorator_list
    return None if not plain or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(methods[0])) else methods[0]


def _is_call_or_read(tree: Tree, use: ast.expr) -> bool:
    """Whether a use of a module only calls or reads it."""
    parent = tree.parents[use]
    if isinstance(parent, ast.Attribute):
        return parent.attr in LEFT_AS_IT_IS
    return isinstance(parent, ast.Call) and parent.func is use


def _ends_dense(tree: Tree, module: ast.expr, depth: int = 6) -> bool:
    """Whether an expression makes a module that ends with a linear layer.

    Functions of this file are followed if they return what they make, or their first argument, for example after
    initialising it.
    """
    if not isinstance(module, ast.Call) or not depth:
        return False
    name = tree.qualified(module.func) or ""
    if name.removeprefix("torch.nn.") in layers(dense=True):
        return True
    if name == "torch.nn.Sequential":
        last = module.args[-1] if module.args and not module.keywords else None
        return last is not None and _ends_dense(tree, last, depth - 1)
    helper = tree.helper_called(module)
    if helper is None or helper.decorator_list:
        return False
    returns = [n for n in walk(helper) if isinstance(n, ast.Return)]
    if len(returns) != 1 or helper.body[-1] is not returns[0]:
        return False
    made = returns[0].value
    given = [a.arg for a in helper.args.args]
    uses = [n for n in walk(helper) if isinstance(n, ast.Name) and isinstance(made, ast.Name) and n.id == made.id]
    if not all(n is made or isinstance(n.ctx, ast.Store) or _is_call_or_read(tree, n) for n in uses):
        return False
    if isinstance(made, ast.Name) and made.id in given:
        rebound = any(made.id in access(s).binds for s in statements(helper.body))
        first = bool(module.args) and made.id == given[0] and not rebound
        return first and _ends_dense(tree, module.args[0], depth - 1)
    if isinstance(made, ast.Name):
        made = _only_value(helper, made.id)
    return made is not None and _ends_dense(tree, made, depth - 1)
