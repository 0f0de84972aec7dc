"""`lean-convert migrate`: replaces gymnasium's Atari wrappers by envpool, another environment with other results."""
