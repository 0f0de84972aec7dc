"""Convert several scripts in parallel, in processes of their own."""

from __future__ import annotations

import ast
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from transformer.conversion.of_file import STDIN, convert_script
from transformer.conversion.result import Conversion
from transformer.recognition.arguments import is_other_choice
from transformer.syntax.text import Text
from transformer.syntax.tree import Tree

Converted: TypeAlias = Callable[[], tuple[Text, Conversion]]
"""A function that waits for the result of `convert_script` for one script, or raises its error."""
FEW = 4
"""The number of scripts that one process converts in the time in which another one starts and imports."""
MOST = 8
"""The maximum number of processes; each takes some 100 MiB."""


@contextmanager
def converting(scripts: Sequence[str], **given: Any) -> Iterator[list[Converted]]:
    """Convert scripts, each as `convert_script` does; on exit, scripts that have not begun are dropped.

    Args:
        scripts: as the user names them.
        given: as for `convert_script`.

    Yields:
        for each script, in this order, a function that returns its conversion.
    """
    processes = min(len(scripts), processors(), MOST)
    if len(scripts) < FEW or processes < 2 or STDIN in scripts:
        yield [partial(convert_script, script, **given) for script in scripts]
        return
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(processes, initializer=_leave_interrupts)
    try:
        yield [pool.submit(convert_script, script, **given).result for script in scripts]
    finally:
        pool.shutdown(cancel_futures=True)


def not_looked_into(script: str, folder: Path) -> list[Path]:
    """The files next to a script that it imports, and that mention torch.

    Files that only non-default values of an option choose are left out.

    Args:
        script: the text of the script, original or converted.
        folder: the original's folder.
    """
    found, tree = dict[Path, None](), Tree(script)
    for node in ast.walk(tree.root):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names if not _is_for_other_choices(tree, alias)]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            used = [alias for alias in node.names if not _is_for_other_choices(tree, alias)]
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in used)] if used else []
        else:
            continue
        for module in modules:
            path = folder.joinpath(*module.split(".")).with_suffix(".py")
            try:
                if "torch" in path.read_text("utf-8", "replace"):
                    found[path] = None
            except OSError:  # no such file: the module is in an installed package
                continue
    return list(found)


def _is_for_other_choices(tree: Tree, alias: ast.alias) -> bool:
    """Whether an imported name is used only where an option has a value that is not its default."""
    name = alias.asname or alias.name.partition(".")[0]
    uses = [n for n in tree.of(ast.Name) if n.id == name]
    return bool(uses) and all(is_other_choice(tree, use) for use in uses)


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _leave_interrupts() -> None:
    """Ignore Ctrl-C in a worker process; the waiting process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
