"""Files converted together with a script: the single text they become, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from joined import join, printed, refusals, write, written
from scripts import script

from transformer.conversion.of_file import convert_script
from transformer.conversion.together.gathered import NotImported
from transformer.conversion.together.one_file import one_file
from transformer.recognition.refusals import Unconvertible

NETWORK = '''\
"""The network."""

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical

HIDDEN = 8


def layer_init(layer, std=np.sqrt(2)):
    torch.nn.init.orthogonal_(layer.weight, std)
    return layer


# Acts and judges.
class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(2, HIDDEN)), nn.Tanh(), layer_init(nn.Linear(HIDDEN, 1)))
        self.actor = nn.Sequential(layer_init(nn.Linear(2, HIDDEN)), nn.Tanh(), layer_init(nn.Linear(HIDDEN, 2)))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


# For the curious
def main():
    print(Agent())


if __name__ == "__main__":
    main()
'''


class TestText:
    def test_definitions_stand_below_the_imports(self, tmp_path: Path) -> None:
        agent = (
            "# coding: utf-8\nimport math\nimport os\n\nSIZE = 3\n\n\n"
            "# Doubles.\ndef twice(x):\n    return 2 * math.floor(x)\n"
        )
        train = "import torch\n\nfrom agent import SIZE, twice\n\nimport sys\n\nprint(twice(SIZE), torch, sys)\n"
        found = join(tmp_path, {"agent.py": agent, "train.py": train})
        assert found.text == (
            "import torch\n\nimport math\n\nimport sys\n\n\n# From agent.py\nSIZE = 3\n\n\n"
            "# Doubles.\ndef twice(x):\n    return 2 * math.floor(x)\n\n\nprint(twice(SIZE), torch, sys)\n"
        )
        assert [line for name, line in found.origins if not name] == [1, 2, 4, 5, 5, 6, 7]
        assert len(found.origins) == found.text.count("\n")

    def test_what_is_not_needed_is_left_out(self, tmp_path: Path) -> None:
        train = "import torch\nfrom agent import layer_init\n\nlayer_init(torch.nn.Linear(2, 2))\n"
        text = join(tmp_path, {"agent.py": NETWORK, "train.py": train}).text
        assert "class Agent" not in text
        assert "Categorical" not in text
        assert "HIDDEN" not in text
        assert "curious" not in text
        assert "__main__" not in text
        assert "def layer_init" in text

    def test_what_a_module_does_is_done_in_the_place_of_its_import(self, tmp_path: Path) -> None:
        agent = "print('agent')\nSEEN = []\nSEEN.append(1)\n\n\ndef seen():\n    return SEEN\n"
        train = "print('before')\nfrom agent import seen\nprint('after', seen())\n"
        found = join(tmp_path, {"agent.py": agent, "train.py": train})
        assert printed(tmp_path, found.text) == printed(tmp_path, train) == "before\nagent\nafter [1]\n"

    @pytest.mark.parametrize(
        "train",
        [
            "from agent import answer\nprint(answer())\n",
            "from agent import *\nprint(answer())\n",
            "from agent import answer as reply\nprint(reply())\n",
            "import agent\nprint(agent.answer(), 'ö', agent.answer())\n",
            "import agent as other, sys\nprint(other.answer(), sys.byteorder)\n",
            "from agent import (\n    FACTOR,\n    answer,\n)\nprint(answer(), FACTOR)\n",
            "from agent import FACTOR\nfrom agent import answer\nprint(answer(), FACTOR)\n",
            "from agent import answer\nfrom layers import BASE\nprint(answer(), BASE)\n",
            "from layers import BASE as B\nfrom agent import answer as A\nprint(A(), B)\n",
        ],
    )
    def test_all_ways_to_import(self, train: str, tmp_path: Path) -> None:
        agent = (
            "from layers import base as b\nimport layers\nFACTOR = 2\n"
            "def answer():\n    return b() * FACTOR * layers.base()\n"
        )
        layers = "BASE = 3\ndef base():\n    return BASE\n"
        files = {"agent.py": agent, "layers.py": layers, "train.py": train}
        found = join(tmp_path, files, "agent.py", "layers.py")
        assert "agent" not in found.text.replace("# From agent.py", "")
        assert "layers" not in found.text.replace("# From layers.py", "")
        assert printed(tmp_path, found.text) == printed(tmp_path, train)

    def test_what_is_imported_in_one_statement_is_executed_in_its_order(self, tmp_path: Path) -> None:
        files = {
            "train.py": "import first, agent, last\nprint(agent.n, first, last.m)\n",
            "agent.py": "print('agent')\nn = 1\n",
            "first.py": "print('first')\n",
            "last.py": "print('last')\nm = 2\n",
        }
        found = join(tmp_path, files, "agent.py", "last.py")
        assert printed(tmp_path, found.text) == printed(tmp_path, files["train.py"])

    def test_names_in_formatted_texts(self, tmp_path: Path) -> None:
        train = 'from agent import answer as reply\nimport agent\nprint(f"{reply()} é {agent.answer():>{reply()}}")\n'
        files = {"train.py": train, "agent.py": "def answer():\n    return 7\n"}
        found = join(tmp_path, files)
        assert printed(tmp_path, found.text) == printed(tmp_path, files["train.py"])

    def test_form_feeds_end_no_line(self, tmp_path: Path) -> None:
        agent = "x = 'a\x0cb'\n\x0c\ndef unneeded():\n    pass\n\n\ndef answer():\n    return x\n"
        files = {"train.py": "from agent import answer\nprint(answer())\n", "agent.py": agent}
        found = join(tmp_path, files)
        assert "unneeded" not in found.text
        assert printed(tmp_path, found.text) == printed(tmp_path, files["train.py"])

    def test_packages_and_relative_imports(self, tmp_path: Path) -> None:
        files = {
            "train.py": "from nets.agent import answer\nfrom nets import layers\nprint(answer(), layers.BASE)\n",
            "nets/__init__.py": "__version__ = '1'\n",
            "nets/agent.py": "from . import layers\nfrom .other import more\n"
            "def answer():\n    return layers.BASE + more()\n",
            "nets/layers.py": "BASE = 3\n",
            "nets/other.py": "def more():\n    return 4\n",
        }
        found = join(tmp_path, files, "nets/agent.py", "nets/layers.py")
        assert "from nets.other import more" in found.text
        assert printed(tmp_path, found.text) == printed(tmp_path, files["train.py"]) == "7 3\n"

    def test_relative_imports_of_a_script_stay_relative(self, tmp_path: Path) -> None:
        files = {
            "train.py": "from .agent import answer\nanswer()\n",
            "agent.py": "from .sub.other import more\ndef answer():\n    return more()\n",
            "sub/other.py": "def more():\n    return 4\n",
        }
        assert "from .sub.other import more" in join(tmp_path, files).text

    def test_a_package_that_imports_its_modules(self, tmp_path: Path) -> None:
        files = {
            "train.py": "from nets import answer\nprint(answer())\n",
            "nets/__init__.py": "from .agent import answer\n__all__ = ['answer']\n",
            "nets/agent.py": "def answer():\n    return 3\n",
        }
        found = join(tmp_path, files, "nets/__init__.py", "nets/agent.py")
        assert printed(tmp_path, found.text) == "3\n"

    @pytest.mark.parametrize("inside", ["", "# nothing\n", '"""Nothing."""\n', "from __future__ import annotations\n"])
    @pytest.mark.parametrize("above", ["", "print('nets')\n"])
    def test_a_package_or_module_that_does_nothing(self, inside: str, above: str, tmp_path: Path) -> None:
        files = {
            "nets/__init__.py": f"{above}from nets.empty import *\nSIZE = len([3])\nSIZE += 1\n",
            "nets/empty.py": inside,
            "train.py": "from nets import SIZE\nprint(SIZE)\n",
        }
        found = join(tmp_path, files, "nets/__init__.py", "nets/empty.py")
        assert printed(tmp_path, found.text) == printed(tmp_path, files["train.py"])

    def test_a_project_above_the_script(self, tmp_path: Path) -> None:
        write(tmp_path, {"nets/agent.py": "def answer():\n    return 3\n", "nets/__init__.py": ""})
        files = {"train.py": "from nets.agent import answer\nprint(answer())\n"}
        found = join(tmp_path / "scripts", files, "../nets/agent.py")
        assert printed(tmp_path, found.text) == "3\n"

    def test_line_ends_are_the_scripts(self, tmp_path: Path) -> None:
        files = {"train.py": "from agent import SIZE\r\nprint(SIZE)\r\n", "agent.py": "SIZE = 3\n"}
        assert join(tmp_path, files).text.replace("\r\n", "") == "# From agent.pySIZE = 3print(SIZE)"

    def test_a_script_that_is_no_python(self, tmp_path: Path) -> None:
        path = write(tmp_path, {"train.py": "x = (\n", "agent.py": ""})
        assert one_file(path, "x = (\n", [tmp_path / "agent.py"]) is None


@pytest.mark.parametrize(
    ("own", "others", "joined"),
    [
        ("size = 84\n", "size = 84\n", True),
        ('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n', None, True),
        ("cuda = torch.cuda.is_available()\nsize = torch.device('cuda' if cuda else 'cpu')\n", None, True),
        ("size = (84, -1.5, 2 * 3)\n", None, True),
        ("size = torch.float32\n", None, True),
        ("import strange\nsize = strange.size\n", None, False),
        ("size = wide\nwide = size\n", None, False),
        ("size = [84]\n", None, False),
        ("size = {}\n", None, False),
        ("size = torch.zeros(3)\n", None, False),
        ("size = Agent\n", "class Other: pass\nsize = Other\n", False),
        ("size = 84\n", "size = 84.0\n", False),
        ("size = 84\n", "size = 84\nsize += 1\n", False),
        ("size = 84\ndef grow():\n    global size\n    size = 5\n", "size = 84\n", False),
        ("for size in (1, 84): pass\n", None, False),
        ("base = 1\nsize = base + 1\n", "base = 2\nsize = base + 1\n", False),
    ],
)
def test_a_value_that_is_set_in_each_file(tmp_path: Path, own: str, others: str | None, joined: bool) -> None:
    name = "device" if own.startswith("device") else "size"
    files = {
        "train.py": f"import torch\nfrom agent import Agent\n{own}same = Agent.value == {name}\n",
        "agent.py": f"import torch\n{own if others is None else others}class Agent:\n    value = {name}\n",
    }
    if "Agent" in own:  # its class is handed on
        assert any("is something else in train.py" in line for line in refusals(tmp_path, files))
        return
    text = join(tmp_path, files).text
    assert ("agent_size" in text) is not joined
    names: dict[str, object] = {}
    if joined:
        exec(text, names)
        assert names["same"] is True


@pytest.mark.parametrize(
    "look",
    [
        "import traceback\nprint(traceback.extract_stack()[-1].filename)",
        "import sys\nprint(sys._getframe().f_code.co_filename)",
        "from inspect import getouterframes as around\nprint(around(None))",
        "import threading\nthreading.settrace(print)",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print(e.__traceback__.tb_frame.f_code.co_filename)",
    ],
)
def test_frames_show_their_file(tmp_path: Path, look: str) -> None:
    files = {"train.py": "from agent import f\nf()\n", "agent.py": f"def f(): ...\n{look}\n"}
    assert refusals(tmp_path, files)


@pytest.mark.parametrize("form", ["%(module)s: %(message)s", "{filename}", "%(asctime)s %(pathname)s:%(lineno)d"])
def test_a_log_that_shows_its_file(tmp_path: Path, form: str) -> None:
    train = f"import logging\nfrom agent import f\nlogging.basicConfig(format={form!r})\nf()\n"
    files = {"train.py": train, "agent.py": "import logging\ndef f():\n    logging.warning('x')\n"}
    assert any("shows which file logs" in line for line in refusals(tmp_path, files))


@pytest.mark.parametrize(
    ("script", "agent"),
    [
        ("size = {'a': 1}\n", "size = {'a': 2}\ndef f(x=size):\n    size['a'] += 1\n    return x, size\n"),
        (
            "size = 1\n",
            "size = [2]\nsize += size\nwith open('/dev/null') as size:\n    f = size.fileno\nf = lambda: size.closed\n",
        ),
        (
            "size = 1\n",
            "for size in (1, 2):\n    size: int = size * 2\ndef f():\n    return size, f'{size} {size:>3}'\n",
        ),
        ("import math as size\n", "import os.path as size\ndef f():\n    return size.join('é', 'b'), 'é', size.sep\n"),
        (
            "from math import sqrt as size\n",
            "from math import pi, floor as size, e\ndef f():\n    return size(pi + e)\n",
        ),
        ("from datetime import datetime as size\n", "import datetime as size\nf = lambda: size.timedelta(1)\n"),
        (
            "import math\nsize = math.sqrt\n",
            "def size(n):\n    return n and size(n - 1)\ndef f():\n    return size(3)\n",
        ),
        ("SIZE = 1\nsize = 3\n", "size = 1\nSIZE = 4\ndef f():\n    return SIZE, size, [SIZE for _ in 'ab']\n"),
        ("size = 1\ndef g(size): return size\n", "if f_size := 2:\n    size = f_size\ndef f():\n    return size\n"),
    ],
)
def test_a_name_that_is_something_else_in_the_script(tmp_path: Path, script: str, agent: str) -> None:
    files = {"train.py": f"from agent import f\n{script}print(f(), size)\n", "agent.py": agent}
    text = join(tmp_path, files).text
    assert "agent_size" in text
    assert printed(tmp_path, text) == printed(tmp_path, files["train.py"])


def test_a_module_that_two_files_call_as_the_script_calls_something_else(tmp_path: Path) -> None:
    takes = "import math\ndef {0}():\n    return math.floor(2.5)\n"
    files = {
        "train.py": "from agent import f\nfrom other import g\nfrom math import pi as math\nprint(f(), g(), math)\n",
        "agent.py": takes.format("f"),
        "other.py": takes.format("g"),
    }
    text = join(tmp_path, files, "agent.py", "other.py").text
    assert "import math as agent_math" in text
    assert "import math as other_math" in text
    assert printed(tmp_path, text) == printed(tmp_path, files["train.py"])


@pytest.mark.parametrize(
    "look",
    ["'size' in locals()", "f\"{'size' not in vars():>7}\"", "'f' in locals()", "'g' in vars()", "'agent' in locals()"],
)
def test_a_name_that_the_script_asks_for(look: str, tmp_path: Path) -> None:
    files = {
        "train.py": f"import agent\nfrom agent import f as g\nprint({look}, g(), agent.f())\n",
        "agent.py": "size = 1\ndef f():\n    return size\n",
    }
    try:
        text = join(tmp_path, files).text
    except Unconvertible:
        assert look[1] in "fga"  # f is called g in the script, and the module is not there
        return
    assert printed(tmp_path, text) == printed(tmp_path, files["train.py"])


@pytest.mark.parametrize(
    ("agent", "more"),
    [
        ("class size:\n    pass\nf = size\n", ""),
        ("def size():\n    pass\nf = size\n", ""),
        ("import functools\n@functools.cache\ndef size():\n    pass\ndef f():\n    size()\n", ""),
        ("size = 2\ndef f():\n    return f'{size=}'\n", ""),
        ("size = int\ndef f(x: 'list[size]'):\n    pass\n", ""),
        ("size = 2\ndef f():\n    for size in range(3): print(size)\n", ""),
        ("size = 2\ndef f():\n    global size\n    size = 3\n", ""),
        ("size = 2\ndef f():\n    return size, __file__\n", ""),
        ("size = 2\ndef f():\n    return globals()['size'], size\n", ""),
        ("size, agent_size = 2, 3\ndef f():\n    return size, agent_size\n", ""),
        ("import size.inner\nf = size.inner\n", ""),
        ("try:\n    f = g\nexcept NameError as size:\n    f = print\n", ""),
        ("size = 2\nf = print\n", "from agent import size\ng = size\n"),
        ("size = 2\nf = print\n", "import agent\ng = agent.size\n"),
        ("size = 2\nf = print\n", "from agent import *\ng = size\n"),
        ("def f():\n    return size\n", ""),
        ("size = 2\nf = 'size' in locals()\n", ""),
        ("f = 'size' in locals()\n", ""),
        ("from third import size\ng = size\n", "g = 3\n"),
    ],
)
def test_a_name_that_cannot_be_another_one(tmp_path: Path, agent: str, more: str) -> None:
    files = {
        "train.py": "from agent import f\nimport other\nsize = 1\nprint(size, f, other.g)\n",
        "agent.py": agent,
        "other.py": more or "g = 1\n",
        "third.py": "def size():\n    pass\nsize = [size]\n",
    }
    given = ("agent.py", "other.py") if "third" not in agent else ("agent.py", "other.py", "third.py")
    assert any("`size`" in line for line in refusals(tmp_path, files, *given))


TRAIN = "from agent import Agent\nprint(Agent())\n"
AGENT = "class Agent:\n    pass\n"
REFUSED = {
    "a name of both": (
        {"train.py": f"{TRAIN}size = 1\n", "agent.py": "class size: pass\nclass Agent(size): pass\n"},
        ["agent.py:1: LC009 `size` is something else in train.py (line 3): rename one of them"],
    ),
    "a builtin of the other": (
        {
            "train.py": f"{TRAIN}print(max(1, 2))\n",
            "agent.py": "def max(a):\n    return a\nclass Agent:\n    x = max\n",
        },
        ["agent.py:1: LC009 `max` is something else in train.py (line 3): rename one of them"],
    ),
    "another module of one name": (
        {
            "train.py": f"import numpy as np\n{TRAIN}print(np)\n",
            "agent.py": f"import jax.numpy as np\n{AGENT}    x: 'np' = np",
        },
        ["agent.py:1: LC009 `np` is something else in train.py (line 1): rename one of them"],
    ),
    "an imported name that is bound again": (
        {"train.py": f"{TRAIN}Agent = len\n", "agent.py": AGENT},
        ["agent.py:1: LC009 `Agent` is something else in train.py (line 3): rename one of them"],
    ),
    "another name that is taken": (
        {"train.py": "from agent import Agent as A\ndef f(Agent):\n    return A(), Agent\n", "agent.py": AGENT},
        ["train.py:1: LC009 `A` is called `Agent` where it is defined, and one of them is taken here"],
    ),
    "a value that functions change": (
        {"train.py": "from agent import n\nprint(n)\n", "agent.py": "n = 1\ndef f():\n    global n\n    n = 2\nf()\n"},
        ["train.py:1: LC009 `n` of agent.py changes while the script runs"],
    ),
    "a name that is not there": (
        {"train.py": TRAIN, "agent.py": "x = 1\n"},
        ["train.py:1: LC009 agent.py has no name `Agent`"],
    ),
    "all names": (
        {"train.py": f"{TRAIN}print(len(globals()))\nprint(locals())\n", "agent.py": AGENT},
        [
            "train.py:3: LC009 `globals` is specific to train.py, and would differ in one file",
            "train.py:4: LC009 `locals()` lists all names of train.py, and the merged file has more",
        ],
    ),
    "modules by name": (
        {"train.py": f"import importlib\nimport sys\n{TRAIN}sys.path.insert(1, 'x')\n", "agent.py": AGENT},
        [
            "train.py:1: LC009 modules are imported by names that are computed at run time",
            "train.py:5: LC009 `sys.path` changes, so it is not known which files are imported",
        ],
    ),
    "an importer of the script": (
        {"train.py": f"{TRAIN}import utils\n", "agent.py": AGENT, "utils.py": "def f():\n    import train\n"},
        ["utils.py:2: LC009 also imports train.py: give this file with --with as well"],
    ),
    "a circle": (
        {"train.py": TRAIN, "agent.py": f"from train import x\n{AGENT}"},
        ["agent.py:1: LC009 train.py is imported while it is being executed (a circular import)"],
    ),
    "an import beside another statement": (
        {"train.py": "x = 1; from agent import Agent\n", "agent.py": AGENT},
        ["train.py:1: LC009 the import of agent.py shares its line with another statement"],
    ),
    "names of a library that are not known": (
        {"train.py": f"{TRAIN}from torch.nn import *\n", "agent.py": AGENT},
        ["train.py:3: LC009 the names that `import *` binds here are not known, and may be those of another file"],
    ),
    "the module itself": (
        {"train.py": "import agent\nagent.size = 3\nprint(agent)\nprint(agent.other)\n", "agent.py": "size = 2\n"},
        [
            "train.py:2: LC009 the module `agent` is used other than by its attributes",
            "train.py:3: LC009 the module `agent` is used other than by its attributes",
            "train.py:4: LC009 `other` is not defined in agent.py",
        ],
    ),
    "a variable of the module's name": (
        {"train.py": "import agent\nagent = agent.Agent()\n", "agent.py": AGENT},
        ["train.py:2: LC009 `agent` is agent.py, and also something else"],
    ),
    "a name that is printed": (
        {"train.py": 'from agent import Agent as A\nprint(f"{A=}")\n', "agent.py": AGENT},
        [
            "train.py:2: LC009 `A` is written in a way that is not rewritten",
        ],
    ),
    "the module of a class": (
        {"train.py": f"{TRAIN}print(Agent.__module__)\n", "agent.py": f"{AGENT}print(__name__)\n"},
        ["train.py:3: LC009 `__module__` would differ in one file"],
    ),
    "what a file finds by itself, in the script": (
        {"train.py": f"{TRAIN}exec('print(Agent)')\n", "agent.py": AGENT},
        ["train.py:3: LC009 `exec` is specific to train.py, and would differ in one file"],
    ),
    "an importer of the script, and of the file": (
        {"train.py": f"{TRAIN}import utils\n", "agent.py": AGENT, "utils.py": "import agent\nimport train\n"},
        [
            "utils.py:2: LC009 also imports train.py: give this file with --with as well",
        ],
    ),
    "a name that its file lacks": (
        {"train.py": f"import json\n{TRAIN}", "agent.py": f"{AGENT}def f():\n    return json.loads('1')\nprint(f)\n"},
        ["agent.py:4: LC009 agent.py does not define `json`, which is of train.py: import it there"],
    ),
    "a notebook": (
        {"train.py": TRAIN, "agent.py": '{"cells": [], "nbformat": 4}'},
        ["agent.py:1: LC001 it is a Jupyter notebook"],
    ),
    "no Python": ({"train.py": TRAIN, "agent.py": "x = (\n"}, ["agent.py:1: LC001 syntax error: "]),
}


class TestRefusals:
    @pytest.mark.parametrize("files, expected", REFUSED.values(), ids=REFUSED)
    def test_what_is_not_shown_to_be_one_file(self, files: dict[str, str], expected: list[str], tmp_path: Path) -> None:
        found = [line if line[0] != ":" else f"train.py{line}" for line in refusals(tmp_path, files)]
        assert len(found) == len(expected), found
        assert all(have.startswith(want) for have, want in zip(found, expected, strict=True)), found

    def test_a_package_that_does_something(self, tmp_path: Path) -> None:
        files = {
            "train.py": "from nets.agent import f\n",
            "nets/__init__.py": "import os\n",
            "nets/agent.py": "f = 1\n",
        }
        assert refusals(tmp_path, files, "nets/agent.py") == [
            ":1: LC009 the import also executes nets/__init__.py, which does something: give it too"
        ]

    def test_a_module_of_a_package_that_is_given(self, tmp_path: Path) -> None:
        files = {
            "train.py": "from nets.agent import f\n",
            "nets/__init__.py": "import os\n",
            "nets/agent.py": "f = 1\n",
        }
        assert refusals(tmp_path, files, "nets/__init__.py") == [
            ":1: LC009 the import executes nets/__init__.py and agent.py, which is not given: give it "
            "with --with as well"
        ]

    @pytest.mark.parametrize("given", ["other.py", "train.py"])
    def test_a_file_that_is_not_imported(self, given: str, tmp_path: Path) -> None:
        with pytest.raises(NotImported, match="imports it"):
            join(tmp_path, {"train.py": TRAIN, "agent.py": AGENT, "other.py": ""}, "agent.py", given)

    @pytest.mark.parametrize(
        "train",
        [
            "import torch\nfrom agent import Agent\nagent = Agent()\ntorch.save(agent.state_dict(), 'x')\n",
            "from agent import Agent\nif 'x' in locals():\n    print(Agent.__name__)\n",
            "import sys\nfrom agent import Agent\nprint(sys.path, sys.argv, __file__, __name__)\n",
            "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parents[1]))\n"
            "from agent import Agent\nAgent()\n",
            "from agent import Agent\ndef act(eval):\n    return eval, Agent()\n",
            "from agent import Agent as A\nAgent = None\nprint(A())\n",
            "from agent import Agent\nclass B(Agent):\n    of: Agent\ndef f(x: Agent):\n    isinstance(x, Agent)\n",
            "from agent import Agent\ndef f(x: list[Agent]):\n    return x[0] is Agent, Agent.__name__\n",
            "from agent import Agent\nfrom json import loads as eval\neval('1')\nAgent()\n",
            "from agent import Agent\ndef f(x):\n    kind = Agent if x else dict\n    return kind()\nf(1)\n",
            "import agent\nx = 1\nkind = int if not x else (agent.Agent if x else dict)\nisinstance(x, kind)\n",
        ],
    )
    def test_what_does_no_harm(self, train: str, tmp_path: Path) -> None:
        if "as A" in train:
            assert refusals(tmp_path, {"train.py": train, "agent.py": AGENT})
        else:
            assert "class Agent" in join(tmp_path, {"train.py": train, "agent.py": AGENT}).text

    def test_a_path_that_decides_between_two_files(self, tmp_path: Path) -> None:
        write(tmp_path, {"agent.py": "class Agent:\n    other = True\n"})
        train = f"import sys\nsys.path.insert(0, __file__ + '/../..')\n{TRAIN}"
        inserted = f"import sys\nimport os\nsys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))\n{TRAIN}"
        for text, line in ((train, 2), (inserted, 3)):
            (found,) = refusals(tmp_path / "below", {"train.py": text, "agent.py": AGENT})
            assert found.startswith(f":{line}: LC009 `sys.path` changes"), found

    @pytest.mark.parametrize("folder", ["more", "..", ".", "/nowhere"])
    def test_a_path_where_nothing_is_found(self, folder: str, tmp_path: Path) -> None:
        files = {"train.py": f"import sys\nsys.path.append('{folder}')\n{TRAIN}", "agent.py": AGENT, "more/x.py": ""}
        assert "sys.path.append" in join(tmp_path / "below", files).text

    @pytest.mark.parametrize(
        "change, more",
        [
            ("append('more')", {"more/agent.py": AGENT}),
            ("append('more')", {"more/agent/__init__.py": AGENT}),
            ("append('more')", {"more/utils.py": "import agent\n"}),
            ("append('more')", {"../utils.py": ""}),
            ("append('..')", {"../utils.py": ""}),
            ("append('below/more')", {"more/utils.py": "import agent\n"}),
            ("append('more')", {"other.py": "import helper\n", "more/helper.py": "import agent\n"}),
            ("append('more')", {"nets/one.py": "", "more/nets/__init__.py": ""}),
            ("append('more')", {"nets/one.py": "", "more/nets/two.py": ""}),
            ("append(folder)", {}),
            ("insert(0, 'more')", {}),
            ("extend(['more'])", {}),
            ("remove('more')", {}),
            ("append('more', *folders)", {"more/utils.py": ""}),
        ],
    )
    def test_a_path_where_something_may_be_found(self, change: str, more: dict[str, str], tmp_path: Path) -> None:
        uses = "import utils\nimport other\nimport nets.one\nimport nets.two\n"
        train = f"import sys\nfolder = 'more'\nsys.path.{change}\n{TRAIN}{uses}"
        (found,) = refusals(tmp_path / "below", {"train.py": train, "agent.py": AGENT, **more})
        assert found.startswith(":3: LC009 `sys.path` changes"), found

    def test_what_may_be_a_whole_object_is_warned_of(self, tmp_path: Path) -> None:
        train = "import torch\nfrom agent import Agent\ndef save(a):\n    torch.save(a, 'x')\nsave(Agent())\n"
        (warning,) = join(tmp_path, {"train.py": train, "agent.py": AGENT}).warnings
        assert (warning.line, warning.code, warning.file) == (4, "LC103", "")


IMPORT = "from agent import Agent\n"
REPR = "class Agent:\n    __repr__ = lambda self: 'A'\n"
PICKLED = "import pickle, pickletools\nprint([a for _, a, _ in pickletools.genops(open('a', 'rb').read())])\n"
SAVES = "import pickle\nwith open('a', 'wb') as file:\n    pickle.dump(a, file)\n"
STAYING: dict[str, tuple[dict[str, str], str]] = {
    "its own file": (
        {"train.py": f"{IMPORT}print(Agent.here)\n", "agent.py": "class Agent:\n    here = __file__\n"},
        f"{IMPORT}\n\nprint(Agent.here)\n",
    ),
    "its own name, while it is executed": (
        {"train.py": f"print(0)\n{IMPORT}print(1, Agent)\n", "agent.py": f"print(__name__)\n{AGENT}"},
        "print(0)\n\n\nfrom agent import Agent\n\n\nprint(1, Agent)\n",
    ),
    "what is executed, and not needed": (
        {
            "train.py": "from agent import Agent\nimport twice\nprint(Agent, twice.two)\n",
            "agent.py": f"from shout import loud\n{AGENT}",
            "shout.py": "import sys\nprint(sys.byteorder, __name__)\nloud = 1\n",
            "twice.py": "two = 2\n",
        },
        "from agent import Agent\n\n\n# From twice.py\ntwo = 2\n\n\nprint(Agent, two)\n",
    ),
    "a text that imports": (
        {"train.py": f"{IMPORT}print('agent:Agent', Agent())\n", "agent.py": f"{AGENT}    __repr__ = lambda s: 'A'\n"},
        f"{IMPORT}\n\nprint('agent:Agent', Agent())\n",
    ),
    "another importer": (
        {
            "train.py": f"{IMPORT}import more\nprint(more.agent.Agent is Agent)\n",
            "agent.py": AGENT,
            "more.py": "import agent\n",
        },
        f"import more\n{IMPORT}\n\nprint(more.agent.Agent is Agent)\n",
    ),
    "an object that is saved": (
        {"train.py": f"{IMPORT}a = {{'it': Agent()}}\n{SAVES}{PICKLED}", "agent.py": AGENT},
        "from agent import Agent\n\n\na = {'it': Agent()}\n",
    ),
    "what an object that is saved may hold": (
        {
            "train.py": f"import twice\nfrom agent import Agent\na = Agent(twice.double)\n{SAVES}{PICKLED}",
            "agent.py": "class Agent:\n    def __init__(self, by):\n        self.by = by\n",
            "twice.py": "def double(x):\n    return 2 * x\n",
        },
        "from twice import double\nfrom agent import Agent\n",
    ),
    "an object that saves itself": (
        {
            "train.py": f"{IMPORT}Agent().save()\n{PICKLED}",
            "agent.py": "import pickle\nclass Agent:\n    def save(self):\n        with open('a', 'wb') as file:\n"
            "            pickle.dump(self, file)\n",
        },
        "from agent import Agent\n",
    ),
    "annotations that become texts": (
        {
            "train.py": f"from __future__ import annotations\n{IMPORT}print(Agent.__annotations__)\n",
            "agent.py": "class Agent:\n    x: int = 1\n",
        },
        f"from __future__ import annotations\n{IMPORT}\n\nprint(Agent.__annotations__)\n",
    ),
    "a class that is printed": (
        {"train.py": "import agent\nfor kind in (agent.Agent, int):\n    print(kind)\n", "agent.py": AGENT},
        "from agent import Agent\n\n\nfor kind in (Agent, int):\n    print(kind)\n",
    ),
    "a class that is a default": (
        {"train.py": "from agent import *\nf()\n", "agent.py": f"{AGENT}\ndef f(of=Agent):\n    print(locals())\n"},
        "from agent import f\n\n\nf()\n",
    ),
    "a class that an object keeps": (
        {"train.py": f"{IMPORT}Agent.kind: type = Agent\nprint(Agent.kind)\n", "agent.py": AGENT},
        f"{IMPORT}\n\nAgent.kind: type = Agent\nprint(Agent.kind)\n",
    ),
    "a class that is chosen, and printed": (
        {"train.py": f"{IMPORT}kind = Agent if Agent else int\nkind()\nprint(f'{{kind}}')\n", "agent.py": AGENT},
        f"{IMPORT}\n\nkind = Agent if Agent else int\n",
    ),
    "a class that is chosen, among all names": (
        {"train.py": f"{IMPORT}def f():\n    kind = Agent\n    print(locals(), kind())\nf()\n", "agent.py": REPR},
        f"{IMPORT}\n\ndef f():\n",
    ),
    "a class that is chosen, and imported": (
        {
            "train.py": "from agent import Agent, kind\nprint(kind)\n",
            "agent.py": f"{AGENT}kind = Agent if Agent else int\nkind()\n",
        },
        "from agent import Agent, kind\n\n\nprint(kind)\n",
    ),
    "a class that is a key": (
        {"train.py": f"{IMPORT}made = {{}}\nmade[Agent] = 1\nprint(made)\n", "agent.py": AGENT},
        f"{IMPORT}\n\nmade = {{}}\nmade[Agent] = 1\nprint(made)\n",
    ),
    "a file that a function imports too": (
        {
            "train.py": "def f():\n    from agent import Agent as A\n    return A\n"
            "from agent import Agent\nprint(f() is Agent)\n",
            "agent.py": AGENT,
        },
        "def f():\n    from agent import Agent as A\n    return A\n\n\nfrom agent import Agent\n",
    ),
    "a file whose function imports its importer": (
        {
            "train.py": f"{IMPORT}print(Agent().twice())\n",
            "agent.py": "from two import f\nclass Agent:\n    def twice(self):\n        return f() is type(self)\n",
            "two.py": "def f():\n    from agent import Agent\n    return Agent\n",
        },
        f"{IMPORT}\n\nprint(Agent().twice())\n",
    ),
    "what its package executes": (
        {
            "train.py": "from nets.agent import Agent\nprint(Agent)\n",
            "nets/__init__.py": "from .size import N\n",
            "nets/size.py": "N = 2\n",
            "nets/agent.py": "from . import N\nclass Agent:\n    n = N\n",
        },
        "from nets.agent import Agent\n\n\nprint(Agent)\n",
    ),
}
"""Files that are told apart from one file by what they do, and the beginning of what is written."""


class TestStaying:
    @pytest.mark.parametrize("files, begins", STAYING.values(), ids=STAYING)
    def test_the_file_is_imported(self, files: dict[str, str], begins: str, tmp_path: Path) -> None:
        one = join(tmp_path, files, *(name for name in files if name not in ("train.py", "more.py")))
        text = written(one, one.text)
        assert text.startswith(begins)
        assert printed(tmp_path, text) == printed(tmp_path, files["train.py"])

    @pytest.mark.slow
    def test_the_other_files_are_merged(self, tmp_path: Path) -> None:
        files = {
            "train.py": "import torch\nfrom agent import Agent\nfrom where import HERE\n\nprint(Agent(), HERE)\n",
            "agent.py": "import math\n\n\n# It acts.\nclass Agent:\n    __repr__ = lambda self: str(math.pi)\n",
            "where.py": "# Where it is\n\nimport os\n\n# The folder\nHERE = os.path.dirname(__file__)\n",
        }
        one = join(tmp_path, files, "agent.py", "where.py")
        text = written(one, one.text)
        assert "# It acts.\nclass Agent" in text
        assert "from where import HERE\n" in text
        assert "Where" not in text
        assert "folder" not in text
        assert "import os" not in text
        assert one.files == (str(tmp_path / "agent.py"),)
        assert printed(tmp_path, text) == printed(tmp_path, files["train.py"])

    @pytest.mark.parametrize("place", ["if True:", "def f():"])
    def test_a_file_that_is_imported_elsewhere_only(self, place: str, tmp_path: Path) -> None:
        train = f"from agent import Agent\n{place}\n    from where import HERE, N\n    print(HERE, N, Agent())\n"
        train += "f()\n" if place != "if True:" else ""
        where = "from size import N\nHERE = __name__\n"
        files = {"agent.py": "class Agent:\n    __repr__ = lambda self: 'A'\n", "size.py": "N = 2\n"}
        one = join(tmp_path, {"train.py": train, "where.py": where, **files}, "agent.py", "where.py")
        assert one.inner == ((tmp_path / "where.py").resolve(),)
        assert one.staying is None
        assert "class Agent" in one.text
        assert printed(tmp_path, one.text) == printed(tmp_path, train)

    def test_a_file_that_an_unread_one_imports(self, tmp_path: Path) -> None:
        files = {
            "train.py": "from agent import Agent\nif Agent:\n    from other import A\n    print(A is Agent)\n",
            "other.py": "from agent import Agent as A\n",
            "agent.py": AGENT,
        }
        one = join(tmp_path, files, "agent.py", "other.py")
        text = written(one, one.text)
        assert "class Agent" not in text
        assert printed(tmp_path, text) == printed(tmp_path, files["train.py"]) == "True\n"

    def test_all_files_that_import_it_are_named(self, tmp_path: Path) -> None:
        files = {
            "train.py": "from log import show\nfrom agent import Agent\nshow(Agent())\n",
            "log/__init__.py": "from tools import same\nfrom sizes import N\ndef show(x):\n    same(x)\n",
            "tools.py": "from agent import Agent\ndef same(x: Agent):\n    return x\n",
            "sizes.py": "N = 2\n",
            "agent.py": "class Agent:\n    size = 1\n",
        }
        one = join(tmp_path, files, "agent.py")
        assert one.staying is not None
        why = one.staying.changed(one.text.replace("size = 1", "size = 2")) or ""
        end = "so give log/__init__.py and tools.py with --with as well"
        assert "agent.py, which stays a file of its own: also imports " in why
        assert why.endswith(f"agent.py (tools.py:1), {end}")
        given = [*map(str.strip, end.removeprefix("so give ").partition(" with")[0].split(" and "))]
        assert join(tmp_path, files, "agent.py", *given).staying is None

    def test_what_changes_it_is_held(self, tmp_path: Path) -> None:
        one = join(tmp_path, {"train.py": f"{IMPORT}print(Agent)\n", "agent.py": AGENT})
        assert one.staying is not None
        assert one.staying.changed(one.text) is None
        assert one.staying.changed(f"{one.text}x = 1\n") is None
        why = one.staying.changed(one.text.replace("    pass", "    size = 1"))
        assert why is not None
        assert "agent.py, which stays a file of its own: `Agent` is handed on" in why

    @pytest.mark.parametrize(
        "shown",
        [
            "print(type(made))",
            "print(f'{made.__class__}')",
            "print(str(made.__class__))",
            "kind = type(made)\nprint(kind)",
            "print(Small.__bases__)",
            "print(type(Small()).__mro__[1])",
            "print(Small.mro())",
            "print(*made.__class__.__bases__[0].__subclasses__()[-1:])",
            "kinds = {type(x): x for x in [made]}\nprint(kinds.keys())",
        ],
    )
    def test_a_class_that_is_shown_without_its_name(self, tmp_path: Path, shown: str) -> None:
        train = f"{IMPORT}class Small(Agent): pass\nmade = Agent()\n{shown}\n"
        one = join(tmp_path, {"train.py": train, "agent.py": AGENT})
        assert one.staying is not None
        assert printed(tmp_path, written(one, one.text)) == printed(tmp_path, train)

    @pytest.mark.parametrize(
        "asked",
        [
            "print(type(made).__name__, made.__class__.__qualname__)",
            "print(type(made) is Agent, type(made) == type(made))",
            "print(vars(type(made)()), made.__class__() is made)",
            "print(type('Other', (), {}).__name__)",
            "assert made, type(made)\nprint(1)",
            "if not made:\n    raise ValueError(f'{made.__class__}')\nprint(1)",
        ],
    )
    def test_a_class_that_is_not_shown(self, tmp_path: Path, asked: str) -> None:
        train = f"{IMPORT}made = Agent()\n{asked}\n"
        one = join(tmp_path, {"train.py": train, "agent.py": AGENT})
        assert one.staying is None
        assert printed(tmp_path, one.text) == printed(tmp_path, train)

    def test_new_lines_stay_beside_it(self, tmp_path: Path) -> None:
        one = join(tmp_path, {"train.py": f"import torch\n{IMPORT}print(Agent)\n", "agent.py": AGENT})
        text = written(one, one.text.replace("import torch\n", "import math\nimport torch\n") + "print(math.pi)\n")
        assert text == f"import math\nimport torch\n{IMPORT}\n\nprint(Agent)\nprint(math.pi)\n"


EXECUTES = """\
from agent import Agent
def start(by):
    a = Agent(1, **by)
    print(sorted(vars(a).items()))
