"""Benchmarking: how fast original and converted script train, and what the speed costs."""
