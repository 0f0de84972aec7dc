"""A stand-in for minigrid; scripts only import its wrappers."""
