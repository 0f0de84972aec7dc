"""Transforms of the advantage estimation; they know nothing of how networks are called."""
