"""Transforms for long or large runs: several processes, environments in processes, checkpoints."""
