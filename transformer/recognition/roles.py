"""The recognised script: which name is the optimizer, which loop is the rollout, where the update begins.

Recognition is read-only and goes by what code does, not by names: an optimizer is what `torch.optim` made, the rollout
is the loop that steps the environment, the update is the loop that steps the optimizer. It is done once per state of
the script; each role is computed when it is first requested.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias, TypeGuard, TypeVar, cast

from transformer.dataflow.access import access, free_names
from transformer.dataflow.closures import read_at_error
from transformer.dataflow.liveness import Liveness
from transformer.dataflow.network_names import networks
from transformer.dataflow.reaching import Reaching
from transformer.facts.torch_api import DISTRIBUTIONS
from transformer.recognition import off_policy, refusals
from transformer.recognition.attribute_setting import attribute_set
from transformer.recognition.called_once import CalledOnce, find_called_once
from transformer.recognition.history import History
from transformer.recognition.off_policy import Region
from transformer.recognition.optimizers import Optimizer, optimizers
from transformer.recognition.refusals import Unconvertible
from transformer.syntax.diagnostics import at
from transformer.syntax.query import (
    MethodCall,
    backwards,
    calls_method,
    first_parameter,
    is_number,
    last_written,
    names_in,
    pairwise,
    parameters,
    statements,
    unparse,
    walk,
)
from transformer.syntax.tree import Loop, Scope, Tree

Kind: TypeAlias = Literal["on-policy", "off-policy", "update"]
A = TypeVar("A")


@lru_cache(maxsize=2)
def _reaching_in(tree: Tree) -> dict[Scope, Reaching]:
    """The reaching definitions of a file's scopes, filled on demand and shared by roles that differ only in their
    history."""
    return {}


class Roles:
    """The parts of a script, each computed when it is first requested."""

    def __init__(self, tree: Tree, history: History) -> None:
        self.tree = tree
        self.history = history
        self._reaching = _reaching_in(tree)
        self._analyses: dict[Callable[[Roles], object], object] = {}
        self._networks, self._optimizers = networks(tree), optimizers(tree)

    def get(self, analysis: Callable[[Roles], A]) -> A:
        """An analysis of the script, as `roles.get(Tensors)`; it is made once and cached."""
        if analysis not in self._analyses:
            self._analyses[analysis] = analysis(self)
        return cast(A, self._analyses[analysis])

    def forget(self) -> None:
        """Drop the analyses. They refer to these roles, so otherwise only the garbage collector would free them."""
        self._analyses.clear()

    def is_autocast(self, node: ast.AST) -> TypeGuard[ast.With]:
        """Whether a node is a `with` block of the training scope that computes in another precision."""
        if not isinstance(node, ast.With) or self.tree.scope_of(node) is not self.scope:
            return False
        calls = (i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call))
        return any((self.tree.qualified(c.func) or "").endswith(".autocast") for c in calls)

    @cached_property
    def autocast_headers(self) -> frozenset[ast.AST]:
        """The nodes of the context expressions of these blocks."""
        return frozenset(n for w in self.tree.of(ast.With) if self.is_autocast(w) for i in w.items for n in walk(i))

    def is_ours(self, name: ast.Name, scope: Scope | None = None) -> bool:
        """Whether a name, even in a function, is a scope's variable (default: the training's), not an inner local."""
        scope = scope or self.scope
        below: ast.AST = name
        for outer in self.tree.ancestors(name):
            if outer is scope:
                return True
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                # Defaults, annotations and decorators are evaluated where the function is made
                made = isinstance(below, ast.arguments) or below in getattr(outer, "decorator_list", ())
                if not made and name.id not in free_names(outer):
                    return False
            below = outer
        return isinstance(scope, ast.Module)

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """Names bound to optimizers from `torch.optim`, or to objects on which both `zero_grad()` and `step()` are
        called."""
        return self._optimizers.made

    @property
    def made_elsewhere(self) -> frozenset[str]:
        """Expressions, as written, on which `zero_grad()` and `step()` are called, but to which the file assigns no
        optimizer."""
        return self._optimizers.made_elsewhere

    @cached_property
    def optimizer_steps(self) -> tuple[ast.Call, ...]:
        """Calls that change the parameters: `optimizer.step()`, `scaler.step(optimizer)`, the extracted update."""
        names = {o.name for o in self.optimizers} | self.made_elsewhere
        found: list[ast.Call] = []
        for call in self._own_calls:
            if self.is_step(call):
                receiver = unparse(call.func.value)
                first = unparse(call.args[0]) if call.args else None
                if receiver in names or first in names:
                    found.append(call)
            elif self.is_update(call):
                found.append(call)
        return tuple(found)

    def is_update(self, call: ast.Call) -> bool:
        """Whether a call is of a function that contains an extracted update."""
        return isinstance(call.func, ast.Name) and call.func.id in self.history.all_updates

    def is_step(self, node: ast.AST | None) -> TypeGuard[MethodCall]:
        """Whether a node is `x.step(...)` of an environment, an optimizer or a scheduler.

        A network's method with this name computes something else.
        """
        return node in self._networks.steps

    @cached_property
    def env_steps(self) -> tuple[ast.Call, ...]:
        """Calls that step an environment: `x.step(action)` with a used result, or the extracted rollout."""
        stepped = set(self.optimizer_steps)
        rollout = self.history.functions.get("rollout")
        found: list[ast.Call] = []
        for call in self._own_calls:
            if self.is_step(call):
                kept = isinstance(self.tree.parents[call], (ast.Assign, ast.NamedExpr))
                if call not in stepped and call.args and kept:
                    found.append(call)
            elif rollout and isinstance(call.func, ast.Name) and call.func.id == rollout.name:
                found.append(call)
        return tuple(found)

    @cached_property
    def _own_calls(self) -> tuple[ast.Call, ...]:
        """Calls in the script, except those in extracted functions, in source order."""
        extracted = {f.name for f in self.history.functions.values()}
        apart = {n for name in extracted for n in walk(self.tree.definition(name))}
        calls = (call for call in self.tree.of(ast.Call) if call not in apart)
        return tuple(sorted(calls, key=lambda c: (c.lineno, c.col_offset)))

    @cached_property
    def phases(self) -> Phases:
        """The training loop and its phases; for scripts that learn from stored steps, their counterparts.

        Raises:
            Unconvertible: there is no such loop, or it may be interrupted; the diagnostics say what the script looks
            like instead.
        """
        found = self._phases()
        for node in (found.loop, found.env_step, found.opt_step):
            for outer in self.tree.ancestors(node):
                if isinstance(outer, ast.AsyncFunctionDef):
                    raise Unconvertible(refusals.in_async_function(outer))
        return found

    def _phases(self) -> Phases:
        if self.history.at_once and (found := self._phases_of_single_updates()) is not None:
            return found
        try:
            return self._phases_of_rollouts()
        except Unconvertible:
            stored, turns = self._phases_of_steps(), self._phases_of_turns()
            if stored is not None and (self.history.in_turns or self._steps_optimizers_of(stored.replay)):
                stored = None if turns is not None else stored
            found = stored or turns or self._phases_of_updates() or self._phases_of_single_updates()
            if found is None:
                raise
            return found

    def _steps_optimizers_of(self, name: str | None) -> bool:
        """Whether optimizers of an object with this name are stepped: then it does more than keep steps."""
        return any(unparse(call.func).startswith(f"{name}.") for call in self.optimizer_steps)

    @property
    def kind(self) -> Kind:
        """Whether the training loop collects rollouts and discards them, or stores single steps and samples them.

        The third kind is an update alone: the environment is stepped elsewhere, perhaps in another file.
        """
        if self.phases.env_step is ELSEWHERE:
            return "update"
        return "off-policy" if self.phases.regions else "on-policy"

    def _phases_of_turns(self) -> Phases | None:
        """The loop that steps the environment in each iteration, and updates in some, in epochs or minibatches."""
        best = self._sharing(self.env_steps)
        if best is None:
            return None
        loop, step, opt = best
        block = self._common_block(loop, step, opt)
        if block is None or self.tree.loops_around(step)[0] is not loop or refusals.off_policy(self.tree, loop):
            return None
        collect, learn = (self._in_block(block, n) for n in (step, opt))
        updates = self._minibatch_loops(opt, {*self.tree.loops_around(collect)})
        if block.index(learn) < block.index(collect) or not isinstance(learn, ast.If) or not updates:
            return None
        return Phases(loop, block, collect, learn, (), updates, step, opt)

    def _phases_of_updates(self) -> Phases | None:
        """The loops of an update whose rollout is elsewhere; if there are several, the deepest."""
        steps = [step for step in self.optimizer_steps if self.tree.loops_around(step)]
        if not steps or self._sharing(self.env_steps):
            return None
        opt = max(steps, key=lambda step: len(self.tree.loops_around(step)))
        loop = self.tree.loops_around(opt)[-1]
        updated = _computes_gradients(loop) or self.is_update(opt)
        if not updated or not self._is_of_policy(loop) or refusals.off_policy(self.tree, loop):
            return None
        learn = self._in_block(loop.body, opt)
        return Phases(loop, loop.body, NOTHING, learn, (), self._minibatch_loops(opt, set()), ELSEWHERE, opt)

    def _is_of_policy(self, loop: Loop) -> bool:
        """Whether a loop may update a policy, rather than train something else: something acts, or there is a ratio."""
        acts = any(name.startswith("torch.distributions") for name in self.tree.imports.values())
        acts = acts or any(node.attr == "log_prob" for node in self.tree.of(ast.Attribute))
        return bool(self.env_steps or self.is_update(self.optimizer_steps[0]) or acts or self._has_ratio(loop))

    def _minibatch_loops(self, opt: ast.Call, outer: AbstractSet[Loop]) -> tuple[Loop, ...]:
        """The loops around an optimizer's step, innermost first, except outer loops and loops over several
        optimizers."""
        loops = [x for x in self.tree.loops_around(opt) if x not in outer]
        while len(loops) > 1 and not _computes_gradients(loops[0]) and _computes_gradients(loops[1]):
            loops = loops[1:]
        return tuple(loops)

    def _phases_of_steps(self) -> Phases | None:
        """The loop over environment steps of an off-policy script, or over episodes that each store their steps."""
        helpers = [call for call in self._helper_steps if self._steps_once(call)]
        best = self._sharing(self.env_steps) or self._sharing(helpers)
        if best is None:
            return None
        loop, step, _ = best
        opts = [o for o in self.optimizer_steps if loop in self.tree.loops_around(o)]
        if self.tree.loops_around(step)[0] is not loop and not refusals.draws_stored(self.tree, loop):
            return None
        replay = self.history.replay or off_policy.replay_buffer(self.tree, loop, step, opts)
        block = self._common_block(loop, step, opts[0])
        if replay is None or block is None:
            return None
        collect, learn = (self._in_block(block, n) for n in (step, opts[0]))  # in either order
        regions = off_policy.regions(self.tree, loop, step, opts, replay)
        return Phases(loop, block, collect, learn, (), (), step, opts[0], regions, replay)

    def _phases_of_single_updates(self) -> Phases | None:
        """The loop that learns from each rollout at once, without epochs or minibatches, as A2C does."""
        best = self._sharing(self.env_steps) or self._sharing(self._helper_steps)
        block = self._common_block(*best) if best is not None else None
        if best is None or block is None or refusals.off_policy(self.tree, best[0]):
            return None
        loop, step, opt = best
        collect, learn = (self._in_block(block, n) for n in (step, opt))
        in_turns = step in self.env_steps and self.tree.loops_around(step)[0] is loop
        if in_turns or block.index(learn) < block.index(collect):
            return None
        opts = [o for o in self.optimizer_steps if loop in self.tree.loops_around(o)]
        return Phases(
            loop, block, collect, learn, (), (), step, opt, off_policy.regions(self.tree, loop, step, opts, None)
        )

    def _phases_of_rollouts(self) -> Phases:
        """The training loop of an on-policy script.

        Raises:
            Unconvertible: there is no such loop.
        """
        best = self._sharing(self.env_steps) or self._sharing(self._helper_steps)
        if best is None:
            raise Unconvertible(refusals.no_training_loop(self.tree, self.env_steps, self.optimizer_steps))
        loop, step, opt = best
        block = self._common_block(loop, step, opt)
        if block is None:
            raise Unconvertible(refusals.no_phases(self.tree, loop, step, opt))
        collect, learn = (self._in_block(block, n) for n in (step, opt))
        if block.index(learn) < block.index(collect):
            why = "the update is above the rollout in the training loop"
            raise Unconvertible(at(learn, "LC005", why, refusals.wanted_form(self.tree)))
        outer = set(self.tree.loops_around(collect))
        steps = [x for x in self.tree.loops_around(step) if x not in outer]
        updates = self._minibatch_loops(opt, outer)
        if not steps and not self._is_call_of(step, "rollout"):
            raise Unconvertible(refusals.no_rollout_loop(self.tree, loop, step, opt))
        if not updates:
            raise Unconvertible(refusals.no_minibatches(self.tree, loop, opt))
        return Phases(loop, block, collect, learn, tuple(steps), updates, step, opt)

    def _sharing(self, steps: Sequence[ast.Call]) -> tuple[Loop, ast.Call, ast.Call] | None:
        """The innermost loop that contains a step of an environment and a step of an optimizer, and these two steps.

        An optimizer stepped in its own loop is preferred to one stepped once per rollout. Among optimizers with loops
        of their own, the one for the policy's loss, which has a ratio, is preferred. Among environments, the one that
        training learns from is preferred to one for evaluation.
        """
        best: tuple[tuple[int, bool, bool, bool, bool, bool], Loop, ast.Call, ast.Call] | None = None
        for step in steps:
            for opt in self.optimizer_steps:
                around = self.tree.loops_around(opt)
                common = [x for x in self.tree.loops_around(step) if x in around]
                if common:
                    own = around[0] is not common[0]
                    both = not self.tree.never_both(step, opt)
                    learned = len(steps) == 1 or self._is_learned_from(step, common[0])
                    always = not any(isinstance(n, ast.If) for n in self._between(step, common[0]))
                    rank = (
                        len(self.tree.loops_around(common[0])),
                        both,
                        own,
                        own and self._optimizes_policy(opt),
                        learned,
                        always,
                    )
                    if best is None or rank > best[0]:
                        best = rank, common[0], step, opt
        return best[1:] if best else None

    def _is_learned_from(self, step: ast.Call, loop: Loop) -> bool:
        """Whether the results of an environment's step lead to a loss in a loop."""
        if self.history.environment is not None:
            return self._is_call_of(step, "rollout") or unparse(step.func) == self.history.environment
        return off_policy.is_learned_from(self.tree, loop, step, self.optimizer_steps)

    def _between(self, node: ast.AST, outer: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node that are inside an outer node."""
        return itertools.takewhile(lambda n: n is not outer, self.tree.ancestors(node))

    def _optimizes_policy(self, opt: ast.Call) -> bool:
        """Whether an optimizer's step is update(), or is in a loop that computes a ratio."""
        return self.is_update(opt) or self._has_ratio(self.tree.loops_around(opt)[0])

    def _has_ratio(self, loop: Loop) -> bool:
        return any(calls_method(node, "exp") or self.tree.calls(node, "torch.exp") for node in walk(loop))

    @cached_property
    def _helper_steps(self) -> tuple[ast.Call, ...]:
        """Calls of functions of this file that step an environment, whose results are used."""
        stepping = {self.tree.scope_of(step) for step in self.env_steps}
        return tuple(
            call
            for call in self._own_calls
            if call.args and isinstance(self.tree.parents[call], (ast.Assign, ast.NamedExpr))
            if self.tree.function_called(call) in stepping
        )

    def _steps_once(self, call: ast.Call) -> bool:
        """Whether the function that a call runs steps one environment, or several, once each."""
        function = self.tree.function_called(call)
        return all(
            isinstance(around, ast.For) and names_in([around.target]) & names_in([step.func])
            for step in self.env_steps
            if self.tree.scope_of(step) is function
            for around in self.tree.loops_around(step)
        )

    def _is_call_of(self, call: ast.Call, role: str) -> bool:
        function = self.history.functions.get(role)
        return function is not None and isinstance(call.func, ast.Name) and call.func.id == function.name

    def _common_block(self, loop: Loop, *nodes: ast.AST) -> list[ast.stmt] | None:
        """The innermost block in which the nodes are in different statements."""
        block: list[ast.stmt] = loop.body
        while True:
            tops = [self._in_block(block, n) for n in nodes]
            if len(set(tops)) > 1:
                return block
            inner = tops[0]
            if not isinstance(inner, (ast.With, ast.If, ast.Try)) or getattr(inner, "handlers", None):
                return None  # after an exception, the loop would continue with half of what an extracted function sets
            following = [b for b in (inner.body, getattr(inner, "orelse", [])) if self._holds(b, nodes[0])]
            if not following or not all(self._holds(following[0], n) for n in nodes):
                return None
            block = following[0]

    def _holds(self, block: Sequence[ast.stmt], node: ast.AST) -> bool:
        return any(s is node or s in self.tree.ancestors(node) for s in block)

    def _in_block(self, block: Sequence[ast.stmt], node: ast.AST) -> ast.stmt:
        around = {node, *self.tree.ancestors(node)}
        return next(s for s in block if s in around)

    @cached_property
    def scope(self) -> Scope:
        """The scope that trains: the module (with or without a main guard) or a function."""
        return self.tree.scope_of(self.phases.loop)

    @cached_property
    def outermost(self) -> Loop:
        """The outermost loop around the training loop, or the training loop itself; one-time setup is above it."""
        return [self.phases.loop, *self.tree.loops_around(self.phases.loop)][-1]

    @cached_property
    def setup(self) -> list[ast.stmt]:
        """The statements above the outermost loop, in its block."""
        block = self.tree.block(self.outermost)
        return block[: block.index(self.outermost)]

    @cached_property
    def rollout(self) -> Loop | None:
        """The loop that steps the environment (outermost); None once it is extracted."""
        return self.phases.steps[-1] if self.phases.steps else None

    @cached_property
    def minibatch_loop(self) -> Loop:
        """The innermost loop around the optimizer's step."""
        return self.phases.updates[0]

    @cached_property
    def gae_loops(self) -> tuple[ast.For, ...]:
        """Loops backwards over time in the phase block that step neither environment nor optimizer."""
        found = []
        p = self.phases
        for stmt in statements(p.block):
            if isinstance(stmt, ast.For) and stmt not in p.steps and stmt not in p.updates:
                if backwards(stmt.iter) is not None and not any(s in walk(stmt) for s in (p.env_step, p.opt_step)):
                    found.append(stmt)
        return tuple(found)

    @cached_property
    def called_once(self) -> dict[ast.FunctionDef, CalledOnce]:
        """Functions of the file that the training scope calls in exactly one place."""
        policy = [self.history.policy] if self.history.policy else []
        return find_called_once(self.tree, self.scope, {*self.modules, *policy})

    @cached_property
    def gae_functions(self) -> tuple[CalledOnce, ...]:
        """The helpers that loop backwards over time and are called between rollout and update."""
        p = self.phases
        between = p.block[p.block.index(p.collect) + 1 : p.block.index(p.learn)]
        return tuple(
            helper
            for helper in self.called_once.values()
            if any(s in between for s in (helper.stmt, *self.tree.ancestors(helper.stmt)))
            and any(backwards(s.iter) for s in statements(helper.function.body) if isinstance(s, ast.For))
        )

    @cached_property
    def step_counter(self) -> str | None:
        """The counter that every step of the rollout increases by the number of environments, from 0 and without a
        reset."""
        if self.rollout is None:
            return self.history.step_counter
        inside = set(walk(self.outermost))
        for stmt in _without_with(self.rollout.body):
            if isinstance(stmt, ast.AugAssign) and isinstance(stmt.op, ast.Add) and isinstance(stmt.target, ast.Name):
                starts = list(self.assignments(stmt.target.id))
                begins = starts and all(is_number(value, 0) and made not in inside for made, value in starts)
                if begins and self._is_count(stmt.value):
                    return stmt.target.id
        return None

    def _is_count(self, value: ast.expr) -> bool:
        """Whether an expression is a number of environments: a product of a length, a shape, or names that the loop
        leaves alone."""
        if isinstance(value, ast.BinOp):
            return isinstance(value.op, ast.Mult) and self._is_count(value.left) and self._is_count(value.right)
        if isinstance(value, ast.Constant):
            return type(value.value) is int
        if isinstance(value, ast.Subscript):
            return isinstance(value.value, ast.Attribute) and value.value.attr == "shape"
        if isinstance(value, ast.Call):
            return unparse(value.func) in ("len", "int")
        return isinstance(value, (ast.Name, ast.Attribute)) and not names_in([value]) & self.variant

    @cached_property
    def variant(self) -> frozenset[str]:
        """Names that the training loop binds: a function extracted from it takes them as parameters."""
        loop = self.outermost
        bound = set(access(loop).binds)
        for stmt in statements(loop.body):
            bound |= access(stmt).binds
        return frozenset(bound)

    @cached_property
    def run_by_training(self) -> tuple[ast.AST, ...]:
        """The nodes of the training loop, and of the functions and methods of the file that it may call.

        These are the functions that it names, and those that may be called without their names: operators, functions
        stored under another name or in a container, functions passed to decorators or base classes of another file,
        generators.
        """
        return tuple(dict.fromkeys(self.reached((self.outermost, *self.called_unseen))))

    @cached_property
    def called_unseen(self) -> tuple[ast.AST, ...]:
        """Functions and methods of the file that may be called without their names."""
        tree = self.tree
        read: tuple[ast.Name | ast.Attribute, ...] = (*tree.of(ast.Name), *tree.of(ast.Attribute))
        loaded = [n for n in read if isinstance(n.ctx, ast.Load)]
        given = {
            n.id if isinstance(n, ast.Name) else n.attr
            for n in loaded
            if not (isinstance(call := tree.parents[n], ast.Call) and call.func is n)
        }
        found: list[ast.AST] = [*tree.of(ast.Lambda)]
        for function in tree.of(ast.FunctionDef):
            owner = tree.parents[function]
            if function is self.scope or function.name == "__init__":
                continue
            unseen = function.name.startswith("__") or function.name in given or bool(function.decorator_list)
            unseen = unseen or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(function))
            if unseen or (isinstance(owner, ast.ClassDef) and self._has_unknown_base(owner)):
                found.append(function)
        return tuple(found)

    def _has_unknown_base(self, cls: ast.ClassDef) -> bool:
        """Whether a class has a base class in another file that may call its methods; torch's modules do not."""
        return any(
            not isinstance(base, ast.Name) or base.id not in self.tree.classes
            for base in self.tree.bases(cls)
            if not (self.tree.qualified(base) or "").startswith(("torch.nn.", DISTRIBUTIONS))
        )

    def reached(self, code: Iterable[ast.AST], functions: Iterable[ast.FunctionDef] | None = None) -> Iterator[ast.AST]:
        """The nodes of some code, and of the functions that it may call by name, directly or indirectly.

        Args:
            code: where to begin.
            functions: the candidates; if None, all functions and methods of the file except the training's own.
        """
        if functions is None:
            functions = (n for n in self.tree.of(ast.FunctionDef) if n is not self.scope)
        named: dict[str, list[ast.FunctionDef]] = {}
        for function in functions:
            owner = self.tree.parents[function]
            made = function.name == "__init__" and isinstance(owner, ast.ClassDef)
            named.setdefault(owner.name if made else function.name, []).append(function)  # type: ignore[attr-defined]
        stack = [*code]
        while stack:
            for node in walk(stack.pop()):
                yield node
                name = last_written(node)
                stack += named.pop(name, [])
                if isinstance(node, ast.Call):
                    stack += named.pop("forward", [])

    def changed_by_training(self, size: ast.AST) -> ast.expr | None:
        """Where the training loop, or a function that it calls, sets a name or an attribute that a size depends on."""
        names = {n.id for n in walk(size) if isinstance(n, ast.Name)}
        attributes = {n.attr: unparse(n) for n in walk(size) if isinstance(n, ast.Attribute)}
        for node in self.run_by_training:
            if isinstance(node, ast.Name) and node.id in names and not isinstance(node.ctx, ast.Load):
                if self.is_ours(node):
                    return node
            if isinstance(node, ast.Attribute) and node.attr in attributes and not isinstance(node.ctx, ast.Load):
                own = self.tree.class_of_self(node.value, self.tree.scope_of(node))  # an object other than a variable
                if own is None or unparse(node) == attributes[node.attr]:
                    return node
            if isinstance(node, (ast.Call, ast.Subscript)) and self._sets_by_text(node, size):
                return node
        return None

    def _sets_by_text(self, node: ast.Call | ast.Subscript, size: ast.AST) -> bool:
        """Whether a node sets, by string, an attribute that a size depends on: with setattr(), vars() and similar."""
        attributes = {n.attr for n in walk(size) if isinstance(n, ast.Attribute)}
        if not attributes:
            return False
        if isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return not isinstance(node.ctx, ast.Load) and (key in attributes or (key is None and _is_names(node.value)))
        texts = {n.value for a in node.args for n in walk(a) if isinstance(n, ast.Constant)}
        if unparse(node.func) in ("setattr", "delattr") or calls_method(node, "__setattr__", "__delattr__"):
            return bool(texts & attributes) or not any(isinstance(a, ast.Constant) for a in node.args[:2])
        if not calls_method(node, "update", "__setitem__", "setdefault", "pop"):
            return attribute_set(self.tree, node) in attributes
        return bool((texts | {k.arg for k in node.keywords}) & attributes) or _is_names(node.func.value)

    @cached_property
    def counted(self) -> tuple[Loop, ...]:
        """Loops that a training run enters: rollout, GAE, epochs, minibatches."""
        p = self.phases
        return (*p.steps, *p.updates, *self.gae_loops)

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """Names of the networks whose parameters the optimizers hold."""
        roots = (path.partition(".")[0] for path in self.networks)
        return tuple(dict.fromkeys(root for root in roots if root.isidentifier()))

    @cached_property
    def target_networks(self) -> tuple[str, ...]:
        """Off-policy: further networks of the trained networks' classes that no optimizer holds."""
        if self.kind != "off-policy":
            return ()
        classes = {cls.name for cls in self.network_classes}
        made = (
            (name, self.tree.constructor(value)) for name in self._assignments for _, value in self.assignments(name)
        )
        found = (name for name, call in made if call is not None and unparse(call.func) in classes)
        return tuple(name for name in dict.fromkeys(found) if name not in self.modules)

    @cached_property
    def networks(self) -> tuple[str, ...]:
        """The networks whose parameters the optimizers hold, as written: `agent`, or a part such as `agent.actor`."""
        found: dict[str, None] = {}
        held: list[ast.AST] = [o.call for o in self.optimizers]
        for name in sorted(names_in(held)):  # params = list(agent.parameters()) + list(other.parameters())
            held += [value for _, value in self.assignments(name)]
        kept = {unparse(n) for o in self.optimizers for n in o.params if isinstance(n, ast.Attribute)}
        held += [s.value for s in self.tree.of(ast.Assign) if kept & {*map(unparse, s.targets)}]  # self.params = ...
        for value in held:
            for node in walk(value):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    if node.func.attr in ("parameters", "named_parameters"):
                        found[unparse(node.func.value)] = None
        for optimizer in self.optimizers:  # `model` for `self`, if `model.optimizer` is made in a method
            maker, owner = self.tree.scope_of(optimizer.stmt), optimizer.name.rpartition(".")[0]
            if isinstance(maker, ast.FunctionDef) and first_parameter(maker) in found and owner.isidentifier():
                found[owner] = None
        return tuple(found)

    @cached_property
    def with_parameters(self) -> frozenset[str]:
        """Objects whose parameters are accessed, as written, and the objects that contain them, except `self`."""
        found: set[str] = set()
        for node in self.tree.of(ast.Call):
            if calls_method(node, "parameters", "named_parameters"):
                path = unparse(node.func.value)
                found.update(path[: m.start()] for m in re.finditer(r"\.|$", path))
        return frozenset(found - {"self"})

    def hook(self, kind: str) -> ast.Call | None:
        """The first call that registers a hook of a kind: on a module's forward, or on gradients and steps.

        Args:
            kind: a regular expression for the text between `register_` and `hook`.
        """
        pattern, tree = re.compile(rf"register_({kind})hook"), self.tree
        named = ((c, tree.qualified(c.func) or unparse(c.func)) for c in tree.of(ast.Call))
        return next((call for call, name in named if pattern.fullmatch(name.rpartition(".")[2])), None)

    @cached_property
    def network_classes(self) -> tuple[ast.ClassDef, ...]:
        """The classes of the file that the trained networks and their parts belong to."""
        values = [value for name in self.modules for _, value in self.assignments(name)]
        made = [call for value in values if (call := self.tree.constructor(value)) is not None]
        classes = [self.tree.classes[unparse(call.func)] for call in made]
        return tuple(dict.fromkeys(used for cls in classes for used in self.tree.used_classes(cls)))

    def is_module(self, cls: ast.ClassDef) -> bool:
        """Whether a class of the file derives from a torch module, directly or through other classes of the file."""
        return self._networks.is_module(cls)

    def is_distribution(self, cls: ast.ClassDef) -> bool:
        """Whether a class of the file is derived from torch distributions: its methods may run whenever one is made."""
        names = [self.tree.qualified(base) or "" for base in cls.bases]
        return bool(names) and all(name.startswith(DISTRIBUTIONS) for name in names)

    @cached_property
    def policy_calls(self) -> list[ast.Call]:
        """The calls that choose the actions, by the name that the transform `policy` gave them."""
        return [n for n in self.tree.of(ast.Call) if unparse(n.func) == self.history.policy]

    @cached_property
    def liveness(self) -> Liveness:
        """Which names of the training scope are live after its statements."""
        return Liveness.of(self.scope.body, at_error=read_at_error(self.tree, self.scope))

    def reaching(self, scope: Scope) -> Reaching:
        """Which assignments reach the statements of a scope."""
        if scope not in self._reaching:
            self._reaching[scope] = Reaching(scope.body)
        return self._reaching[scope]

    def assignments(self, name: str) -> Sequence[tuple[ast.Assign, ast.expr]]:
        """Assignments to a name in the training scope, with the assigned values; if unpacked, the whole value."""
        return self._assignments.get(name, ())

    @cached_property
    def _assignments(self) -> dict[str, list[tuple[ast.Assign, ast.expr]]]:
        found: dict[str, list[tuple[ast.Assign, ast.expr]]] = {}
        for stmt in statements(self.scope.body):
            if isinstance(stmt, ast.Assign):
                for target, value in pairwise(stmt):
                    names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                    for name in dict.fromkeys(n.id for n in names if isinstance(n, ast.Name)):
                        found.setdefault(name, []).append((stmt, value))
        return found

    def only_value(self, name: str) -> ast.expr | None:
        """The value of a name of the training scope that is assigned exactly once."""
        made = [value for _, value in self.assignments(name)]
        return made[0] if len(made) == 1 and name not in self.variant else None

    def only_tested(self, name: str) -> bool:
        """Whether a name of the training scope is only tested for truth, in conditions."""
        for stmt in statements(self.scope.body):
            for node in walk(stmt):
                if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                    parent = self.tree.parents[node]
                    negated = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
                    if not negated and not isinstance(parent, (ast.If, ast.BoolOp, ast.IfExp)):
                        return False
        return True

    def spelled(self, node: ast.expr) -> str:
        """The text of an expression or, if it is a name for another expression, of that expression."""
        value = self.only_value(node.id) if isinstance(node, ast.Name) else None
        return unparse(value if isinstance(value, (ast.Name, ast.Attribute, ast.Constant)) else node)

    @cached_property
    def device(self) -> str | None:
        """The name of the device that the networks are moved to with `.to(device)`."""
        counts: dict[str, int] = {}
        for node in walk(self.scope):
            if calls_method(node, "to"):
                if node.args and isinstance(node.args[0], (ast.Name, ast.Attribute)):
                    text = unparse(node.args[0])
                    if not text.startswith("torch.") and self._means_here(node.args[0]):
                        counts[text] = counts.get(text, 0) + 1
        return max(counts, key=lambda k: counts[k]) if counts else None

    @property
    def device_type(self) -> str:
        """The expression for the type of `device`, such as "cuda"."""
        if self.device is None:
            return '"cpu"'
        made = self.only_value(self.device)
        is_device = made is not None and self.tree.calls(made, "torch.device")
        return f"{self.device}.type" if is_device else f"torch.device({self.device}).type"

    def _means_here(self, node: ast.expr) -> bool:
        """Whether an expression means the same at the training loop: not a method's `self.device`."""
        inside, name = self.tree.scope_of(node), unparse(node).partition(".")[0]
        if inside is self.scope or not isinstance(inside, ast.FunctionDef) or name not in parameters(inside):
            return True
        given = parameters(self.scope) if isinstance(self.scope, ast.FunctionDef) else ()
        return name in given or bool(self.assignments(name))


