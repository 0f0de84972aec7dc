"""The global random generators: a common start, and digests to see whether a run drew a number more or fewer."""

from __future__ import annotations

import hashlib
import pickle
import random

import numpy as np
import torch


def seed_all() -> None:
    """Start every global generator from one state, for scripts that do not seed it; those that do never see this."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def state_digests() -> dict[str, str]:
    """The state of each global generator, as a digest. Draws nothing."""
    states = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state(legacy=False)),
        "python": repr(random.getstate()).encode(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["torch.cuda"] = torch.cuda.get_rng_state().numpy().tobytes()
    return {name: hashlib.blake2b(state, digest_size=8).hexdigest() for name, state in states.items()}
