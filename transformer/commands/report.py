"""The report of a conversion, for people (a table, findings, the next command) and for machines (JSON)."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from transformer.conversion.imported_files import not_found_from
from transformer.conversion.of_files import not_looked_into
from transformer.conversion.result import Applied, Conversion, Refused, Skipped, Step
from transformer.conversion.together import ONE_FILE
from transformer.conversion.told import as_told, counts, left_as_it_was, warnings_told
from transformer.diff.compare import Stats, compare
from transformer.recognition.arguments import cuda_arguments
from transformer.recognition.refusals import unparsable
from transformer.syntax import header, text
from transformer.syntax.diagnostics import Diagnostic, Excerpt, excerpt, excerpts
from transformer.syntax.tree import Tree
from transformer.transforms.base import ON_CPU

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

UNSAVED = "CONVERTED.py"
"""The converted script's name in commands if it went to standard output."""
SLOW = "no update of a network is compiled: expect hardly more speed than from the original"
WIDEST = 100
"""The last column in which carets may end, however long the line above them is."""
_UNWRAPPED = 10_000
"""The width without a terminal: a file or a pipe takes lines of any length, and names in them stay searchable."""
FORMER_KINDS = {"left as it was": "held back", "not needed": "not needed"}
"""The former names of the kinds of skips in JSON."""


def screen(*, to_stderr: bool = False) -> Console:
    """Standard output, or standard error. If this is not a terminal, only COLUMNS sets its width."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    unwrapped = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(stderr=to_stderr, highlight=False, width=_UNWRAPPED if unwrapped else None)


def linked(console: Console, page: str, style: str = "") -> str:
    """A rich style that makes a text a link to a page of the documentation: `codes/LC005`, `advise#la001`.

    Only `style` itself if the console shows no links, or if the package has no address of its documentation.
    """
    site = published() if console.color_system is not None else ""
    name, _, anchor = page.partition("#")
    return f"{style} link {site}/{name}.html{anchor and f'#{anchor}'}".strip() if site else style


@cache
def published() -> str:
    """The address in `[project.urls]` under Documentation; "" if there is none."""
    from importlib import metadata

    try:
        urls = metadata.metadata("lean-convert").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # the package is run from its folder
        return ""
    named: dict[str, str] = dict(url.split(", ", 1) for url in urls)
    return named.get("Documentation", "").rstrip("/")


@dataclass(frozen=True)
class Result:
    """One script's conversion and its output."""

    script: str
    """The script as the user named it."""
    conversion: Conversion
    output: str | None = None
    """The file with the converted script; None if it went to standard output or nowhere."""
    failure: str | None = None
    """Why the script could not be read, or the output could not be written; None if both succeeded."""

    stale: str | None = None
    """How the output file differs from the script's present conversion; None if it does not, or was not checked."""

    @property
    def done(self) -> bool:
        """Whether the script was converted, and the output succeeded."""
        return self.conversion.converted and self.failure is None and self.stale is None

    @property
    def applied(self) -> tuple[Step, ...]:
        """The steps that changed the script."""
        return tuple(s for s in self.conversion.steps if s.applied)

    @cached_property
    def others(self) -> dict[Path, tuple[Path, bytes]]:
        """The other files that are written with the script, each with its original and its new content."""
        several = self.conversion.several
        if several is None or self.output is None:
            return {}
        found = {}
        for path, data in several.others.items():
            decoded = text.decode(data)
            content = decoded.encode(header.add(decoded.content, header.quoted(path)))
            found[Path(self.output).parent / path] = Path(self.script).parent / path, content
        return found

    @property
    def not_looked_into(self) -> list[str]:
        """Files next to the script that it imports and that may contain parts of the training."""
        path, code = Path(self.script), self.conversion.original
        if not path.is_file() or unparsable(code) is not None:
            return []
        found = not_looked_into(code, path.parent)
        left = not_looked_into(self.conversion.source, path.parent) if self.done else found
        return [str(file) for file in found if file in left and file.resolve() not in self.conversion.beside]

    @property
    def files_to_try(self) -> str:
        """Advice to add the files that a refused script imports; "" if there are none, or it was not refused."""
        files = self.not_looked_into if self.conversion.errors else []
        return _imports(files, "try") if files else ""

    @property
    def left_behind(self) -> str:
        """A warning about modules that the new file imports from the script's folder but would not find in its own."""
        path = Path(self.script)
        if not self.done or self.output is None or not path.is_file() or not Path(self.output).is_file():
            return ""
        several, folder = self.conversion.several, Path(self.output).parent
        source = self.conversion.source if several is None else several.script
        found = set(not_found_from(folder, path, source.encode()))
        for file, data in several.others.items() if several is not None else ():
            found |= {*not_found_from(folder, path, data)}
            found |= {*not_found_from(folder / file.parent, path.parent / file, data)}
        names = sorted(found)
        if not names:
            return ""
        place = f"it imports {' and '.join(names)} from {path.parent}"
        return f"{place}: write it there, or run it with PYTHONPATH={shlex.quote(str(path.resolve().parent))}"

    @property
    def written_apart(self) -> Iterator[str]:
        """Sentences on each file that was given with the script, if these are written as files of their own."""
        several = self.conversion.several
        if several is None:
            return
        for path in several.others:
            yield f"{path} is {'changed' if path in several.changed else 'as it was'}"
        for name, why in several.merged.items():
            yield f"{name} is part of {Path(self.script).name}: {why}"

    @property
    def stats(self) -> Stats:
        """The number of lines added, removed and moved, from the original to the converted script."""
        return compare(self.conversion.original, self.conversion.source).stats

    @property
    def _recommended(self) -> set[str]:
        return {s.transform.name for s in self.applied if isinstance(s.outcome, Applied) and s.outcome.recommended}

    @property
    def compiles(self) -> bool:
        """Whether --compile is known to make the converted script faster."""
        return "compile" in self._recommended

    @property
    def _stays_on_cpu(self) -> bool:
        """Whether the script is not known to use a CUDA device."""
        graphs = [s.outcome for s in self.conversion.steps if s.transform.name == "cudagraphs"]
        return not any(isinstance(o, Skipped) and o.left_as_it_was for o in graphs)

    @property
    def commands(self) -> dict[str, str]:
        """The shell commands that run the converted script, by hardware; empty if it runs nothing by itself."""
        if self.conversion.runs_nothing:
            return {}
        names = self._recommended
        run = ["python", self.output or UNSAVED]
        options = dict(self.conversion.options)
        commands = {"cpu": shlex.join([*run, options.get("compile", "--compile")] if "compile" in names else run)}
        if "cudagraphs" in names:
            graphs = [options.get("cudagraphs", "--cudagraphs"), *cuda_arguments(Tree(self.conversion.original))]
            commands["cuda"] = f"{commands['cpu']} {shlex.join(graphs)}"
        elif "compile" in names and not self._stays_on_cpu:
            commands["cuda"] = " ".join([commands["cpu"], *cuda_arguments(Tree(self.conversion.original))])
        return commands


