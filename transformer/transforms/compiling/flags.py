"""Add the flag `compile` to the script's own arguments, or parse it separately."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from transformer.dataflow.own_compiling import own_compiling
from transformer.facts.libraries import role
from transformer.recognition.arguments import destination
from transformer.recognition.history import Asked
from transformer.recognition.roles import Roles
from transformer.state import State
from transformer.syntax.imports import add_below_imports, add_imports, is_standard
from transformer.syntax.options import PARSING, holds_options
from transformer.syntax.query import calls_method, is_none, is_text_line, statements, walk
from transformer.syntax.rewrite import Edits
from transformer.syntax.templates import render
from transformer.syntax.tree import Tree
from transformer.transforms.base import ALL, Rewrite, Skip, Transform, TransformInfo
from transformer.transforms.compiling.all_options import computed_with
from transformer.values.reports import is_in_report

INFO = TransformInfo(
    name="flags",
    brief="--compile",
    summary="add --compile to the script's own arguments",
    applies=(
        "to any script that compiles nothing itself and of which something is compiled. The flag is added to arguments "
        "that argparse or tyro define in a known way; otherwise it is parsed separately"
    ),
    safety=(
        "The new argument is off by default and nothing reads it yet, so the script runs as before. If the script "
        "defines no arguments to which the flag could be added, or computes with all of them at once, as a hash does, "
        "the flag is removed from the command line before anything else reads it. Code that logs, prints or saves all "
        "arguments shows the new one, too."
    ),
    costs="Without the flag nothing can be compiled: remove the script's own calls of torch.compile.",
    needs=(),
    before="@dataclass\nclass Args:\n    seed: int = 1",
    after=("@dataclass\nclass Args:\n    seed: int = 1\n    compile: bool = False"),
    prepares=True,
)

PLAIN = frozenset(
    "prog usage description epilog formatter_class add_help allow_abbrev conflict_handler fromfile_prefix_chars "
    "exit_on_error".split()
)
"""Arguments of `argparse.ArgumentParser` that do not affect how a flag is parsed."""


def _wanted(asked: Asked, roles: Roles) -> list[str]:
    """The flags to add; the speed is measured only in on-policy scripts."""
    measured = "measure" in asked.transforms and roles.kind == "on-policy"
    return ["compile", "measure_burnin"] if measured else ["compile"]


@dataclass(frozen=True)
class Definition:
    """The definition of arguments: the statement to add after, the defined names, and the style of flags."""

    last: ast.stmt
    fields: frozenset[str]
    template: str
    values: dict[str, str]


def apply(state: State) -> Rewrite:
    """Add the flags, and record the expressions that read them.

    Raises:
        Skip: the script compiles something itself.
    """
    compiling = own_compiling(state.tree)
    if compiling is not None:
        raise Skip(f"line {compiling.lineno} already uses torch.compile")
    edits, wanted = Edits(state.source), _wanted(state.history.asked, state.roles)
    read = _join(state, edits, wanted)
    notes: list[str] = []
    if read is not None:
        if (saved := _saved(state.tree)) is not None:
            notes.append(f"line {saved.lineno} keeps all arguments, and the new flags with them")
    else:
        if alone := not _may_read_arguments(state.tree):
            notes.append("the script reads no arguments: the new file accepts these flags alone")
        reader, flags = _beside(state.tree, edits, wanted, alone=alone)
        read = {flag: f"{reader}.{name}" for flag, name in flags.items()}
    added = [f"--{flag}" for flag in read]
    return Rewrite(edits, replace(state.history, flags=read), tuple(notes), brief=" and ".join(added))


def _saved(tree: Tree) -> ast.Call | None:
    """Where all arguments are stored outside a log, such as in a checkpoint."""
    for call in tree.of(ast.Call):
        if len(call.args) == 1 and (tree.names.builtin(call.func) == "vars" or tree.calls(call, "dataclasses.asdict")):
            if not is_in_report(tree, call) and holds_options(tree, call.args[0], tree.scope_of(call)):
                return call
    return None


def _join(state: State, edits: Edits, wanted: Sequence[str], **said: str) -> dict[str, str] | None:
    """Add flags to the script's own arguments; returns the expression that reads each, or None if it cannot."""
    if computed_with(state.tree) is not None:
        return None
    definition = _dataclass(state.tree) or _argparse(state.tree)
    reader = _reader(state.roles, definition.fields) if definition else None
    if definition is None or reader is None:
        return None
    # `hasattr(args, "compile")` asks whether the script has such an option
    asked = {node.value for node in state.tree.of(ast.Constant) if isinstance(node.value, str)}
    flags = _flag_names(wanted, definition.fields | asked | {node.attr for node in state.tree.attributes_set()})
    edits.after(definition.last, render(definition.template, names=flags, **said, **definition.values))
    return {flag: f"{reader}.{name}" for flag, name in flags.items()}


