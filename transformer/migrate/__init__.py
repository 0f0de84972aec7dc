"""`lean-convert migrate`: replaces gymnasium's Atari wrappers by envpool, a different environment: results differ."""
