"""Where the time of a conversion goes: processor seconds of each part, measured in a separate process, as JSON.

The time of a part inside another one counts only for the inner part. Formatting includes the formatter's processes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

PARTS = ("import", "parse", "code generation", "formatting", "analyses")
"""The parts; the last one is everything else, such as queries on the trees, and edits."""


class Parts:
    """Counts processor seconds by part; time is charged to the innermost part that runs."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._running = ["import"]
        self._since = self._now()

    @staticmethod
    def _now() -> float:
        times = os.times()
        return time.process_time() + times.children_user + times.children_system

    def _charge(self) -> None:
        now = self._now()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def enter(self, part: str) -> None:
        """Begin a part."""
        self._charge()
        self._running.append(part)

    def leave(self) -> None:
        """End the part; the one around it continues."""
        self._charge()
        self._running.pop()

    def charged(self, owner: object, name: str, part: str) -> None:
        """Charge every call of a function to a part."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            self.enter(part)
            try:
                return function(*args, **options)
            finally:
                self.leave()

        setattr(owner, name, timed)


def main(script: str) -> None:
    """Convert a script, and print the parts."""
    parts = Parts()  # made before the imports, which are the first part
    import ast

    import libcst

    import transformer.commands.convert
    from transformer.syntax import layout, rewrite

    parts.charged(ast, "parse", "parse")
    for name in ("parse_module", "parse_statement", "parse_expression"):
        parts.charged(libcst, name, "parse")
    parts.charged(rewrite, "text_of", "code generation")
    parts.charged(layout, "_ruff", "formatting")
    text = Path(script).read_text(encoding="utf-8")
    parts.enter("analyses")
    conversion = transformer.convert(text)
    parts.leave()
    assert conversion.converted
    print(json.dumps({part: parts.seconds[part] for part in PARTS}))


if __name__ == "__main__":
    main(sys.argv[1])
