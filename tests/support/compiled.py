"""The report of `lean-convert verify` about a compiled conversion."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "transformer", "verify")


def compiled_check(folder: Path, source: str, converted: str, *flags: str) -> dict[str, Any]:
    """The report of the check `compile`, from a verification that succeeds; the flags are the scripts' own.

    Raises:
        AssertionError: the verification fails.
    """
    original, out = folder / "original.py", folder / "converted.py"
    original.write_text(source, encoding="utf-8")
    out.write_text(converted, encoding="utf-8")
    command = [*COMMAND, str(original), str(out), "--format", "json", *(("--", *flags) if flags else ())]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    checks: list[dict[str, Any]] = json.loads(result.stdout)["checks"]
    return next(check for check in checks if check["name"] == "compiled")
