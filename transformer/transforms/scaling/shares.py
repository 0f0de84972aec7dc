"""Which sizes depend on the number of environments, which of these a process divides, and its environments' seeds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from transformer.facts.libraries import library_does
from transformer.recognition.roles import Roles
from transformer.syntax.query import method, names_in, pairwise, root, statements, unparse, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.tree import Tree
from transformer.transforms.base import Skip
from transformer.values.reports import is_report

MAKING = frozenset(
    "zeros ones empty full rand randn randint arange randperm normal uniform reshape view split chunk expand repeat "
    "new_zeros new_ones new_full new_empty unflatten range TensorDict tile".split()
)
"""Functions and methods whose arguments are sizes of their result, or of parts of it."""
ARITHMETIC = (ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.Add, ast.Sub)


class Shares:
    """The sizes that are proportional to the number of environments, and where a process uses its share of them."""

    def __init__(self, roles: Roles, edits: Edits, rank: str, world: str) -> None:
        self._roles = roles
        self._edits = edits
        self._rank = rank
        self._world = world
        self.environment = _environment(roles)
        self._making = list(_making(roles, self.environment))
        self._counted = _counted(roles)
        self.number = self._number()
        self._sizes = {self.number}
        self._defined: dict[str, ast.expr] = {}
        self._find_sizes()
        self._given = self._minibatches()
        self._sizes |= self._given
        self.divided: dict[str, None] = {self.number: None}
        """Sizes of which a process uses its share, as written; each must be a multiple of the number of processes."""

    def divide(self) -> None:
        """Make each process use its share of the environments, minibatches and seeds.

        Raises:
            Skip: it is not known what a size or a seed is used for.
        """
        for node in self._reads_of_sizes():
            self._divide(node)
        self._count_steps_of_all()
        self._seed_environments()

    def sources(self) -> list[str]:
        """The divided sizes that are not products of others; these are to be checked."""
        return [s for s in self.divided if not self._is_product(self._defined.get(s))]

    def _is_product(self, value: ast.expr | None) -> bool:
        """Whether a size has another divided size as a factor: then it is divisible if the other one is."""
        while isinstance(value, ast.Call) and unparse(value.func) == "int" and len(value.args) == 1:
            value = value.args[0]
        if isinstance(value, (ast.Name, ast.Attribute)):
            return unparse(value) in self._sizes
        if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
            return False
        return any(unparse(side) in self._sizes or self._is_product(side) for side in (value.left, value.right))

    def _number(self) -> str:
        """The number of environments, as written.

        Raises:
            Skip: it is not known.
        """
        found = {unparse(n) for value in self._making for n in _counts(value, self._counted)}
        if len(found) != 1:
            raise Skip(f"the number of environments in {self.environment} is not known: give it a name")
        return found.pop()

    def _find_sizes(self) -> None:
        """Find the names of sizes that are proportional to the number of environments."""
        tree = self._roles.tree
        known = 0
        while len(self._sizes) > known:
            known = len(self._sizes)
            for stmt in tree.of(ast.Assign):
                for target, value in pairwise(stmt):
                    if not isinstance(target, (ast.Name, ast.Attribute)) or root(target) == self.environment:
                        continue
                    if isinstance(target, ast.Name) and not self._roles.is_ours(target):
                        continue
                    if self._degree(value) == 1:
                        self._sizes.add(unparse(target))
                        self._defined[unparse(target)] = value
            self._find_properties()

    def _find_properties(self) -> None:
        """Find such sizes among properties: `cfg.n_samples`, computed from `self.n_workers`."""
        owners = {(root(ast.parse(s, mode="eval").body), s.rpartition(".")[2]) for s in self._sizes if "." in s}
        for function in self._roles.tree.of(ast.FunctionDef):
            if not any(unparse(d) == "property" for d in function.decorator_list):
                continue
            returned = [s.value for s in statements(function.body) if isinstance(s, ast.Return)]
            for owner, _ in owners:
                own = {f"self.{name}" for o, name in owners if o == owner}
                if len(returned) == 1 and returned[0] is not None and self._degree(returned[0], own) == 1:
                    self._sizes.add(f"{owner}.{function.name}")
                    self._defined[f"{owner}.{function.name}"] = returned[0]

    def _minibatches(self) -> set[str]:
        """The sizes of minibatches that do not follow from the number of environments."""
        found = set()
        for loop in self._roles.phases.updates:
            for node in walk(loop.iter) if isinstance(loop, ast.For) else ():
                if not isinstance(node, ast.Call):
                    continue
                size = node.args[2] if unparse(node.func) == "range" and len(node.args) == 3 else None
                size = node.args[0] if method(node) == "split" and node.args else size
                if isinstance(size, (ast.Name, ast.Attribute)):
                    found.add(unparse(size))
        return found - self._sizes

    def _degree(self, value: ast.expr, sizes: set[str] | None = None) -> int | None:
        """The power of the number of environments that a value is proportional to; None if not known."""
        sizes = self._sizes if sizes is None else sizes
        if isinstance(value, (ast.Name, ast.Attribute)):
            return int(unparse(value) in sizes)
        if isinstance(value, ast.Constant):
            return 0
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Mult, ast.Div, ast.FloorDiv)):
            left, right = self._degree(value.left, sizes), self._degree(value.right, sizes)
            if left is None or right is None:
                return None
            return left + right if isinstance(value.op, ast.Mult) else left - right
        if isinstance(value, ast.Call) and unparse(value.func) in ("int", "round") and len(value.args) == 1:
            return self._degree(value.args[0], sizes)
        return None if any(unparse(n) in sizes for n in walk(value) if isinstance(n, ast.expr)) else 0

    def _reads_of_sizes(self) -> Iterator[ast.expr]:
        for node in self._roles.tree.nodes:
            if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
                continue
            if unparse(node) in self._sizes and not (isinstance(node, ast.Name) and not self._roles.is_ours(node)):
                yield node

    def _divide(self, node: ast.expr) -> None:
        """Replace a size by a process's share, unless it refers to all processes.

        Raises:
            Skip: it is not known whether it does.
        """
        tree = self._roles.tree
        around = [node, *tree.ancestors(node)]
        top: ast.AST = node
        for outer in around[1:]:
            number = isinstance(outer, ast.Call) and unparse(outer.func) in ("int", "round")
            if not number and not (isinstance(outer, ast.BinOp) and isinstance(outer.op, ARITHMETIC)):
                break
            top = outer
        stmt = tree.statement(node)
        parent = tree.parents[top]
        made = next((i for i, n in enumerate(around) if isinstance(n, ast.Call) and _name(n) in MAKING), len(around))
        if any(isinstance(n, (ast.JoinedStr, ast.Assert)) or is_report(tree, n) for n in around[:made]):
            return  # prints and assertions refer to all processes
        if isinstance(stmt, ast.AugAssign) and stmt.value is top:
            if isinstance(stmt.target, ast.Name) and stmt.target.id == self._roles.step_counter:
                return  # the counter counts the steps of all processes
        if isinstance(parent, ast.Compare) and all(self._is_size(n) for n in (parent.left, *parent.comparators)):
            return  # comparisons of sizes hold for shares too
        if isinstance(stmt, (ast.Return, ast.Assign)) and self._is_told_of_all(stmt, node, top):
            return
        if (index := self._counted_by(node)) is not None:
            first, end = f"{self._rank} * {unparse(node)}", f"({self._rank} + 1) * {unparse(node)}"
            self._edits.substitute(index, f"range({first} // {self._world}, {end} // {self._world})")
            return
        if not self._is_share(around, top, stmt):
            raise Skip(f"line {node.lineno}: it is not known whether {unparse(node)} counts for one process or for all")
        self.divided[unparse(node)] = None
        share = f"{unparse(node)} // {self._world}"
        self._edits.substitute(node, f"({share})" if isinstance(tree.parents[node], ast.BinOp) else share)

    def _is_size(self, node: ast.expr) -> bool:
        """Whether an expression is made only of sizes, numbers and options."""
        names = {n.id for n in walk(node) if isinstance(n, ast.Name)}
        return not names & self._roles.variant and not any(isinstance(n, ast.Call) for n in walk(node))

    def _is_told_of_all(self, stmt: ast.Return | ast.Assign, node: ast.expr, top: ast.AST) -> bool:
        """Whether a size is used to compute another size, or a number of iterations: both refer to all processes."""
        if isinstance(stmt, ast.Return):
            function = self._roles.tree.scope_of(stmt)
            return isinstance(function, ast.FunctionDef) and any(
                unparse(d) == "property" for d in function.decorator_list
            )
        for target, value in pairwise(stmt):
            if value is top or any(n is node for n in walk(value)):
                if root(target) == self.environment:
                    return False
                computed = self._degree(value)
                return computed is not None and isinstance(target, (ast.Name, ast.Attribute))
        return False

    def _counted_by(self, node: ast.expr) -> ast.expr | None:
        """The `range(n)` of the comprehension that makes the environments, or their seeds; None for other uses."""
        tree = self._roles.tree
        call = tree.parents[node]
        if not isinstance(call, ast.Call) or unparse(call.func) != "range" or len(call.args) != 1:
            return None
        made = any(node is n for value in self._making for n in _counts(value, self._counted))
        seeds = any(isinstance(n, ast.keyword) and n.arg == "seed" for n in tree.ancestors(node))
        return call if isinstance(tree.parents[call], ast.comprehension) and (made or seeds) else None

    def _is_share(self, around: Sequence[ast.AST], top: ast.AST, stmt: ast.stmt) -> bool:
        """Whether a size is the number of environments to make, or a size of an array with a row for each of them."""
        if any(around[0] is n for value in self._making for n in _counts(value, self._counted)):
            return True
        if isinstance(stmt, ast.Assign) and root(stmt.targets[0]) == self.environment and stmt.value is top:
            return True  # envs.num_envs = args.num_envs
        place = around.index(top)
        outer = around[place + 1]
        while isinstance(outer, (ast.Tuple, ast.List, ast.Starred, ast.keyword)) or (
            isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add)  # (steps, envs) + shape
        ):
            place += 1
            outer = around[place + 1]
        if isinstance(outer, ast.Call):
            return _name(outer) in MAKING
        return isinstance(outer, ast.Assign) and isinstance(around[place], (ast.Tuple, ast.BinOp)) and place > 0

    def _count_steps_of_all(self) -> None:
        """Count the steps of all processes, not only this one's."""
        counter = self._roles.step_counter
        for stmt in self._roles.tree.of(ast.AugAssign):
            if isinstance(stmt.target, ast.Name) and stmt.target.id == counter and self._degree(stmt.value) != 1:
                if self._degree(stmt.value) is None:
                    raise Skip(f"line {stmt.lineno}: it is not known which steps are counted")
                text = self._roles.tree.text(stmt.value)
                whole = text if isinstance(stmt.value, (ast.Name, ast.Attribute, ast.Call)) else f"({text})"
                self._edits.substitute(stmt.value, f"{whole} * {self._world}")

    def seeds(self) -> list[tuple[str, str]]:
        """The calls above the training loop that seed generators: each function and its seed, as written."""
        found = []
        for stmt in statements(self._roles.setup):
            if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call):
                if _seeds(self._roles.tree, stmt.value) and len(stmt.value.args) == 1:
                    text = self._roles.tree.text
                    found.append((text(stmt.value.func), text(stmt.value.args[0])))
        return found

    def _seed_environments(self) -> None:
        """Give the environments of each process the seeds that follow those of the processes before it.

        Raises:
            Skip: it is not known what a seed is used for.
        """
        tree = self._roles.tree
        seeds = {seed for _, seed in self.seeds()}
        below = set(self._below())
        seen: set[ast.AST] = set()
        for call in tree.of(ast.Call):
            resets = method(call) == "reset" and root(call.func) == self.environment
            makes = any(call is n for value in self._making for n in walk(value))
            for keyword in call.keywords if resets or makes else ():
                if keyword.arg == "seed":
                    seen.update(n for n in walk(keyword.value))
                    self._shift(keyword.value)
            if _seeds(tree, call):
                seen.update(n for n in walk(call))
        for value in self._making:
            for node in walk(value):
                if isinstance(node, ast.ListComp):
                    indexed = names_in([node.generators[0].target])
                    sums = (n for n in walk(node.elt) if isinstance(n, ast.BinOp) and names_in([n]) & indexed)
                    seen.update(n for total in sums for n in walk(total))
        for node in tree.nodes:
            if not isinstance(node, ast.expr) or node in seen | below or unparse(node) not in seeds:
                continue
            if isinstance(node, ast.Constant) or not isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            if any(isinstance(n, ast.JoinedStr) or is_report(tree, n) for n in tree.ancestors(node)):
                continue
            raise Skip(
                f"line {node.lineno}: it is not known what {unparse(node)} seeds, and whether once or per environment"
            )

    def _below(self) -> Iterator[ast.AST]:
        """The nodes below the training loop, and those of functions named only there."""
        block = self._roles.tree.block(self._roles.outermost)
        after = block[block.index(self._roles.outermost) + 1 :]
        inside = [n for stmt in after for n in walk(stmt)]
        yield from inside
        named = set(inside)
        for function in self._roles.tree.of(ast.FunctionDef):
            uses = [n for n in self._roles.tree.of(ast.Name) if n.id == function.name]
            if uses and all(n in named for n in uses):
                yield from walk(function)

    def _shift(self, seed: ast.expr) -> None:
        if isinstance(seed, (ast.ListComp, ast.GeneratorExp)):
            return  # its range already covers only this process's environments
        if not isinstance(seed, (ast.Name, ast.Attribute, ast.Constant, ast.BinOp)):
            raise Skip(f"line {seed.lineno}: it is not known which seeds the environments get")
        if isinstance(seed, ast.Constant) and seed.value is None:
            return
        first = f"{self._rank} * ({self.number} // {self._world})"
        self._edits.substitute(seed, f"{self._roles.tree.text(seed)} + {first}")


