"""The options that switch compilation on are found in the converted script."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from transformer.verify.flags import find_flags
from transformer.verify.harness.options import _flip


def test_flags_are_found_by_what_they_guard() -> None:
    flags = find_flags(
        "if config.use_inductor:\n    f = torch.compile(f)\n"
        "if config.graphs:\n    if f:\n        g = tensordict.nn.CudaGraphModule(g)\n"
    )
    assert flags.options(["compile"]) == ["--use-inductor"]
    assert flags.options(["compile", "cudagraphs"]) == ["--use-inductor", "--graphs"]


def test_no_flag() -> None:
    flags = find_flags("f = torch.compile(f)\nif args.track:\n    wandb.init()\n")
    assert flags.options(["compile"]) is None
    assert flags.options(["compile", "cudagraphs"]) is None


def test_words_that_flip_a_switch() -> None:
    def only(*words: str) -> Callable[[str], bool]:
        return lambda text: words.index(text) % 2 == 0  # raises for other words

    parser = argparse.ArgumentParser()
    for pair in PAIRS:
        switch = parser.add_argument(f"--{pair[0]}", type=only(*pair))
        assert [_flip(switch, value) for value in (False, True)] == [[f"--{pair[0]}", word] for word in pair]


PAIRS = (("true", "false"), ("1", "0"), ("yes", "no"), ("on", "off"))
