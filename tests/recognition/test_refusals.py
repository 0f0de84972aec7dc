"""Scripts that are not converted: the code and the place of the finding; the text stays as it is."""

import textwrap
from pathlib import Path

import golden
import pytest
from cases import converted_by
from scripts import PARTS, edited, script

from transformer import convert
from transformer.recognition.refusals import FLAGS

OPTIMIZER = "optimizer = torch.optim.Adam(p)\n    optimizer.step()\nimport torch\n"
REFUSED = {
    "a2c_online.py": ("LC004", "envs.step("),
    "empty.py": ("LC001", ""),
    "jax_ppo.py": ("LC003", "import"),
    "opaque_loop.py": ("LC005", "while True:"),
    "reinforce.py": ("LC004", "optimizer.step()"),
    "syntax_error.txt": ("LC001", ""),
}
"""File, code, and a piece of the line of the finding."""


def test_every_refused_fixture_is_listed() -> None:
    assert {p.name for p in (golden.FIXTURES / "refused").iterdir() if p.is_file()} == set(REFUSED)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_fixture(name: str) -> None:
    code, there = REFUSED[name]
    source = (golden.FIXTURES / "refused" / name).read_text(encoding="utf-8")
    conversion = convert(source)
    (found,) = conversion.diagnostics
    assert found.code == code
    assert not conversion.converted
    assert conversion.source == source
    assert not conversion.steps
    assert there in [*source.splitlines(), ""][found.line - 1]


@pytest.mark.parametrize(
    ("source", "code", "line", "column"),
    [
        ("", "LC001", 1, 1),
        ("\n \n", "LC001", 1, 1),
        ("x = 1\ny = \0\n", "LC001", 2, 1),
        ("x = 1\nif x\n    y = 2\n", "LC001", 2, 5),
        ("# print('hello')\n", "LC001", 1, 1),
        ('{"cells": [], "nbformat": 4}', "LC001", 1, 1),
        ("print('hello')\n", "LC004", 1, 1),
        ("import os\n\nimport jax\n", "LC003", 3, 1),
        ("from flax import linen\nimport torch\n", "LC003", 1, 1),
        ("import os\nfrom tinygrad import nn\n", "LC004", 2, 1),
        ("import tensorflow as tf\nimport torch\noptimizer.step()\n", "LC004", 3, 1),
        ("import torch\n", "LC004", 1, 1),
        ("import torch\nx = 1\nopt = torch.optim.Adam(p)\nlearn(opt)\n", "LC004", 3, 7),
        ("x = " + "-" * 100_000 + "1\n", "LC008", 1, 1),
        ("x = 1\n" * 20_000, "LC008", 1, 1),
        ("x = '\ud800'\n", "LC001", 1, 1),
        ("for i in x:\n    " + OPTIMIZER, "LC004", 3, 5),
        ("for i in x:\n    y = env.step(i)\nfor i in x:\n    " + OPTIMIZER, "LC004", 2, 9),
        ("import torch\nfor i in x:\n    optimizer.step()\n", "LC004", 3, 5),
    ],
)
def test_position(source: str, code: str, line: int, column: int) -> None:
    (found,) = convert(source).diagnostics
    assert (found.code, found.line, found.column) == (code, line, column)


CHOSEN = "import torch\nif algo == 'sac':\n    from agents.sac import {one}\n{other}\nagent = Agent(env)\n"


