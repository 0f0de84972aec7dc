"""Transforms of the phase that steps the optimizer; they know nothing of the environment."""
