"""What importing the package spinup needs of TensorFlow, none of which computes; and what it logs, and where to.

It would log the addresses of functions, which differ from run to run.
"""

import re
import sys
from types import SimpleNamespace

sys.modules["spinup.user_config"] = SimpleNamespace(
    DEFAULT_DATA_DIR="data", FORCE_DATESTAMP=False, DEFAULT_SHORTHAND=True, WAIT_BEFORE_LAUNCH=0
)  # type: ignore[assignment]
sys.modules["spinup.utils.serialization_utils"] = SimpleNamespace(
    convert_json=lambda config: {name: re.sub(r" at 0x\w+", "", str(value)) for name, value in config.items()}
)  # type: ignore[assignment]


class Part:
    """Any module or function."""

    def __getattr__(self, name: str) -> "Part":
        return self

    def __call__(self, *given: object, **named: object) -> "Part":
        return self


class Adam:
    """A class to derive from."""


train = SimpleNamespace(AdamOptimizer=Adam)


def __getattr__(name: str) -> Part:
    return Part()