def _environment(roles: Roles) -> str:
    """The name of the environment that the rollout steps.

    Raises:
        Skip: it has no name.
    """
    rollout = roles.history.functions.get("rollout")
    place = roles.tree.definition(rollout.name) if rollout else roles.rollout
    steps = [n for n in walk(place) if roles.is_step(n) and n.args] if place is not None else []
    names = {unparse(step.func.value) for step in steps if isinstance(step.func, ast.Attribute)}
    if len(names) != 1 or not next(iter(names)).isidentifier():
        raise Skip("the rollout does not step one named environment")
    return names.pop()


def _making(roles: Roles, environment: str) -> Iterator[ast.expr]:
    """The expressions that make the environment, and the lists that it is made from, above the training loop."""
    names = [environment]
    for name in names:
        for stmt, value in roles.assignments(name):
            if stmt in statements(roles.setup):
                yield value
                names += [n for n in sorted(names_in([value])) if n not in names and n in _lists(roles)]


def _lists(roles: Roles) -> set[str]:
    """Names of lists that are made above the training loop."""
    made = (s for s in statements(roles.setup) if isinstance(s, ast.Assign))
    pairs = (pair for s in made for pair in pairwise(s))
    return {t.id for t, v in pairs if isinstance(t, ast.Name) and isinstance(v, (ast.ListComp, ast.List, ast.BinOp))}


