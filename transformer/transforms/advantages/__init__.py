"""Transforms of the advantage estimation; of other transforms they know what the history tells."""
