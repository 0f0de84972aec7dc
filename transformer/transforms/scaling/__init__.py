"""Transforms for runs that are long or large: several processes, environments in processes, checkpoints."""
