"""Transforms of the phase that steps the optimizer; they know other transforms only through the history."""
