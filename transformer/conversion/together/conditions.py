"""The conditions for merging files: what each file, and other code that the script reaches, must not do."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from transformer.conversion.imported_files import Import, is_never_needed, named
from transformer.conversion.together.executed import sets_attributes
from transformer.conversion.together.gathered import Gathered, refusal
from transformer.conversion.together.meanings import Meanings, is_written
from transformer.conversion.together.modules import File, read_file
from transformer.conversion.together.needed import bound_names
from transformer.conversion.together.saved import Saved
from transformer.dataflow.access import scope_access
from transformer.facts import python
from transformer.facts.lookups import FRAMES, OF_CALLER, lookups
from transformer.syntax.diagnostics import Diagnostic
from transformer.syntax.imports import is_future
from transformer.syntax.query import asked_name, calls_method, names_in
from transformer.syntax.text import NotText
from transformer.syntax.tree import Tree

OWN = lookups(of="file", finds=("state", "attributes"))
"""Names that every module has, but the merged file only once."""
BY_NAME = FRAMES | frozenset(
    "sys.modules inspect.getfile inspect.getsourcefile inspect.getmodule "
    "hydra.utils.instantiate hydra.utils.get_class hydra.utils.call hydra.utils.get_method".split()
)
LOADERS = frozenset("importlib runpy pkgutil imp".split())


def problems(gathered: Gathered, meanings: Meanings) -> Iterator[Diagnostic]:
    """Why the merged file is not shown to do the same as the separate files, whichever of these stay unmerged."""
    for file in gathered.all_files:
        yield from _found_by_name(gathered, file)
        yield from _uses_of_imports(gathered, meanings, file)
    yield from meanings.clashes()


def grounds(gathered: Gathered, meanings: Meanings, saved: Saved | None) -> Iterator[tuple[File, Diagnostic]]:
    """Why files must stay files of their own, and not be merged into the script: each file with the reason.

    Args:
        gathered: all files.
        meanings: what their names refer to.
        saved: what the merged file saves; None if there can be no merged file.
    """
    for file in gathered.all_files:
        yield from ((file, why) for why in _own_names(gathered, file))
        yield from _named_in_texts(gathered, meanings, file)
        yield from _pickled(gathered, meanings, file, saved)
        yield from _classes_as_values(gathered, meanings, file)
    yield from _annotations(gathered)
    yield from _other_importers(gathered, meanings)


def warnings(gathered: Gathered) -> Iterator[Diagnostic]:
    """What a reader should know about the merged file."""
    classes = _classes(gathered)
    for file in (*gathered.all_files, *gathered.reached):
        for call in _pickling(file.tree):
            if isinstance(call.args[0], (ast.Name, ast.Attribute)) and _seen(file.tree, call.args[0], classes) is None:
                why = f"if `{ast.unparse(call.args[0])}` contains an object of a class that was in another file, it is"
                at = refusal(file, call, f"{why} saved as one of the script's own, and the original cannot load it")
                yield Diagnostic(at.line, at.column, "LC103", at.message, at.file)


def _own_names(gathered: Gathered, file: File) -> Iterator[Diagnostic]:
    """Uses of a module's own name and file, and of functions that list all names of a module."""
    tree, of_module = file.tree, lookups(of="builtin", where=("module", "both"))
    for node in tree.of(ast.Name):
        if node.id not in file.scopes.used or node.id in tree.imports:
            continue  # a local variable of functions, or an import
        call = tree.parents[node]
        bare = isinstance(call, ast.Call) and call.func is node and not call.args
        if node.id == "exec" and sets_attributes(gathered, file, call):
            continue
        if (node.id in OWN and file is not gathered.script) or node.id in of_module:
            yield refusal(file, node, f"`{node.id}` is specific to {file.name}, and would differ in one file")
        elif (
            node.id in OF_CALLER
            and bare
            and tree.scope_of(node) is tree.root
            and asked_name(tree.parents[call]) is None
        ):
            yield refusal(file, node, f"`{node.id}()` lists all names of {file.name}, and the merged file has more")
    for function in tree.root.body:
        if isinstance(function, ast.FunctionDef) and function.name in OWN:
            yield refusal(file, function, f"`{function.name}` is called for names that {file.name} lacks")