def main():
    options = {'x': 2e-05, 'y': True, 'z': None}
    start(by=options)
main()
"""
CHANGES = """\
given = {}
def change(of):
    of['x'] = 'x'
"""
EXECUTED = """\
x = 3
class Agent:
    def __init__(self, of, **options):
        self.of = of
        self.set(options)
    def set(self, options):
        for name, value in options.items():
            exec('self.' + name + ' = ' + str(value))
"""


class TestExecuted:
    def test_texts_that_only_set_attributes(self, tmp_path: Path) -> None:
        train = CHANGES + EXECUTES.replace("print(sorted(vars(a).items()))", "print(a.of, a.x, a.y, a.z)")
        one = join(tmp_path, {"train.py": train, "agent.py": EXECUTED})
        assert one.staying is None
        assert "exec(" in one.text
        assert printed(tmp_path, one.text) == printed(tmp_path, train) == "1 2e-05 True None\n"

    @pytest.mark.parametrize(
        "before, after",
        [
            ("None}", "'x'}"),
            ("'z'", "'z = x; self.w'"),
            ("'z': None", "**given"),
            ("    start(", "    options['x'] = 'x'\n    start("),
            ("    start(", "    other = options\n    other['x'] = 'x'\n    start("),
            ("    start(", "    options = dict(options, x='x')\n    start("),
            ("    start(", "    change(options)\n    start("),
            ("Agent(1, **by)", "Agent(1, **by, w='x')"),
            ("    a = ", "    by.update(x='x')\n    a = "),
            ("main()\n", "main()\nstart({'x': 'x'})\n"),
            ("main()\n", "main()\nbegin = start\nbegin({'x': 'x'})\n"),
            ("        for name", "        options['x'] = 'x'\n        for name"),
            ("            exec", "            value = 'x'\n            exec"),
            ("str(value)", "repr(value)"),
            ("'self.'", "'self.of = x; self.'"),
            ("self.set(options)", "getattr(self, 'set')({'x': 'x'})"),
            ("print(sorted", "a.set({'x': 'x'}), print(sorted"),
        ],
    )
    def test_other_texts(self, before: str, after: str, tmp_path: Path) -> None:
        train, agent = (text.replace(before, after) for text in (EXECUTES, EXECUTED))
        assert (train, agent) != (EXECUTES, EXECUTED)
        own = train.replace("print(sorted(vars(a).items()))", "print(a.x)")
        one = join(tmp_path, {"train.py": CHANGES + own, "agent.py": agent})
        assert one.staying is not None
        assert "`exec` is specific to" in one.staying.note(found=False)


class TestConversion:
    def files(self) -> dict[str, str]:
        return {
            "agent.py": NETWORK,
            "train.py": script({"agent": "", "third_party": "from agent import Agent"}),
        }

    def test_a_network_of_another_file(self, tmp_path: Path) -> None:
        path = write(tmp_path, self.files())
        _, alone = convert_script(str(path))
        _, together = convert_script(str(path), [tmp_path / "agent.py"])
        assert together.converted
        applied = [[s.transform.name for s in c.steps if s.applied] for c in (alone, together)]
        assert set(applied[0]) - {"acting-method"} < set(applied[1])  # alone, it stands in for policy
        assert {"one-file", "evaluate-once", "sampling", "cudagraphs"} <= set(applied[1])
        assert together.original == self.files()["train.py"]
        assert together.steps[0].before == together.original
        assert "from agent" not in together.source

    def test_is_the_conversion_of_the_one_file(self, tmp_path: Path) -> None:
        path = write(tmp_path, self.files())
        _, together = convert_script(str(path), [tmp_path / "agent.py"])
        (tmp_path / "whole.py").write_text(together.steps[0].after)
        _, whole = convert_script(str(tmp_path / "whole.py"))
        assert together.source == whole.source

    def test_reasons_name_lines_of_the_files(self, tmp_path: Path) -> None:
        network = NETWORK.replace(
            "        if action is None:\n", "        self.calls = 1\n        if action is None:\n"
        )
        path = write(tmp_path, {**self.files(), "agent.py": network})
        _, conversion = convert_script(str(path), [tmp_path / "agent.py"])
        line = network.splitlines().index("        self.calls = 1") + 1
        reasons = [getattr(step.outcome, "reason", "") for step in conversion.steps]
        assert any(f"line {line} of {tmp_path / 'agent.py'}" in reason for reason in reasons), reasons

    def test_a_network_whose_class_is_handed_on(self, tmp_path: Path) -> None:
        files = self.files()
        files["train.py"] = files["train.py"].replace("Agent(", "(lambda of, *args: of(*args))(Agent, ")
        path = write(tmp_path, files)
        _, conversion = convert_script(str(path), [tmp_path / "agent.py"])
        assert conversion.converted
        assert conversion.beside == (tmp_path / "agent.py",)
        assert all("from agent import Agent\n" in state for state in conversion.states)
        assert len(conversion.brought) == conversion.states[1].count("\n")
        assert "class Agent" not in "".join(conversion.states)

    def test_findings_are_placed_in_the_files(self, tmp_path: Path) -> None:
        path = write(tmp_path, {"train.py": "from agent import f\n\nf()\n", "agent.py": "def f():\n    pass\n"})
        _, conversion = convert_script(str(path), [tmp_path / "agent.py"])
        assert not conversion.converted
        assert conversion.original == "from agent import f\n\nf()\n"
        assert [d.code for d in conversion.diagnostics] == ["LC004"]

    def test_what_the_scripts_encoding_lacks(self, tmp_path: Path) -> None:
        files = {"train.py": "# coding: latin-1\nfrom agent import A\nA\n", "agent.py": "A = '→'\n"}
        _, conversion = convert_script(str(write(tmp_path, files)), [tmp_path / "agent.py"])
        assert [d.code for d in conversion.errors] == ["LC009"]


@pytest.mark.parametrize("indent", ["\t", "  ", "        "])
def test_blocks_are_indented_as_the_scripts(tmp_path: Path, indent: str) -> None:
    text = 'def f(x):\n    if x:\n        # why\n        return """\n\tkept\n"""\n    return (\n        x,\n    )\n'
    other = text.replace("    ", indent)
    main = "from agent import f\n\nif f(1):\n    print(repr(f(1)), f(0))\n"
    found = join(tmp_path, {"agent.py": other, "train.py": main})
    assert "    if x:\n        # why\n        return" in found.text
    assert '"""\n\tkept\n"""' in found.text
    assert printed(tmp_path, found.text) == printed(tmp_path, main)


def test_a_tab_among_spaces(tmp_path: Path) -> None:
    """Python expands a tab to the next multiple of eight columns. LibCST, which writes the text, does not accept it."""
    other = "def f(x):\n    for i in range(x):\n\t    x += i\n    return x\n"
    main = "from agent import f\n\nprint(f(3))\n"
    found = join(tmp_path, {"agent.py": other, "train.py": main})
    assert printed(tmp_path, found.text) == printed(tmp_path, main) == "6\n"
    text = other.replace("    return x", '    return """\n\t x"""')
    (message,) = refusals(tmp_path, {"agent.py": text, "train.py": main})
    assert "mixes tabs and spaces" in message


def test_a_class_of_its_modules_name(tmp_path: Path) -> None:
    files = {
        "TD3.py": "class TD3:\n    name = 'of TD3'\n",
        "train.py": "import TD3\n\nprint(TD3.TD3.name, TD3.TD3())\n",
    }
    found = join(tmp_path, files, "TD3.py")
    assert "print(TD3.name, TD3())" in found.text
    assert "import TD3" not in found.text


def test_a_local_of_a_classs_name(tmp_path: Path) -> None:
    train = "import TD3\n\n\ndef f(TD4):\n    return TD3.TD4(), TD4\n"
    assert "something else" in refusals(tmp_path, {"TD3.py": "class TD4:\n    pass\n", "train.py": train}, "TD3.py")[0]


CHOOSING = """\
import argparse
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--algo", default="b")
args = parser.parse_args()
print("chosen")

