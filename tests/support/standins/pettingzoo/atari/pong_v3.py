"""A stand-in for Pong between two agents."""

from pettingzoo import ParallelEnv


def parallel_env():
    return ParallelEnv()
