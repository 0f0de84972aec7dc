"""`lean-convert run` in real processes: it behaves as if it ran the original."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from running import Runner, quick
from scripts import PARTS
from scripts import script as build

from transformer.run.harness.program import Facts, Program, facts_file, files_of
from transformer.run.start import ANOTHER_ORDER

LOOK = """\
import inspect, json, os, sys
import __main__

def function(default=os.path.basename(__file__)):
    return default

print(json.dumps({
    "file": __file__, "argv": sys.argv, "path": sys.path[:1], "cwd": os.getcwd(), "name": __name__,
    "spec": repr(__spec__), "package": __package__, "cached": __cached__, "loader": [type(__loader__).__name__,
    __loader__.path], "main": __main__.__dict__ is globals(), "names": sorted(globals()), "default": function(),
    "future": compile("0", "x", "eval").co_flags,
}))
"""


def looks_alike(runner: Runner, script: Path | str, cwd: Path | None = None) -> None:
    args = ("--env-id", "Hopper-v4", "--", "-x")
    before, after = runner.python(script, *args, cwd=cwd), runner.run(script, script_args=args, cwd=cwd)
    assert after.returncode == 0, after.stderr
    assert json.loads(after.stdout) == json.loads(before.stdout)


class TestAsTheOriginal:
    def test_a_scripts_view_of_itself(self, runner: Runner) -> None:
        script = runner.write(LOOK)
        runner.keep(script, LOOK)
        looks_alike(runner, script)

    def test_from_another_folder_and_by_a_link(self, runner: Runner) -> None:
        elsewhere = runner.folder / "elsewhere"
        elsewhere.mkdir()
        script = runner.write(LOOK)
        runner.keep(script, LOOK)
        looks_alike(runner, "../ppo.py", elsewhere)
        looks_alike(runner, "./ppo.py")
        (elsewhere / "ppo.py").symlink_to(script)
        looks_alike(runner, "ppo.py", elsewhere)

    def test_modules_beside_it_come_first_even_under_this_packages_name(self, runner: Runner) -> None:
        (runner.folder / "transformer.py").write_text("HERE = 'beside the script'\n")
        script = runner.write("import transformer\nprint(transformer.HERE)\n")
        runner.keep(script, script.read_text())
        (runner.folder / "elsewhere").mkdir()  # `-m transformer` finds this package there
        assert runner.run(script, cwd=runner.folder / "elsewhere").stdout == "beside the script\n"

    def test_nothing_of_the_converter_is_loaded_on_a_hit(self, runner: Runner) -> None:
        code = "import sys\nprint(sorted({m.partition('.')[0] for m in sys.modules} & set(sys.argv[1].split())))\n"
        script = runner.write(code)
        runner.keep(script, code)
        heavy = "torch numpy libcst rich jinja2 pygments gast beniget ruff transformer"
        assert runner.run(script, script_args=[heavy]).stdout == "[]\n"

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            ("", 0),
            ("import sys; sys.exit(3)", 3),
            ("import sys; sys.exit('no more')", 1),
            ("raise ValueError('no more')", 1),
            ("import os; os._exit(7)", 7),
            ("raise EOFError('no more')", 1),  # click would handle it itself
            ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ],
    )
    def test_exit_codes(self, runner: Runner, code: str, status: int) -> None:
        script = runner.write(code)
        runner.keep(script, code)
        before, after = runner.python(script), runner.run("-q", script)
        assert (after.returncode, after.stderr) == (before.returncode, before.stderr)
        assert after.returncode == status

    @pytest.mark.parametrize("handled", [False, True])
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_signals(self, runner: Runner, number: signal.Signals, handled: bool) -> None:
        handler = f"signal.signal({int(number)}, lambda *_: sys.exit(5))" if handled else ""
        code = f"import signal, sys, time\n{handler}\nprint('up', flush=True)\ntime.sleep(60)\n"
        script = runner.write(code)
        runner.keep(script, code)
        process = runner.popen("-q", script)
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == (5 if handled else -number)
        assert errors.endswith("KeyboardInterrupt\n") == (number is signal.SIGINT and not handled)

    def test_standard_input_is_the_scripts(self, runner: Runner) -> None:
        script = runner.write("print(input())\n")
        runner.keep(script, script.read_text())
        process = subprocess.run(
            [sys.executable, "-m", "transformer", "run", str(script)],
            env=runner.environment, input="typed\n", text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert process.stdout == "typed\n"

    def test_pickled_classes_are_the_originals(self, runner: Runner) -> None:
        code = (
            "import pickle, sys\nclass Agent:\n    def __init__(self): self.x = 3\n"
            "if sys.argv[1] == 'save':\n    pickle.dump(Agent(), open('agent', 'wb'))\n"
            "else:\n    print(pickle.load(open('agent', 'rb')).x)\n"
        )
        script = runner.write(code)
        runner.keep(script, code.replace("x = 3", "x = 4"))
        assert runner.run(script, script_args=["save"]).returncode == 0
        assert b"__main__" in (runner.folder / "agent").read_bytes()
        assert runner.python(script, "load").stdout == "4\n"

    def test_the_source_of_functions_is_the_executed_one(self, runner: Runner) -> None:
        original = "import inspect\n\n\nclass A:\n    x = 1\n\n\ndef f():\n    pass\n"
        converted = "import inspect\n\n\nclass New:\n    y = 1\n\n\nclass A:\n    x = 1\n    y = 2\n\n\ndef f():\n"
        converted += "    return 3\n"
        converted += "print(inspect.getsource(A) + inspect.getsource(f) + f.__code__.co_filename)\n"
        script = runner.write(original)
        runner.keep(script, converted, Facts(origins=[None] * 15, transforms=["flags"] * 15))
        shown, file = runner.run(script).stdout.rstrip("\n").rsplit("\n", 1)
        assert shown == "class A:\n    x = 1\n    y = 2\ndef f():\n    return 3"
        assert Path(file).read_text() == converted


TOGETHER = build(
    {
        "stdlib": "import sys",
        "agent": "",
        "third_party": "from agent import Agent, greet",
        "functions": "greet()\nsys.exit()",
    }
)
AGENT_IMPORTS = "import torch.nn as nn\nfrom torch.distributions.categorical import Categorical\nimport words\n"
AGENT = f"{AGENT_IMPORTS}\n\n{{}}\n\n\n{PARTS['agent']}\n"
GREETS, FAILS = "def greet():\n    print(words.HERE)", "def greet():\n    raise ValueError(words.HERE)"


class TestSeveralFiles:
    @pytest.fixture
    def several(self, stubbed: Runner) -> Runner:
        stubbed.write(TOGETHER)
        stubbed.write(AGENT.format(GREETS), "agent.py")
        stubbed.write("HERE = 'first'\n", "words.py")
        return stubbed

    def converted(self, runner: Runner, **stands: str) -> tuple[str, set[str]]:
        """The last line that a run prints, and the entries of the cache after it."""
        for name, text in stands.items():
            runner.write(text, f"{name}.py")
        found = runner.run("ppo.py", "--with", "agent.py")
        assert found.returncode == 0, found.stderr
        return found.stdout.splitlines()[-1], {p.name for p in runner.cache.iterdir() if p.is_dir()}

    @pytest.mark.slow
    def test_the_entry_depends_on_every_file(self, several: Runner) -> None:
        said, first = self.converted(several)
        assert (said, len(first)) == ("first", 1)
        (text,) = several.cache.glob("*/ppo.py")
        assert "# From agent.py\ndef greet():" in text.read_text()
        assert self.converted(several) == ("first", first)
        said, second = self.converted(several, agent=AGENT.format(GREETS.replace("HERE", "HERE.upper()")))
        assert (said, len(second)) == ("FIRST", 2)
        said, third = self.converted(several, words="HERE = 'second'\n")
        assert (said, len(third)) == ("SECOND", 3)

    @pytest.mark.slow
    def test_another_file_may_prevent_the_conversion_later(self, several: Runner) -> None:
        self.converted(several)
        several.write("import importlib\nHERE = 'third'\n", "words.py")
        refused = several.run("ppo.py", "--with", "agent.py")
        assert refused.returncode == 1
        assert "words.py:1:1: LC009 modules are imported by names that are computed at run time" in refused.stderr

    def test_a_file_that_is_not_imported_is_bad_usage(self, several: Runner) -> None:
        several.write("x = 1\n", "other.py")
        failed = several.run("ppo.py", "--with", "agent.py", "--with", "other.py")
        assert failed.returncode == 2
        assert "--with other.py: neither ppo.py nor another file given with it imports it" in failed.stderr

    def test_tracebacks_name_the_file(self, several: Runner) -> None:
        several.write(AGENT.format(FAILS), "agent.py")
        failed = several.run("ppo.py", "--with", "agent.py")
        assert failed.returncode == 1
        line = AGENT.format(FAILS).splitlines().index("    raise ValueError(words.HERE)") + 1
        assert f'File "{(several.folder / "agent.py").resolve()}", line {line}, in greet' in failed.stderr
        assert f'File "{several.folder / "ppo.py"}", line {TOGETHER.splitlines().index("greet()") + 1}' in failed.stderr

    def test_advice_for_one_of_several_files(self, several: Runner) -> None:
        several.write("from agent import Agent\n")
        refused = several.run(several.folder / "ppo.py")
        assert refused.returncode == 1
        assert f"try --with {several.folder / 'agent.py'}" in refused.stderr


SPAWNING = """\
import argparse
import multiprocessing
import sys

