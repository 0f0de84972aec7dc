"""Following a line."""

import gymnasium
from noise_world import environment

PhantomxGymEnv = environment(gymnasium, "Box(37)", "Box(6)")
