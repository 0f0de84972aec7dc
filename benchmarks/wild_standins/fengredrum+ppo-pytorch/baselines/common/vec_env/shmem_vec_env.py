"""Environments of which each would have a process of its own."""

from .dummy_vec_env import DummyVecEnv as ShmemVecEnv

__all__ = ["ShmemVecEnv"]
