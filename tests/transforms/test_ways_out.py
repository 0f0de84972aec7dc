"""A reason for leaving a script alone says what to write instead."""

import re

from transformer.conversion.pipeline import all_transforms

BY_REASON = {"dissolve", "inline"}
"""These give many reasons, each of which says what to write."""


def test_every_transform_says_what_to_write_instead() -> None:
    silent = {info.name for info in all_transforms() if not re.search(r"[:.] \S", info.costs)} - BY_REASON
    assert not silent
