"""Check that a converted script computes what the original does; this layer knows nothing of the conversion."""

from transformer.verify.compare import compare
from transformer.verify.difference import Difference
from transformer.verify.record import record
from transformer.verify.recording import Recording
from transformer.verify.run import RunFailed

__all__ = ["Difference", "Recording", "RunFailed", "compare", "record"]