def add_flag(state: State, edits: Edits, flag: str, **said: str) -> str | None:
    """Add one more flag to those that this transform added, or to the script's own arguments.

    Args:
        state: the script.
        edits: where to add it.
        flag: its name.
        said: what its help says.

    Returns:
        The expression that reads it; None if it can be added to neither.
    """
    tree, joined = state.tree, _join(state, edits, [flag], **said)
    if joined is not None:
        return joined[flag]
    for read in state.history.flags.values():  # parsed separately
        reader, _, last = read.rpartition(".")
        for node in tree.of(ast.Call):
            if calls_method(node, "add_argument") and destination(node) == last:
                taken = {str(n.value)[2:].replace("-", "_") for n in tree.nodes if _is_option(n)}
                names = _flag_names([flag], taken)
                code = render("flags_argparse", parser=tree.text(node.func.value), names=names, **said)
                edits.after(tree.statement(node), code)
                return f"{reader}.{names[flag]}"
    return None


def reword(tree: Tree, edits: Edits, said: Mapping[str, str]) -> None:
    """Replace words in the help of flags: in a string, or in the comment beside a field."""
    lines = tree.code.splitlines()
    for node in tree.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for old, new in said.items():
                if old in node.value:
                    edits.substitute(node, tree.text(node).replace(old, new))
        elif isinstance(node, ast.AnnAssign) and isinstance(tree.parents[node], ast.ClassDef):
            for old, new in said.items():
                if lines[node.lineno - 1].endswith(f"# {old}"):
                    edits.move(node, f"{tree.text(node)}  # {new}")  # replace() would keep the old comment


