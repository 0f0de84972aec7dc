"""The replay buffer under the name that the older scripts import."""

from cleanrl_utils.buffers import ReplayBuffer, ReplayBufferSamples

__all__ = ["ReplayBuffer", "ReplayBufferSamples"]