def describe(step: Step) -> tuple[str, str]:
    """A step's outcome as a word (applied, skipped, not selected, refused), and its notes or reason."""
    match step.outcome:
        case Applied(notes):
            return "applied", "; ".join(notes)
        case Skipped(reason=reason, chosen=chosen):
            return ("skipped", reason) if chosen else ("not selected", "")
        case Refused(diagnostics):
            return "refused", "; ".join(d.message for d in diagnostics)


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """The report as plain data: `{"scripts": [...]}`, one entry per script in the order given."""
    return {"scripts": [_result_as_json(r) for r in results]}


def _result_as_json(result: Result) -> dict[str, Any]:
    original = result.conversion.original
    return {
        "script": result.script,
        "output": result.output,
        "others": [str(path) for path in result.others] if result.done else [],
        "converted": result.done,
        "failure": result.failure,
        "stale": result.stale,
        "headlines": list(result.conversion.headlines) if result.done else [],
        "gone": list(result.conversion.gone) if result.done else [],
        "transforms": [_step_as_json(as_told(result.conversion, s), original) for s in result.conversion.steps],
        "diagnostics": [diagnostic_as_json(d, original) for d in result.conversion.diagnostics],
        "not_looked_into": result.not_looked_into if result.done else [],
        "commands": result.commands if result.done else {},
    }


