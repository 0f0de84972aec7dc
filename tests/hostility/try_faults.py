"""Tries the scripts of faults.py, and writes down which are still converted wrongly.

    PYTHONPATH=tests/support:tests/support/standins python tests/hostility/try_faults.py [--jobs N] [--write] [ITEM...]

With `--write`, faults_wrong.txt is made anew for the items that were tried. The exit status says whether a script
became wrong that was not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from faults import ITEMS, WRONG, WRONG_FILE, Fault, faults
from forking import preload
from judge import Outcome, judge


def main() -> int:
    """Try the scripts of the given items; without items, try all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"of {', '.join(ITEMS)}")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--write", action="store_true", help="write the committed list")
    options = parser.parse_args()
    chosen = [f for f in faults() if not options.items or f.about in options.items]
    wrong, kinds = set[str](), Counter[tuple[str, str]]()
    with ProcessPoolExecutor(options.jobs, initializer=preload) as pool:
        for fault, outcome in zip(chosen, pool.map(tried, chosen), strict=True):
            kinds[fault.about, outcome.kind] += 1
            if not outcome.right:
                wrong.add(fault.name)
                if fault.name not in WRONG or outcome.kind == "unusable":
                    print(f"{outcome.kind}: {fault}", *outcome.said, sep="\n    ", flush=True)
    for (about, kind), number in sorted(kinds.items()):
        print(f"{about}: {number} {kind}")
    for name in sorted(WRONG & {f.name for f in chosen} - wrong):
        print(f"mended: {name}")
    if options.write:
        rest = WRONG - {f.name for f in chosen}
        WRONG_FILE.write_text("".join(f"{name}\n" for name in sorted(rest | wrong)), encoding="utf-8")
    return 0 if wrong <= WRONG else 1


def tried(fault: Fault) -> Outcome:
    """Try one script, and return its outcome."""
    with tempfile.TemporaryDirectory(prefix="lean-fault-") as folder:
        return judge(Path(folder) / "fault.py", fault.source)


if __name__ == "__main__":
    sys.exit(main())
