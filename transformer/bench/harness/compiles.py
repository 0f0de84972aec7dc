"""What torch.compile did: the compilations and graph breaks of each function."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

LIMIT = 100_000
"""The number of compilations that torch is told to remember; by default it keeps only the last 64."""

FIGURES = (
    "compilations",
    "recompilations",
    "recompilations_after_burnin",
    "graph_breaks",
    "not_compiled",
    "compile_seconds",
)

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+(| \(.+\))$")


class Compiles:
    """Reads torch's own records, between iterations, so as not to disturb the compiler."""

    def __init__(self) -> None:
        self._during_burnin = 0
        self._remembering = False

    def note_burnin(self) -> None:
        """Note the end of a burn-in iteration: all compilations so far belong to the burn-in."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is None:
            return
        if not self._remembering:
            dynamo.set_compilation_metrics_limit(LIMIT)
            self._remembering = True
        self._during_burnin = len(dynamo.get_compilation_metrics())

    def as_json(self, script: str) -> dict[str, Any]:
        """The numbers by function, and all compilations in order; `script` is the path of the script."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        metrics = [] if dynamo is None else dynamo.get_compilation_metrics()
        compilations: list[dict[str, Any]] = []
        for i, m in enumerate(metrics):
            name = m.co_name
            if name is not None and m.co_filename not in (None, script):
                name = f"{name} ({Path(m.co_filename).name})"
            elif name is None:  # a backward pass, which is compiled at its first call
                name = next((c["function"] for c in compilations if c["id"] == str(m.compile_id)), "?")
            compilations.append(
                {
                    "function": name,
                    "id": str(m.compile_id),
                    "backward": m.co_name is None,
                    "seconds": (m.duration_us or 0) / 1e6,
                    "after_burnin": i >= self._during_burnin,
                    "reason": (m.recompile_reason or "").split("\n")[0] or None,
                    "failed": m.fail_type,
                }
            )
        return {"functions": functions(compilations), "compilations": compilations}


def functions(compilations: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The numbers of each function; the pieces between its graph breaks count as the function."""
    found: dict[str, dict[str, float]] = {}
    breaks: set[str] = set()
    for c in compilations:
        resumed = _RESUMED.match(c["function"])
        name = resumed[1] + resumed[2] if resumed else c["function"]
        figures = found.setdefault(name, dict.fromkeys(FIGURES, 0))
        figures["compile_seconds"] += c["seconds"]
        if c["backward"]:
            continue
        again = _number(c["id"]) > 0
        figures["compilations"] += 1
        figures["not_compiled"] += c["failed"] is not None
        figures["recompilations"] += again
        figures["recompilations_after_burnin"] += again and c["after_burnin"]
        if resumed and c["function"] not in breaks:
            breaks.add(c["function"])
            figures["graph_breaks"] += 1
    return found


def _number(compile_id: str) -> int:
    """The number in `frame/number`, which counts the compilations of a function from zero."""
    return int(re.split(r"[/_]", compile_id)[1])