def _step_as_json(step: Step, original: str) -> dict[str, Any]:
    outcome, reason = describe(step)
    stats = _stats(step)
    skipped = isinstance(step.outcome, Skipped) and step.outcome.chosen
    return {
        "name": step.transform.name,
        "summary": step.transform.summary,
        "result": step.outcome.kind if isinstance(step.outcome, Skipped) and step.outcome.chosen else outcome,
        "reason": reason,
        "places": [_excerpt_as_json(e) for e in excerpts(original, reason)] if skipped else [],
        "lines_added": stats.added,
        "lines_removed": stats.removed,
        "lines_moved": stats.moved,
        # Names of release 0.1, to be removed in the release after it
        "outcome": outcome,
        "kind": FORMER_KINDS[step.outcome.kind] if isinstance(step.outcome, Skipped) and step.outcome.chosen else None,
    }


def _excerpt_as_json(found: Excerpt) -> dict[str, Any]:
    return {"line": found.line, "column": found.column, "end_column": found.end, "source": found.text}


def diagnostic_as_json(d: Diagnostic, source: str = "") -> dict[str, Any]:
    """A finding as plain data, with the text of its line if that is known; `source` is the script's text."""
    found = shown(d.file, d.line, d.column, source)
    return {
        **({"file": d.file} if d.file else {}),
        "code": d.code,
        "severity": d.severity,
        "line": d.line,
        "column": d.column,
        "message": d.message,
        "advice": d.advice,
        **({"end_column": found.end, "source": found.text} if found else {}),
    }


def shown(file: str, line: int, column: int, source: str) -> Excerpt | None:
    """The line of a finding; None if the finding is about the whole file, or the file cannot be read.

    `source` is the script's text; the line is taken from it if `file` is "".
    """
    if (line, column) == (1, 1):
        return None
    if file:
        try:
            source = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
    return excerpt(source, line, column)


def print_report(console: Console, results: Sequence[Result], *, verbose: bool = False) -> None:
    """Print what was done: the transforms of one script, or one row per script; warnings; what to run next.

    Args:
        console: where to print.
        results: the scripts in the order given.
        verbose: print why each unneeded transform is not needed, and all notes on the applied ones.
    """
    only = results[0] if len(results) == 1 else None
    in_vain = only is not None and only.done and not only.compiles and not only.conversion.runs_nothing
    if only is not None and in_vain:  # printed first, for readers who only want speed
        for sentence in (SLOW, *only.conversion.headlines):
            print_line(console, (sentence, "bold yellow"))
        console.print()
    if only is None:
        _print_overview(console, results)
    elif only.applied and only.failure is None:  # without an output, details do not help
        _print_steps(console, only, verbose=verbose)
    for result in results:
        print_diagnostics(console, result.script, warnings_told(result.conversion), result.conversion.original)
    if only is not None and only.done:
        console.print()
        for headline in () if in_vain else only.conversion.headlines:
            print_line(console, (headline, "bold yellow"))
        for line in only.written_apart:
            print_line(console, line)
        if gone := only.conversion.gone:
            what = "not in the new file, so nothing can import it from there: "
            print_line(console, (what, "yellow"), ", ".join(gone))
        for hardware, command in only.commands.items():
            warms = "  # it compiles for half a minute or longer first, so short runs lose time; `bench` tells more"
            costs = warms if hardware == "cpu" and "--compile" in command else ""
            print_line(console, (f"{hardware.upper():<6}", "dim"), (command, "bold"), (costs, "dim"))
        if any(isinstance(s.outcome, Skipped) and s.outcome.reason == ON_CPU for s in only.conversion.steps):
            print_line(console, (f"CUDA  {ON_CPU}", "dim"))
        if behind := only.left_behind:
            print_line(console, (behind, "bold yellow"))
        if files := only.not_looked_into:
            print_line(console, (_imports(files, "more may be converted with"), "bold yellow"))
        if only.conversion.runs_nothing:
            given = shlex.join(["--with", only.script])
            trains = "this file trains nothing by itself, and in a script that imports it the flags stay off"
            advice = f"convert the script that trains: lean-convert TRAIN.py {given}"
            print_line(console, (f"{trains}: {advice}", "bold yellow"))
        if _imports_tensordict(only.conversion.source) and importlib.util.find_spec("tensordict") is None:
            print_line(console, ("needs ", "dim"), "pip install tensordict")
        if only.output is not None and not only.conversion.runs_nothing:
            use = "next  " if only.compiles else "if you use it anyway  "
            print_line(console, (use, "dim"), shlex.join(["lean-convert", "verify", only.script, only.output]))


