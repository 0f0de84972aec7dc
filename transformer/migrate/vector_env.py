"""How a script uses its vector environment: where it makes it, and all uses of the environment and of its infos."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from transformer.migrate.atari_chain import CODE, GYMS, Chain, read_chain
from transformer.migrate.games import envpool_id, looks_like_a_game
from transformer.syntax.diagnostics import Diagnostic, at
from transformer.syntax.query import (
    bind_arguments,
    calls_method,
    is_read,
    names_in,
    pairwise,
    parameters,
    unparse,
    walk,
)
from transformer.syntax.tree import Tree

VECTORS = tuple(f"{gym}.vector.{name}" for gym in GYMS for name in ("SyncVectorEnv", "AsyncVectorEnv"))
KEPT = ("single_observation_space", "single_action_space", "num_envs")
"""The attributes of a vector environment that the migrated one has, too."""
STATISTICS = ("r", "l")
"""The statistics of an episode that envpool's infos provide."""


@dataclass
class VectorEnv:
    """A vector environment, and the nodes that envpool's API changes."""

    made: ast.Assign
    """`envs = SyncVectorEnv(...)`."""
    maker: ast.FunctionDef
    """The function that makes one environment."""
    chain: Chain
    name: str
    env_id: ast.expr
    num_envs: ast.expr
    seed: ast.expr | None = None
    video: ast.expr | None = None
    id_texts: list[ast.Constant] = field(default_factory=list)
    """The constants that give the default id of the game."""
    resets: list[ast.Call] = field(default_factory=list)
    steps: list[ast.Assign] = field(default_factory=list)
    loops: list[ast.For] = field(default_factory=list)
    """Loops over the infos of the environments."""


class NotThere(Exception):
    """There is no vector environment of a known form; `found` says why."""

    def __init__(self, found: Diagnostic) -> None:
        super().__init__(found.message)
        self.found = found


def find_vector_env(tree: Tree) -> tuple[VectorEnv, list[Diagnostic]]:
    """The vector environment of a script, and all uses without a counterpart in envpool.

    Raises:
        NotThere: it is not made from a list of environments that one function makes.
    """
    envs = _vector_env(tree)
    found = list(envs.chain.found)
    found += _identities(tree, envs)
    found += _misuses(tree, envs)
    found += _elsewhere(tree, envs)
    return envs, found


def _vector_env(tree: Tree) -> VectorEnv:
    calls = [call for call in tree.of(ast.Call) if tree.calls(call, *VECTORS)]
    if len(calls) != 1:
        place = calls[1] if calls else None
        what = "a second vector environment" if calls else "no SyncVectorEnv or AsyncVectorEnv of gymnasium or gym"
        raise NotThere(at(place, CODE, f"{what} is made here" if calls else f"there is {what}"))
    (call,) = calls
    stmt = tree.parents[call]
    if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.targets[0], ast.Name):
        raise NotThere(at(call, CODE, "the vector environment is not assigned to a name where it is made"))
    many = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if not isinstance(many, ast.ListComp) or len(many.generators) != 1 or many.generators[0].ifs:
        raise NotThere(at(call, CODE, "the vector environment is not made from a single list comprehension"))
    each, count = many.elt, many.generators[0]
    function = tree.function_called(each) if isinstance(each, ast.Call) else None
    if function is None or not isinstance(each, ast.Call):
        raise NotThere(at(each, CODE, "the environments are not made by a function of this file"))
    ranges = isinstance(count.iter, ast.Call) and unparse(count.iter.func) == "range" and len(count.iter.args) == 1
    bound = bind_arguments(function, each)
    if not ranges or not isinstance(count.target, ast.Name) or bound is None:
        raise NotThere(at(each, CODE, "the arguments of each environment are not known"))
    assert isinstance(count.iter, ast.Call)
    chain, given = read_chain(tree, function), bound.values
    if chain.env_id is None:
        raise NotThere(chain.found[0] if chain.found else at(function, CODE, "no environment is made here"))
    envs = VectorEnv(stmt, function, chain, stmt.targets[0].id, given[chain.env_id], count.iter.args[0])
    envs.video = given[chain.video] if chain.video else None
    if chain.seed:
        envs.seed = _without_index(given[chain.seed], count.target.id)
        if envs.seed is None:
            raise NotThere(at(given[chain.seed], CODE, "envpool's seeds count up from one environment to the next"))
    for value in filter(None, (envs.env_id, envs.video)):
        if count.target.id in names_in([value]):
            raise NotThere(at(value, CODE, "the environments differ in more than their seeds"))
    return envs


