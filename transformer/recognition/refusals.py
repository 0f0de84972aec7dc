"""Why a script is not converted: what it is instead, and what shows this."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from platform import python_version

from transformer.dataflow.bindings import variables
from transformer.dataflow.own_compiling import own_compiling
from transformer.facts.libraries import OFFLINE, TRAINERS
from transformer.facts.lookups import OF_CALLER, lookups
from transformer.facts.python import builtin_names, decorators
from transformer.syntax import header
from transformer.syntax.diagnostics import Diagnostic, at
from transformer.syntax.query import TRY, asked_name, calls_method, walk
from transformer.syntax.tree import Loop, Scope, Tree


class Unconvertible(Exception):
    """The script cannot be converted; `diagnostics` has all findings at once, with position and reason."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("; ".join(d.message for d in diagnostics))
        self.diagnostics = diagnostics


FLAGS = ("compile", "cudagraphs")
"""The options that a conversion adds. A script that compiles and has both was converted before, or by hand."""


OPTION = "fallback_random"
"""The option that every conversion passes to torch.compile; where nothing is captured, it is the only one."""


OTHER_FRAMEWORKS = frozenset(("tinygrad", "tensorflow", "keras", "mindspore", "mlx", "paddle"))
"""Deep-learning frameworks other than torch."""


MAX_NODES = 50_000
"""The maximum number of syntax nodes, ten times that of a long training script; converting them takes about 5 s."""


def written_by_this_tool(code: str) -> Diagnostic | None:
    """Refuse the output of lean-convert, edited or not, whichever transforms were applied."""
    found = header.find(code)
    if found is None:
        return None
    return Diagnostic(found.line, 1, "LC002", f"lean-convert made this from {found.source}: name that script")


def not_python(code: str) -> Diagnostic | None:
    """Refuse files that are empty or cannot be parsed as a script."""
    found = tree_or_refusal(code)
    return found if isinstance(found, Diagnostic) else None


def tree_or_refusal(code: str) -> Tree | Diagnostic:
    """The tree of a script; a refusal if the text is empty or cannot be parsed."""
    if not code.strip():
        return at(None, "LC001", "the file is empty", "Give the script that trains; was the file saved?")
    found = _tree_or_reason(code)
    if isinstance(found, Tree) and not found.root.body:
        return at(None, "LC001", "all of the file is commented out", "Remove the # before the lines that train.")
    return found


def unparsable(code: str) -> Diagnostic | None:
    """Refuse binary or malformed text, files that are too long, and notebooks."""
    found = _tree_or_reason(code)
    return found if isinstance(found, Diagnostic) else None


def mixed_tabs(code: str) -> Diagnostic:
    """The refusal of indentation that mixes tabs with spaces, which Python accepts and LibCST does not."""
    line = next((n for n, text in enumerate(code.splitlines(), 1) if re.match(r"[ \t]*\t", text)), 1)
    message = "the file cannot be read by LibCST: it mixes tabs and spaces in its indentation"
    return Diagnostic(line, 1, "LC001", message, what_to_do="Indent all lines by spaces only, or all by tabs.")


def _tree_or_reason(code: str) -> Tree | Diagnostic:
    """The tree of a text, or why there is none."""
    if _is_notebook(code):
        advice = (
            "`jupyter nbconvert --to script NOTEBOOK` (of the package nbconvert) makes a script from it. Remove its "
            "lines with `get_ipython()`, and convert it."
        )
        return at(None, "LC001", "it is a Jupyter notebook", advice)
    if "\0" in code:
        line = code.count("\n", 0, code.index("\0")) + 1
        return Diagnostic(line, 1, "LC001", "the file contains NUL bytes: it is binary, not Python")
    try:
        tree = Tree(code)
        nodes = sum(1 for _ in walk(tree.root))
    except SyntaxError as error:
        advice = (
            f"Fix the line. For syntax newer than Python {python_version()}, install lean-convert in a newer Python."
        )
        place = error.lineno or 1, error.offset or 1
        return Diagnostic(*place, "LC001", f"syntax error: {error.msg}", what_to_do=advice)
    except (RecursionError, MemoryError):
        return at(None, "LC008", "the file is nested too deeply to be parsed")
    except ValueError as error:
        return at(None, "LC001", f"the file cannot be parsed: {error}")
    if nodes > MAX_NODES:
        return at(None, "LC008", f"the file has {nodes} syntax nodes, more than {MAX_NODES}")
    return tree


def _is_notebook(code: str) -> bool:
    """Whether a text is a saved Jupyter notebook. Its JSON may also be a valid Python expression."""
    if not code.lstrip().startswith("{"):
        return False
    try:
        found = json.loads(code)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"cells", "nbformat"} <= found.keys()


