"""The main module of processes that `multiprocessing` spawns; it becomes the script's main module."""

import importlib.util
import sys
from pathlib import Path
from typing import Any


def _become(namespace: dict[str, Any]) -> None:
    """Execute the script's text in this module's namespace, and leave no names of this file in it."""
    name, folder = "_lean_convert_harness", Path(__file__).parent
    where = str(folder / "__init__.py")
    spec = importlib.util.spec_from_file_location(name, where, submodule_search_locations=[str(folder)])
    assert spec is not None and spec.loader is not None, where
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    code, file = importlib.import_module(f"{name}.execute").become_spawned()
    for key in [key for key in namespace if not key.startswith("__")]:
        del namespace[key]
    namespace.update(__file__=file, __doc__=None)
    exec(code, namespace)


if __name__ == "__mp_main__":
    _become(globals())
