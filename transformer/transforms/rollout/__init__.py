"""Transforms of the phase that steps the environment; they know nothing of the update."""
