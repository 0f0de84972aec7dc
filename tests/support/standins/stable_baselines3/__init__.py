"""Stands in for stable_baselines3, of which cleanrl's older Atari scripts use the wrappers for gym."""
