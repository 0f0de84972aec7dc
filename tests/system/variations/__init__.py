"""Scripts that deviate from the skeleton as users' do, a module for each subject.

To add one, write a `Variation` into the list of its subject: the parts of tests/support/scripts.py that differ, and the
transforms that are skipped on it, each with a piece of the reason.
"""

from variations import advantages, environments, functions, minibatches, networks, optimizers, spaces, storage
from variations.base import Variation

VARIATIONS = [
    Variation("the skeleton", {}),
    *functions.VARIATIONS,
    *environments.VARIATIONS,
    *spaces.VARIATIONS,
    *storage.VARIATIONS,
    *networks.VARIATIONS,
    *optimizers.VARIATIONS,
    *minibatches.VARIATIONS,
    *advantages.VARIATIONS,
]
