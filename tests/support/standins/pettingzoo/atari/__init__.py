"""A stand-in for pettingzoo.atari."""