@pytest.mark.parametrize(
    "other",
    [
        "else:\n    from agents.td3 import Agent",
        "elif algo == 'td3':\n    from agents.td3 import Delayed as Agent",
        "if algo == 'td3':\n    from .sac import Agent",
    ],
)
def test_a_conditional_import_of_what_trains(other: str) -> None:
    (found,) = convert(CHOSEN.format(one="Agent", other=other)).diagnostics
    assert (found.code, found.line) == ("LC004", 3)
    assert "Agent, which is called, is imported from agents.sac or " in found.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Agent", "else:\n    from agents.sac import Agent"),
        ("Buffer", "else:\n    from agents.td3 import Buffer\nfrom agents import Agent"),
        ("Agent", "else:\n    from agents.td3 import Buffer"),
    ],
)
def test_imports_that_choose_nothing(one: str, other: str) -> None:
    (found,) = convert(CHOSEN.format(one=one, other=other)).diagnostics
    assert found.code == "LC004" and "is imported from" not in found.message


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from stable_baselines3 import PPO\nPPO('MlpPolicy', 'CartPole-v1').learn(1000)\n", "Stable-Baselines3"),
        ("import torch\nfrom tianshou.trainer import OnpolicyTrainer\nOnpolicyTrainer(p).run()\n", "Tianshou"),
        ("import torch\nimport ray\nfrom ray.rllib.algorithms.ppo import PPOConfig\n", "RLlib"),
        ("import gymnasium as gym, tianshou as ts, torch\nts.trainer.OnpolicyTrainer(p).run()\n", "Tianshou"),
        ("import torch\nfrom trl import PPOTrainer\nopt = torch.optim.Adam(p)\nPPOTrainer(opt).train()\n", "TRL"),
    ],
)
def test_a_library_that_trains_is_named(source: str, name: str) -> None:
    (found,) = convert(source).diagnostics
    assert found.code == "LC004"
    assert found.message.startswith(f"{name} trains here: "), found.message


def test_a_library_that_only_helps_is_not_named() -> None:
    helped = "from stable_baselines3.common.buffers import ReplayBuffer\nimport torch\nloss.backward()\n"
    (found,) = convert(helped).diagnostics
    assert "Stable-Baselines3" not in found.message


def test_jax_beside_torch_is_no_reason() -> None:
    assert convert(script({"third_party": "import jax"})).converted
    jax_trains = "import torch\nimport jax\nimport optax\noptimizer = optax.adam(1e-3)\n"
    assert [d.code for d in convert(jax_trains).diagnostics] == ["LC003"]


@pytest.mark.parametrize("fixture", sorted(golden.CONVERTED.glob("*.py")), ids=lambda p: p.stem)
def test_converting_twice_says_so(fixture: Path) -> None:
    source = fixture.read_text(encoding="utf-8")
    conversion = convert(source)
    assert [d.code for d in conversion.diagnostics] == ["LC002"]
    assert conversion.source == source


@pytest.mark.parametrize("loop", ["async def main():", "async def main():\n    await asyncio.sleep(0)"])
def test_training_in_an_async_function(loop: str) -> None:
    source = script({"main": loop, "stdlib": "import asyncio", "end": "\n\nasyncio.run(main())"})
    (found,) = convert(source).diagnostics
    assert (found.code, found.message) == (
        "LC005",
        "the training is in the async function main(): write `def` without `async`",
    )
    assert source.splitlines()[found.line - 1] == "async def main():"


def test_an_async_function_beside_the_training_is_no_obstacle() -> None:
    source = script({"functions": "async def serve(x):\n    return x.step()\n\n\n"})
    assert convert(source).converted


def test_update_above_the_rollout() -> None:
    source = script({"collect": "<minibatches>", "minibatches": PARTS["minibatches"], "report": "<rollout>"})
    (found,) = convert(source).diagnostics
    assert found.code == "LC005"
    assert "for epoch in range" in source.splitlines()[found.line - 1]


def test_nothing_applies() -> None:
    source = script({})
    conversion = convert(source, select=["auxiliary-update"])
    (found,) = conversion.diagnostics
    assert found.code == "LC006"
    reason = "the minibatch loop is the only one that steps an optimizer"
    assert found.message == f"no transform applies: {reason} (auxiliary-update)"
    assert conversion.source == source


