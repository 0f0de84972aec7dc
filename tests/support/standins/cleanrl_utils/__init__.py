"""Stands in for the package beside cleanrl's scripts, of which the Atari ones use the wrappers for gymnasium."""
