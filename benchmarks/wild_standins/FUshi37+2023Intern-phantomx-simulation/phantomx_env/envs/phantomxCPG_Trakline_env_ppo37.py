"""Following a line."""

import gymnasium
from noise import environment

PhantomxGymEnv = environment(gymnasium, "Box(37)", "Box(6)")
