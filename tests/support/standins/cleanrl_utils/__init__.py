"""A stand-in for the package beside cleanrl's scripts; the Atari scripts use its wrappers for gymnasium."""
