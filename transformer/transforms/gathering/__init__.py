"""Bring rollout and update into one loop, out of functions and classes; these need no recognised loop yet."""
