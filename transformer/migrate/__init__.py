"""`lean-convert migrate`: gymnasium's Atari wrappers become envpool; another environment, so other results."""