def test_warning_points_at_the_line_of_the_original() -> None:
    source = script({"metrics": "ema = 0.9 * ema + 0.1 * ratio.mean().item()", "begin": PARTS["begin"] + "\nema = 0.0"})
    conversion = convert(source)
    (found,) = conversion.warnings
    assert found.code == "LC101"
    assert "ema = 0.9" in source.splitlines()[found.line - 1]
    assert conversion.converted


def test_environment_and_optimizer_in_different_functions() -> None:
    collect = "def collect():\n    for step in range(8):\n        state = envs.step(step)\n\n\n"
    source = script(
        {"functions": collect, "collect": "collect()\ncollect()", "minibatch": edited("minibatch", "<metrics>\n", "")}
    )
    (found,) = convert(source).warnings
    assert found.code == "LC102"
    assert "only the update is converted" in found.message
    assert "state = envs.step(step)" in source.splitlines()[found.line - 1]


IN_A_METHOD = """import gym
import torch


class Agent:
    def __init__(self):
        self.net = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def learn(self, data):
        for x in data:
            loss = self.net(x).sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


env = gym.make("CartPole-v1")
agent = Agent()
data = []
obs = env.reset()
for turn in range(1000):
    logits = agent.net(torch.tensor(obs))
    obs, reward, done, info = env.step(int(torch.distributions.Categorical(logits=logits).sample()))
    data.append(torch.tensor(obs))
    if turn % 128 == 0:
        agent.learn(data)
"""


def test_position_in_the_original_after_inlining() -> None:
    assert convert(IN_A_METHOD).converted
    source = IN_A_METHOD.replace("for x in data:", "with torch.enable_grad():\n            x = torch.ones(4)")
    (found,) = convert(source).diagnostics
    lines = source.splitlines()
    assert (found.code, lines[found.line - 1][found.column - 1 :][:9]) == ("LC004", "env.step(")
    assert f"in some iterations (line {lines.index('    if turn % 128 == 0:') + 1})" in found.message


def test_position_of_an_optimizer_that_is_made_elsewhere() -> None:
    source = IN_A_METHOD.replace("torch.optim.Adam(self.net.parameters())", "make_optimizer(self.net)")
    source = source.replace("            self.optimizer.zero_grad()\n", "")
    (found,) = convert(source).diagnostics
    assert source.splitlines()[found.line - 1].strip() == "self.optimizer.step()"
    assert "nothing in this file assigns a torch.optim optimizer" in found.message


@pytest.mark.parametrize("call", ["locals()", "vars()", "dir()", "eval('loss')", "exec('print(loss)')"])
@pytest.mark.parametrize("part", ["metrics", "report", "end"])
def test_lookups_of_all_names(part: str, call: str) -> None:
    # callback(**locals()) would miss the names that have moved into a function
    source = script({part: f"{PARTS[part]}\nprint({call})".lstrip()})
    (found,) = convert(source).diagnostics
    assert found.code == "LC005"
    assert source.splitlines()[found.line - 1][found.column - 1 :].startswith(call)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"functions": "def range(*bounds):\n    return [0]\n\n\n"}, "range"),
        ({"before_loop": "sorted = print", "report": "sorted(1, key=lambda x: global_step)"}, "sorted"),
        ({"report": "from operator import add as max\nprint(max(1, 2))"}, "max"),
        ({"functions": "def clipped(len):\n    return len(3)\n\n\n"}, "len"),
        ({"functions": "class float(float):\n    pass\n\n\n", "report": "print(float(1))"}, "float"),
    ],
)
def test_a_function_that_is_named_as_one_of_pythons(parts: dict[str, str], name: str) -> None:
    (found,) = convert(script(parts)).diagnostics
    assert (found.code, found.message) == ("LC005", f"{name}() is the script's own here, not Python's")


