"""What is kept of a conversion, chosen for a machine, and imported before the script runs."""

import ast
import sys
from pathlib import Path
from types import MappingProxyType

import golden
import pytest
from scripts import script

from transformer.run import flags
from transformer.run.early import import_ahead, leading_imports, too_early
from transformer.run.flags import choose, has_cuda
from transformer.run.prepare import facts_of

HARNESS = golden.FIXTURES.parent / "transformer" / "run" / "harness"


class TestFacts:
    @pytest.mark.parametrize(
        "name", ["gym_classic_discrete", "in_main", "in_methods", "module_level", "recurrent_lstm"]
    )
    def test_lines_loop_and_counter(self, name: str) -> None:
        original = (golden.FIXTURES / f"{name}.py").read_text(encoding="utf-8")
        conversion = golden.converted(original)
        facts = facts_of(conversion)
        here, there = conversion.source.split("\n"), original.split("\n")
        assert len(facts.origins) == len(facts.transforms) >= len(here) - 1
        for origin, transform in zip(facts.origins, facts.transforms, strict=True):
            assert (origin is None) == (transform is not None)
        told = [n for n, line in enumerate(here) if len(line) > 20 and here.count(line) == there.count(line) == 1]
        right = [n for n in told if facts.origins[n] == there.index(here[n]) + 1]
        assert len(told) > 25
        assert len(right) > 0.9 * len(told)
        assert facts.loop is not None
        assert here[facts.loop - 1].lstrip().startswith(("for update in ", "for iteration in ", "for ", "while "))
        assert facts.options["compile"].startswith("--")
        if name == "gym_classic_discrete":
            assert here[facts.loop - 1] == "    for update in range(1, num_updates + 1):"
            assert facts.counter == "global_step"

    def test_a_line_of_a_changed_statement_has_its_origin(self) -> None:
        """Each line has one, not only the line that is reported for the statement."""
        original = script()
        conversion = golden.converted(original)
        facts = facts_of(conversion)
        lines = conversion.source.split("\n")
        calls = [n for n, line in enumerate(lines) if ".step(" in line and "envs" in line]
        assert calls and all(facts.origins[n] for n in calls)


class TestFlags:
    OPTIONS = MappingProxyType(
        {"compile": "--compile", "cudagraphs": "--cudagraphs", "measure_burnin": "--measure-burnin"}
    )

    @pytest.mark.parametrize(
        ("args", "cuda", "expected"),
        [
            ([], False, ["--compile"]),
            ([], True, ["--compile", "--cudagraphs"]),
            (["--no-cuda"], True, ["--compile"]),
            (["--cuda", "False"], True, ["--compile"]),
            (["--cuda=0"], True, ["--compile"]),
            (["--cuda", "true"], True, ["--compile", "--cudagraphs"]),
            (["--device", "cpu"], True, ["--compile"]),
            (["--compile"], True, ["--cudagraphs"]),
        ],
    )
    def test_choice(self, args: list[str], cuda: bool, expected: list[str]) -> None:
        assert choose(self.OPTIONS, args, cuda=cuda) == expected

    def test_a_script_without_flags_gets_none(self) -> None:
        assert choose({}, [], cuda=True) == []

    @pytest.mark.parametrize(
        ("device", "version", "visible", "expected"),
        [
            (True, "cuda: Optional[str] = '12.8'\n", None, True),
            (True, "cuda = '12.8'\nhip = None\n", "0", True),
            (True, "cuda: Optional[str] = None\n", None, False),
            (True, "cuda = '12.8'\n", "", False),
            (True, "cuda = '12.8'\n", "-1", False),
            (False, "cuda = '12.8'\n", None, False),
            (True, None, None, False),
        ],
    )
    def test_cuda_is_seen_without_torch(
        self, device: bool, version: str | None, visible: str | None, expected: bool,
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        if device:
            (tmp_path / "dev").mkdir()
            (tmp_path / "dev" / "nvidia0").touch()
        monkeypatch.setattr(flags, "_DEVICES", tmp_path / "dev")
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "version.py").write_text(version or "")
        spec = None if version is None else type("Spec", (), {"origin": str(tmp_path / "torch" / "__init__.py")})
        monkeypatch.setattr(flags, "find_spec", lambda name: spec)
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert has_cuda() == expected


class TestImportsAhead:
    def test_up_to_the_first_statement(self) -> None:
        code = b'"""A script."""\nfrom __future__ import annotations\nimport a\nfrom b import c\nx = 1\nimport d\n'
        assert len(list(leading_imports(code))) == 3
        assert list(leading_imports(b"no python")) == []

    def test_only_installed_modules_are_loaded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("installed_one", "installed_two"):
            (tmp_path / "site").mkdir(exist_ok=True)
            (tmp_path / "site" / f"{name}.py").write_text("")
        folder = tmp_path / "scripts"
        (folder / "installed_one").mkdir(parents=True)  # a folder without modules, as wandb makes for runs
        (folder / "mine.py").write_text("raise AssertionError('is the user\\'s')")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        code = b"import installed_one\nimport mine\nimport installed_two\n"
        assert import_ahead(code, "x.py", str(folder)) == ["import installed_one"]
        assert "installed_one" in sys.modules and "installed_two" not in sys.modules

    def test_failing_imports_are_left_to_the_script(self, tmp_path: Path) -> None:
        code = b"import there_is_no_such_module\nimport json\n"
        assert import_ahead(code, "x.py", str(tmp_path)) == ["import there_is_no_such_module"]
        assert import_ahead(b"from . import x\n", "x.py", str(tmp_path)) == []
        assert import_ahead(b"", "x.py", str(tmp_path)) == []

    def test_too_early(self) -> None:
        assert not too_early(["import json"], b"import os\nimport json\nx = 1\n")
        assert too_early(["import json"], b"import os\nx = 1\nimport json\n")
        assert not too_early([], b"x = 1\n")


def test_the_harness_needs_nothing_but_the_standard_library() -> None:
    """Spawned processes load it under another name."""
    files = list(HARNESS.glob("*.py"))
    assert len(files) > 4
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names, (file, names)
