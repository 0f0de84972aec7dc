"""The wrappers over gym's classes, or gymnasium's if the script uses that; importing them also registers the game."""

import importlib
import sys

from pixel_game import register, wrappers

newer = "gymnasium" in sys.modules and "gym" not in sys.modules
gym = importlib.import_module("gymnasium" if newer else "gym")
register(gym)
globals().update(wrappers(gym))
