"""Measure how fast original and converted script train, and what the speed costs; knows scripts, not transforms."""
