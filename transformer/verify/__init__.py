"""Check that a converted script computes the same as the original; this layer knows nothing about the conversion."""

from transformer.verify.compare import compare
from transformer.verify.difference import Difference
from transformer.verify.record import record
from transformer.verify.recording import Recording
from transformer.verify.run import RunFailed

__all__ = ["Difference", "Recording", "RunFailed", "compare", "record"]
