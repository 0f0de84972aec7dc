"""A module's name that functions also have: only where it means the module is it rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from joined import join, printed, refusals

AGENT = """\
RATE = 0.5


class Agent:
    size = 3

    def act(self, x):
        return x * RATE


def made():
    return Agent()
"""
SAME = {
    "a parameter": "def act(agent, x):\n    return agent.act(x)\nprint(act(agent.Agent(), 2))\n",
    "a variable": "def act(x):\n    agent = 3\n    return agent + x\nprint(act(2), agent.RATE)\n",
    "a default": "def act(x, agent=agent.made()):\n    return agent.act(x)\nprint(act(2))\n",
    "an inner function": (
        "def act(agent):\n    def inner():\n        return agent.size\n    return inner\nprint(act(agent.made())())\n"
    ),
    "a lambda": "act = lambda agent: agent.size\nprint(act(agent.Agent()))\n",
    "a comprehension": (
        "def run():\n    return [agent.size for agent in [agent.made(), agent.Agent()]]\nprint(run(), agent.RATE)\n"
    ),
    "a method": "class Run:\n    def act(self, agent):\n        return agent.act(1)\nprint(Run().act(agent.made()))\n",
    "a loop": "def run():\n    for agent in [1, 2]:\n        print(agent)\nrun()\nprint(agent.RATE)\n",
    "a with": "def run():\n    with open('x', 'w') as agent:\n        agent.write('')\nrun()\nprint(agent.RATE)\n",
    "an attribute": "class Run:\n    pass\nrun = Run()\nrun.agent = agent.made()\nprint(run.agent.size)\n",
    "a keyword": "def act(agent):\n    return agent.act(3)\nprint(act(agent=agent.made()))\n",
    "global": "def act():\n    global size\n    size = agent.RATE\nact()\nprint(size)\n",
}
REFUSED = {
    "a class": "class Run:\n    agent = agent.made()\nprint(Run.agent.size)\n",
    "the module's": "agent = agent.made()\nprint(agent.size)\n",
    "the module's, in a function": "def act():\n    global agent\n    agent = agent.made()\nact()\nprint(agent.size)\n",
    "handed on": "def act(agent):\n    return agent.made()\nprint(act(agent).size)\n",
}


@pytest.mark.parametrize("code", SAME.values(), ids=SAME)
def test_another_variable_of_the_modules_name(code: str, tmp_path: Path) -> None:
    files = {"train.py": f"import agent\n{code}", "agent.py": AGENT}
    one = join(tmp_path, files)
    assert "import agent" not in one.text
    assert printed(tmp_path, one.text) == printed(tmp_path, files["train.py"])


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_a_name_that_may_be_the_module(code: str, tmp_path: Path) -> None:
    assert refusals(tmp_path, {"train.py": f"import agent\n{code}", "agent.py": AGENT})
