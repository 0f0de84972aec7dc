"""The layers of the package: a module imports only from layers below its own, and no imports form a cycle.

The lists here are the layers; docs/architecture.md draws them. A module that is in none of them fails.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "transformer"

LAYERS = (
    ("facts",),
    ("syntax",),
    ("dataflow",),
    ("recognition",),
    ("values",),
    ("state",),
    ("transforms",),
    ("conversion",),
    ("",),  # the API: transformer/__init__.py
    ("verify", "diff", "bench", "advise", "run", "migrate"),
    ("commands",),
    ("cli",),
    ("__main__",),
)
"""From the lowest to the highest; those of one layer may use each other, as long as there is no circle."""

MOST_AT_TOP = 17
"""Files and folders of the package; whoever opens it first reads these names."""
MOST_IN_A_FOLDER = 13
OPENED_FIRST = ("syntax", "dataflow", "recognition", "values", "transforms", "conversion", "commands")


def modules(package: Path) -> dict[str, Path]:
    """The modules of a package by name: `syntax.tree`, and `syntax` for its `__init__`; `` for the package's own."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[tuple[int, str]]:
    """What a module imports of the package, in functions too, each with its line."""
    own = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name[12:]) for a in node.names if f"{a.name}.".startswith("transformer."))
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".")
            if node.level:
                base = ["transformer", *filter(None, own[: len(own) + 1 - node.level]), *filter(None, base)]
            if base[0] == "transformer":
                for alias in node.names:
                    one = ".".join((*base[1:], alias.name))
                    yield node.lineno, one if one in known else ".".join(base[1:])


def layer_of(name: str) -> int:
    """The place of a module's layer.

    Raises:
        ValueError: it stands in none.
    """
    for place, layer in enumerate(LAYERS):
        if name.partition(".")[0] in layer:
            return place
    raise ValueError(f"{name} stands in no layer: say in tests/test_layers.py where it belongs")


def faults(package: Path) -> list[str]:
    """What is wrong with the arrows of a package."""
    known, found = modules(package), []
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        graph[name] = set()
        for line, other in imports(name, path, known):
            if other == "templates" or other == name:
                continue
            graph[name].add(other)
            where = f"{path.relative_to(package.parent)}:{line}"
            try:
                if layer_of(other) > layer_of(name):
                    found.append(f"{where}: {name} is below {other}, and imports it")
            except ValueError as error:
                found.append(f"{where}: {error}")
    found += [f"{name} stands in no layer" for name in known if name.partition(".")[0] not in sum(LAYERS, ())]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("a circle: " + " <- ".join(error.args[1]))
    return found


def test_arrows_point_downward_and_make_no_circle() -> None:
    assert not faults(PACKAGE), "\n".join(faults(PACKAGE))


def names_in(folder: Path) -> set[str]:
    """What a reader sees who opens a folder."""
    return {p.stem for p in folder.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - {"__init__"}


def test_folders_can_be_taken_in_at_a_glance() -> None:
    assert len(names_in(PACKAGE)) <= MOST_AT_TOP, sorted(names_in(PACKAGE))
    for top in OPENED_FIRST:
        for folder in {p.parent for p in (PACKAGE / top).rglob("*.py")}:
            assert len(names_in(folder)) <= MOST_IN_A_FOLDER, (folder, sorted(names_in(folder)))


@pytest.mark.parametrize("path", [p for p in modules(PACKAGE).values() if p.stem == "__init__"], ids=str)
def test_every_folder_says_what_it_holds(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


BROKEN = {
    "an upward arrow": ({"syntax/tree.py": "from transformer.values import tensors"}, "is below values.tensors"),
    "in a function": (
        {"syntax/tree.py": "def f():\n    from transformer.values.tensors import Kinds"},
        "is below values.tensors",
    ),
    "relative": ({"syntax/tree.py": "from ..values import tensors"}, "is below values.tensors"),
    "for type checkers": (
        {"syntax/tree.py": "import typing\nif typing.TYPE_CHECKING:\n    import transformer.values.tensors"},
        "is below values.tensors",
    ),
    "of the API": ({"values/tensors.py": "from transformer import convert"}, "values.tensors is below "),
    "a circle in one layer": (
        {
            "values/tensors.py": "from transformer.values import shapes",
            "values/shapes.py": "from .tensors import Kinds",
        },
        "a circle: ",
    ),
    "a circle of peers": (
        {"verify/run.py": "import transformer.bench.run", "bench/run.py": "import transformer.verify.run"},
        "a circle: ",
    ),
    "in no layer": ({"helpers.py": ""}, "helpers stands in no layer"),
}


@pytest.mark.parametrize("files, fault", BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_is_found(files: dict[str, str], fault: str, tmp_path: Path) -> None:
    whole = {"__init__.py": "", "syntax/tree.py": "", "values/__init__.py": "", "values/tensors.py": "", **files}
    for name, text in whole.items():
        path = tmp_path / "transformer" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert any(fault in found for found in faults(tmp_path / "transformer")), faults(tmp_path / "transformer")


def test_a_package_without_faults_has_none(tmp_path: Path) -> None:
    package = tmp_path / "transformer"
    for name, text in {
        "__init__.py": "from transformer.conversion import pipeline",
        "syntax/tree.py": "import ast",
        "conversion/pipeline.py": "from transformer.syntax.tree import Tree",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    assert not faults(package)


def test_nothing_is_keyed_by_a_number_that_another_object_may_have_later() -> None:
    """A node is its own key: the `id()` of a freed node is given to a new one."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "harness" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id == "id"
    ]
    assert found == []
