"""An optimizer is made capturable where a CUDA graph holds its step, and nowhere else."""

import pytest
from cases import converted_by
from scripts import PARTS, script
from test_cudagraphs import ON_DEVICE

from transformer import Conversion

MADE = "optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate)"
ANNEALED = {**ON_DEVICE, "optimizer": MADE, "anneal": PARTS["anneal"]}
CONSTANT = {**ON_DEVICE, "optimizer": MADE, "anneal": "print(iteration)"}
LOAD = "optimizer.load_state_dict(torch.load('optimizer.pt'))"
TENSOR = 'group["lr"] = torch.{}(group["lr"], dtype=torch.float64, device=device if args.cudagraphs else "cpu")'
HOST_TENSOR = 'group["lr"] = torch.tensor(group["lr"], dtype=torch.float64)'
COUNTS = 'state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=device)'
EITHER = "if args.compile or args.cudagraphs:"
BRANCHING = {"metrics": "if ratio.max() > 100:\n    ratio = 2 * ratio"}


def converted(parts: dict[str, str]) -> Conversion:
    conversion = converted_by(script(parts), "policy", "sampling", "tensor-lr", "update", "cudagraphs")
    assert "CudaGraphModule(" in conversion.source
    return conversion


def lines(conversion: Conversion) -> list[str]:
    return [line.strip() for line in conversion.source.splitlines()]


@pytest.mark.parametrize(
    ("optimizer", "captured"),
    [
        (MADE, True),
        ("optimizer = torch.optim.AdamW(agent.parameters(), args.learning_rate, eps=1e-5)", True),
        pytest.param(
            "optimizer = optim.RMSprop(params=agent.parameters(), lr=args.learning_rate, alpha=0.9)",
            True,
            marks=pytest.mark.slow,
        ),
        ("optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, fused=False)", False),
        pytest.param(
            "optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, capturable=False)",
            False,
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.parametrize("base", [ANNEALED, CONSTANT], ids=["annealed", "constant"])
def test_optimizer_is_capturable_where_a_graph_holds_its_step(base: dict[str, str], optimizer: str, captured: bool):
    conversion = converted({**base, "optimizer": optimizer})
    assert ("update = CudaGraphModule(update" in conversion.source) == captured
    assert (f"{optimizer[:-1]}, capturable=args.cudagraphs)" in lines(conversion)) == captured
    rates = captured and base is ANNEALED
    assert (TENSOR.format("tensor") in lines(conversion)) == rates
    assert EITHER not in lines(conversion) or base is ANNEALED
    assert not rates or lines(conversion)[lines(conversion).index(TENSOR.format("tensor")) - 3] == EITHER


def test_an_optimizer_without_counts_needs_nothing() -> None:
    conversion = converted({**CONSTANT, "optimizer": "optimizer = optim.SGD(agent.parameters(), lr=0.1)"})
    assert "update = CudaGraphModule(update" in conversion.source
    assert "capturable" not in conversion.source


@pytest.mark.parametrize("base", [ANNEALED, CONSTANT], ids=["annealed", "constant"])
def test_optimizer_stays_as_it_is_where_no_graph_holds_its_step(base: dict[str, str]) -> None:
    conversion = converted({**base, **BRANCHING})
    assert "update = CudaGraphModule(update" not in conversion.source
    assert "capturable" not in conversion.source
    assert "device=device if args.cudagraphs" not in conversion.source
    assert (HOST_TENSOR in lines(conversion)) == (base is ANNEALED)


@pytest.mark.parametrize(
    "parts",
    [
        {"before_loop": LOAD},
        {"before_loop": f"if args.seed > 1:\n    {LOAD}\nprint(args)"},
        {
            "functions": "def restore(path, opt):\n    opt.load_state_dict(torch.load(path))\n\n\n",
            "before_loop": "restore('optimizer.pt', optimizer)",
        },
    ],
    ids=["above the loop", "if it is there", "in a function"],
)
@pytest.mark.parametrize("base", [ANNEALED, CONSTANT], ids=["annealed", "constant"])
def test_a_loaded_state_becomes_capturable(base: dict[str, str], parts: dict[str, str]) -> None:
    found = lines(converted({**base, **parts}))
    assert found.count(COUNTS) == 1
    assert found.index("if args.cudagraphs:") < found.index(COUNTS)
    assert found.count(TENSOR.format("as_tensor")) == (base is ANNEALED)
    assert base is CONSTANT or found.index(TENSOR.format("as_tensor")) < found.index(COUNTS)


def test_a_state_that_the_loop_loads_keeps_the_update_out_of_graphs() -> None:
    conversion = converted({**ANNEALED, "head": f"if iteration == 2:\n    {LOAD}"})
    step = next(s for s in conversion.steps if s.transform.name == "cudagraphs")
    assert any("the training loop loads a checkpoint into optimizer" in note for note in step.outcome.notes)
    assert "capturable" not in conversion.source
