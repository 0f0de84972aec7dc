"""One quantity in which two runs differ, and where the difference is first seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from transformer.verify.recording import Moment

Quantity = Literal[
    "action",
    "scalar",
    "print",
    "text",
    "event",
    "optimizer",
    "hyperparameter",
    "gradient norm",
    "parameter",
    "optimizer state",
    "final parameter",
    "random state",
    "other network",
    "file",
]

LACKING = "nothing"
"""Stands for the value on the side that has none."""


@dataclass(frozen=True)
class Difference:
    """All differing entries of one quantity and name; the values are those of the first."""

    moment: Moment
    """When the difference is first seen, as the number of environment and optimizer steps before it."""
    quantity: Quantity
    name: str
    """A scalar's tag, a parameter's name, a generator's name, a file's path; empty if there is only one."""
    where: str
    """The first place: `step 512`, `optimizer step 17, element (3, 4)`, `action 40`."""
    left: str
    right: str
    count: int
    """The number of entries that differ."""
    error: float | None
    """The largest absolute difference; None if it has no size, or the values were not kept."""

    @property
    def meaning(self) -> str:
        """The kind of mistake that shows first in this quantity."""
        return _MEANINGS[self.quantity]

    def __str__(self) -> str:
        """One line: the quantity, where, both values and how far apart they are."""
        name = f" {self.name}" if self.name else ""
        text = f"{self.quantity}{name} at {self.where}: {self.left} became {self.right}"
        if self.error is not None:
            text += f" (largest difference {self.error:.3g})"
        return text if self.count == 1 else f"{text}; {self.count} entries differ"


_MEANINGS: dict[Quantity, str] = {
    "action": "the policy saw other observations or parameters, or its sampling drew other random numbers",
    "random state": "more or fewer random numbers were drawn",
    "other network": "a network that no optimizer holds, such as a target network, was updated differently",
    "optimizer": "the update loop does not take the same optimizer steps",
    "gradient norm": "the loss, its minibatch (advantages, returns) or the clipping differs",
    "hyperparameter": "the learning rate or another setting of the optimizer is not the same number",
    "optimizer state": "the optimizer's state was not carried over, or saw another gradient",
    "parameter": "the optimizer started from, or arrived at, other parameters",
    "scalar": "a logged number is computed from other values, in another way, or at another step",
    "print": "a printed line is computed from other values, in another way, or at another time",
    "text": "a logged text is computed from other values, or in another way",
    "event": "an environment or a writer is made, reset or closed more or less often, or in another order",
    "final parameter": "the parameters were changed after the last optimizer step",
    "file": "the script left other files behind",
}

ORDER: tuple[Quantity, ...] = tuple(_MEANINGS)
"""Causes before effects: a gradient precedes the step that uses it, and training precedes its logs."""
