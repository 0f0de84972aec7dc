"""What torch.compile did is counted, on functions whose graph breaks and recompilations are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from transformer.bench.harness.compiles import functions
from transformer.bench.measure import Length, measure
from transformer.verify.run import Run

SCRIPT = """
import torch


class Envs:
    def step(self, action):
        return torch.zeros(2), torch.zeros(2)


def update(x, scale, flag):
    y = x * scale
    {break_here}
    loss = (y * 2).sum()
    return loss


def quiet(x):
    return x + 1


class Optimizer:
    def zero_grad(self):
        pass

    def step(self):
        pass


envs = Envs()
optimizer = Optimizer()
update = torch.compile(update, backend="eager", dynamic=False)
quiet = torch.compile(quiet, backend="eager")
for iteration in range(100):
    for step in range(4):
        obs, reward = envs.step(quiet(torch.zeros(2)))
    for minibatch in range(2):
        optimizer.zero_grad()
        update(torch.zeros({size}), 2.0, True)
        optimizer.step()
"""


def counted(folder: Path, break_here: str, size: str) -> dict[str, dict[str, float]]:
    script = folder / "script.py"
    script.write_text(SCRIPT.format(break_here=break_here, size=size))
    found = measure(Run(script), Length(burnin=2, iterations=3, seconds=None, turns=1))
    assert found.memory["rss_mib"] > 100, "torch alone takes more"
    assert found.versions["torch"]
    return found.compiled["functions"]


@pytest.mark.slow
def test_one_graph(tmp_path: Path) -> None:
    found = counted(tmp_path, "pass", "3")
    assert set(found) == {"update", "quiet"}
    for figures in found.values():
        assert (figures["compilations"], figures["recompilations"], figures["graph_breaks"]) == (1, 0, 0)
        assert figures["compile_seconds"] > 0


@pytest.mark.slow
def test_a_graph_break_and_recompilations_in_every_iteration(tmp_path: Path) -> None:
    found = counted(tmp_path, "torch._dynamo.graph_break()", "3 + iteration")
    update, quiet = found["update"], found["quiet"]
    assert update["graph_breaks"] == 1
    assert update["compilations"] == 2 * 5, "two pieces in each of five iterations"
    assert update["recompilations"] == 2 * 4
    assert update["recompilations_after_burnin"] == 2 * 3
    assert (quiet["compilations"], quiet["graph_breaks"]) == (1, 0)


@pytest.mark.slow
def test_recompilations_during_burnin_only(tmp_path: Path) -> None:
    update = counted(tmp_path, "pass", "3 + min(iteration, 1)")["update"]
    assert (update["recompilations"], update["recompilations_after_burnin"]) == (1, 0)


def entry(function: str, number: str, **changed: object) -> dict[str, object]:
    plain = {
        "function": function,
        "id": number,
        "backward": False,
        "seconds": 1.0,
        "after_burnin": False,
        "failed": None,
    }
    return {**plain, **changed}


def test_pieces_backward_passes_and_other_files() -> None:
    found = functions(
        [
            entry("update", "0/0"),
            entry("torch_dynamo_resume_in_update_at_7", "1/0"),
            entry("torch_dynamo_resume_in_update_at_9", "2/0"),
            entry("torch_dynamo_resume_in_update_at_9", "2/1_1", after_burnin=True),
            entry("update", "0/0", backward=True, seconds=5.0, after_burnin=True),
            entry("torch_dynamo_resume_in_step_at_3 (adam.py)", "4/0", failed="Unsupported"),
        ]
    )
    assert found == {
        "update": {
            "compilations": 4,
            "recompilations": 1,
            "recompilations_after_burnin": 1,
            "graph_breaks": 2,
            "not_compiled": 0,
            "compile_seconds": 9.0,
        },
        "step (adam.py)": {
            "compilations": 1,
            "recompilations": 0,
            "recompilations_after_burnin": 0,
            "graph_breaks": 1,
            "not_compiled": 1,
            "compile_seconds": 1.0,
        },
    }
