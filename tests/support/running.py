"""Runs scripts with `lean-convert run` in processes of their own; conversions may be made by hand."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts import script

from transformer.conversion.settings import settings_of
from transformer.run.cache import key_of, open_cache
from transformer.run.flags import with_all_that_pays
from transformer.run.harness.program import Facts

COMMAND = (sys.executable, "-m", "transformer", "run")


def quick(stop: str) -> str:
    """A convertible script that ends below its imports."""
    return script({"stdlib": "import sys", "functions": stop})


def heed_interrupts() -> None:
    """Let SIGINT end a started process; processes that inherit from a shell's background job ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Runner:
    """A folder with scripts and its own cache."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return self.folder / "cache" / "lean-convert"

    @property
    def environment(self) -> dict[str, str]:
        ours = {"XDG_CACHE_HOME": str(self.cache.parent), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": ""}
        unset = ("RANK", "WORLD_SIZE", "FORCE_COLOR", "GOMP_SPINCOUNT")
        others = {k: v for k, v in os.environ.items() if k not in unset}
        return {**others, **ours, **self.variables}

    def write(self, content: str, name: str = "ppo.py") -> Path:
        path = self.folder / name
        path.write_text(content)
        return path

    def keep(self, script: Path, converted: str, facts: Facts | None = None) -> None:
        """Put a conversion of the present script into the cache; by default, each line comes from the same line."""
        lines = len(converted.split("\n"))
        facts = facts or Facts(origins=list(range(1, lines + 1)), transforms=[None] * lines)
        source = script.read_bytes()
        key = key_of(source, script.name, with_all_that_pays(settings_of(script.parent)).arguments)
        open_cache(self.cache).put(key, script.name, converted.encode(), facts)

    def python(self, *args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """`python args...`"""
        return self._run([sys.executable, *map(str, args)], cwd)

    def run(
        self, *args: str | Path, script_args: Sequence[str] = (), cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`lean-convert run args... -- script_args...`"""
        return self._run([*COMMAND, *map(str, args), "--", *script_args], cwd)

    def popen(self, *args: str | Path) -> subprocess.Popen[str]:
        """Start `lean-convert args...`"""
        return subprocess.Popen(
            [*COMMAND, *map(str, args)], env=self.environment, cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_interrupts,
        )  # fmt: skip

    def _run(self, command: list[str], cwd: Path | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment,
            cwd=cwd or self.folder,
            text=True,
            capture_output=True,
            check=False,
            timeout=300,
        )
