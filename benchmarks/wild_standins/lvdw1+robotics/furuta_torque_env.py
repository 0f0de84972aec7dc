"""A rotary pendulum in PyBullet."""

import gymnasium
from noise_world import environment

FurutaPendulumTorqueEnv = environment(gymnasium, "Box(6)", "Box(1)")
