"""Transforms of the phase that steps the environment; they know other transforms only through the history."""