def unsuitable(tree: Tree) -> list[Diagnostic]:
    """Refuse scripts of another kind, recognised by their imports and contents."""
    modules = {q.split(".")[0] for q in tree.imports.values()}
    trains_by_torch = any((tree.qualified(n.func) or "").startswith("torch.optim.") for n in tree.of(ast.Call))
    other = trained_by_a_library(tree)
    for node, name in _imported(tree):
        if name.split(".")[0] in ("jax", "flax", "optax") and not trains_by_torch:
            return [at(node, "LC003", f"the script imports {name}: JAX compiles its own update")]
        if name.split(".")[0] in OTHER_FRAMEWORKS:
            other = other or at(node, "LC004", f"the script imports {name}, not torch")
    if "torch" not in modules:
        return [other or at(None, "LC004", "the script does not import torch")]
    text = {n.target.id for n in walk(tree.root) if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    text |= {
        str(n.args[0].value).lstrip("-").replace("-", "_")
        for n in walk(tree.root)
        if isinstance(n, ast.Call) and n.args and isinstance(n.args[0], ast.Constant)
    }
    compiled = any(n.value == OPTION for n in tree.of(ast.Constant))
    own = own_compiling(tree)
    if own is not None and FLAGS[0] in text and (compiled or text.issuperset(FLAGS)):
        return [at(own, "LC002", "the script compiles its training itself, behind the options of a converted script")]
    return []


def trained_by_a_library(tree: Tree) -> Diagnostic | None:
    """Refuse the import of a package that runs its users' training loop, if nothing in this file computes gradients."""
    if any(calls_method(n, "backward") for n in tree.of(ast.Call)):
        return None
    for node, module in _imported(tree):
        library = TRAINERS.get(module.partition(".")[0])
        if library is not None:
            message = f"{library} trains here: its training loop and update are in the package, not in this file"
            advice = "Convert a script that has its own loop, such as cleanrl's ppo.py."
            return at(node, "LC004", message, advice)
    return None


def _imported(tree: Tree) -> Iterator[tuple[ast.stmt, str]]:
    """Each absolute import, with the module's dotted name."""
    for node in walk(tree.root):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node, node.module or ""


NOT_SHOWN = (
    ", but it is not certain which method that is: make the object in one place, from one class, and use the method's "
    "name for nothing else"
)


def no_training_loop(tree: Tree, env_steps: Sequence[ast.Call], optimizer_steps: Sequence[ast.Call]) -> Diagnostic:
    """Refuse a script in which no loop contains both an environment step and an optimizer step."""
    if not optimizer_steps:
        return _no_optimizer(tree)
    opt = optimizer_steps[0]
    if (known := _known_kind(tree, env_steps)) is not None:
        return known
    if not env_steps:
        return at(
            opt,
            "LC004",
            "an optimizer is stepped here, but this file keeps no result of an environment's step(): it learns from no "
            "environment",
        )
    if (called := _called_beside_a_step(tree, env_steps, opt)) is not None:
        return at(
            called,
            "LC005",
            f"{ast.unparse(called.func)}() seems to step the optimizer on line {opt.lineno}{_unclear(tree, called)}",
            wanted_form(tree),
        )
    env = max(env_steps, key=lambda step: _looks_like_the_rollouts(tree, step))
    here, there = (getattr(tree.scope_of(n), "name", "the module") for n in (env, opt))
    if here != there:
        return at(
            env,
            "LC005",
            f"the environment is stepped here in {here}, the optimizer on line {opt.lineno} in {there}, "
            "not in one training loop",
            wanted_form(tree),
        )
    return at(env, "LC004", f"the environment step here and the optimizer step on line {opt.lineno} share no loop")


def _looks_like_the_rollouts(tree: Tree, step: ast.Call) -> tuple[bool, bool, bool, int]:
    """A sort key: smaller for a step in a wrapper's step(), in an evaluation, or of an object without "env"."""
    within, receiver = getattr(tree.scope_of(step), "name", ""), ast.unparse(step.func).lower()
    evaluates = any(word in f"{within} {receiver}".lower() for word in ("eval", "test"))
    return within not in ("step", "reset"), not evaluates, "env" in receiver, len(tree.loops_around(step))


def _known_kind(tree: Tree, env_steps: Sequence[ast.Call]) -> Diagnostic | None:
    """Refuse a script that needs no training loop here: it is lean already, or it is another kind of training."""
    if (own := own_compiling(tree)) is not None:
        advice = "Convert the eager script that it was made from, or train with it as it is."
        return at(own, "LC002", "the script compiles its training itself: it is lean already", advice)
    for module, qualified in tree.imports.items() if not env_steps else ():
        package = qualified.partition(".")[0]
        place = next((n for n in tree.of(ast.alias) if (n.asname or n.name.partition(".")[0]) == module), None)
        if package in OFFLINE:
            why = f"the script learns from steps that {package} recorded (offline RL), not from an environment"
            return at(place, "LC004", why, ALONE)
        if package in TRAINERS:
            why = f"{TRAINERS[package]}, not this file, steps the environment or computes the losses"
            return at(place, "LC004", why, "Convert a script that has its own loop, such as cleanrl's ppo.py.")
    return None


ALONE = "Compile the update by hand: only training that steps an environment and learns from it is converted."


def _unclear(tree: Tree, called: ast.Call) -> str:
    """Why it is not known that a method call runs the method with this name; completes a sentence."""
    name = called.func.attr if isinstance(called.func, ast.Attribute) else ""
    classes = [tree.parents[m].name for m in tree.methods(name) if isinstance(tree.parents[m], ast.ClassDef)]  # type: ignore[attr-defined]
    if len(classes) > 1:
        return f", but {' and '.join(classes)} have a {name}(): give them different names"
    others = [f"line {n.lineno}" for n in tree.of(ast.Attribute) if n.attr == name and n is not called.func]
    if others:
        return f", but {' and '.join(others)} may refer to it too: call it in one place, or give it a name of its own"
    return NOT_SHOWN


FROM_STORED_STEPS = (
    "Bring the script to one loop that steps the environment, stores the step, and, below that, learns from stored "
    "steps. Sampling and learning may be functions or methods that are called in one place and return only at the end."
)


def wanted_form(tree: Tree) -> str:
    """The form that a script learning from stored steps should have; "" for other scripts, whose code shows it."""
    return FROM_STORED_STEPS if draws_stored(tree, tree.root) else ""


def draws_stored(tree: Tree, code: ast.AST) -> bool:
    """Whether code draws several stored items, rather than one sample from a distribution or a space."""
    calls = (node for node in walk(code) if isinstance(node, ast.Call))
    return any(
        tree.calls(call, "random.sample", "random.choices")
        or (calls_method(call, "sample") and len(call.args) + len(call.keywords) > 0)
        for call in calls
    )


def _called_beside_a_step(tree: Tree, env_steps: Sequence[ast.Call], opt: ast.Call) -> ast.Call | None:
    """A call, in a loop that steps an environment, of a method named like the one that steps the optimizer."""
    method = tree.scope_of(opt)
    if not isinstance(method, ast.FunctionDef) or not isinstance(tree.parents[method], ast.ClassDef):
        return None
    for loop in (loop for step in env_steps for loop in tree.loops_around(step)):
        for node in walk(loop):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method.name:
                return node
    return None


def in_async_function(function: ast.AsyncFunctionDef) -> Diagnostic:
    """Refuse training in a coroutine, which other code may interrupt."""
    return at(
        function, "LC005", f"the training is in the async function {function.name}(): write `def` without `async`"
    )


def _no_optimizer(tree: Tree) -> Diagnostic:
    """Refuse a script that steps no name to which it assigns an optimizer from torch.optim."""
    if (library := trained_by_a_library(tree)) is not None:
        return library
    for node in tree.of(ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "step":
            stepped = ast.unparse(node.func.value)
            if re.search(r"opt", stepped.rpartition(".")[2], re.IGNORECASE):
                message = (
                    f"{stepped} is stepped here, but nothing in this file assigns a torch.optim optimizer to this name"
                )
                return at(node, "LC004", message)
    for node in tree.of(ast.Call):
        made = tree.qualified(node.func) or ""
        if made.startswith("torch.optim.") and not made.startswith("torch.optim.lr_scheduler."):
            return at(node, "LC004", "an optimizer is made here, but nothing in this file steps one")
    if (chosen := _imported_by_choice(tree) or _made_by_choice(tree)) is not None:
        return chosen
    for call in tree.of(ast.Call):
        if tree.calls(call, "torch.autograd.grad") and any(k.arg == "create_graph" for k in call.keywords):
            why = "no optimizer is stepped, and second derivatives are computed: this looks like TRPO, not PPO"
            return at(call, "LC004", why, "Convert a PPO script: its updates are steps of an optimizer.")
    return at(None, "LC004", "no optimizer made by torch.optim is stepped by its name in this script")


def _imported_by_choice(tree: Tree) -> Diagnostic | None:
    """Refuse a callable that conditions import from one of several modules, each of which may train differently."""
    called = {n.func.id for n in tree.of(ast.Call) if isinstance(n.func, ast.Name)}
    modules: dict[str, dict[str, ast.ImportFrom]] = {}
    for stmt in tree.of(ast.ImportFrom):
        if isinstance(tree.parents[stmt], ast.If):
            for name in (alias.asname or alias.name for alias in stmt.names):
                modules.setdefault(name, {}).setdefault("." * stmt.level + (stmt.module or ""), stmt)
    for name, found in modules.items():
        if len(found) > 1 and name in called:
            return at(
                next(iter(found.values())),
                "LC004",
                f"no optimizer is stepped here, and {name}, which is called, is imported from {' or '.join(found)}: "
                "which one trains is known only at run time",
                "Use --with to give the file of the module that the option's default chooses, if `if args.x == ...` "
                f"does nothing but import. Otherwise import {name} from one module, at the top level of the file.",
            )
    return None


def _made_by_choice(tree: Tree) -> Diagnostic | None:
    """Refuse an object that learns in a loop, by its method's name, if conditions or a config choose its class."""
    made: dict[str, dict[str, ast.Call]] = {}
    for target, call in tree.assigned.items():
        if isinstance(target, (ast.Name, ast.Attribute)) and isinstance(call, ast.Call):
            made.setdefault(ast.unparse(target), {})[tree.qualified(call.func) or ""] = call
    for call in tree.of(ast.Call):
        if not isinstance(call.func, ast.Attribute) or not tree.loops_around(call):
            continue
        if not re.search(r"train|learn|update|optimi", call.func.attr, re.IGNORECASE):
            continue
        name = ast.unparse(call.func.value)
        found = made.get(name, {})
        configured = next((c for q, c in found.items() if q.startswith("hydra.utils.")), None)
        calls = [*found.values()]
        what = (
            f"which object trains is known only at run time: {name}.{call.func.attr}() is called in a loop, and {name}"
        )
        if configured is not None:
            why = f"{what} is made by {ast.unparse(configured.func)}(): a configuration names its class"
            return at(configured, "LC004", why, f"Write `{name} = CLASS(...)`, and give its file with --with.")
        if len(calls) > 1 and "" not in found and all(tree.never_both(calls[0], c) for c in calls[1:]):
            why = f"{what} is made by {' or '.join(ast.unparse(c.func) for c in calls)}"
            return at(
                calls[0], "LC004", why, "Use --with to give the file of the class that the option's default chooses."
            )
    return None


def no_phases(tree: Tree, loop: Loop, env: ast.Call, opt: ast.Call) -> Diagnostic:
    """Refuse a script with both steps in one statement of the training loop."""
    if off_policy(tree, loop):
        return at(loop, "LC004", off_policy(tree, loop))
    both = (n for n in tree.ancestors(env) if isinstance(n, TRY) and n in tree.ancestors(opt) and n.handlers)
    if (caught := next(both, None)) is not None and loop in tree.ancestors(caught):
        return at(
            caught,
            "LC005",
            "training goes on after exceptions that stop a rollout or an update in the middle: catch them around the "
            "statement that raises them",
        )
    return at(
        loop,
        "LC005",
        f"the environment (line {env.lineno}) and the optimizer (line {opt.lineno}) are stepped in one inner "
        "statement, not in a rollout phase followed by an update phase",
        wanted_form(tree),
    )


def no_rollout_loop(tree: Tree, loop: Loop, env: ast.Call, opt: ast.Call) -> Diagnostic:
    """Refuse a script that steps the environment once per iteration of the training loop."""
    message = "the environment is stepped once per iteration of the training loop: there is no rollout loop to extract"
    for outer in tree.ancestors(opt):
        if outer is loop:
            break
        if isinstance(outer, ast.If) and tree.loops_around(outer)[0] is loop:
            message += f"; the update, on line {opt.lineno}, runs only in some iterations (line {outer.lineno})"
            break
    return at(env, "LC004", off_policy(tree, loop) or message)


def no_minibatches(tree: Tree, loop: Loop, opt: ast.Call) -> Diagnostic:
    """Refuse a script that steps the optimizer once per rollout."""
    return at(
        opt,
        "LC004",
        off_policy(tree, loop)
        or "the optimizer is stepped once per rollout, without epochs or minibatches: "
        "this looks like REINFORCE or A2C, not PPO",
        "Below the rollout, call the networks again on tensors made from the rollout's steps, and compute the loss "
        "from the results.",
    )


def off_policy(tree: Tree, loop: Loop) -> str:
    """A sentence that names an off-policy algorithm, or ""."""
    for node in walk(loop):
        if calls_method(node, "sample"):
            receiver = ast.unparse(node.func.value)
            if receiver in tree.imports and node.args:
                receiver = ast.unparse(node.args[0])  # random.sample(buffer, n)
            targets = [n for n in walk(tree.root) if isinstance(n, ast.Name) and "target" in n.id.lower()]
            if node.args and targets:
                return (
                    f"minibatches come from the replay buffer {receiver} (line {node.lineno}), and there is a target "
                    f"network: this looks like {_off_policy_kind(tree, loop)}, but it is not certain that updates "
                    "below the environment's step learn from what the loop stores"
                )
    return ""


def _off_policy_kind(tree: Tree, loop: Loop) -> str:
    if any("alpha" in name.lower() for name in _words(loop)):
        return "SAC"
    words = _words(tree.root)
    if any("atoms" in name.lower() for name in words):
        return "C51 or Rainbow"
    return "DQN" if "argmax" in words else "DDPG or TD3"


RELIED_ON = (
    builtin_names(acts=False) | builtin_names(takes=True) | lookups(of="builtin", finds="attributes") | decorators()
)
"""Builtins that analyses assume to be Python's. Of all others, each analysis checks this or assumes the worst."""


def own_builtins(tree: Tree) -> list[Diagnostic]:
    """Refuse the first call of a function of the script that has a builtin's name, such as `range`.

    A conversion relies on the builtin's behaviour. Emitted code calls the builtin too, and the script's function hides
    it.
    """
    for call in tree.of(ast.Call):
        if not isinstance(call.func, ast.Name) or call.func.id not in tree.names.bound:
            continue
        name = call.func.id
        same = tree.imports.get(name, "").rpartition(".")[0] in ("builtins", "six.moves")
        if name in RELIED_ON and not same and variables(tree).owner_of(call.func):
            return [
                at(call, "LC005", f"{name}() is the script's own here, not Python's", f"Rename the script's {name}.")
            ]
    return []


def all_names_seen(tree: Tree, scope: Scope, outermost: Loop, asked: AbstractSet[str]) -> list[Diagnostic]:
    """Refuse a call, in or after the training loop, that sees all names of the training scope and needs each unchanged.

    Args:
        tree: the script.
        scope: the training scope.
        outermost: the training loop.
        asked: variables that the scope may test for by string, as in `"x" in locals()`, which counts as a read.
    """
    for node in tree.of(ast.Call):
        if asked_name(tree.parents[node]) in asked:
            continue
        if not isinstance(node.func, ast.Name) or node.func.id not in OF_CALLER:
            continue
        alone = node.func.id in ("locals", "eval", "exec") or not node.args
        if _asks_for_read_name(tree, scope, node):
            continue
        if alone and tree.scope_of(node) is scope and node.lineno >= outermost.lineno:
            called = f"{node.func.id}() sees all names of the training here"
            instead = (
                "; set the variable to None above the loop, and test for that instead"
                if node.func.id == "locals"
                else ""
            )
            return [at(node, "LC005", f"{called}: variables of code moved into functions would be missing{instead}")]
    return []


def _asks_for_read_name(tree: Tree, scope: Scope, call: ast.Call) -> bool:
    """Whether a call is the `locals()` in `if "x" in locals():`, where x is read below and is only a training variable.

    A transform that moves a binding of x returns the value if x is read. So x is bound exactly when it was before. A
    name that is also a parameter, an import or a global might come from there instead.
    """
    test = tree.parents[call]
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Constant) or test.comparators != [call]:
        return False
    name, inside = test.left.value, set(walk(tree.statement(call)))
    uses = [n for n in tree.of(ast.Name) if n.id == name]
    own = all(tree.scope_of(n) is scope and not (n in inside and isinstance(n.ctx, ast.Store)) for n in uses)
    others = [*(n.arg for n in tree.of(ast.arg)), *tree.imports]
    others += [n for s in tree.nodes if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names]
    return own and any(n in inside and isinstance(n.ctx, ast.Load) for n in uses) and name not in others


def _words(tree: ast.AST) -> set[str]:
    """All names, attributes, imports and parameters."""
    found = {n.id for n in walk(tree) if isinstance(n, ast.Name)}
    found |= {n.attr for n in walk(tree) if isinstance(n, ast.Attribute)}
    found |= {n.name for n in walk(tree) if isinstance(n, ast.alias)}
    found |= {n.arg for n in walk(tree) if isinstance(n, ast.arg)}
    return found
