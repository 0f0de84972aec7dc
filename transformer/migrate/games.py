"""The Atari games by their names in gymnasium and gym, and in envpool."""

from __future__ import annotations

import re

GAMES = frozenset(
    "Adventure AirRaid Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Berzerk Bowling "
    "Boxing Breakout Carnival Centipede ChopperCommand CrazyClimber Defender DemonAttack DoubleDunk ElevatorAction "
    "Enduro FishingDerby Freeway Frostbite Gopher Gravitar Hero IceHockey Jamesbond JourneyEscape Kangaroo Krull "
    "KungFuMaster MontezumaRevenge MsPacman NameThisGame Phoenix Pitfall Pong Pooyan PrivateEye Qbert Riverraid "
    "RoadRunner Robotank Seaquest Skiing Solaris SpaceInvaders StarGunner Tennis TimePilot Tutankham UpNDown Venture "
    "VideoPinball WizardOfWor YarsRevenge Zaxxon".split()
)
"""The games that have an id ending in NoFrameskip-v4."""

_ID = re.compile(r"(\w+)NoFrameskip-v4")


def envpool_id(gym_id: str) -> str | None:
    """envpool's id for a game without frame skip and sticky actions; None for any other environment."""
    found = _ID.fullmatch(gym_id)
    return f"{found[1]}-v5" if found and found[1] in GAMES else None


def looks_like_a_game(text: str) -> bool:
    """Whether a text is the id of an Atari environment, in any version."""
    return "NoFrameskip-v" in text or text.startswith("ALE/")
