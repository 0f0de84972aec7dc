"""Reads LeanRL's scripts (https://github.com/meta-pytorch/LeanRL) and fixes code that no longer runs on current torch.

None of their code is part of this project: a checkout is read, and its scripts are changed in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class CannotMend(Exception):
    """A script lacks the text to be replaced, so it is not the version for which the fixes were written."""


@dataclass(frozen=True)
class Mend:
    """One replacement, which must apply exactly once."""

    old: str
    new: str
    why: str


_TRACKER = Mend(
    "import wandb",
    "import types\nwandb = types.SimpleNamespace(init=lambda **_: None, log=lambda *_, **__: None)",
    "the tracker is not what is measured, and needs an account or a package; it is called as before, and does nothing",
)
_NO_LOGITS = Mend(
    'Categorical.logits = property(Categorical.__dict__["logits"].wrapped)\n',
    "",
    "torch sets this attribute on the distribution itself, which a property without a setter forbids",
)
_NO_PROBS = Mend(
    'Categorical.probs = property(Categorical.__dict__["probs"].wrapped)\n', "", "the same, for probabilities"
)


def _no_gradients(arguments: str) -> Mend:
    made = f"agent_inference = Agent({arguments}, device=device)"
    why = "with current tensordict, the copy that shares the parameters keeps a graph, and the second backward() raises"
    return Mend(f"{made}\n", f"{made}.requires_grad_(False)\n", why)


MENDS = {
    "ppo_continuous_action_torchcompile.py": (_TRACKER, _no_gradients("n_obs, n_act")),
    "ppo_atari_envpool_torchcompile.py": (_TRACKER, _NO_LOGITS, _NO_PROBS, _no_gradients("envs")),
}
"""The fixes by file, in the order in which they are applied."""


def mended(path: Path) -> str:
    """The text of one of LeanRL's scripts with the fixes.

    Raises:
        CannotMend: the script is another version.
        OSError: it cannot be read.
    """
    text = path.read_text(encoding="utf-8")
    for mend in MENDS[path.name]:
        if text.count(mend.old) != 1:
            raise CannotMend(f"{path.name} holds {text.count(mend.old)} times, not once: {mend.old.strip()}")
        text = text.replace(mend.old, mend.new)
    return text
