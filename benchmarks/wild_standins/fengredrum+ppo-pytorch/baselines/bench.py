"""What watches environments."""

from episode_monitor import Monitor as Monitor
