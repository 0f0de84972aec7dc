"""Wiping a table."""

from typing import Any

DEFAULT_WIPE_CONFIG: dict[str, Any] = {}
