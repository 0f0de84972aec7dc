"""The work that one process does for all: logging, tracking, recording videos, saving."""

from __future__ import annotations

import ast

from transformer.facts.libraries import REPORTS, role
from transformer.recognition.roles import Roles
from transformer.syntax.query import last_written, root, unparse, walk
from transformer.syntax.rewrite import Edits
from transformer.transforms.base import Skip
from transformer.values.reports import is_logger

TRACKING = frozenset("wandb mlflow comet_ml neptune swanlab".split())
VIDEOS = frozenset("RecordVideo Monitor VecVideoRecorder VideoRecorder".split())
SAVING = frozenset(
    "save save_model save_pretrained savez savetxt dump to_csv to_json write_text write_bytes mkdir makedirs symlink "
    "copy copyfile copytree rmtree remove unlink rename replace tofile".split()
)
"""Functions and methods that may write files."""
MODULES = frozenset("torch numpy pickle json yaml shutil os pathlib cloudpickle joblib csv".split())


class RankZero:
    """Leaves the work that only one process may do to the process of rank 0."""

    def __init__(self, roles: Roles, edits: Edits, rank: str, silent: str) -> None:
        self._roles = roles
        self._edits = edits
        self._rank = rank
        self._silent = silent
        self._under: set[ast.If] = set()
        self._videos: set[ast.If] = set()
        """The `if` statements that wrap an environment in a video recorder; other processes skip them."""
        self.silenced = False
        """Whether another object replaces a logger in the other processes."""

    def leave(self) -> None:
        """Give the other processes a logger that logs nothing, and no tracking, videos or files.

        Raises:
            Skip: one of these is used in an unknown way.
        """
        self._silence_writers()
        self._guard_tracking()
        self._guard_videos()
        self._guard_files()
        self._check_names()

    def _silence_writers(self) -> None:
        tree = self._roles.tree
        for call in tree.of(ast.Call):
            made = tree.qualified(call.func) or ""
            if role(made) != "reports" or not made.endswith(".SummaryWriter"):
                continue
            parent = tree.parents[call]
            if not isinstance(parent, (ast.Assign, ast.IfExp)):
                raise Skip(f"line {call.lineno} makes a writer without a name")
            text = f"{tree.text(call)} if {self._rank} == 0 else {self._silent}()"
            self._edits.substitute(call, text if isinstance(parent, ast.Assign) else f"({text})")
            self.silenced = True
        below = self._below
        for node in tree.of(ast.Attribute):
            known = node.attr in REPORTS | {"close", "flush"} or node.attr.startswith("add_")
            if isinstance(node.value, ast.Name) and is_logger(tree, node.value) and not known:
                if not self._is_import(node.value) and node not in below:
                    raise Skip(f"line {node.lineno}: {unparse(node)} belongs to a logger that only one process has")

    def _check_names(self) -> None:
        """Check that names bound only in the first process are read only there.

        Raises:
            Skip: one may be read in others.
        """
        own = {n for stmt in self._under for n in walk(stmt)} | self._below
        for stmt in self._under - self._videos:
            bound = {n.id for n in walk(stmt) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            for node in self._roles.tree.of(ast.Name):
                if node.id in bound and isinstance(node.ctx, ast.Load) and node not in own:
                    if self._roles.is_ours(node):
                        raise Skip(f"line {node.lineno}: {node.id} is bound in only one process")

    @property
    def _below(self) -> set[ast.AST]:
        """The nodes below the training loop, which other processes do not run."""
        block = self._roles.tree.block(self._roles.outermost)
        return {n for s in block[block.index(self._roles.outermost) + 1 :] for n in walk(s)}

    def _is_import(self, node: ast.Name) -> bool:
        return node.id in self._roles.tree.imports

    def _guard_tracking(self) -> None:
        """Import, start, feed and end a tracker only in the first process."""
        tree, below = self._roles.tree, self._below
        for node in tree.nodes:
            used = (
                isinstance(node, ast.Name)
                and node not in below
                and (tree.imports.get(node.id) or node.id).split(".")[0] in TRACKING
            )
            if used and isinstance(node, ast.Name):
                self._guard(node, "the tracker")

    def _guard_videos(self) -> None:
        tree = self._roles.tree
        for call in tree.of(ast.Call):
            if unparse(call.func).rpartition(".")[2] not in VIDEOS:
                continue
            around = [n for n in tree.ancestors(call) if isinstance(n, ast.If)]
            if not around:
                raise Skip(f"line {call.lineno} records videos in all processes")
            if not any(_is_first(n) for test in around for n in walk(test.test)):
                self._restrict(around[0])
                self._videos.add(around[0])

    def _guard_files(self) -> None:
        """Write files only in the first process; it alone runs the code below the training loop anyway."""
        tree, below = self._roles.tree, self._below
        for call in tree.of(ast.Call):
            if call not in below and self._writes(call) and self._runs_in_training(call):
                self._guard(call, "the file")

    def _runs_in_training(self, call: ast.Call) -> bool:
        scope = self._roles.tree.scope_of(call)
        return scope is self._roles.scope or call in self._roles.run_by_training

    def _writes(self, call: ast.Call) -> bool:
        name = unparse(call.func).rpartition(".")[2]
        if name == "open":
            modes = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]
            return any(not isinstance(m, ast.Constant) or set(str(m.value)) & set("wax+") for m in modes)
        if name not in SAVING:
            return False
        qualified = self._roles.tree.qualified(call.func)
        if qualified is not None:
            return qualified.split(".")[0] in MODULES and qualified not in ("os.replace.", "numpy.copy")
        return name not in ("copy", "replace", "remove", "rename", "dump") or root(call.func) in self._roles.modules

    def _guard(self, node: ast.expr, what: str) -> None:
        """Make the statement of a node, or the `if` around it, run only in the first process.

        Raises:
            Skip: other statements may need the names that it binds.
        """
        tree = self._roles.tree
        around = [n for n in tree.ancestors(node) if isinstance(n, ast.If) and self._is_for_rank_zero(n)]
        if any(n in self._under for n in around):
            return
        if around:
            self._restrict(around[0])
            return
        stmt = tree.statement(node)
        function = tree.scope_of(node)
        if isinstance(function, ast.FunctionDef) and function is not self._roles.scope:
            uses = [n for n in tree.of(ast.Name) if n.id == function.name and n not in self._below]
            calls = [tree.parents[n] for n in uses]
            if uses and all(
                isinstance(tree.parents[c], ast.Expr) and tree.scope_of(c) is self._roles.scope for c in calls
            ):
                for name in uses:
                    self._guard(name, what)
                return
            raise Skip(f"line {node.lineno}: {what} belongs to only one process, but this function may run in all")
        if not isinstance(stmt, ast.Expr):
            raise Skip(f"line {node.lineno}: {what} belongs to only one process, but more than a call depends on it")
        self._edits.replace(stmt, f"if {self._rank} == 0:\n    {tree.text(stmt)}")

    def _is_for_rank_zero(self, stmt: ast.If) -> bool:
        """Whether an `if` without an else contains nothing that other processes need: no jump, no update."""
        if stmt.orelse or any(isinstance(n, (ast.Break, ast.Continue, ast.Return)) for n in walk(stmt)):
            return False
        holds_loop = self._roles.outermost in walk(stmt)
        return not holds_loop and not any(step in walk(stmt) for step in self._roles.optimizer_steps)

    def _restrict(self, stmt: ast.If) -> None:
        if stmt in self._under:
            return
        self._under.add(stmt)
        text = self._roles.tree.text(stmt.test)
        text = f"({text})" if isinstance(stmt.test, (ast.BoolOp, ast.IfExp)) and _is_or(stmt.test) else text
        self._edits.substitute(stmt.test, f"{self._rank} == 0 and {text}")

    def unshared(self) -> None:
        """Check that nothing learns from data without gradients, as running statistics do: each process has its own.

        Raises:
            Skip: something does.
        """
        tree = self._roles.tree
        for node in tree.nodes:
            name = last_written(node)
            if name.startswith(("BatchNorm", "SyncBatchNorm", "LazyBatchNorm", "RunningMeanStd")):
                raise Skip(f"line {node.lineno}: {name} would learn from only one process's steps")  # type: ignore[attr-defined]

    def wrappers(self) -> list[str]:
        """The names of wrappers of environments that normalise by running statistics."""
        names = {unparse(c.func).rpartition(".")[2] for c in self._roles.tree.of(ast.Call)}
        return sorted(n for n in names if n in ("NormalizeObservation", "NormalizeReward", "VecNormalize"))


def _is_first(node: ast.AST) -> bool:
    """Whether a node compares an index with 0."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq):
        return False
    return isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value == 0


def _is_or(test: ast.expr) -> bool:
    return isinstance(test, ast.IfExp) or (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or))