@pytest.mark.parametrize(
    "parts",
    [
        {"functions": "class Box:\n    def range(self):\n        return 1\n\n\n"},  # only objects lead to it
        {"before_loop": "max = 3"},  # the script never calls it
        {"functions": "def largest(values):\n    sum = values[0]\n    return sum\n\n\n"},
        {"third_party": "from builtins import range"},
        {"functions": "def print(*words):\n    pass\n\n\n"},  # every analysis checks whose print() it is
    ],
)
def test_names_of_python_that_are_not_called(parts: dict[str, str]) -> None:
    assert converted_by(script(parts), "deferred-sync", "rollout", "update").converted


def test_lookups_above_the_training() -> None:
    seen = script({"before_loop": "print(vars(args), dir(), eval('args.seed'))"})
    (found,) = convert(seen).diagnostics
    assert found.code == "LC006"  # the training is understood, but no transform knows what eval() looks up
    (line,) = (number for number, text in enumerate(seen.splitlines(), 1) if "eval" in text)
    assert found.message.startswith(
        f"no transform applies: line {line} may look up, by name, a variable that the transform renames or removes ("
    )


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("x = [\n", "Fix the line"),
        ("\n", "the script that trains"),
        ("# loss.backward()\n", "Remove the #"),
        ('{"cells": [], "nbformat": 4, "metadata": {}}', "nbconvert"),
        ("x = 1\0\n", "Provide a UTF-8 file"),
    ],
)
def test_advice_for_files_that_are_no_scripts(source: str, advice: str) -> None:
    (found,) = convert(source).errors
    assert found.code == "LC001" and advice in found.advice


LEARNERS = """\
import torch


class Learner:
    def __init__(self, parameters):
        self.optimizer = torch.optim.Adam(parameters)

    def learn(self, loss):
        loss.backward()
        self.optimizer.step()


class Other:
    def learn(self, loss):
        pass


def evaluate(env):
    for _ in range(9):
        obs = env.step(0)


learner = Learner(parameters) if args.first else Other()
for step in range(99):
    obs = env.step(1)
    learner.learn(loss(obs))
"""


def test_a_method_that_may_be_another() -> None:
    (found,) = convert(LEARNERS).diagnostics
    assert found.code == "LC005"
    assert found.line == 26
    assert found.message.startswith("learner.learn() seems to step the optimizer on line 10")


ELSEWHERE = """
import random
import torch

memory = []
optimizer = torch.optim.Adam(net.parameters())

def learn():
    batch = <batch>
    loss = net(batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

def play():
    for _ in range(9):
        obs, reward, done, info = env.step(env.action_space.sample())
"""


@pytest.mark.parametrize(
    ("batch", "stored"),
    [("random.sample(memory, 8)", True), ("memory.sample(8)", True), ("torch.stack(memory)", False)],
)
def test_advice_for_each_kind_of_training(batch: str, stored: bool) -> None:
    (found,) = convert(ELSEWHERE.replace("<batch>", batch)).diagnostics
    assert found.code == "LC005"
    assert ("below that, learns from stored steps" in found.advice) == stored
    assert ("epoch and minibatch loops" in found.advice) != stored


@pytest.mark.parametrize(("name", "env"), [("evaluate", "env"), ("run_tests", "env"), ("watch", "eval_env")])
def test_an_evaluations_step_is_not_the_one_that_is_named(name: str, env: str) -> None:
    evaluation = f"""
def {name}():
    for _ in range(9):
        while True:
            obs, reward, done, info = {env}.step(agent.act(obs))
"""
    for source in (ELSEWHERE + evaluation, evaluation + ELSEWHERE):
        (found,) = convert(source.replace("<batch>", "memory.sample(8)")).diagnostics
        assert found.message.startswith("the environment is stepped here in play, the optimizer on line")


def test_a_scripts_own_compile_options() -> None:
    """The flags get other names, unless the script compiles by itself."""
    seed = '    parser.add_argument("--seed", type=int, default=1)\n'
    own = "".join(seed.replace("seed", name).replace("type=int, default=1", 'action="store_true"') for name in FLAGS)
    source = script().replace(seed, own + seed, 1)
    conversion = converted_by(source, "flags", "update", "compile")
    assert conversion.converted and "--lean-compile" in conversion.source
    by_hand = source.replace("for iteration in", "agent.act = torch.compile(agent.act)\nfor iteration in", 1)
    (found,) = convert(by_hand).diagnostics
    assert (found.code, "torch.compile" in by_hand.splitlines()[found.line - 1]) == ("LC002", True)


