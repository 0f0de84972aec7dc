"""What the recorder sees of a script; recording changes nothing in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from toy import TOY, edited

from transformer.verify import Recording, RunFailed, compare, record
from transformer.verify.record import _without_the_time


def differences(script: Path, reference: Recording, source: str, *args: str) -> list[str]:
    """The quantities in which `source` differs from the reference, in the order in which they arise."""
    return [d.quantity for d in compare(reference, record(script, args, source=source))]


def test_everything_is_recorded(toy_recording: Recording) -> None:
    assert [a.arrays[0].shape for a in toy_recording.actions] == [(2,)] * 8  # type: ignore[union-attr]
    assert toy_recording.iterations == 2
    assert [p.line.split(":")[0] for p in toy_recording.prints] == ["update 0", "SPS", "update 1", "SPS"]
    assert [s.moment for s in toy_recording.steps] == [(4, 1), (4, 2), (8, 3), (8, 4)]
    assert [s.numbers["lr of group 0"] for s in toy_recording.steps] == [1e-2, 1e-2, 5e-3, 5e-3]
    assert [s.numbers["Agent.actor.weight: step"] for s in toy_recording.steps] == [1, 2, 3, 4]
    assert all(0 < s.gradient_norm <= 0.5001 for s in toy_recording.steps)
    assert set(toy_recording.steps[0].tensors) == {
        f"Agent.actor.{part}{state}" for part in ("weight", "bias") for state in ("", ": exp_avg", ": exp_avg_sq")
    }
    assert set(toy_recording.final) == {"Agent.actor.weight", "Agent.actor.bias", "buffer Agent.seen"}
    assert toy_recording.final["buffer Agent.seen"].values == np.float32(16)
    np.testing.assert_array_equal(
        toy_recording.final["Agent.actor.weight"].values, toy_recording.steps[-1].tensors["Agent.actor.weight"].values
    )
    assert len(toy_recording.random) == 3
    assert toy_recording.files == ()


@pytest.mark.slow
def test_progress_bars_are_not_recorded(toy_script: Path, toy_recording: Recording) -> None:
    shown = edited("in range(args.updates):", "in track(range(args.updates), 'training'):")
    shown = shown.replace("import numpy", "from rich.progress import track\nimport numpy", 1)
    output = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout
    assert "training" in output
    assert record(toy_script, source=shown).prints == toy_recording.prints


@pytest.mark.slow
def test_recording_leaves_the_random_numbers_alone(toy_script: Path, toy_recording: Recording) -> None:
    """The parameters after training are those of a plain run with the same permutations."""
    with_permutations = edited(
        "        np.random.shuffle(inds)\n",
        "        inds = np.random.Generator(np.random.Philox(key=(8 << 64) | update)).permutation(8)\n",
    )
    plain = with_permutations.replace(
        '\n\nif __name__ == "__main__"', '\n    print(agent.actor.weight.tolist())\n\nif __name__ == "__main__"'
    )
    output = subprocess.run([sys.executable, "-c", plain], capture_output=True, text=True, check=True).stdout
    weight = toy_recording.final["Agent.actor.weight"].values
    assert weight is not None
    assert output.splitlines()[-1] == str(weight.tolist())


def test_wrapped_environments_and_torchs_permutations_change_nothing(
    toy_script: Path, toy_recording: Recording
) -> None:
    source = edited("np.random.shuffle(inds)", "inds = torch.randperm(8)")
    wrapper = (
        "class Wrapper:\n    def __init__(self, env):\n        self.env = env\n\n"
        "    def step(self, action):\n        return self.env.step(action)\n\n\n"
    )
    source = edited("class Agent(nn.Module)", wrapper + "class Agent(nn.Module)", source)
    assert differences(toy_script, toy_recording, edited("envs = Walk()", "envs = Wrapper(Walk())", source)) == []


def test_an_optimizer_of_the_script_that_takes_a_closure_is_no_environment(
    toy_script: Path, toy_recording: Recording
) -> None:
    own = "class Twice(torch.optim.Adam):\n    def step(self, closure):\n        super().step()\n\n\n"
    source = edited("class Agent(nn.Module)", own + "class Agent(nn.Module)")
    source = edited("torch.optim.Adam(agent", "Twice(agent", source)
    seen = record(toy_script, source=edited("optimizer.step()", "optimizer.step(lambda: 0.0)", source))
    assert [len(a.arrays) for a in seen.actions] == [len(a.arrays) for a in toy_recording.actions]
    assert all(a.dtype != object for action in seen.actions for a in action.arrays if a is not None)


@pytest.mark.parametrize(
    ("edits", "quantities"),
    [
        (
            [("action == 1", "action == 0")],
            ["action", "gradient norm", "optimizer state", "parameter", "print", "final parameter"],
        ),
        ([("range(0, 8, 4)", "range(0, 4, 4)")], ["optimizer", "parameter", "print", "final parameter"]),
        ([('["lr"] = 1e-2', '["lr"] = 1.1e-2')], ["hyperparameter", "parameter", "gradient norm"]),
        ([("parameters(), 0.5)", "parameters(), 0.05)")], ["gradient norm", "optimizer state", "parameter"]),
        (
            [
                ("agent.seen += 4", "agent.seen += 5"),
                ('print("SPS:"', 'print("speed:"'),
                ("envs = Walk()", 'envs = Walk(); open("left_over", "w").close()'),
                ("inds = np.arange(8)", "inds = np.arange(8); np.random.shuffle(np.array([3.0, 1.0, 2.0]))"),
            ],
            ["event", "random state", "print", "final parameter", "file"],
        ),
    ],
)
def test_a_change_is_seen(
    toy_script: Path, toy_recording: Recording, edits: list[tuple[str, str]], quantities: list[str]
) -> None:
    """The cause is named first, its consequences later."""
    source = TOY
    for old, new in edits:
        source = edited(old, new, source)
    found = list(dict.fromkeys(differences(toy_script, toy_recording, source)))
    assert found[0] == quantities[0]
    assert set(quantities) <= set(found)


def test_a_learning_rate_in_a_tensor_is_its_value(toy_script: Path, toy_recording: Recording) -> None:
    tensor = edited("lr=1e-2", "lr=torch.tensor(1e-2, dtype=torch.float64)")
    tensor = edited('optimizer.param_groups[0]["lr"] = ', 'optimizer.param_groups[0]["lr"].copy_(', tensor)
    tensor = edited("update / args.updates)\n        states", "update / args.updates))\n        states", tensor)
    assert differences(toy_script, toy_recording, tensor) == []


def test_networks_hidden_from_gc(toy_script: Path, toy_recording: Recording) -> None:
    """Converted scripts call gc.freeze(), which hides existing objects from gc.get_objects()."""
    frozen = edited("    obs = torch.zeros(2, 1)\n", "    obs = torch.zeros(2, 1)\n    __import__('gc').freeze()\n")
    assert differences(toy_script, toy_recording, frozen) == []


def test_logged_scalars(toy_script: Path) -> None:
    logging = TOY.replace("import torch.nn", "from torch.utils.tensorboard import SummaryWriter\nimport torch.nn")
    logging = edited("    def step(self", "    def reset(self):\n        pass\n\n    def step(self", logging)
    logging = edited(
        "envs = Walk()", 'envs = Walk(); envs.reset(); writer = SummaryWriter(f"runs/{int(start)}")', logging
    )
    logging = edited(
        '        print(f"update {update}: loss {loss.item()}")\n',
        '        writer.add_scalar("loss", loss, update)\n'
        '        writer.add_text("note", f"of\\n{update}", update)\n'
        '        writer.add_scalars("two", {"a": np.array([1.5]), "b": float("nan")}, global_step=update)\n',
        logging,
    )
    logging += '    __import__("io").StringIO().close()\n'
    recorded = record(toy_script, source=logging)
    assert [p.line for p in recorded.events] == ["Walk reset", "SummaryWriter made", "StringIO closed"]
    assert [(s.tag, s.step) for s in recorded.scalars] == [
        (tag, step) for step in (0, 1) for tag in ("loss", "two/a", "two/b")
    ]
    assert recorded.scalars[1].value == 1.5
    assert [p.line for p in recorded.texts] == ["note at step 0", "of", "0", "note at step 1", "of", "1"]
    assert any(f.startswith("runs/1700000000/events") for f in recorded.files)
    moved = logging.replace('writer.add_scalar("loss", loss, update)', 'writer.add_scalar("loss", loss, update + 1)')
    found = compare(recorded, record(toy_script, source=moved))
    assert [(d.quantity, d.name, d.where, d.count) for d in found] == [("scalar", "loss", "step 0", 3)]
    events = "envs.reset(); writer", "writer = SummaryWriter(", ".StringIO().close()"
    for event, more in zip(events, ("envs.reset(); ", "SummaryWriter('x'); ", ".StringIO"), strict=True):
        other = edited(event, more + event if more != ".StringIO" else more, logging)
        found = compare(recorded, record(toy_script, source=other))
        assert [d.quantity for d in found if d.quantity != "file"] == ["event"]
    longer = logging.replace("of\\n{update}", "of\\n{update}%")
    found = compare(recorded, record(toy_script, source=longer))
    assert [(d.quantity, d.where, d.count) for d in found] == [("text", "line 3", 2)]


def test_wandb_is_recorded(tmp_path: Path) -> None:
    """A package built like wandb: `wandb.log` is a method of the run that `init` makes."""
    (tmp_path / "wandb" / "sdk").mkdir(parents=True)
    (tmp_path / "wandb" / "__init__.py").write_text(
        "from wandb.sdk.wandb_run import Run\ndef init():\n    global log\n    log = Run().log\n"
    )
    (tmp_path / "wandb" / "sdk" / "__init__.py").touch()
    (tmp_path / "wandb" / "sdk" / "wandb_run.py").write_text(
        "class Run:\n    def log(self, data, step=None):\n        pass\n"
    )
    script = tmp_path / "logs.py"
    script.write_text("import wandb\nwandb.init()\nwandb.log({'a': 1, 'b': {'c': 2.5}, 'note': 'text'}, step=3)\n")
    assert [(s.tag, s.step, s.value) for s in record(script).scalars] == [("a", 3, 1.0), ("b.c", 3, 2.5)]


def test_the_run_ends_after_enough_iterations(toy_script: Path) -> None:
    seen: list[int] = []
    recorded = record(toy_script, ["--updates", "50"], iterations=3, on_iteration=seen.append)
    assert recorded.iterations == 3
    assert len(recorded.steps) == 6
    assert seen[-1] == 3


def test_dates_are_the_virtual_clocks(tmp_path: Path) -> None:
    script = tmp_path / "dated.py"
    script.write_text(
        "import time\nfrom datetime import datetime, timezone\n"
        "print(datetime.now().timestamp(), datetime.now(timezone.utc).timestamp(), time.time())\n"
        "print(time.strftime('%s'), time.perf_counter_ns())\n"
    )
    assert [p.line for p in record(script).prints] == [
        "1700000000.0 1700000000.0 1700000000.0",
        "1700000000 0",
    ]


def test_durations_in_float32(tmp_path: Path) -> None:
    """gymnasium keeps start times in float32, in which dates would be minutes apart and all durations equal."""
    script = tmp_path / "timed.py"
    script.write_text(
        "import time\nimport numpy as np\nimport gymnasium as gym\n"
        "env = gym.make('CartPole-v1')\nenv.reset(seed=1)\nbegun = np.full(1, time.perf_counter(), np.float32)\n"
        "for _ in range(3):\n    env.step(0)\nprint(np.round(time.perf_counter() - begun, 6)[0])\n"
    )
    assert [p.line for p in record(script).prints] == ["0.003"]


@pytest.mark.slow
def test_files_beside_the_script_are_found_and_none_left(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 5\n")
    script = tmp_path / "main.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom helper import VALUE\n"
        "Path('made').touch()\nprint(VALUE, Path(__file__).name, __name__, sys.argv[1:])\n"
    )
    recorded = record(script, ["--flag"])
    assert [p.line for p in recorded.prints] == ["5 main.py __main__ ['--flag']"]
    assert recorded.files == ("made",)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["helper.py", "main.py"]


@pytest.mark.slow
def test_a_file_named_after_the_time_by_a_module_beside_the_script(tmp_path: Path) -> None:
    """A conversion may merge it into the script, so it sees the harness's clock, as the script and gym do."""
    (tmp_path / "helper.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "def make():\n    Path(f'run_{int(time.time())}').touch()\n    Path('run_1234567890').touch()\n"
    )
    script = tmp_path / "main.py"
    script.write_text("from helper import make\nmake()\n")
    assert record(script).files == ("run_1234567890", "run_1700000000")


