"""Parsing in several threads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THREADS = """
import gc, sys, threading, time
from {module} import parse

source = "\\n".join(f"x = [f(a[{{n}}] + b.c * {{n}}) for a, b in d]" for n in range(400))
gc.callbacks.append(lambda *_: sum(range(50)))
sys.setswitchinterval(1e-6)
end, failed = time.monotonic() + 3, []

def parses():
    while time.monotonic() < end and not failed:
        try:
            parse(source)
        except SystemError as error:
            failed.append(error)

threads = [threading.Thread(target=parses) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*failed)
"""


def threads(module: str) -> str:
    command = [sys.executable, "-c", THREADS.format(module=module)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


@pytest.mark.slow
def test_threads_may_parse() -> None:
    assert threads("transformer.syntax.query") == ""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the fault is Python 3.11's")
def test_threads_may_not_parse_by_ast() -> None:
    assert "recursion depth mismatch" in threads("ast")


def test_verify_parses_in_threads() -> None:
    harness = ROOT / "transformer" / "verify" / "harness"  # its modules run in processes of their own
    modules = [p for p in (ROOT / "transformer" / "verify").rglob("*.py") if not p.is_relative_to(harness)]
    assert len(modules) > 20
    for path in modules:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not used & {"ast.parse", "compile", "ast.literal_eval"}, path
