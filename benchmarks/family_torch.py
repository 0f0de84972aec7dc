"""The results of the family by version of torch, including CUDA: the second table of family.py's page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "family_torch.json"

INTRODUCTION = """\
## By torch

All checks, those of CUDA graphs on the emulated device, as the machine has no other: *emulated* says that all that ran
there was equal. A build `+cu...` is what `pip install torch` gives; it was run without a driver. What is not in this
table has not been run on all checks.
"""


def load() -> dict[str, dict[str, Any]]:
    """The results, by script and generation, then by torch's version."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def note(key: str, version: str, checks: Mapping[str, Mapping[str, str]], reasons: Mapping[str, str]) -> None:
    """Record the results of a script in all checks.

    Args:
        key: the script's name and generation.
        version: the version of torch.
        checks: each check's status, and the digest of the converted script.
        reasons: why checks did not run, by their names.
    """
    seen = load()
    (digest,) = {check["digest"] for check in checks.values()}
    statuses = {name: check["status"] for name, check in checks.items()}
    today = date.today().isoformat()
    seen.setdefault(key, {})[version] = {
        "statuses": statuses,
        "reasons": dict(reasons),
        "digest": digest,
        "seen": today,
    }
    RESULTS.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table(digests: Mapping[str, str]) -> str:
    """The table, one line per script, generation and torch; `digests` are those of the present conversions."""
    lines = [INTRODUCTION, "| script | generation | torch | on the CPU | CUDA graphs | seen |", "|-|-|-|-|-|-|"]
    seen = load()
    for key, digest in digests.items():
        name, generation = key.split(":")
        for version, found in sorted(seen.get(key, {}).items()):
            earlier = "" if found["digest"] == digest else "*"
            cells = [_said(found, on_cuda) + earlier for on_cuda in (False, True)]
            lines.append(f"| `{name}` | {generation} | {version} | {' | '.join(cells)} | {found.get('seen', '')} |")
    return "\n".join([*lines, ""])


def _said(found: Mapping[str, Any], on_cuda: bool) -> str:
    """The results of the checks of a kind: one word if they agree, otherwise each; and why some checks did not run."""
    kind = {check: status for check, status in found["statuses"].items() if ("cuda" in check) is on_cuda}
    reasons = "; ".join(dict.fromkeys(why for check, why in found.get("reasons", {}).items() if check in kind))
    if len(set(kind.values())) == 1:
        said = f"{next(iter(kind.values()))} ({len(kind)} checks)"
    else:
        said = "; ".join(f"{check}: {status}" for check, status in kind.items()) or "not run"
    return f"{said}: {reasons}" if reasons else said
