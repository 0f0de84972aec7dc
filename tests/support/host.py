"""Counts the code in a script's text that copies tensors between host and device."""

import re
from collections import Counter

COPY = re.compile(r"\.(?:cpu|numpy)\(|\bnp\.asarray\(|\.from_numpy\(|\.as_tensor\(")


def host_copies(source: str) -> Counter[str]:
    """How often each kind of copy occurs."""
    return Counter(COPY.findall(source))
