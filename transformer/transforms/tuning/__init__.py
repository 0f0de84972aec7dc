"""Transforms that change where and how fast a line runs, and nothing of what it computes."""