def _found_by_name(gathered: Gathered, file: File) -> Iterator[Diagnostic]:
    """Modules that are imported or inspected by name."""
    for stmt in file.imports:
        modules = [a.name for a in stmt.names] if isinstance(stmt, ast.Import) else [stmt.module or ""]
        if any(m.partition(".")[0] in LOADERS for m in modules):
            yield refusal(file, stmt, "modules are imported by names that are computed at run time")
    for node in (*file.tree.of(ast.Attribute), *file.tree.of(ast.Name)):
        if isinstance(node, ast.Attribute) and node.attr == "__module__":
            yield refusal(file, node, "`__module__` would differ in one file")
        elif isinstance(node, ast.Attribute) and node.attr in lookups(of="attribute", frames=True):
            yield refusal(file, node, f"`{node.attr}` shows which file a function is in, and one file has no others")
        what = file.tree.qualified(node)
        if what in BY_NAME:
            yield refusal(file, node, f"`{what}` looks things up by module, and one file has no other modules")
        elif what == "sys.path" and isinstance(file.tree.parents[node], (ast.Attribute, ast.AugAssign, ast.Assign)):
            above = _adds_folder_above(gathered, file, node) and not _in_several_folders(gathered)
            if not above and not _adds_what_is_not_needed(gathered, file, node):
                yield refusal(file, node, "`sys.path` changes, so it is not known which files are imported")

    for text in file.tree.of(ast.Constant):
        fields = re.findall(r"%\((\w+)\)|\{(\w+)\}", text.value) if isinstance(text.value, str) else []
        for field in sorted({name for pair in fields for name in pair} & lookups(of="record")):
            yield refusal(
                file, text, f"a log that shows its `{field}` shows which file logs, and one file has no others"
            )