@dataclass(frozen=True)
class Phases:
    """The training loop and the two phases, which are in the same block of it."""

    loop: Loop
    block: list[ast.stmt]
    """The block that contains rollout, advantage estimation and update."""
    collect: ast.stmt
    """The statement of the block that steps the environment."""
    learn: ast.stmt
    """The statement of the block that steps the optimizer."""
    steps: tuple[Loop, ...]
    """Loops around the environment step inside `collect`, innermost first; empty once extracted."""
    updates: tuple[Loop, ...]
    """Loops around the optimizer step inside `learn`, innermost first."""
    env_step: ast.Call
    """The call that steps the environment, or that calls a function of this file that does."""
    opt_step: ast.Call
    """The first step of an optimizer."""
    regions: tuple[Region, ...] = ()
    """Off-policy, where `steps` and `updates` are empty: the regions of the updates."""
    replay: str | None = None
    """Off-policy: the name of the replay buffer."""

    @property
    def acting(self) -> list[ast.stmt]:
        """The statements of the block that choose actions and store steps: those above `learn`, or around it."""
        last = self.block.index(self.collect) if self.collect in self.block else 0
        learning = {self.learn, *(s for region in self.regions for s in region.statements)}
        return [s for s in self.block[: max(last + 1, self.block.index(self.learn))] if s not in learning]


ELSEWHERE = ast.Call(ast.Name("environment", ast.Load()), [], [])
"""Stands for an environment step outside the update's loops."""
NOTHING = ast.Pass()
"""Stands for the statement that contains ELSEWHERE."""


def _computes_gradients(loop: Loop) -> bool:
    return any(calls_method(node, "backward") for node in walk(loop))


def _is_names(node: ast.expr) -> bool:
    """Whether a node is the dictionary of an object's attributes."""
    if isinstance(node, ast.Call):
        return unparse(node.func) == "vars"
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _without_with(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, with `with` blocks replaced by their contents."""
    for stmt in block:
        yield from _without_with(stmt.body) if isinstance(stmt, ast.With) else [stmt]
