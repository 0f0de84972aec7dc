"""Whether an optimizer in an attribute stays the same: the loop steps the one that was set above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence

from transformer.facts import python
from transformer.facts.libraries import module_methods
from transformer.facts.lookups import lookups
from transformer.facts.torch_api import NEW_TENSORS, OF, attributes, of_optimizers, others
from transformer.recognition.attribute_setting import sets_by_text
from transformer.recognition.before_training import runs_before_training
from transformer.recognition.changes import Changes, only_makes
from transformer.recognition.optimizers import Optimizer
from transformer.recognition.roles import Roles
from transformer.syntax.query import (
    calls_method,
    first_parameter,
    last_written,
    pairwise,
    unparse,
    walk,
    without_methods,
)
from transformer.syntax.tree import Tree
from transformer.values.effects.world import World

SETTING = lookups(sets=True)
"""Functions that set attributes by name."""
FREEZING = (
    lookups(of="attribute", sets=True)
    | attributes(memory="number", settable=True)
    | module_methods(sets="learning")
    | of_optimizers("new groups")
)
"""Names whose use may set attributes indirectly, or change which parameters need gradients."""
GIVING = module_methods(sets=("parts", "parameters")) | lookups(finds="parts")
"""Methods that add a part to a network, under any name."""
DISPLAYS = (
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.JoinedStr,
)
USED = of_optimizers("stepping", "saving", "groups")
"""What training may use of the optimizer; learning rates in its groups are checked elsewhere."""


def obstacle(
    roles: Roles,
    optimizer: Optimizer,
    updates: Collection[ast.stmt],
    *,
    exact: bool,
    harmless: Collection[ast.stmt] = (),
) -> str | None:
    """Why an attribute may get another optimizer, or be stepped elsewhere; None if neither can happen.

    Args:
        roles: the script.
        optimizer: an optimizer whose name is an attribute, such as `self.optimizer` or `agent.critic.optimizer`.
        updates: the functions, or the loop, that step it.
        exact: also require that its networks keep their parameters, as updates need that clip gradients or run several
            backward passes.
        harmless: statements known to be harmless although they change which parameters need gradients.
    """
    tree = roles.tree
    apart = {n for stmt in harmless for n in walk(stmt)}
    owner, _, attribute = optimizer.name.rpartition(".")
    target = optimizer.stmt.targets[0]
    if not owner or not attribute.isidentifier() or not isinstance(target, ast.Attribute):
        return f"{optimizer.name} is not an attribute of a single object"
    cls = tree.class_of_self(target.value, tree.scope_of(optimizer.stmt))
    if (why := replaced(roles, owner, cls)) is not None:
        return why
    if not only_makes(tree):
        return "the script calls __init__() by its name, which may make new optimizers"
    changes = roles.get(Changes)
    if changes.by_text is not None:
        return f"line {changes.by_text} sets an attribute whose name is known only at run time"
    for node in roles.run_by_training:
        word = node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else None
        if isinstance(word, str) and word in FREEZING and node not in apart:
            return f"line {getattr(node, 'lineno', 1)} uses {word} during training"
    if exact:
        maker = tree.scope_of(optimizer.stmt)
        if (later := _set_later(roles, optimizer)) is not None:
            return f"line {later.lineno} sets {later.attr}, whose parameters {optimizer.name} may not hold"
        for path in given(roles, optimizer):
            above = [
                n
                for n in tree.attributes_set(path)
                if tree.scope_of(n) is maker
                and (n.lineno < optimizer.stmt.lineno or tree.never_both(n, optimizer.stmt))
            ]
            if len(above) != len(tree.attributes_set(path)) or tree.methods(path) or tree.loops_around(optimizer.stmt):
                return f"{path}, whose parameters {optimizer.name} holds, may be set more than once, or not above it"
            for node in tree.attributes_set():
                held_in = getattr(node.value, "attr", getattr(node.value, "id", None))
                if held_in == path and not (tree.scope_of(node) is maker and node.lineno < optimizer.stmt.lineno):
                    return f"line {node.lineno} sets {node.attr}, whose parameters {optimizer.name} may not hold"
        if (part := exchanged(roles, changes) or grown(roles)) is not None:
            return part
    ours = {one.stmt.targets[0] for one in making(roles, optimizer.name)}
    places = {*placeholders(roles, optimizer.name)}
    again = any(n not in ours | places and not _is_anothers(tree, n, cls) for n in tree.attributes_set(attribute))
    alone = made_once(roles, optimizer.name) and not again
    if not alone or tree.methods(attribute) or not runs_before_training(roles, target):
        return f"{optimizer.name} is not set in one place, which runs before the training"
    if (used := _used_outside(roles, optimizer, {n for update in updates for n in walk(update)})) is not None:
        return f"line {used.lineno} may step the optimizer, or pass it on, outside the minibatch"
    for node in tree.of(ast.Constant):
        if node.value == attribute and not isinstance(tree.parents[node], ast.Dict):  # its key in a checkpoint
            return f"line {node.lineno} may reach {attribute} by its name"
    return None


def _used_outside(roles: Roles, optimizer: Optimizer, within: Collection[ast.AST]) -> ast.expr | None:
    """Where code may step an optimizer outside some nodes (`within`), or use more of it than its state and groups.

    If it has not escaped, every use is found under any name; otherwise all attributes with its name count.
    """
    tree, world = roles.tree, roles.get(World)
    attribute, made = last_written(optimizer.stmt.targets[0]), world.of(optimizer.call)
    known = world.is_known(made)
    for node in tree.nodes:
        named = isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load)
        if not isinstance(node, ast.expr) or not (made & world.of(node) if known else named):
            continue
        used = getattr(tree.parents[node], "attr", None)
        if known and (used in OF["tensor"] or (used is None and not _is_passed_on(roles, node))):
            continue  # a learning rate, or an alias of the optimizer whose own uses are checked too
        if (known or not _is_given_to_torch(roles, node)) and (
            used not in USED or (used in of_optimizers("stepping") and node not in within)
        ):
            return node
    return None


def holds(roles: Roles, optimizers: Collection[Optimizer], clipped: ast.expr) -> bool:
    """Whether one of the optimizers was given exactly the parameters `net.parameters()`."""
    network = _network(clipped)
    return network is not None and any(holds_network(roles, optimizer, network) for optimizer in optimizers)


def holds_network(roles: Roles, optimizer: Optimizer, network: ast.expr) -> bool:
    """Whether an optimizer was given all parameters of a network and no others, under any name."""
    world, given = roles.get(World), optimizer.params
    wanted = world.of(network)
    held = _network(given[0]) if len(given) == 1 else None
    return held is not None and len(wanted) == 1 and world.of(held) == wanted and world.is_single(next(iter(wanted)))


def _network(value: ast.expr) -> ast.expr | None:
    """`net` in `net.parameters()`."""
    plain = isinstance(value, ast.Call) and calls_method(value, "parameters") and not (value.args or value.keywords)
    return value.func.value if plain else None  # type: ignore[attr-defined]


def _is_anothers(tree: Tree, node: ast.Attribute, cls: ast.ClassDef | None) -> bool:
    """Whether an attribute is set by a constructor, on its own object, that no object of `cls` runs."""
    made = _constructed(tree, node)
    return cls is not None and made is not None and made not in tree.lineage(cls)


def _constructed(tree: Tree, node: ast.Attribute) -> ast.ClassDef | None:
    """The class whose constructor sets this attribute on its own object; None if it is set elsewhere."""
    maker = tree.scope_of(node)
    own = isinstance(maker, ast.FunctionDef) and maker.name == "__init__"
    return tree.class_of_self(node.value, maker) if own else None


def placeholders(roles: Roles, name: str) -> list[ast.Attribute]:
    """Where the constructor sets to None an optimizer that the training method makes above its loop."""
    tree, (owner, _, attribute) = roles.tree, name.rpartition(".")
    cls = tree.parents.get(roles.scope)
    of_scope = isinstance(roles.scope, ast.FunctionDef) and owner == first_parameter(roles.scope)
    if not (of_scope and isinstance(cls, ast.ClassDef)) or any(
        tree.scope_of(one.stmt) is not roles.scope for one in making(roles, name)
    ):
        return []
    unset = [n for n in tree.attributes_set(attribute) if isinstance(tree.assigned.get(n), ast.Constant)]
    return [n for n in unset if unparse(tree.assigned[n]) == "None" and _constructed(tree, n) in tree.lineage(cls)]


def making(roles: Roles, name: str) -> list[Optimizer]:
    """All optimizers that are made under a name."""
    return [o for o in roles.optimizers if o.name == name]


def trained_by(name: str) -> str:
    """What an optimizer trains, by its name: `_actor` for `actor_optimizer` and `self.actor_optim`; "" for `optimizer`.

    An optimizer in a container is named by its key, as in `opts["actor"]`, or else by the container.
    """
    node: ast.AST = ast.parse(name, mode="eval").body
    while isinstance(node, ast.Subscript) and not isinstance(getattr(node.slice, "value", None), str):
        node = node.value
    word = node.slice.value if isinstance(node, ast.Subscript) else last_written(node)  # type: ignore[attr-defined]
    own = re.sub(r"_*(optimi[sz]er|optim|opt)(s\b)?_*", "", word)
    return f"_{own}" if own.isidentifier() else ""


def always_made(roles: Roles, name: str) -> bool:
    """Whether the constructor makes the optimizer of a name on every path."""
    made = [o.stmt for o in making(roles, name)]
    makers = [roles.tree.scope_of(stmt) for stmt in made]
    return "." not in name or all(_always(maker.body, made) for maker in makers if isinstance(maker, ast.FunctionDef))


def _always(block: Sequence[ast.stmt], wanted: Collection[ast.stmt]) -> bool:
    """Whether every way through a block runs one of these statements."""
    return any(
        stmt in wanted
        or (isinstance(stmt, ast.If) and _always(stmt.body, wanted) and _always(stmt.orelse, wanted))
        or (isinstance(stmt, ast.With) and _always(stmt.body, wanted))
        for stmt in block
    )


def made_once(roles: Roles, name: str) -> bool:
    """Whether one statement makes the optimizer of a name, or exactly one of several that make the same class."""
    made = making(roles, name)
    apart = all(roles.tree.never_both(one.stmt, o.stmt) for at, one in enumerate(made) for o in made[:at])
    return apart and len({o.kind for o in made}) == 1


def rebound(roles: Roles, root: str, cls: ast.ClassDef | None) -> str | None:
    """Why a name may not be bound to a single object of a class, made above the training loop; None if it is."""
    tree = roles.tree
    bound = [n for n in tree.of(ast.Name) if n.id == root and not isinstance(n.ctx, ast.Load)]
    if isinstance(roles.scope, ast.FunctionDef) and root == first_parameter(roles.scope):
        if bound or cls is None or tree.parents[roles.scope] is not cls:
            return f"{root} is not known to be a single object"
        return None
    made = roles.only_value(root)
    call = tree.constructor(made) if made is not None else None
    ours = [n for n in bound if roles.is_ours(n)]
    if call is None or call is not made or len(ours) != 1 or cls is None or ast.unparse(call.func) != cls.name:
        return f"{root} is not made by exactly one call above the training loop"
    return None


def replaced(roles: Roles, path: str, cls: ast.ClassDef | None) -> str | None:
    """Why a path such as `agent.critic` may not stay the object of `cls` that it is above the loop; None if it does."""
    tree, (owner, _, name) = roles.tree, path.rpartition(".")
    if _stays(roles, path, cls):
        return None
    if not owner:
        return rebound(roles, path, cls)
    stores = roles.tree.attributes_set(name)
    value = tree.assigned.get(stores[0]) if len(stores) == 1 else None
    call = tree.constructor(value) if value is not None else None
    holder = tree.class_of_self(stores[0].value, tree.scope_of(stores[0])) if stores else None
    made = call is not None and call is value and cls is not None and unparse(call.func) == cls.name
    if holder is None or not made or tree.methods(name):
        return f"{path} is not made by exactly one call of the file"
    by_text = (n for n in tree.nodes if sets_by_text(n) or getattr(n, "attr", getattr(n, "id", None)) in SETTING)
    if any(n.value == name for n in tree.of(ast.Constant)) and (set_at := next(by_text, None)) is not None:
        return f"line {getattr(set_at, 'lineno', 1)} may set {name} by its name"
    if not runs_before_training(roles, stores[0]):
        return f"{path} is not made in one place, which runs before the training"
    return replaced(roles, owner, holder)


def _stays(roles: Roles, path: str, cls: ast.ClassDef | None) -> bool:
    """Whether a path of the training scope names one object of a class during the whole loop, wherever it was made."""
    tree, world, special = roles.tree, roles.get(World), lookups(of="special", finds="attributes")
    named = [n for n in walk(roles.scope) if isinstance(n, (ast.Name, ast.Attribute)) and unparse(n) == path]
    ours = [n for n in named if any(isinstance(m, ast.Name) and roles.is_ours(m) for m in walk(n))]
    if cls is None or not ours or any(map(tree.methods, (*path.split(".")[1:], *special))):
        return False
    return all(world.classes(n) == [cls] for n in ours) and world.resets(ours[0], [roles.outermost]) is None


def _set_later(roles: Roles, optimizer: Optimizer) -> ast.Attribute | None:
    """Where an object may get another part after an optimizer was given all its parameters."""
    tree, maker = roles.tree, roles.tree.scope_of(optimizer.stmt)
    own = first_parameter(maker)  # type: ignore[arg-type]
    if not any(unparse(n) == f"{own}.parameters" for value in optimizer.params for n in walk(value)):
        return None
    cls = tree.parents[maker]
    for node in (n for n in roles.tree.attributes_set() if tree.class_of_self(n.value, tree.scope_of(n)) is cls):
        above = tree.scope_of(node) is maker and node.lineno < optimizer.stmt.lineno
        if not above and node is not optimizer.stmt.targets[0] and not _is_no_part(roles, node.attr):
            return node
    return None


def given(roles: Roles, optimizer: Optimizer) -> list[str]:
    """The attributes of the object whose parameters an optimizer is given, one attribute at a time."""
    own = first_parameter(roles.tree.scope_of(optimizer.stmt))  # type: ignore[arg-type]
    found: dict[str, None] = {}
    for node in (n for value in optimizer.params for n in walk(value)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own:
            if not (isinstance(call := roles.tree.parents[node], ast.Call) and call.func is node):
                found[node.attr] = None
    return list(found)


def grown(roles: Roles) -> str | None:
    """Why a method of a network, called outside its constructor, may add a part that no optimizer holds, or None."""
    tree = roles.tree
    for cls in filter(roles.is_module, roles.tree.classes.values()):
        for method in (m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"):
            sets = [n for n in walk(method) if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)]
            sets = [n for n in sets if not _is_no_part(roles, n.attr)]
            used = [tree.scope_of(n) for n in tree.of(ast.Attribute) if n.attr == method.name]
            if sets and any(getattr(scope, "name", "") != "__init__" or scope not in cls.body for scope in used):
                return f"line {sets[0].lineno} sets {sets[0].attr}, which may be a part of a network"
    return None


def exchanged(roles: Roles, changes: Changes) -> str | None:
    """Why training may replace a part of a module, by setting an attribute that may hold one; None if it may not.

    Changing an element of a list of modules, or of an optimizer's parameter group, counts too.
    """
    tree, parts = roles.tree, dict(changes.grown)
    for node in roles.run_by_training:
        word = node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else None
        if isinstance(word, str) and word in GIVING:
            return f"line {getattr(node, 'lineno', 1)} uses {word}, which gives a network another part"
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            parts.setdefault(ast.unparse(node.value).rpartition(".")[2], node.lineno)
        if word == "params" and isinstance(node, ast.Constant) and isinstance(tree.parents[node], ast.Subscript):
            user = tree.parents[tree.parents[node]]
            if not isinstance(user, (ast.Call, ast.For, ast.comprehension)):
                return f"line {node.lineno} may change which parameters an optimizer holds"
    parts |= changes.stored
    for cls in filter(roles.is_module, roles.tree.classes.values()):
        for node in walk(cls):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and node.attr in parts:
                if _is_no_part(roles, node.attr):
                    continue
                return f"line {parts[node.attr]} sets {node.attr}, which may be a part of a network"
    return None


def _is_no_part(roles: Roles, attribute: str) -> bool:
    """Whether attributes of this name are never set to a module or a parameter, on any object."""
    tree = roles.tree
    given = {target: value for stmt in tree.of(ast.Assign) for target, value in pairwise(stmt)}
    stores = [n for n in roles.tree.attributes_set(attribute) if not isinstance(tree.parents[n], ast.AugAssign)]
    by_text = any(node.value == attribute for node in tree.of(ast.Constant))
    return bool(stores) and not by_text and all(n in given and _is_data(roles, given[n], attribute) for n in stores)


def _is_data(roles: Roles, value: ast.expr, attribute: str) -> bool:
    """Whether a value is a number, string, container, tensor or optimizer, or from a tensor method of the attribute."""
    value = without_methods(value, OF["tensor"])
    if not isinstance(value, ast.Call):
        return isinstance(value, DISPLAYS) or (isinstance(value, ast.Attribute) and value.attr == attribute)
    row = python.does("builtin", roles.tree.names.builtin(value.func) or "")
    name = roles.tree.qualified(value.func) or ""
    plain = row is not None and row.gives in ("nothing", "of contents")
    asks = name.removeprefix("torch.") in others("asks") and name.startswith("torch.")
    others_own = name in NEW_TENSORS or name == "collections.deque" or name.startswith(("numpy.", "torch.optim."))
    return plain or asks or others_own


def _is_passed_on(roles: Roles, node: ast.expr) -> bool:
    """Whether an optimizer is called, or passed to code that is neither in this file nor understood."""
    tree, call = roles.tree, roles.tree.parents[node]
    if isinstance(call, ast.keyword):
        call = tree.parents[call]
    if not isinstance(call, ast.Call):
        return False
    if call.func is node:
        return not isinstance(node, ast.Attribute)
    callees = roles.get(World).of(call.func)
    ours = bool(callees) and all(t.kind in ("function", "bound", "class") for t in callees)
    return not (ours or _is_given_to_torch(roles, node))


def _is_given_to_torch(roles: Roles, node: ast.expr) -> bool:
    """Whether an optimizer or its rate is passed to a torch scheduler, or printed, or asked for its type or value."""
    call = roles.tree.parents[node]
    if isinstance(call, ast.keyword):
        call = roles.tree.parents[call]
    if not isinstance(call, ast.Call) or call.func is node:
        return False
    name = roles.tree.qualified(call.func) or ""
    asks = name.startswith("torch.") and name.removeprefix("torch.") in others("asks")
    simple = roles.tree.names.builtin(call.func) in python.SHOWS | python.TAKES_VALUES
    return asks or simple or name.startswith("torch.optim.lr_scheduler.")
