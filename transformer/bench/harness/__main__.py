"""Entry point: `python .../harness JOB.json` (see :class:`Job` for the file's fields)."""

import importlib
import sys
import types
from pathlib import Path


def _load_packages() -> None:
    """Make the harnesses' folders importable below `_lean`, a name that hides no module of the script.

    The code of the packages around them is not executed, because it needs more than the user's interpreter may have.
    """
    root = Path(__file__).resolve().parent.parent.parent
    for name, folder in (("_lean", root), ("_lean.verify", root / "verify"), ("_lean.bench", root / "bench")):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


if __name__ == "__main__":
    _load_packages()
    importlib.import_module("_lean.bench.harness.execute").main(sys.argv[1])
