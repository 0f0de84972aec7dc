"""Checking that a converted script computes what the original does."""

from transformer.checking.compare import compare
from transformer.checking.difference import Difference
from transformer.checking.record import RunFailed, record
from transformer.checking.recording import Recording

__all__ = ["Difference", "Recording", "RunFailed", "compare", "record"]
