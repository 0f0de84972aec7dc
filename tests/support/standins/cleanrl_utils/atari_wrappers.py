"""The wrappers over gymnasium's classes; importing them also registers the game."""

import gymnasium
from pixel_game import register, wrappers

register(gymnasium)
globals().update(wrappers(gymnasium))
