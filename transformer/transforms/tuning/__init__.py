"""Transforms that speed up single lines, or show the speed; they do not depend on how phases become functions."""
