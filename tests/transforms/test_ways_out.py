"""What is left as it was is told with what to write instead."""

import re

from transformer.conversion.pipeline import all_transforms

BY_REASON = {"dissolve", "inline"}
"""Their obstacles are of many kinds, so each of their reasons says what to write."""


def test_every_transform_says_what_to_write_instead() -> None:
    silent = {info.name for info in all_transforms() if not re.search(r"[:.] \S", info.costs)} - BY_REASON
    assert not silent