parser = argparse.ArgumentParser()
<flags>
args = parser.parse_args()
at_import = list(sys.argv)


class Settings:
    __slots__ = <slots>


def look(settings, queue):
    import __main__
    known = isinstance(settings, Settings) and __main__ is sys.modules["__mp_main__"]
    files = __file__, __main__.__file__
    queue.put([__name__, files, sys.argv, at_import, Settings.__slots__, known, sorted(globals())])


def fail():
    raise ValueError("in a spawned process")


if __name__ == "__main__":
    context = multiprocessing.get_context(<method>)
    queue = context.Queue()
    process = context.Process(target=look, args=(Settings(), queue))
    process.start()
    print(queue.get(timeout=20))
    process.join()
    print(process.exitcode)
    process = context.Process(target=fail)
    process.start()
    process.join()
"""


def spawning(method: str, flags: str, slots: str) -> str:
    return SPAWNING.replace("<method>", repr(method)).replace("<flags>", flags).replace("<slots>", slots)


class TestSpawnedProcesses:
    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_spawned_processes_import_the_conversion(self, runner: Runner, method: str) -> None:
        """The original would refuse `--compile`, and its class lacks a field of the object that is sent."""
        flag = 'parser.add_argument("--compile", action="store_true")'
        converted = spawning(method, flag, "('x', 'compile')")
        script = runner.write(spawning(method, flag, "('x',)"))
        before = runner.python(script, "--compile")
        script.write_text(spawning(method, "", "('x',)"))
        runner.keep(script, converted, Facts([None] * 50, ["flags"] * 50, {"compile": "--compile"}))
        after = runner.run(script)
        assert after.returncode == 0, after.stderr
        assert after.stdout == before.stdout.replace("('x',)", "('x', 'compile')")
        assert ", in fail, written by flags\n    raise ValueError" in after.stderr


class TestTorchrun:
    @pytest.mark.slow
    def test_processes_of_a_group(self, runner: Runner) -> None:
        code = "import os, sys\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], sys.argv)\n"
        script = runner.write(code)
        runner.keep(script, code)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        done = subprocess.run(
            [*command, "-m", "transformer", "run", str(script), "--", "--seed", "3"],
            env=runner.environment, text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert sorted(done.stdout.splitlines()) == [f"{rank} 2 [{str(script)!r}, '--seed', '3']" for rank in range(2)]
        assert done.stderr.count("runs converted") == 1


TOLD = "import sys\nprint(sys.argv[1:])\n"
FLAGS = Facts([1, 2], [None, None], {"compile": "--compile", "cudagraphs": "--cuda-graphs"})


class TestFlags:
    @pytest.mark.parametrize(
        ("options", "script_args", "expected"),
        [
            ((), (), ["--compile"]),
            ((), ("--compile", "--seed", "2"), ["--compile", "--seed", "2"]),
            (("--eager",), ("--seed", "2"), ["--seed", "2"]),
            (("--flags", "--cuda-graphs --measure-burnin '4'"), (), ["--cuda-graphs", "--measure-burnin", "4"]),
        ],
    )
    def test_flags_come_before_the_arguments(
        self, runner: Runner, options: tuple[str, ...], script_args: tuple[str, ...], expected: list[str]
    ) -> None:
        runner.variables["CUDA_VISIBLE_DEVICES"] = ""
        script = runner.write(TOLD)
        runner.keep(script, TOLD, FLAGS)
        done = runner.run(script, *options, script_args=script_args)
        assert done.stdout == f"{expected}\n"
        assert "ppo.py runs converted, " in done.stderr
        assert str(next(runner.cache.glob("*/ppo.py"))) in done.stderr

    @pytest.mark.parametrize(("options", "told"), [((), True), (("--flags", "--compile"), True), (("--eager",), False)])
    def test_it_says_what_is_not_compiled(self, runner: Runner, options: tuple[str, ...], told: bool) -> None:
        script = runner.write(TOLD)
        runner.keep(script, TOLD, replace(FLAGS, headlines=["update() is not compiled: line 2"]))
        assert ("lean-convert: update() is not compiled: line 2" in runner.run(script, *options).stderr) == told

    def test_it_says_what_else_it_turned_on(self, runner: Runner) -> None:
        script = runner.write(TOLD)
        runner.keep(script, TOLD, replace(FLAGS, taken=["fused environments"]))
        assert "ppo.py runs converted, --compile, fused environments; " in runner.run(script).stderr

    def test_quiet(self, runner: Runner) -> None:
        script = runner.write(TOLD)
        runner.keep(script, TOLD, FLAGS)
        assert runner.run("-q", script).stderr == ""

    def test_arguments_without_dashes_are_explained(self, runner: Runner) -> None:
        done = runner.python("-m", "transformer", "run", runner.write(TOLD), "--env-id", "x")
        assert (done.returncode, "Put arguments of the script after `--`" in done.stderr) == (2, True)

    def test_unbalanced_quotes(self, runner: Runner) -> None:
        done = runner.run(runner.write(TOLD), "--flags", "'")
        assert (done.returncode, "No closing quotation" in done.stderr) == (2, True)

    @pytest.mark.parametrize("given", ["compile", "compile --cudagraphs"])
    def test_flags_begin_with_dashes(self, runner: Runner, given: str) -> None:
        done = runner.run(runner.write(TOLD), "--flags", given)
        assert done.returncode == 2 and "write --flags=" in done.stderr and f"--{given}" in done.stderr

    def test_eager_and_flags_exclude_each_other(self, runner: Runner) -> None:
        done = runner.run(runner.write(TOLD), "--eager", "--flags", "")
        assert (done.returncode, "exclude each other" in done.stderr) == (2, True)


class TestConversion:
    """Torch is a stub, since the scripts end below their imports."""

    def test_a_miss_fills_the_cache_once(self, stubbed: Runner) -> None:
        script = stubbed.write(quick("print(torch.__name__, sys.argv)\nsys.exit(9)"))
        for turn in range(2):
            done = stubbed.run(script, script_args=["--seed", "2"])
            assert done.returncode == 9, done.stderr
            assert done.stdout.splitlines() == [
                "torch loads: None",
                f"torch {[str(script), '--compile', '--seed', '2']}",
            ]
            assert len(list(stubbed.cache.glob("*/ppo.py"))) == 1, turn

    def test_an_edited_script_is_converted_again(self, stubbed: Runner) -> None:
        script = stubbed.write(quick("print('one')\nsys.exit()"))
        assert stubbed.run(script).stdout.endswith("one\n")
        stubbed.write(quick("print('two')\nsys.exit()"))
        assert stubbed.run(script).stdout.endswith("two\n")
        (stubbed.folder / "pyproject.toml").write_text("[tool.lean-convert]\nignore = ['flags']\n")
        assert "needs flags" in stubbed.run(script).stderr  # since the new settings leave out flags

    @pytest.mark.slow
    def test_two_that_start_at_once(self, stubbed: Runner) -> None:
        script = stubbed.write(quick("print('done')\nsys.exit()"))
        both = [stubbed.popen(script) for _ in range(2)]
        for one in both:
            assert one.communicate()[0].endswith("done\n")
            assert one.returncode == 0
        assert len(list(stubbed.cache.iterdir())) == 1

    @pytest.mark.slow
    def test_settings_among_the_imports_are_made_in_time(self, stubbed: Runner) -> None:
        """Imports run before the conversion; if that was too early for a setting, the process starts again."""
        stop = "from gym import AsyncVectorEnv\nprint(sys.argv)\nsys.exit()"
        (stubbed.folder / "site" / "gym.py").write_text("AsyncVectorEnv = print\n")
        script = stubbed.write(quick(stop).replace("Envs(args.num_envs)", "AsyncVectorEnv(args.num_envs)"))
        first, second = (stubbed.run(script, "--eager", "--tune", script_args=["-x"]) for _ in range(2))
        assert second.stdout.splitlines() == ["torch loads: 3000", f"{[str(script), '-x']}"]
        assert first.stdout.endswith(second.stdout)

    def test_the_users_modules_are_loaded_after_the_conversion(self, stubbed: Runner) -> None:
        (stubbed.folder / "mine.py").write_text("print('mine')\n")
        script = stubbed.write("import mine\nimport torch\nx = 1\n")
        done = stubbed.run(script)
        assert (done.returncode, done.stdout) == (1, "")
        assert "ppo.py:1:1: LC" in done.stderr

    def test_a_refused_script_runs_only_on_request(self, stubbed: Runner) -> None:
        script = stubbed.write("import sys\nprint(sys.argv, __file__, __name__)\nsys.exit(4)\n")
        done = stubbed.run(script, "--or-eager", script_args=["-x"])
        assert done.returncode == 4
        assert done.stdout == f"{[str(script), '-x']} {script} __main__\n"
        assert "LC" in done.stderr and "runs unconverted" in done.stderr
        refused = stubbed.run(script)
        assert (refused.returncode, refused.stdout) == (1, "")

    def test_verify_of_a_refused_script(self, stubbed: Runner) -> None:
        script = stubbed.write("print('ran')\n")
        refused, ran = stubbed.run(script, "--verify"), stubbed.run(script, "--verify", "--or-eager")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert (ran.returncode, ran.stdout) == (0, "ran\n")

    def test_bad_settings_are_bad_usage_also_with_or_eager(self, stubbed: Runner) -> None:
        (stubbed.folder / "pyproject.toml").write_text("[tool.lean-convert]\nselect = ['nonsense']\n")
        done = stubbed.run(stubbed.write(quick("print('ran')")), "--or-eager")
        assert (done.returncode, "ran" in done.stdout) == (2, False)

    def test_without_a_private_cache_nothing_is_run(self, stubbed: Runner) -> None:
        script = stubbed.write(quick("print('ran')\nsys.exit()"))
        stubbed.cache.mkdir(parents=True)
        stubbed.cache.chmod(0o777)
        done = stubbed.run(script)
        assert (done.returncode, done.stdout) == (2, "")
        assert "chmod" in done.stderr


@pytest.mark.slow
class TestTraining:
    """With the real torch and a real conversion."""

    def test_eager_computes_what_the_converted_file_does(self, runner: Runner) -> None:
        script = runner.write(build())
        file = runner.folder / "lean" / "ppo.py"
        file.parent.mkdir()
        runner.python("-m", "transformer", script, "-o", file)
        expected = runner.python(file, "--seed", "4")
        assert expected.returncode == 0, expected.stderr
        done = runner.run(script, "--eager", script_args=["--seed", "4"])
        assert done.stdout == expected.stdout
        assert done.stdout
        assert done.stderr.count(ANOTHER_ORDER) == 1

    def test_with_the_minibatches_in_the_same_order_it_prints_the_same(self, runner: Runner) -> None:
        script = runner.write(build())
        expected = runner.python(script)
        assert expected.returncode == 0, expected.stderr
        done = runner.run(script, "--ignore", "shuffle", "--eager")
        assert done.stdout == expected.stdout
        assert done.stdout
        assert ANOTHER_ORDER not in done.stderr

    def test_verify_lets_only_equal_scripts_train(self, runner: Runner) -> None:
        script = runner.write(build({"before_loop": "print('training')"}))
        equal = runner.run(script, "--verify", "--eager")
        assert (equal.returncode, equal.stdout.count("training")) == (0, 1), equal.stderr
        assert "EQUAL" in equal.stderr and "EQUAL" not in equal.stdout
        (entry,) = runner.cache.glob("*/ppo.py")
        wrong = entry.read_text().replace("- 1e-8", "+ 1e-8")
        assert "args.gamma" in wrong
        facts = Facts.from_json(facts_file(entry).read_bytes())
        for file, data in files_of(Program(entry, wrong.replace("args.gamma", "0.5").encode(), facts)).items():
            file.write_bytes(data)
        other = runner.run(script, "--verify", "--eager")
        assert (other.returncode, other.stdout) == (1, "")
        assert "DIFFERENT" in other.stderr


def test_start_up_cost(runner: Runner) -> None:
    """With a cached conversion, in processor time, which is steadier. benchmarks/run_cost.py measures the rest."""
    script = runner.write("")
    runner.keep(script, "")

    def seconds(*command: str) -> float:
        before = os.times()
        subprocess.run(command, env=runner.environment, check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    commands = (sys.executable, str(script)), (sys.executable, "-m", "transformer", "run", str(script))
    plain, ours = (min(seconds(*command) for _ in range(5)) for command in commands)
    assert ours - plain < 0.2
