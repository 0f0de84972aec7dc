"""A stand-in for stable_baselines3; the older scripts use its replay buffer and its wrappers for gym."""

__version__ = "2.0.0"
