"""Measure how fast the original and the converted script train, and what the speed costs; knows no transforms."""