TWO = """
class Other:
    def learn(self, batch):
        return batch


agent = make()
for t in range(9):
    obs, reward, done, info = env.step(agent.act(obs))
    agent.learn(obs)
"""


def test_two_methods_of_one_name_are_the_reason() -> None:
    head, _, rest = ELSEWHERE.replace("<batch>", "batch").partition("def learn():\n")
    methods = "class Agent:\n    def learn(self, batch):\n" + textwrap.indent(rest.partition("def play")[0], "    ")
    (found,) = convert(f"{head}\n{methods}\n{TWO}").diagnostics
    assert "but Agent and Other have a learn(): give them different names" in found.message, found.message


LEARNS = """import torch
import hydra
import agents

{made}
for t in range(9):
    obs, reward, done, info = env.step(agent.act(obs))
    agent.{method}(obs)
"""
BY_CHOICE = "if mode:\n    agent = agents.{0}(3)\nelse:\n    agent = agents.{1}(3)"


@pytest.mark.parametrize(
    ("made", "method", "told"),
    [
        ("agent = hydra.utils.instantiate(settings.agent)", "update", "made by hydra.utils.instantiate()"),
        (BY_CHOICE.format("Slow", "Fast"), "learn", "made by agents.Slow or agents.Fast"),
        (BY_CHOICE.format("Slow", "Fast"), "show", ""),
        (BY_CHOICE.format("Slow", "Slow"), "learn", ""),
        (BY_CHOICE.format("Slow", "Fast").replace("else:", "if not mode:"), "learn", ""),
        ("agent = agents.Slow(3)", "learn", ""),
    ],
    ids=["a configuration", "a condition", "it does not learn", "one class", "both may be made", "no choice"],
)
def test_an_agent_whose_class_is_known_only_at_run_time(made: str, method: str, told: str) -> None:
    (found,) = convert(LEARNS.format(made=made, method=method)).diagnostics
    assert found.code == "LC004"
    assert ("which object trains is known only at run time" in found.message) == bool(told)
    assert told in found.message


STEP = "    optimizer.zero_grad()\n    loss = q(x)\n    loss.backward()\n    optimizer.step()\n"
LOOP = f"for x in data:\n{STEP}"
MADE = "optimizer = torch.optim.Adam(q.parameters())\n"


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        (f"import torch\nimport d4rl\n{MADE}data = d4rl.load()\n{LOOP}", "LC004", "offline RL"),
        (f"import torch\nfrom torchrl.objectives import Loss\n{MADE}q = Loss()\n{LOOP}", "LC004", "TorchRL"),
        (
            "import torch\nfor p in torch.autograd.grad(kl, ps, create_graph=True):\n    p.data += 0.1 * p\n",
            "LC004",
            "TRPO",
        ),
        (
            f"import torch\n{MADE}def update(x):\n{STEP}\nupdate = torch.compile(update)\n"
            "for a in range(9):\n    x = env.step(a)\n"
            "    update(x)\n",
            "LC002",
            "lean already",
        ),
    ],
    ids=["recorded steps", "a library's losses", "second derivatives", "compiled by itself"],
)
def test_other_kinds_of_scripts_are_named(source: str, code: str, said: str) -> None:
    (found,) = convert(source).errors
    assert found.code == code
    assert said in found.message
    assert found.advice


def test_stored_steps_of_a_library_do_not_make_it_the_trainer() -> None:
    source = f"import torch\nfrom stable_baselines3.common.buffers import ReplayBuffer\n{MADE}x = env.step(0)\n{LOOP}"
    assert not any("Stable-Baselines3" in d.message for d in convert(source).errors)
