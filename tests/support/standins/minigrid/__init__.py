"""A stand-in for minigrid, of which only wrappers are imported."""
