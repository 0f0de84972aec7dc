"""Stands in for stable_baselines3, of which the older scripts use the replay buffer and the wrappers for gym."""

__version__ = "2.0.0"