@pytest.mark.slow
def test_tensors_among_an_optimizers_settings(toy_script: Path, toy_recording: Recording) -> None:
    """An optimizer's settings may hold tensors that are no parameters."""
    told = edited(
        ", lr=1e-2)\n", ", lr=1e-2)\n    optimizer.param_groups[0]['old'] = (torch.zeros(2), torch.ones(1))\n"
    )
    step = record(toy_script, source=told).steps[0]
    np.testing.assert_array_equal(step.tensors["old[0] of group 0"].values, np.zeros(2))
    assert step.numbers["old[1] of group 0"] == 1
    changed = told.replace("torch.zeros(2)", "torch.ones(2)")
    assert differences(toy_script, record(toy_script, source=told), changed)[0] == "parameter"


def test_a_crash_shows_the_scripts_own_last_lines(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("def f():\n    raise ValueError('too bad')\n\nf()\n")
    with pytest.raises(RunFailed) as failure:
        record(script)
    text = str(failure.value)
    assert "exit status 1" in text
    assert 'File "broken.py", line 2, in f' in text
    assert text.endswith("ValueError: too bad")
    assert "harness" not in text


@pytest.mark.parametrize("deep", [1, 30])
def test_a_crash_shows_its_traceback_alone(tmp_path: Path, deep: int) -> None:
    script = tmp_path / "broken.py"
    calls = "".join(f"def f{n}():\n    f{n - 1}()\n\n" for n in range(1, deep + 1))
    warned = "import sys\nprint('a warning', file=sys.stderr)\n"
    script.write_text(f"{warned}def f0():\n    raise ValueError('too bad')\n\n{calls}f{deep}()\n")
    with pytest.raises(RunFailed) as failure:
        record(script)
    _, *lines = str(failure.value).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert (lines[-1], "  ..." in lines, len(lines) <= 15) == ("ValueError: too bad", deep > 1, True)


def test_an_unknown_flag_is_the_scripts_usage_error(toy_script: Path) -> None:
    with pytest.raises(RunFailed, match=r"(?s)exit status 2.*unrecognized arguments: --no-such"):
        record(toy_script, ["--no-such"])


def test_a_run_out_of_time_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text("while True:\n    pass\n")
    with pytest.raises(RunFailed, match="still running after 2 s"):
        record(script, timeout=2)


def test_bfloat16_differences_have_a_size(toy_script: Path) -> None:
    source = edited("agent = Agent()", "agent = Agent().bfloat16()")
    source = source.replace("agent.actor(obs)", "agent.actor(obs.bfloat16())")
    source = source.replace("agent.actor(b_obs[mb])", "agent.actor(b_obs[mb].bfloat16())")
    faster = edited('["lr"] = 1e-2', '["lr"] = 2e-2', source)
    found = compare(record(toy_script, source=source), record(toy_script, source=faster))
    first = next(d for d in found if d.quantity == "parameter")
    assert abs(float(first.left) - float(first.right)) == pytest.approx(1e-2, rel=0.5)


def test_without_space_for_values_digests_still_differ(toy_script: Path, toy_recording: Recording) -> None:
    right = record(toy_script, values_limit=0, source=edited("lr=1e-2", "lr=1e-2, eps=1e-7"))
    differences = compare(toy_recording, right)
    assert all(d.error for d in differences if d.quantity == "final parameter")
    found = [d for d in differences if d.quantity == "parameter"]
    assert found
    assert {d.error for d in found} == {None}


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_recorder(tmp_path: Path, end: signal.Signals) -> None:
    """The script and its child process end too; after SIGKILL, the scratch folder remains."""
    pids = tmp_path / "pids"
    script = tmp_path / "endless.py"
    script.write_text(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}\\n')\n"
        "time.sleep(600)\n"
    )
    recorder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"from pathlib import Path\nfrom transformer.verify import record\nrecord(Path({str(script)!r}))",
        ],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    recorder.send_signal(end)
    recorder.wait()
    wait_until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def wait_until(condition, seconds: float = 20) -> None:  # type: ignore[no-untyped-def]
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "timed out"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_repeated_runs_are_equal_and_leave_nothing(
    toy_script: Path, toy_recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert compare(toy_recording, record(toy_script)) == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("days", "cut"), [(0, True), (-3, False), (0.9, True)], ids=["now", "three days ago", "some hours ahead"]
)
def test_the_time_is_cut_from_the_names_of_files(days: float, cut: bool) -> None:
    """As torch's SummaryWriter() and cleanrl's run names have it."""
    moment = time.time() + days * 24 * 60 * 60
    dated = datetime.fromtimestamp(moment).strftime("%b%d_%H-%M-%S")
    names = f"runs/{dated}_host/events.out.tfevents", f"runs/ppo__1__{int(moment)}/model.pt"
    found = [_without_the_time(name) for name in names]
    assert found == (["runs/time_host/events.out.tfevents", "runs/ppo__1__time/model.pt"] if cut else [*names])


@pytest.mark.parametrize("name", ["runs/Xyz31_25-61-99_host/a", "runs/12345678901/a", "Nov30", "a/Feb30_01-02-03"])
def test_other_names_of_files_stay(name: str) -> None:
    assert _without_the_time(name) == name
