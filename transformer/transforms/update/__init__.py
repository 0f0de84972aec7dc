"""Transforms of the phase that steps the optimizer; of other transforms they know what the history tells."""