def _without_index(seed: ast.expr, index: str) -> ast.expr | None:
    """`args.seed` in `args.seed + i`."""
    if isinstance(seed, ast.BinOp) and isinstance(seed.op, ast.Add):
        for first, other in ((seed.left, seed.right), (seed.right, seed.left)):
            if isinstance(other, ast.Name) and other.id == index and index not in names_in([first]):
                return first
    return None


def _identities(tree: Tree, envs: VectorEnv) -> Iterator[Diagnostic]:
    """Findings for ids of games other than an Atari id without frame skip, as the default of one option."""
    texts = [c for c in tree.of(ast.Constant) if isinstance(c.value, str) and looks_like_a_game(c.value)]
    defaults = list(_defaults(tree, envs.env_id))
    for text in defaults:
        if not isinstance(text.value, str) or envpool_id(text.value) is None:
            what = unparse(text)
            yield at(text, CODE, f"{what} is not an Atari game without frame skip and sticky actions (NoFrameskip-v4)")
    if not defaults:
        yield at(envs.env_id, CODE, f"which game {unparse(envs.env_id)} is by default is not known")
    for text in texts:
        if text not in defaults:
            yield at(text, CODE, "a game's id is here too, and envpool has another name for it")
    envs.id_texts = defaults


def _defaults(tree: Tree, value: ast.expr) -> Iterator[ast.Constant]:
    """The constants to which an option or a name is set by default."""
    if isinstance(value, ast.Constant):
        yield value
        return
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    for node in tree.of(ast.AnnAssign):
        if isinstance(node.target, ast.Name) and node.target.id == name and isinstance(node.value, ast.Constant):
            yield node.value
    for stmt in tree.of(ast.Assign) if isinstance(value, ast.Name) else ():
        for target, given in pairwise(stmt):
            if unparse(target) == name and isinstance(given, ast.Constant):
                yield given
    for call in tree.of(ast.Call):
        options = [a.value for a in call.args if isinstance(a, ast.Constant)] if calls_method(call) else []
        if f"--{name}" in options or f"--{name.replace('_', '-')}" in options:
            yield from (k.value for k in call.keywords if k.arg == "default" and isinstance(k.value, ast.Constant))


def _misuses(tree: Tree, envs: VectorEnv) -> Iterator[Diagnostic]:
    """Findings for uses of the environment other than steps, one reset and its spaces, and for uses of its infos."""
    scope = tree.scope_of(envs.made)
    for name in tree.of(ast.Name):
        if name.id != envs.name or name is envs.made.targets[0] or tree.scope_of(name) is not scope:
            continue
        yield from _use(tree, envs, name)
    for function in tree.of(ast.FunctionDef):
        reads = {n.id for n in walk(function) if isinstance(n, ast.Name)} - set(parameters(function))
        if function is not scope and envs.name in reads:
            yield at(function, CODE, f"{function.name}() uses {envs.name} from around it")
    if not envs.steps or not envs.resets:
        yield at(envs.made, CODE, f"{envs.name} is never stepped or never reset")
    if envs.seed is None:
        yield at(envs.made, CODE, f"{envs.name} is made and reset without a seed, which envpool needs")


def _use(tree: Tree, envs: VectorEnv, name: ast.Name) -> Iterator[Diagnostic]:
    parent = tree.parents[name]
    call = tree.parents[parent]
    if isinstance(parent, ast.Attribute) and is_read(name) and isinstance(parent.ctx, ast.Load):
        called = isinstance(call, ast.Call) and call.func is parent
        if not called and parent.attr in KEPT:
            return
        if called and isinstance(call, ast.Call) and parent.attr in ("reset", "step", "close"):
            yield from _misuse_of(tree, envs, call, parent.attr)
            return
    argument: ast.AST = name
    if isinstance(parent, ast.keyword):
        argument, parent = parent, call
    if isinstance(parent, ast.Call) and argument is not parent.func and _is_only_asked(tree, parent, name):
        return
    yield at(name, CODE, f"{unparse(tree.statement(name)).splitlines()[0]}: envpool is not known to be the same there")