def _flag_names(wanted: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """The names of the flags, given the arguments whose names are taken."""
    return {flag: flag if flag not in taken else f"lean_{flag}" for flag in wanted}


def _beside(tree: Tree, edits: Edits, wanted: Sequence[str], *, alone: bool) -> tuple[str, dict[str, str]]:
    """Parse the flags separately, below the imports; returns the name that holds them, and their names.

    `alone` says that nothing else reads the command line.
    """
    taken = {str(n.value)[2:].replace("-", "_") for n in tree.nodes if _is_option(n)}
    taken |= {n.arg for n in tree.of(ast.arg)}
    taken |= {ast.unparse(n.target) for n in tree.of(ast.AnnAssign)}
    flags, names = tree.names.fresh("flags"), _flag_names(wanted, taken)
    options = render("flags_argparse", parser=flags, names=names)
    add_imports(tree.root, edits, "import argparse", *(() if alone else ("import sys",)))
    add_below_imports(tree.root, edits, render("flags_own", flags=flags, options=options, alone=alone))
    return flags, names


def _may_read_arguments(tree: Tree) -> bool:
    """Whether the script, or a module that it imports, may read the command line."""
    modules = [alias.name for stmt in tree.of(ast.Import) for alias in stmt.names]
    modules += ["." * stmt.level + (stmt.module or "") for stmt in tree.of(ast.ImportFrom)]
    known = (role(m) not in (None, "options") or (is_standard(m) and role(m) is None) for m in modules)
    used = (
        {n.id for n in tree.of(ast.Name)}
        | {n.attr for n in tree.of(ast.Attribute)}
        | {n.name for n in tree.of(ast.alias)}
    )
    return not all(known) or not used.isdisjoint(("argv", "orig_argv", "importlib", "__import__", "exec"))


def _is_option(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--")


def _dataclass(tree: Tree) -> Definition | None:
    classes = {n.name: n for n in tree.root.body if isinstance(n, ast.ClassDef)}
    for call in walk(tree.root):
        if tree.calls(call, "tyro.cli") and isinstance(call, ast.Call) and call.args:
            if not _parses_command_line(call.args[1:], call.keywords):
                return None
            cls = classes.get(ast.unparse(call.args[0]))
            fields = [s for s in cls.body if isinstance(s, ast.AnnAssign)] if cls else []
            if cls is None or not fields:
                continue
            last = cls.body[cls.body.index(fields[-1])]
            following = cls.body[cls.body.index(last) + 1 :][:1]
            documented = any(is_text_line(s) for s in cls.body[1:])
            if following and is_text_line(following[0]):
                last = following[0]
            names = frozenset(ast.unparse(f.target) for f in fields)
            return Definition(last, names, "flags_dataclass", {"documented": "yes" if documented else ""})
    return None


def _argparse(tree: Tree) -> Definition | None:
    parsers = {}
    for node in tree.of(ast.Assign):
        if tree.calls(node.value, "argparse.ArgumentParser"):
            parsers[ast.unparse(node.targets[0])] = node
    for parser, made in parsers.items():
        added = [
            s
            for s in statements(tree.scope_of(made).body)
            if isinstance(s, ast.Expr)
            and calls_method(s.value, "add_argument")
            and ast.unparse(s.value.func.value) == parser
        ]
        if added and _is_plain_parser(tree, parser, made):
            names = frozenset(filter(None, (destination(s.value) for s in added if isinstance(s.value, ast.Call))))
            anchors: list[ast.stmt] = [made, *(s for s in added if s in tree.block(made))]
            return Definition(anchors[-1], names, "flags_argparse", {"parser": parser})
    return None


def _is_plain_parser(tree: Tree, parser: str, made: ast.Assign) -> bool:
    """Whether a parser parses the command line into a new object, in which a flag that is not given is False."""
    assert isinstance(made.value, ast.Call)
    asked = {k.arg for k in made.value.keywords}
    calls = [c for c in tree.of(ast.Call) if isinstance(c.func, ast.Attribute) and c.func.attr in PARSING]
    parses = [c for c in calls if isinstance(c.func, ast.Attribute) and ast.unparse(c.func.value) == parser]
    return asked <= PLAIN and all(_parses_command_line(c.args, c.keywords) for c in parses)


def _parses_command_line(given: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> bool:
    """Whether a call may parse the command line into a new object: its arguments are no list that is written out."""
    named = {k.arg: k.value for k in keywords}
    args = [*given[:1], *(value for name, value in named.items() if name == "args")]
    namespace = [*given[1:2], *(value for name, value in named.items() if name == "namespace")]
    return not any(isinstance(a, (ast.List, ast.Tuple)) for a in args) and all(is_none(n) for n in namespace)


def _reader(roles: Roles, fields: frozenset[str]) -> str | None:
    """The expression in the training scope from which most arguments are read; it must hold the parsed arguments."""
    tree = roles.tree
    counts: dict[str, int] = {}
    values: dict[str, ast.expr] = {}
    for node in tree.of(ast.Attribute):
        if node.attr not in fields:
            continue
        if isinstance(node.value, (ast.Name, ast.Attribute)) and tree.scope_of(node) is roles.scope:
            reader = ast.unparse(node.value)
            values[reader] = node.value
            counts[reader] = counts.get(reader, 0) + 1
    parsed = [reader for reader in sorted(counts) if holds_options(tree, values[reader], roles.scope)]
    return max(parsed, key=lambda k: counts[k]) if parsed else None


TRANSFORM = Transform(INFO, apply, ALL)
