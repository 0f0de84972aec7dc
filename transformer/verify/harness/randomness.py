"""The global random generators: a common initial state, and digests to detect additional or missing draws."""

from __future__ import annotations

import hashlib
import pickle
import random

import numpy as np
import torch


def seed_all(rank: int = 0) -> None:
    """Put every global generator into a fixed state; this only affects scripts that do not seed them.

    Processes of one launch start from different states, by `rank`.
    """
    random.seed(rank)
    np.random.seed(rank)
    torch.manual_seed(rank)


def state_digests() -> dict[str, str]:
    """A digest of the state of each global generator. Draws nothing."""
    states = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state(legacy=False)),
        "python": repr(random.getstate()).encode(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["torch.cuda"] = torch.cuda.get_rng_state().numpy().tobytes()
    return {name: hashlib.blake2b(state, digest_size=8).hexdigest() for name, state in states.items()}
