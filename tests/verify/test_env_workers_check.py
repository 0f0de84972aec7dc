"""Environments in worker processes: the check compares them with the original."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import golden
import pytest

from transformer.verify.flags import WORKERS, find_flags
from transformer.verify.harness.events import Events
from transformer.verify.harness.instrument import HOOKS_NAME, compile_with_hooks
from transformer.verify.harness.journal import Journal
from transformer.verify.names import FLAGS_OFF
from transformer.verify.run import Run
from transformer.verify.verify import Task, verify

ORIGINAL = Path(__file__).parents[2] / "fixtures" / "target_kl.py"


@cache
def converted() -> str:
    return golden.converted(ORIGINAL.read_text(), workers=True).source


def test_its_option_is_found() -> None:
    assert find_flags(converted()).options([WORKERS]) == ["--env-workers"]
    renamed = converted().replace("WorkerVectorEnv", "Pool").replace("args.env_workers", "args.helpers")
    assert find_flags(renamed).options([WORKERS]) == ["--helpers"]
    assert find_flags(golden.converted(ORIGINAL.read_text()).source).options([WORKERS]) is None


def test_forked_processes_share_the_counts_of_clocks(tmp_path: Path) -> None:
    journal, (reading, writing) = Journal(tmp_path, 0), os.pipe()
    journal.note_env_step()
    go, told = os.pipe()
    if (child := os.fork()) == 0:
        os.read(go, 1)
        os.write(writing, bytes([*journal.moment(), *journal.last_env_step]))
        os._exit(0)
    journal.note_optimizer_step()
    journal.note_env_step()
    os.write(told, b".")
    assert os.read(reading, 4) == bytes([2, 1, 2, 1])
    os.waitpid(child, 0)


def test_inner_environments_are_not_recorded(tmp_path: Path) -> None:
    path, seen = tmp_path / "script.py", list[str]()
    path.write_text(
        "class VectorEnv:\n    def reset(self): pass\n\n\n"
        "class Workers(VectorEnv):\n    def reset(self): inner.reset()\n\n\n"
        "class Other:\n    def reset(self): inner.reset()\n\n\n"
        "inner = VectorEnv()\nWorkers().reset()\nOther().reset()\n"
    )

    def hook(function: Any) -> Any:
        seen.append(type(function.__self__).__name__)
        return function

    exec(compile_with_hooks(path, {"reset": hook}), {HOOKS_NAME: {"reset": hook}})
    assert seen == ["Workers", "Other", "VectorEnv"]


def test_vector_environments_are_one_kind(tmp_path: Path) -> None:
    class VectorEnv:
        def reset(self) -> None: ...

        def step(self) -> None: ...

    class Workers(VectorEnv):
        pass

    journal = Journal(tmp_path, 0)
    hooks = Events(journal).hooks
    for env in (VectorEnv(), Workers()):
        hooks["reset"](env.reset)()
    assert [event for _, event in journal.entries["events"]] == ["VectorEnv reset"] * 2


def checks(source: str, *args: str) -> dict[str, tuple[str, str]]:
    """The status of each check, with its first finding or its reason."""
    task = Task(Run(ORIGINAL, args), source, iterations=1, up_to=FLAGS_OFF, other_arguments=False)
    return {r.name: (r.status, "".join(r.findings[:1]) or r.reason) for r in verify(task).checks}


@pytest.mark.slow
def test_equal() -> None:
    assert checks(converted()) == {FLAGS_OFF: ("equal", ""), WORKERS: ("equal", "")}


BROKEN = {
    "another seed": ("seeds[part]", "[seed + 9 for seed in seeds[part]]"),
    "another order": ("self.observations[part] = observations", "self.observations[part] = observations[::-1]"),
    "infos that are lost": ("pickle.loads(pipe.recv_bytes())", "[{} for _ in pickle.loads(pipe.recv_bytes())]"),
    "ends that are lost": ("zip(self.results, results[:-1])", "zip(self.results[:1], results[:-1])"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), BROKEN.values(), ids=BROKEN)
def test_different(old: str, new: str) -> None:
    assert old in converted()
    found = checks(converted().replace(old, new))
    assert found[FLAGS_OFF] == ("equal", "")
    assert found[WORKERS][0] == "different", found


@pytest.mark.slow
def test_one_environment_proves_nothing() -> None:
    status, reason = checks(converted(), "--num-envs", "1")[WORKERS]
    assert status == "not run" and "no environment was stepped in a worker" in reason
