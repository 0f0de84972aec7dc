"""Scripts in which an option chooses the module to import a class from, if the default's module is given.

`if args.algo == "dqn": from agents.dqn import Agent`, `elif args.algo == "a2c": from agents.a2c import Agent`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from transformer.conversion.imported_files import named
from transformer.conversion.together.modules import File
from transformer.recognition.arguments import defaults
from transformer.syntax.tree import Tree, ast_lines


@dataclass(frozen=True)
class Chosen:
    """A script that imports what the option's default chooses, and stops for all other choices."""

    script: File
    """The script, with as many lines as the original."""
    unused: frozenset[int]
    """The numbers of the blank lines that fill up the place of the longer choice."""
    note: str


def with_default_import(script: File, given: Collection[Path]) -> Chosen | None:
    """The script with one import in place of a choice; None if there is none, or the default's module is not given."""
    tree = script.tree
    for stmt in tree.root.body:
        tests = _branches(stmt) if isinstance(stmt, ast.If) else None
        if not tests:
            continue
        option, texts = next(iter(tests))[0], {value: branch for (_, value), branch in tests.items()}
        default = next((value for value in defaults(tree, option.rpartition(".")[2]) if value in texts), None)
        ours = {v: b for v, b in texts.items() if default is not None and ast.dump(b) == ast.dump(texts[default])}
        others = [branch for value, branch in texts.items() if value not in ours]
        if default is None or "" in ours or any(_is_of(script, branch, given) for branch in others):
            continue
        if not _is_of(script, texts[default], given):
            continue
        lines, module = ast_lines(tree.code), ast.unparse(texts[default]).split()[1]
        first, last = stmt.lineno, stmt.end_lineno or stmt.lineno
        end = lines[first - 1][len(lines[first - 1].rstrip("\r\n")) :]
        values = list(ours)
        test = f"not in ({', '.join(values)})" if len(values) > 1 else f"!= {values[0]}"
        new = [
            f"if {option} {test}:",
            f'    raise SystemExit(f"converted for {module} alone: run the original for {{{option}}}")',
            ast.unparse(texts[default]),
        ]
        left = last - first + 1 - len(new)
        if left < 0 or any(s is not stmt and (s.lineno == last or s.end_lineno == first) for s in tree.root.body):
            continue
        text = [*lines[: first - 1], *(f"{line}{end}" for line in new), *[end] * left, *lines[last:]]
        names = " or ".join(dict.fromkeys(ast.unparse(b).split()[1] for b in others))
        other = f"with {names or 'another choice'} (line {first}) it ends with a message"
        note = f"the new file is for {module} alone: {other}"
        return Chosen(
            File(script.path, script.name, Tree("".join(text))), frozenset(range(first + len(new), last + 1)), note
        )
    return None


def _branches(stmt: ast.If) -> dict[tuple[str, str], ast.ImportFrom] | None:
    """The import that each value of an option chooses, by the option and the value as written; None for other code.

    The value of `else` is "".
    """
    found: dict[tuple[str, str], ast.ImportFrom] = {}
    branch: ast.stmt = stmt
    while isinstance(branch, ast.If):
        test, body = branch.test, branch.body
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq) or len(test.ops) > 1:
            return None
        compared = test.comparators[0]
        if not isinstance(test.left, ast.Attribute) or not isinstance(test.left.value, ast.Name):
            return None
        if not isinstance(compared, ast.Constant) or len(body) > 1 or not isinstance(body[0], ast.ImportFrom):
            return None
        found.setdefault((ast.unparse(test.left), ast.unparse(compared)), body[0])
        if not branch.orelse:
            break
        branch = branch.orelse[0] if len(branch.orelse) == 1 else ast.Pass()
        if isinstance(branch, ast.ImportFrom):
            found[ast.unparse(test.left), ""] = branch
        elif not isinstance(branch, ast.If):
            return None
    return found if len({option for option, _ in found}) == 1 else None


def _is_of(script: File, stmt: ast.ImportFrom, given: Collection[Path]) -> bool:
    """Whether an import refers to a given file."""
    return any(what.module in given for _, what in named(script.path, tuple(script.path.parents), stmt))
