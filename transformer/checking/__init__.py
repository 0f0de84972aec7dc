"""Checking that a converted script computes what the original does."""

from transformer.checking.compare import compare
from transformer.checking.difference import Difference
from transformer.checking.record import record
from transformer.checking.recording import Recording
from transformer.checking.run import RunFailed

__all__ = ["Difference", "Recording", "RunFailed", "compare", "record"]
