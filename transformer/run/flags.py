"""The options of the conversion and the flags of the converted script that suit this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer.conversion.settings import Settings

TAKEN = {"fused-envs": "fused environments"}
"""Transforms that other commands apply only on request, because they lengthen the script, with names for messages."""
_DEVICES = Path("/dev")
_OFF = frozenset("false no off n f 0".split())


def with_all_that_pays(settings: Settings) -> Settings:
    """The settings, plus the transforms that gain speed without changing bits, unless the user has chosen some."""
    wanted = settings.fuse_envs is None and settings.select is None
    return replace(settings, fuse_envs=True) if wanted else settings


def choose(options: Mapping[str, str], args: Sequence[str], *, cuda: bool) -> list[str]:
    """--compile, and on CUDA also --cudagraphs, unless the arguments already contain the flag.

    Args:
        options: the flags of the script, with their spelling.
        args: the script's arguments.
        cuda: whether there is a CUDA device.
    """
    wanted = ["compile", "cudagraphs"] if cuda and not _on_cpu(args) else ["compile"]
    return [options[flag] for flag in wanted if flag in options and options[flag] not in args]


def has_cuda() -> bool:
    """Whether torch will find a CUDA device, determined without importing torch."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    if not (any(_DEVICES.glob("nvidia[0-9]*")) or (_DEVICES / "dxg").exists()):  # dxg is WSL's
        return False
    torch = find_spec("torch")
    version = Path(torch.origin).with_name("version.py") if torch is not None and torch.origin else None
    return version is not None and re.search(r"^cuda\b.*= *'", version.read_text("utf-8"), re.MULTILINE) is not None


def _on_cpu(args: Sequence[str]) -> bool:
    """Whether a script's arguments turn off the GPU, judged by the usual names of such arguments."""
    words = " ".join(args).lower().replace("=", " ").split()
    off = any(a == "--cuda" and b in _OFF for a, b in pairwise(words))
    return off or "--no-cuda" in words or "cpu" in words
