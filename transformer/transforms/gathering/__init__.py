"""Bring rollout and update out of functions and classes into one loop; these transforms need no recognised loop."""
