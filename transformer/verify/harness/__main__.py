"""Entry point: `python .../harness JOB.json` (see :class:`Job` for the file's fields), or `... --serve MODULE...`."""

import importlib
import importlib.util
import sys
from pathlib import Path


def _load_package() -> None:
    """Make this folder importable as `_lean_harness`, a name that hides no module of the script."""
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "_lean_harness", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["_lean_harness"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    _load_package()
    job = sys.argv[1]
    if job == "--serve":
        job = importlib.import_module("_lean_harness.serve").serve(sys.argv[2:])
    sys.exit(0 if job is None else importlib.import_module("_lean_harness.execute").main(job))