def _imports(files: Sequence[str], advice: str) -> str:
    """Advice about files that a script imports, but that were not given with it."""
    given = shlex.join(part for file in files for part in ("--with", file))
    was = "was" if len(files) == 1 else "were"
    return f"the script imports {' and '.join(files)}, which {was} not read: {advice} {given}"


def _imports_tensordict(source: str) -> bool:
    return re.search(r"^\s*(from|import) tensordict\b", source, re.MULTILINE) is not None


def print_errors(console: Console, results: Sequence[Result], *, alone: bool = True) -> None:
    """Print why scripts were not converted or written; `alone` says that no files were given with them."""
    for result in results:
        print_diagnostics(console, result.script, result.conversion.errors, result.conversion.original)
        if alone and (hint := result.files_to_try):
            print_line(console, (hint, "bold yellow"))
        for why in filter(None, (result.failure, result.stale)):
            print_line(console, ("Error: ", "red"), why)


def summary(results: Sequence[Result]) -> str:
    """The number of scripts by outcome, in one line."""
    failed = sum(r.failure is not None for r in results)
    refused = sum(r.failure is None and not r.conversion.converted for r in results)
    stale = sum(r.stale is not None for r in results)
    done = sum(r.done for r in results)
    counts = (done, "converted"), (refused, "refused"), (stale, "out of date"), (failed, "failed")
    return ", ".join(f"{number} {word}" for number, word in counts if number or word == "converted")


def print_diagnostics(console: Console, script: str, diagnostics: Sequence[Diagnostic], source: str = "") -> None:
    """Print findings as `file:line:col: CODE message`, each with its marked line and what to do about it.

    Args:
        console: where to print.
        script: the file as the user named it.
        diagnostics: the findings.
        source: the script's text; if empty, lines are not shown.
    """
    for i, d in enumerate(diagnostics):
        style = linked(console, f"codes/{d.code}", "red" if d.severity == "error" else "yellow")
        print_line(console, f"{d.file or script}:{d.line}:{d.column}: ", (d.code, style), f" {d.message}")
        found = shown(d.file, d.line, d.column, source)
        for line in pointed(found) if found else ():
            print_line(console, "    ", line)
        if d.advice not in (later.advice for later in diagnostics[i + 1 :]):
            print_line(console, (f"    {d.advice}", "dim"))


def pointed(found: Excerpt) -> tuple[Text, Text]:
    """A line of a script and, below it, carets under the relevant part."""
    from rich.cells import cell_len
    from rich.text import Text

    text = found.text.lstrip()
    indentation = len(found.text) - len(text)
    start, end = found.column - 1 - indentation, found.end - 1 - indentation
    number = f"{found.line} | "
    before = cell_len(text[:start])
    carets = " " * before + "^" * max(1, min(cell_len(text[start:end]), WIDEST - len(number) - before))
    return (
        Text.assemble((number, "blue"), text),
        Text.assemble((f"{'| ':>{len(number)}}", "blue"), (carets, "yellow")),
    )


def print_line(console: Console, *parts: str | Text | tuple[str, str]) -> None:
    """Print one line without wrapping, for editors, grep, and pasting into a shell."""
    from rich.text import Text

    console.print(Text.assemble(*parts), soft_wrap=True)


Cell: TypeAlias = "str | Text"


def print_rows(console: Console, rows: Sequence[tuple[Cell, ...]], *, prose: bool = True) -> None:
    """Print rows in columns, separated by two spaces.

    Args:
        console: where to print.
        rows: cells of one line each, except the last, which may have several.
        prose: wrap the last cell on a terminal, except lines of code, which begin with their number.
    """
    from rich.text import Text

    texts = [[Text(c) if isinstance(c, str) else c for c in row] for row in rows]
    widths = [max(t.cell_len for t in column) for column in list(zip(*texts, strict=True))[:-1]]
    room = console.width - sum(widths) - 2 * len(widths) if prose and console.file.isatty() else 0
    for row in texts:
        wrapped = [part for line in row[-1].split("\n") for part in (_fitted(console, line, room) if room else [line])]
        for i, part in enumerate(wrapped or [Text()]):
            cells = row[:-1] if i == 0 else [Text() for _ in widths]
            first = Text()
            for cell, width in zip(cells, widths, strict=True):
                first.append_text(cell).append(" " * (width - cell.cell_len + 2))
            first.append_text(part)
            first.rstrip()
            print_line(console, first)