def _is_only_asked(tree: Tree, call: ast.Call, given: ast.Name) -> bool:
    """Whether a call passes the environment to a function or class of the file that only reads the kept attributes."""
    function = tree.function_called(call)
    cls = tree.classes.get(unparse(call.func))
    method = None
    if cls is not None:
        method = next((m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    target = method or function
    if target is None:
        return False
    bound = bind_arguments(target, call, call.func if method is not None else None)
    parameter = bound.parameter_of(given) if bound is not None else None
    if parameter is None:
        return False
    uses = [n for n in walk(target) if isinstance(n, ast.Name) and n.id == parameter]
    owners = [tree.parents[n] for n in uses]
    return all(isinstance(o, ast.Attribute) and o.attr in KEPT and isinstance(o.ctx, ast.Load) for o in owners)


def _misuse_of(tree: Tree, envs: VectorEnv, call: ast.Call, method: str) -> Iterator[Diagnostic]:
    if method == "reset":
        seeds = [k.value for k in call.keywords if k.arg == "seed"]
        if call.args or len(seeds) != len(call.keywords) or (seeds and envs.seed is not None):
            yield at(call, CODE, f"envpool's reset() takes no arguments, but this is {unparse(call)}")
        elif envs.resets:
            yield at(call, CODE, "the environments are reset a second time")
        elif seeds and not isinstance(seeds[0], (ast.Name, ast.Attribute, ast.Constant)):
            yield at(seeds[0], CODE, "envpool takes one number for a seed")
        envs.seed = seeds[0] if seeds else envs.seed
        envs.resets.append(call)
        stmt = tree.parents[call]
        if not is_old(tree, envs):
            two = isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Tuple)
            info = stmt.targets[0].elts[-1] if two else None  # type: ignore[attr-defined]
            if not isinstance(info, ast.Name) or _reads_before_step(tree, info.id, before=envs.steps):
                yield at(call, CODE, "what reset() returns is not unpacked into observations and unused infos")
    elif method == "step":
        stmt = tree.parents[call]
        results = 4 if is_old(tree, envs) else 5
        targets = stmt.targets[0] if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else None
        if not isinstance(stmt, ast.Assign) or not isinstance(targets, ast.Tuple) or len(targets.elts) != results:
            yield at(call, CODE, f"what step() returns is not unpacked into {results} names")
        elif envs.steps or not all(isinstance(t, ast.Name) for t in targets.elts):
            yield at(call, CODE, "the environments are stepped in a second place, or into something other than names")
        else:
            envs.steps.append(stmt)
            yield from _infos(tree, envs, targets.elts[-1])
    elif call.args or call.keywords:
        yield at(call, CODE, "envpool's close() takes no arguments")


def _reads_before_step(tree: Tree, name: str, before: Sequence[ast.stmt]) -> bool:
    """Whether a name is read although no step of the environment sets it."""
    sets = {n.id for stmt in before for n in walk(stmt) if isinstance(n, ast.Name) and not is_read(n)}
    return name not in sets and any(n.id == name and is_read(n) for n in tree.of(ast.Name))


def is_old(tree: Tree, envs: VectorEnv) -> bool:
    """Whether the script is written for old gym: a step has four results, and infos are a list."""
    assert isinstance(envs.made.value, ast.Call)
    return (tree.qualified(envs.made.value.func) or "").startswith("gym.")


def _infos(tree: Tree, envs: VectorEnv, infos: ast.expr) -> Iterator[Diagnostic]:
    """Findings for infos that are read for anything but the statistics of episodes."""
    assert isinstance(infos, ast.Name)
    scope, old = tree.scope_of(envs.made), is_old(tree, envs)
    for name in tree.of(ast.Name):
        if name.id != infos.id or not is_read(name) or tree.scope_of(name) is not scope:
            continue
        node: ast.expr = name
        parent = tree.parents[name]
        if any(name in walk(loop) and infos.id in names_in([loop.target]) for loop in tree.of(ast.For)):
            inner = next(x for x in tree.of(ast.For) if name in walk(x) and infos.id in names_in([x.target]))
            if name not in walk(inner.iter):
                continue  # a loop's own variable of the same name
        if not old:
            if isinstance(parent, ast.Compare) and _asks_for(parent, "final_info", name):
                continue
            if isinstance(parent, ast.Subscript) and _is_key(parent, "final_info"):
                node = parent
            else:
                yield at(name, CODE, f"envpool's infos have no counterpart of {unparse(parent)}")
                continue
        loop = _loop_over(tree, node)
        if loop is None:
            yield at(name, CODE, f"the infos are not read by a loop over {unparse(node)}")
            continue
        envs.loops.append(loop)
        yield from _info(tree, loop)


def _loop_over(tree: Tree, node: ast.expr) -> ast.For | None:
    """The loop over a list of infos: `for info in x:`, `for i, info in enumerate(x):`."""
    outer = tree.parents[node]
    if isinstance(outer, ast.Call) and unparse(outer.func) == "enumerate" and outer.args == [node]:
        node, outer = outer, tree.parents[outer]
        if isinstance(outer, ast.For) and isinstance(outer.target, ast.Tuple) and len(outer.target.elts) == 2:
            return outer if outer.iter is node and isinstance(outer.target.elts[1], ast.Name) else None
        return None
    return outer if isinstance(outer, ast.For) and outer.iter is node and isinstance(outer.target, ast.Name) else None


def _info(tree: Tree, loop: ast.For) -> Iterator[Diagnostic]:
    """Findings for uses of one environment's info other than to test for an episode and read its statistics."""
    target = loop.target.elts[1] if isinstance(loop.target, ast.Tuple) else loop.target
    assert isinstance(target, ast.Name)
    inside = set(walk(loop))
    for name in tree.of(ast.Name):
        if name.id != target.id or not is_read(name) or name not in inside or name in walk(loop.iter):
            continue
        parent = tree.parents[name]
        if isinstance(parent, ast.Attribute) and parent.attr == "keys":
            call = tree.parents[parent]
            if isinstance(tree.parents[call], ast.Compare):
                name, parent = call, tree.parents[call]  # type: ignore[assignment]
        if isinstance(parent, (ast.If, ast.BoolOp)):
            continue
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            continue
        if isinstance(parent, ast.Compare) and _asks_for(parent, "episode", name):
            continue
        if isinstance(parent, ast.Subscript) and _is_key(parent, "episode"):
            outer = tree.parents[parent]
            if isinstance(outer, ast.Subscript) and any(_is_key(outer, key) for key in STATISTICS):
                continue
        yield at(name, CODE, f"envpool reports only an episode's return and length, not {unparse(tree.parents[name])}")


def _asks_for(test: ast.Compare, key: str, name: ast.AST) -> bool:
    """`"key" in name`, or not in it."""
    asked = isinstance(test.left, ast.Constant) and test.left.value == key
    return asked and isinstance(test.ops[0], (ast.In, ast.NotIn)) and test.comparators == [name]


def _is_key(node: ast.Subscript, key: str) -> bool:
    return isinstance(node.slice, ast.Constant) and node.slice.value == key and isinstance(node.ctx, ast.Load)


def _elsewhere(tree: Tree, envs: VectorEnv) -> Iterator[Diagnostic]:
    """Findings for other code in the file that needs the function, the wrappers or gym."""
    maker, made = set(walk(envs.maker)), set(walk(envs.made))
    for name in tree.of(ast.Name):
        inside = name in maker or name in made
        if name.id == envs.maker.name and not inside:
            yield at(name, CODE, f"{name.id}() is used for something other than the vector environment")
        module = tree.imports.get(name.id, "")
        if inside or not module:
            continue
        if module.rpartition(".")[0].endswith("atari_wrappers"):
            yield at(name, CODE, f"{name.id} is used outside of {envs.maker.name}()")
        if module in GYMS:
            used = tree.qualified(tree.parents[name]) or module
            if not used.startswith((f"{module}.spaces", f"{module}.Env", f"{module}.register_envs")):
                yield at(name, CODE, f"{used} is used outside of {envs.maker.name}()")
