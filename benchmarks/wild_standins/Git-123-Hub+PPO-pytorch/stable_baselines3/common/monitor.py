"""A wrapper that tells the sum of an episode's rewards."""

from episode_monitor import Monitor as Monitor
