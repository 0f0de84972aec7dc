"""Mutates scripts and examines what the converter makes of them.

    python tests/fuzz/fuzz.py [--mutants N] [--seed S] SCRIPT...

prints every complaint once and leaves the mutant that caused it in the working directory.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mutate import KINDS, Mutation, mutate

from transformer import convert
from transformer.conversion import Conversion

SECONDS = 5.0
"""Processor time that one conversion may take."""

_LOGGED = ("add_scalar", "add_text", "add_histogram", "log")


def examine(source: str) -> list[str]:
    """What is wrong with the conversion of a script, one sentence each; nothing where all is well.

    Whatever the script, converting it must not raise nor take long. A refusal has its reasons. A conversion compiles
    in each of its states, logs and prints all that the script did, and is not converted again.
    """
    began = time.process_time()
    try:
        conversion = convert(source)
    except Exception as error:
        return [f"raised {type(error).__name__}: {_first_line(error)}"]
    seconds = time.process_time() - began
    complaints = [f"took {seconds:.0f} s"] if seconds > SECONDS else []
    return complaints + list(_converted(conversion) if conversion.converted else _refused(conversion))


def _refused(conversion: Conversion) -> Iterator[str]:
    if conversion.source != conversion.original:
        yield "a refused script was changed"
    lines = conversion.original.count("\n") + 1
    for diagnostic in conversion.diagnostics:
        if not 1 <= diagnostic.line <= lines:
            yield f"line {diagnostic.line} is not in the script"
        if diagnostic.code == "LC007":
            yield f"internal error: {diagnostic.message.splitlines()[0]}"


def _converted(conversion: Conversion) -> Iterator[str]:
    if not _compiles(conversion.original):  # a `return` outside of a function, say: only the parser accepts it
        return
    for step in conversion.steps:
        if not _compiles(step.after):
            yield f"{step.transform.name} wrote what does not compile"
            return
    for call in sorted((_reports(conversion.original) - _reports(conversion.source)).elements()):
        yield f"lost {call}"
    if convert(conversion.source).converted:
        yield "the converted script was converted again"


def _compiles(source: str) -> bool:
    try:
        compile(source, "script", "exec")
    except SyntaxError:
        return False
    return True


def _reports(source: str) -> Counter[str]:
    """The calls that print or log, each as its function and, where it is text, what comes first in it."""
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    return Counter(f"{ast.unparse(c.func)}({_label(c)})" for c in calls if _name(c.func) in ("print", *_LOGGED))


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _label(call: ast.Call) -> str:
    first = call.args[0] if call.args else None
    return repr(first.value) if isinstance(first, ast.Constant) else ""


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def mutations(random: random.Random) -> tuple[Mutation, ...]:
    """One to three mutations."""
    kinds = list(KINDS)
    big = 10**6
    return tuple(
        Mutation(random.choice(kinds), random.randrange(big), random.randrange(big))
        for _ in range(random.choice((1, 1, 2, 3)))
    )


def main() -> int:
    """Print the complaints; the exit status says whether there were any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scripts", nargs="+", type=Path, metavar="SCRIPT")
    parser.add_argument("--mutants", type=int, default=1000, help="how many, over all scripts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    source = random.Random(options.seed)
    seen: set[str] = set()
    for number in range(options.mutants):
        script = source.choice(options.scripts)
        mutant = mutate(script.read_text(encoding="utf-8"), mutations(source))
        for complaint in set(examine(mutant)) - seen:
            seen.add(complaint)
            kept = Path(f"mutant_{options.seed}_{number}.py")
            kept.write_text(mutant, encoding="utf-8")
            print(f"{script}: {complaint}: {kept}", flush=True)
    print(f"{options.mutants} mutants, {len(seen)} complaints")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
