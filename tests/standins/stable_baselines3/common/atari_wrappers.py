"""The wrappers over gym's classes; importing them makes the game known too."""

import gym
from pixel_game import register, wrappers

register(gym)
globals().update(wrappers(gym))
