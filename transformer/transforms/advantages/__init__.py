"""Transforms of the advantage estimation; they know other transforms only through the history."""
