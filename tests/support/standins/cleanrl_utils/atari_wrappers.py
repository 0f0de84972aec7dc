"""The wrappers over gymnasium's classes; importing them makes the game known too."""

import gymnasium
from pixel_game import register, wrappers

register(gymnasium)
globals().update(wrappers(gymnasium))
