"""Transforms of the phase that steps the environment; of other transforms they know what the history tells."""