def _fitted(console: Console, line: Text, room: int) -> Sequence[Text]:
    """A line wrapped to a width; unchanged if it is code, or the width is too small."""
    if room < NARROWEST or _CODE.match(line.plain):
        return [line]
    return list(line.wrap(console, room)) or [line]


NARROWEST = 30
"""The minimum width for wrapping a sentence."""
_CODE = re.compile(r"\d+ \| |\s+\| ")


def _print_steps(console: Console, result: Result, *, verbose: bool) -> None:
    """Print the applied transforms, one line each; what was left as it was, and why; and the number not needed."""
    from rich.text import Text

    what, stats = f"{len(result.applied)} transform{'s' * (len(result.applied) != 1)} applied", result.stats
    moved = f", {stats.moved} moved" if stats.moved else ""  # not the steps' sum: several may change one line
    added = f"{stats.added} line{'s' * (stats.added != 1)} added"
    print_line(console, (what, "bold"), f"; compared with the original, {added}, {stats.removed} removed{moved}")
    applied, left, rest = list[tuple[Cell, ...]](), list[tuple[Cell, ...]](), list[tuple[Cell, ...]]()
    held = left_as_it_was(result.conversion)
    shown = {name for one in held for name in one.names}
    for step in (as_told(result.conversion, s) for s in result.conversion.steps):
        outcome, reason = describe(step)
        name = _linked(console, step.transform.name)
        if isinstance(step.outcome, Applied):
            did = step.transform.summary if verbose and not step.outcome.brief else step.brief
            applied.append((name, _line_counts(_stats(step)), _told(did, step.outcome.lesser_notes)))
        elif isinstance(step.outcome, Skipped) and step.outcome.left_as_it_was:
            if verbose and step.transform.name not in shown:
                left.append((name, _told(reason, ())))
        elif outcome != "not selected":
            rest.append((name, Text(reason, "dim")))
    for one in held:
        code = [line for found in one.places for line in pointed(found)]
        left.append((_linked(console, *one.names), _told(one.reason, (*code, one.costs))))
    print_rows(console, applied)
    if left:
        print_line(console, ("left as it was, because", "bold yellow"))
        print_rows(console, left)
    if verbose and rest:
        print_line(console, ("not needed here", "bold"))
        print_rows(console, rest)
    elif not verbose and (said := counts(result.conversion)):
        print_line(console, (f"{said}; -v says why, `lean-convert explain NAME` explains a transform", "dim"))


def _linked(console: Console, *names: str) -> Text:
    """Names of transforms, each with a link to its page."""
    from rich.text import Text

    pages = {name: "" if name == ONE_FILE.name else linked(console, f"transforms/{name}") for name in names}
    return Text("  ") + Text(", ").join(Text(name, page) for name, page in pages.items())


def _told(what: str, more: Iterable[str | Text]) -> Text:
    """A message, with details on the lines below it."""
    from rich.text import Text

    return Text("\n").join([Text(what), *(m if isinstance(m, Text) else Text(m, "dim") for m in more if m)])


def _print_overview(console: Console, results: Sequence[Result]) -> None:
    """Print one row per script: the applied transforms, the changed lines, and the output file or why there is none."""
    from rich.text import Text

    rows: list[tuple[Cell, ...]] = [("script", "applied", "lines", "warnings", "result")]
    for r in results:
        if r.failure is not None:
            outcome = Text("not written", "red")
        elif not r.conversion.converted:
            outcome = Text(f"refused: {', '.join(sorted({d.code for d in r.conversion.errors}))}", "red")
        else:
            outcome = Text(r.output or "", "green")
        applied = f"{len(r.applied)} of {len(r.conversion.steps)}" if r.applied else ""
        lines = _line_counts(r.stats) if r.applied else ""
        rows.append((r.script, applied, lines, str(len(r.conversion.warnings) or ""), outcome))
    print_rows(console, rows, prose=False)


def _stats(step: Step) -> Stats:
    return compare(step.before, step.after).stats


def _line_counts(stats: Stats) -> Text:
    from rich.text import Text

    moved = (f"  {stats.moved} moved", "cyan") if stats.moved else ""
    return Text.assemble((f"+{stats.added}", "green"), " ", (f"-{stats.removed}", "red"), moved)
