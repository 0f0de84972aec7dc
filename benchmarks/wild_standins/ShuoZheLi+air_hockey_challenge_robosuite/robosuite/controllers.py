"""How arms are moved."""

from robosuite import load_controller_config

__all__ = ["load_controller_config"]