if args.algo == "a":
    from first import Agent
elif args.algo == "b":  # the better one
    from second import Agent
elif args.algo == "c":
    from second import Agent

print(Agent().name, sys.argv[1:])
"""
FIRST = "class Agent:\n    name = 'first'\n"
SECOND = "print('second runs')\n\n\nclass Agent:\n    name = 'second'\n"
BOTH = {"first.py": FIRST, "second.py": SECOND}


class TestAnImportThatAnOptionChooses:
    def run(self, folder: Path, code: str, *options: str) -> tuple[int, str, str]:
        (folder / "ran.py").write_text(code)
        done = subprocess.run(
            [sys.executable, str(folder / "ran.py"), *options], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def test_it_is_the_defaults_and_other_choices_stop(self, tmp_path: Path) -> None:
        found = join(tmp_path, {**BOTH, "train.py": CHOOSING}, "second.py")
        assert "from first" not in found.text
        for options in ((), ("--algo", "b"), ("--algo", "c")):
            told = self.run(tmp_path, found.text, *options)
            assert told == self.run(tmp_path, CHOOSING, *options) and told[0] == 0
        for other in ("a", "d"):  # for these, the original ends with a NameError
            code, printed, why = self.run(tmp_path, found.text, "--algo", other)
            assert code == 1 and printed == "chosen\n" and f"run the original for {other}" in why
        (note,) = found.notes
        assert note == "the new file is for second alone: with first (line 9) it ends with a message"
        assert [line for name, line in found.origins if not name][-1] == 16
        assert found.text.count("\n\n\n\n") == 0

    @pytest.mark.parametrize("default", ['"a"', "'a'"])
    def test_the_first_of_two(self, default: str, tmp_path: Path) -> None:
        train = CHOOSING.replace('"b"', default, 1)
        found = join(tmp_path, {**BOTH, "train.py": train}, "first.py")
        assert self.run(tmp_path, found.text) == self.run(tmp_path, train)
        assert "if args.algo != 'a':" in found.text

    def test_else_is_another_choice(self, tmp_path: Path) -> None:
        train = CHOOSING.replace('elif args.algo == "c":', "else:").replace(
            "from second import Agent\n\n", "from first import Agent\n\n"
        )
        found = join(tmp_path, {**BOTH, "train.py": train}, "second.py")
        assert self.run(tmp_path, found.text) == self.run(tmp_path, train)
        assert self.run(tmp_path, found.text, "--algo", "c")[0] == 1

    @pytest.mark.parametrize(
        ("old", "new", "given"),
        [
            ('default="b"', 'default="a"', ("second.py",)),
            ('default="b"', 'default=sys.argv[0]', ("second.py",)),
            ("", "", ("first.py", "second.py")),
            ('elif args.algo == "c":', "else:", ("second.py",)),
            ('elif args.algo == "c":', 'elif len(args.algo) == 1:', ("second.py",)),
            ('elif args.algo == "c":', 'elif args.size == "c":', ("second.py",)),
            ('if args.algo == "a":', 'if next(parser) == "a":', ("second.py",)),
            ("    from second import Agent\nelif", "    print()\n    from second import Agent\nelif", ("second.py",)),
            ("    from first import Agent\n", "    Agent = print\n", ("second.py",)),
        ],
        ids=["another default", "a default that is computed", "several are given", "else is the same", "another test",
             "another option", "a call", "it does more", "no import"],
    )  # fmt: skip
    def test_what_is_no_such_choice(self, old: str, new: str, given: tuple[str, ...], tmp_path: Path) -> None:
        assert old in CHOOSING
        train = CHOOSING.replace(old, new, 1)
        found = join(tmp_path, {**BOTH, "train.py": train}, *given)
        assert found.text.split() == train.split() and not found.notes