def _counted(roles: Roles) -> str | None:
    """The increment of the step counter at each step, as written."""
    raised = {
        unparse(s.value)
        for s in roles.tree.of(ast.AugAssign)
        if isinstance(s.target, ast.Name) and s.target.id == roles.step_counter
    }
    return raised.pop() if len(raised) == 1 else None


def _counts(value: ast.expr, counted: str | None) -> Iterator[ast.expr]:
    """The names and attributes that give the number of environments in an expression that makes these."""
    for node in walk(value):
        found: list[ast.expr] = []
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            iterated = node.generators[0].iter
            if isinstance(iterated, ast.Call) and unparse(iterated.func) == "range" and len(iterated.args) == 1:
                found = iterated.args
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            found = [node.right] if isinstance(node.left, (ast.List, ast.Name)) else []
        elif isinstance(node, ast.keyword) and node.arg == "num_envs":
            found = [node.value]
        elif isinstance(node, ast.Call):
            found = [a for a in node.args if unparse(a) == counted]
        yield from (n for n in found if isinstance(n, (ast.Name, ast.Attribute)))


def _name(call: ast.Call) -> str:
    """The last part of a callee's name."""
    return unparse(call.func).rpartition(".")[2]


def _seeds(tree: Tree, call: ast.Call) -> bool:
    """Whether a call seeds a generator."""
    return library_does(tree.qualified(call.func) or "") == "seeds"
