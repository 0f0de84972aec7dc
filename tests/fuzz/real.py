"""cleanrl's published scripts (package cleanrl 1.2.0), downloaded on first use and kept in build/."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "build" / "cleanrl-1.2.0"
NAMES = ("ppo", "ppo_atari", "ppo_atari_envpool", "ppo_atari_lstm", "ppo_continuous_action", "rpo_continuous_action",
         "ppo_rnd_envpool", "ppo_procgen", "ppo_atari_multigpu", "ppo_pettingzoo_ma_atari", "ppg_procgen", "dqn",
         "sac_continuous_action")  # fmt: skip


def real_scripts() -> list[Path]:
    """The scripts, sorted; empty if they cannot be downloaded."""
    if not any(FOLDER.glob("*.whl")):
        FOLDER.mkdir(parents=True, exist_ok=True)
        # The package's metadata ask for an older Python, which its scripts do not need.
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python", "cleanrl==1.2.0"]
        if subprocess.run([*command, "-d", str(FOLDER)], capture_output=True, check=False).returncode != 0:
            return []
    with zipfile.ZipFile(next(FOLDER.glob("*.whl"))) as wheel:
        wanted = [n for n in wheel.namelist() if n.startswith("cleanrl/") and Path(n).stem in NAMES]
        return sorted(Path(wheel.extract(name, FOLDER)) for name in wanted)
