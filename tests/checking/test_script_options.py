"""The options that switch compilation on are found in the converted script."""

from __future__ import annotations

from transformer.verify.flags import find_flags


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
