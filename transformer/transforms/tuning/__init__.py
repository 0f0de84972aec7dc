"""Transforms that speed up single lines, or show the speed; independent of how phases become functions."""
