"""A rotary pendulum in PyBullet."""

import gymnasium
from noise import environment

FurutaPendulumTorqueEnv = environment(gymnasium, "Box(6)", "Box(1)")
