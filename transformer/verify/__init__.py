"""Checking that a converted script computes what the original does; knows nothing of how it was converted."""

from transformer.verify.compare import compare
from transformer.verify.difference import Difference
from transformer.verify.record import record
from transformer.verify.recording import Recording
from transformer.verify.run import RunFailed

__all__ = ["Difference", "Recording", "RunFailed", "compare", "record"]
