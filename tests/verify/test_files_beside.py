"""Modules beside a script are recorded, whether they stay files or their code is in the script."""

from pathlib import Path

import pytest
from replay_script import PARTS, replay

from transformer.conversion.of_file import convert_script
from transformer.verify import compare
from transformer.verify.record import record_run
from transformer.verify.run import Run

HELPER = """\
def evaluate(envs, act, steps):
    obs, total = envs.reset(), 0.0
    for _ in range(steps):
        obs, rewards, _, _ = envs.step(act(obs))
        total += float(rewards[0])
    return total
"""
EVALUATED = """
if global_step % 30 == 0:
    print(evaluate(Envs(), lambda obs: np.sign(obs[:, 0] - 0.01), 5))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    source = replay(follow=PARTS["follow"].rstrip() + EVALUATED.replace("\n", "\n        "))
    path = tmp_path / "main.py"
    path.write_text(source.replace("import numpy as np\n", "import numpy as np\nfrom helper import evaluate\n", 1))
    (tmp_path / "helper.py").write_text(HELPER)
    return path


@pytest.mark.slow
def test_steps_of_a_module_beside_the_script_are_recorded(script: Path) -> None:
    recording = record_run(Run(script), stepwise=True)
    alone = script.with_name("alone.py")
    alone.write_text(script.read_text().replace("from helper import evaluate\n", HELPER))
    whole = record_run(Run(alone), stepwise=True)
    assert len(recording.actions) == len(whole.actions) == 80 + 2 * 5
    assert compare(recording, whole) == ()


@pytest.mark.slow
def test_a_converted_module_is_compared(script: Path) -> None:
    _, conversion = convert_script(str(script), [script.with_name("helper.py")])
    assert conversion.converted
    assert "def evaluate" in conversion.source
    original = record_run(Run(script), stepwise=True)
    assert compare(original, record_run(Run(script, source=conversion.source), stepwise=True)) == ()


def test_installed_packages_are_left_alone(tmp_path: Path) -> None:
    installed = tmp_path / "elsewhere"
    installed.mkdir()
    (installed / "helper.py").write_text(HELPER)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "main.py"
    source = replay(follow=PARTS["follow"].rstrip() + EVALUATED.replace("\n", "\n        "))
    begin = f"import sys\nsys.path.append({str(installed)!r})\nfrom helper import evaluate\n"
    path.write_text(begin + source)
    assert len(record_run(Run(path), stepwise=True).actions) == 80
    given = Run(path, together=(installed / "helper.py",))  # unless they are named as part of the script
    assert len(record_run(given, stepwise=True).actions) == 80 + 2 * 5
