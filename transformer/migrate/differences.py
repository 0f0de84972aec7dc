"""The differences between envpool and the chain of wrappers, as measured on whole games (tests/migrate)."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """One aspect in which gymnasium's wrappers and envpool differ, with what each does."""

    what: str
    wrappers: str
    envpool: str


DIFFERENCES = (
    Difference(
        "no-ops and FIRE",
        "up to 30 no-ops at the start of a game, 4 after a lost life; then FIRE and RIGHT, 4 frames each",
        "up to 30 no-ops, then FIRE, at the start of a game and after each lost life",
    ),
    Difference(
        "frame stack",
        "4 times the first frame, at the start of a game and after each lost life",
        "4 times the first frame at the start of a game; continues over a lost life",
    ),
    Difference(
        "end of an episode",
        "reset in the same step: the next observation is the new episode's",
        "reset in the next step, whose action is ignored: one more transition, with reward 0",
    ),
    Difference("episodic_length", "frames of the emulator, including no-ops and FIRE", "steps of the agent"),
    Difference("episodic_return", "of all frames, including those of no-ops and FIRE", "of the agent's steps"),
    Difference(
        "pixels",
        "maximum of two frames in color, then grey",
        "grey before the maximum: up to 16 levels off",
    ),
    Difference(
        "random no-ops", "from gymnasium's generator of each environment", "from C++: other numbers with the same seed"
    ),
    Difference("videos", "--capture-video records the first environment", "none; the option is an error"),
    Difference("names of games", "BreakoutNoFrameskip-v4, also on the command line", "Breakout-v5"),
)