def _adds_folder_above(gathered: Gathered, file: File, path: ast.AST) -> bool:
    """Whether the path added to `sys.path` is the script's folder or one above it, which imports search anyway."""
    method = file.tree.parents[path]
    call = file.tree.parents[method]
    if (
        not isinstance(method, ast.Attribute)
        or method.attr not in ("append", "insert")
        or not isinstance(call, ast.Call)
    ):
        return False
    inside = list(ast.walk(call.args[-1])) if call.args else []
    texts = {n.value for n in inside if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    own = any(isinstance(n, ast.Name) and n.id == "__file__" for n in inside)
    return own and texts <= {"..", "."} and file.path.parent in gathered.roots


def _adds_what_is_not_needed(gathered: Gathered, file: File, path: ast.AST) -> bool:
    """Whether `sys.path.append("folder")` adds a folder in which no import finds anything."""
    call = file.tree.parents[file.tree.parents[path]]
    folder = call.args[0] if isinstance(call, ast.Call) and calls_method(call, "append") and call.args else None
    if not isinstance(folder, ast.Constant) or not isinstance(folder.value, str):
        return False
    return is_never_needed(folder.value, gathered.script.path, gathered.script.tree.code.encode())


def _in_several_folders(gathered: Gathered) -> bool:
    """Whether an import is found in several folders, so that their order determines what it executes."""
    for file in gathered.all_files:
        for stmt in file.imports:
            for alias in stmt.names:
                found = [
                    what.module for root in gathered.roots for a, what in named(file.path, [root], stmt) if a is alias
                ]
                if len(set(found)) > 1:
                    return True
    return False


def _uses_of_imports(gathered: Gathered, meanings: Meanings, file: File) -> Iterator[Diagnostic]:
    """Unsupported uses of the modules and names that a file imports from the others."""
    tree = file.tree
    for stmt in file.imports:
        for alias in stmt.names:
            target = gathered.target(file, stmt, alias)
            if target is None:
                if alias.name == "*":
                    yield refusal(
                        file,
                        stmt,
                        "the names that `import *` binds here are not known, and may be those of another file",
                    )
                continue
            module, name = target
            bound = alias.asname or alias.name
            if name is None:
                yield from _uses_of_module(file, bound, module, meanings)
            elif name != "*":
                yield from _uses_of_name(file, stmt, bound, module, name, meanings)
            else:
                changed = sorted(set(meanings.exported(module)) & (module.scopes.rebound | file.scopes.rebound))
                for one in changed:
                    yield refusal(file, stmt, f"`{one}` of {module.name} changes while the script runs")
    for name in sorted(tree.imports):
        if name in file.scopes.asked and meanings.vanishes(file, name):
            yield refusal(
                file, file.scopes.place(name), f"`{name}` is tested for, but the merged file does not have it"
            )
        other = meanings.other_name(file, name)
        if other is not None:
            yield from _check_renaming(file, name, other, meanings)


def _uses_of_name(
    file: File, stmt: ast.stmt, bound: str, module: File, name: str, meanings: Meanings
) -> Iterator[Diagnostic]:
    if not meanings.binds(module, name):
        yield refusal(file, stmt, f"{module.name} has no name `{name}`")
    elif name in module.scopes.rebound or bound in file.scopes.rebound:
        yield refusal(file, stmt, f"`{name}` of {module.name} changes while the script runs")


def _uses_of_module(file: File, bound: str, module: File, meanings: Meanings) -> Iterator[Diagnostic]:
    """Uses of a module, imported as a whole, for more than its attributes."""
    if meanings.of(file, bound) != ("module", module):
        yield refusal(file, file.scopes.place(bound), f"`{bound}` is {module.name}, and also something else")
        return
    for cls in file.tree.of(ast.ClassDef):
        if bound in scope_access(cls.body).binds:
            yield refusal(file, cls, f"`{bound}` is {module.name}, and also a variable of the class {cls.name}")
    for node in file.tree.of(ast.Name):
        if node.id != bound or file.scopes.is_inner(node):
            continue  # `agent`, a parameter of a function in a file that imports agent.py
        around = file.tree.parents[node]
        if not isinstance(around, ast.Attribute) or not isinstance(around.ctx, ast.Load):
            yield refusal(file, node, f"the module `{bound}` is used other than by its attributes")
        elif not is_written(file, around, f"{bound}.{around.attr}"):
            yield refusal(file, node, f"`{bound}.{around.attr}` is written in a way that is not rewritten")
        elif not meanings.binds(module, around.attr) or meanings.of(module, around.attr)[0] == "module":
            yield refusal(file, node, f"`{around.attr}` is not defined in {module.name}")
        else:
            meaning = meanings.of(module, around.attr)
            own = str(meaning[2]) if meaning[0] == "own" else around.attr
            others = own in file.scopes.used and not meanings.vanishes(file, own) and meanings.of(file, own) != meaning
            if own in file.scopes.local or others:
                yield refusal(file, node, f"`{own}` is also something else in {file.name}: rename one of them")


def _check_renaming(file: File, name: str, other: str, meanings: Meanings) -> Iterator[Diagnostic]:
    """Why a name cannot be replaced by the name of its definition."""
    taken = other in file.scopes.used and meanings.of(file, other) != meanings.of(file, name)
    if taken or {name, other} & file.scopes.local:
        line = file.scopes.place(name)
        yield refusal(file, line, f"`{name}` is called `{other}` where it is defined, and one of them is taken here")
    for node in file.tree.of(ast.Name):
        if node.id == name and not is_written(file, node, name):
            yield refusal(file, node, f"`{name}` is written in a way that is not rewritten")


def _named_in_texts(gathered: Gathered, meanings: Meanings, file: File) -> Iterator[tuple[File, Diagnostic]]:
    """Strings such as `agent:Agent`, which libraries use to import."""
    for module in gathered.files:
        stem = re.escape(module.path.parent.name if module.path.name == "__init__.py" else module.path.stem)
        for node in file.tree.of(ast.Constant):
            found = re.match(rf"(?:\w+\.)*{stem}[.:](\w+)$", node.value) if isinstance(node.value, str) else None
            if found and meanings.binds(module, found[1]):
                yield (
                    module,
                    refusal(file, node, f"the string {node.value!r} may be used to import {module.name} again"),
                )


def _annotations(gathered: Gathered) -> Iterator[tuple[File, Diagnostic]]:
    """Annotations that are strings in some files and objects in others."""
    futures = {file: any(is_future(s) for s in file.imports) for file in gathered.all_files}
    for file in gathered.files:
        annotated = [
            n
            for n in file.tree.nodes
            if getattr(n, "annotation", None) is not None or getattr(n, "returns", None) is not None
        ]
        if futures[file] != futures[gathered.script] and annotated:
            which = file.name if futures[file] else gathered.script.name
            why = f"`from __future__ import annotations` is in {which} only, and changes what annotations mean"
            yield file, refusal(file, annotated[0], why)


def _other_importers(gathered: Gathered, meanings: Meanings) -> Iterator[tuple[File, Diagnostic]]:
    """Other local files that the script reaches: one that imports a gathered file would load it a second time."""
    seen = {file.path for file in gathered.all_files}
    waiting: list[File] = list(gathered.all_files)
    executing: dict[Path, set[Path]] = {}
    again: list[tuple[File, File, Import]] = []
    while waiting:
        file = waiting.pop()
        reached: list[tuple[str, Import]] = []
        for stmt in file.imports:
            for _, what in named(file.path, gathered.roots, stmt):
                executing.setdefault(file.path, set()).update(what.executed)
                for path in what.executed:
                    ours = gathered.file(path)
                    if file not in gathered.places and ours is not None:
                        again.append((ours, file, stmt))
                    elif ours is not None and stmt not in gathered.places[file]:
                        yield ours, refusal(file, stmt, f"{ours.name} is not imported at the top level of the file")
                    elif path not in seen:
                        seen.add(path)
                        reached.append((str(path), stmt))
        for name, stmt in reached:
            try:
                other = read_file(gathered.script.path.parent / name, _displayed_path(gathered, name))
            except (OSError, NotText, SyntaxError, ValueError):
                why = f"{_displayed_path(gathered, name)} is imported, and cannot be read"
                yield gathered.script, refusal(file, stmt, why)
                continue
            waiting.append(other)
            gathered.reached.append(other)
            yield from ((gathered.script, why) for why in _found_by_name(gathered, other))
            yield from _named_in_texts(gathered, meanings, other)
    given = _leading_to(gathered, executing)
    asked = f"{', '.join(given[:-1])} and {given[-1]}" if len(given) > 1 else "this file"
    for ours, file, stmt in again:
        yield ours, refusal(file, stmt, f"also imports {ours.name}: give {asked} with --with as well")


def _leading_to(gathered: Gathered, executing: Mapping[Path, Collection[Path]]) -> list[str]:
    """The names of the other files whose import executes a gathered file: if one is given, all must be."""
    leading, grown = {file.path for file in gathered.all_files}, True
    while grown:
        more = {path for path, executed in executing.items() if not leading.isdisjoint(executed)} - leading
        leading |= more
        grown = bool(more)
    return [file.name for file in gathered.reached if file.path in leading]


def _displayed_path(gathered: Gathered, path: str) -> str:
    """The name of a file in messages: relative to the same folder as the names of the given files."""
    named_from = [str(f.path).removesuffix(f.name) for f in gathered.files if str(f.path).endswith(f"/{f.name}")]
    folder = named_from[0] if named_from else f"{gathered.script.path.parent}/"
    return path.removeprefix(folder).removeprefix(f"{gathered.script.path.parent}/")


def _classes_as_values(gathered: Gathered, meanings: Meanings, file: File) -> Iterator[tuple[File, Diagnostic]]:
    """Uses of classes as values: when printed or saved, they show the name of their module."""
    for node, made, name in _named_elsewhere(gathered, meanings, file):
        around = file.tree.parents[node]
        uses = name not in made.tree.classes or _only_uses_class(file.tree, node, around)
        if not uses and not _is_chosen(file, file is gathered.script, node):
            why = f"`{ast.unparse(node)}` is handed on, and is shown as of {made.name} where it is printed or saved"
            yield made, refusal(file, node, f"{why}: call it where it is named")
    for found in _classes_found(file.tree):
        why = f"`{ast.unparse(found)}` is shown with the name of the file of the class"
        yield from (
            (made, refusal(file, found, f"{why}: show its `__name__`")) for made in gathered.files if made.tree.classes
        )


def _classes_found(tree: Tree) -> Iterator[ast.expr]:
    """Where code gets a class without its name, as by `type(x)`, and may show it."""
    attributes, found = lookups(of="attribute", classes=True), list[ast.expr]()
    for node in tree.of(ast.Attribute):
        call = tree.parents[node]
        method = callable(vars(type).get(node.attr)) and isinstance(call, ast.Call) and call.func is node
        found += [call if method and isinstance(call, ast.expr) else node] if node.attr in attributes else []
    for call in tree.of(ast.Call):
        row = python.does("builtin", tree.names.builtin(call.func) or "")
        found += [call] if row is not None and row.makes == "class" and len(call.args) == 1 else []
    for one in found:
        while isinstance(around := tree.parents[one], ast.Subscript) and around.value is one:
            one = around
        further = isinstance(around, ast.Attribute) and around.attr in attributes
        of_error = isinstance(tree.statement(one), (ast.Assert, ast.Raise))  # a traceback shows the file anyway
        if not (further or of_error) and not _only_uses_class(tree, one, around):
            yield one


def _named_elsewhere(
    gathered: Gathered, meanings: Meanings, file: File
) -> Iterator[tuple[ast.Name | ast.Attribute, File, str]]:
    """The reads of definitions of the given files: each with the defining file, and the name there."""
    nodes: list[ast.Name | ast.Attribute] = [*file.tree.of(ast.Name), *file.tree.of(ast.Attribute)]
    for node in nodes:
        base = node.value if isinstance(node, ast.Attribute) else node
        if not isinstance(node.ctx, ast.Load) or not isinstance(base, ast.Name) or file.scopes.is_inner(base):
            continue
        meaning = meanings.of(file, base.id)
        if isinstance(node, ast.Attribute):
            module = meaning[1] if meaning[0] == "module" else None
            meaning = meanings.of(module, node.attr) if isinstance(module, File) else ("builtin", "")
        made = meaning[1] if meaning[0] == "own" else None
        if isinstance(made, File) and made in gathered.files:
            yield node, made, str(meaning[2])


def _only_uses_class(tree: Tree, node: ast.expr, around: ast.AST) -> bool:
    """Whether a use of a class calls, derives from or compares it, reads an attribute of it, or is an annotation."""
    if isinstance(around, (ast.Attribute, ast.ClassDef, ast.Compare, ast.BinOp, ast.arg)):
        return True
    if isinstance(around, ast.Subscript):
        return isinstance(around.ctx, ast.Load)
    if isinstance(around, (ast.AnnAssign, ast.FunctionDef)):
        return node in (getattr(around, "annotation", None), getattr(around, "returns", None))
    asks = tree.names.builtin(around.func) if isinstance(around, ast.Call) else ""
    return isinstance(around, ast.Call) and (around.func is node or asks in ("isinstance", "issubclass", "super"))


def _is_chosen(file: File, is_script: bool, node: ast.expr) -> bool:
    """Whether this is A in `kind = A if condition else B`, and `kind` is only used as a class."""
    tree, stmt = file.tree, file.tree.parents[node]
    while isinstance(stmt, ast.IfExp) and node is not stmt.test:
        node, stmt = stmt, tree.parents[stmt]
    if not isinstance(stmt, ast.Assign) or stmt.value is not node or OF_CALLER & file.scopes.used:
        return False
    names = {t.id for t in stmt.targets if isinstance(t, ast.Name)}
    reads = [n for n in tree.of(ast.Name) if n.id in names and isinstance(n.ctx, ast.Load)]
    elsewhere = isinstance(tree.scope_of(stmt), ast.ClassDef) or (tree.scope_of(stmt) is tree.root and not is_script)
    return (
        len(names) == len(stmt.targets)
        and not elsewhere
        and all(_only_uses_class(tree, n, tree.parents[n]) for n in reads)
    )


def _classes(gathered: Gathered) -> set[str]:
    return {name for file in gathered.files for name in file.tree.classes}


def _pickling(tree: Tree) -> list[ast.Call]:
    return [call for call in tree.of(ast.Call) if call.args and tree.calls(call, *python.PICKLES)]


def _pickled(
    gathered: Gathered, meanings: Meanings, file: File, saved: Saved | None
) -> Iterator[tuple[File, Diagnostic]]:
    """Calls that save whole objects, together with the names of their modules."""
    classes = _classes(gathered)
    for call in _pickling(file.tree):
        seen = _seen(file.tree, call.args[0], classes)
        if seen is False:
            continue
        what = ast.unparse(call.args[0])
        why = f"`{what}` is saved with the name of the module of its class: save a state_dict()"
        held = [made for made in gathered.files if _may_be_held(gathered, meanings, made)]
        known = saved.files_of(file, call) if saved is not None and held else None
        if known is not None:
            held = [made for made in held if made in known]
        elif seen is None:
            held = []  # `warnings` reports it
        yield from ((made, refusal(file, call, why)) for made in held)


def _may_be_held(gathered: Gathered, meanings: Meanings, made: File) -> bool:
    """Whether another object may hold an object of a file's classes, or one of its functions, and be saved with it."""
    body = made.tree.root.body
    constant = {n for s in body if isinstance(getattr(s, "value", None), ast.Constant) for n in bound_names(s)}
    functions = {s.name for s in body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for file in gathered.all_files:
        for node, of, name in _named_elsewhere(gathered, meanings, file):
            around = file.tree.parents[node]
            if of is not made or name in constant:
                continue
            called = isinstance(around, ast.Call) and around.func is node
            if name not in made.tree.classes:
                fine = name in functions and called
            elif called:
                fine = _has_one_name(gathered, file, around)
            else:
                fine = not isinstance(around, ast.Attribute) and _only_uses_class(file.tree, node, around)
            if not fine:
                return True
    kinds, classes = set(made.tree.classes), [(f, cls) for f in gathered.files for cls in f.tree.of(ast.ClassDef)]
    for file, cls in reversed(classes):  # base classes stand above, so derived ones are seen first
        if cls.name in kinds:
            kinds |= {file.tree.last_name(base) for base in cls.bases}
    return any(cls.name in kinds and _hands_itself_on(gathered, file, cls) for file, cls in classes)


def _has_one_name(gathered: Gathered, file: File, made: ast.AST) -> bool:
    """Whether a new object is bound only to names, of which only attributes are read."""
    stmt = file.tree.parents[made]
    if not isinstance(stmt, ast.Assign) or (file is not gathered.script and file.tree.scope_of(stmt) is file.tree.root):
        return False
    names = {t.id for t in stmt.targets if isinstance(t, ast.Name)}
    reads = [n for n in file.tree.of(ast.Name) if n.id in names and isinstance(n.ctx, ast.Load)]
    return len(names) == len(stmt.targets) and all(_asks_for_attribute(gathered, file, n) for n in reads)


def _hands_itself_on(gathered: Gathered, file: File, cls: ast.ClassDef) -> bool:
    methods = [m for m in ast.walk(cls) if isinstance(m, ast.FunctionDef) and m.args.args]
    reads = (n for m in methods for n in ast.walk(m) if isinstance(n, ast.Name) and n.id == m.args.args[0].arg)
    return not all(_asks_for_attribute(gathered, file, n) for n in reads if isinstance(n.ctx, ast.Load))


def _asks_for_attribute(gathered: Gathered, file: File, node: ast.expr) -> bool:
    """Whether a use of an object reads an attribute that is no method, or calls a method."""
    around = file.tree.parents[node]
    if isinstance(around, ast.Call):
        return file.tree.names.builtin(around.func) == "super"
    if not isinstance(around, ast.Attribute):
        return False
    call, trees = file.tree.parents[around], [one.tree for one in gathered.all_files]
    called = isinstance(call, ast.Call) and call.func is around
    set_by_script = any(tree.attributes_set(around.attr) for tree in trees)
    return called or (set_by_script and not any(tree.methods(around.attr) for tree in trees))


def _seen(tree: Tree, value: ast.expr, classes: set[str]) -> bool | None:
    """Whether a value is, or contains, an object of one of these classes; None if that is not known."""
    if calls_method(value, "state_dict") or isinstance(value, ast.Constant):
        return False
    if isinstance(value, (ast.Dict, ast.List, ast.Tuple)):
        inner = value.values if isinstance(value, ast.Dict) else value.elts
        return any(_seen(tree, v, classes) for v in inner)
    if not isinstance(value, (ast.Name, ast.Attribute)):
        return True if names_in([value]) & classes else None
    if isinstance(value, ast.Name) and (owner := tree.class_of_self(value, tree.scope_of(value))):
        return owner.name in classes or None
    text = ast.unparse(value)
    made = [s.value for s in tree.of(ast.Assign) if any(ast.unparse(t) == text for t in s.targets)]
    found = [_seen(tree, v, classes) for v in made if not isinstance(v, (ast.Name, ast.Attribute))]
    if any(found):
        return True
    return False if found and len(found) == len(made) and None not in found else None
