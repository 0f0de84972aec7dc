"""A conversion of several files, written as several files: which files they are, and that they do the same.

The conversions are edits by hand of the one text, so that they can do what no transform does today.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from joined import join

from transformer.conversion.of_file import convert_script
from transformer.conversion.several_files import SeveralFiles, several_files

AGENT = '''\
"""The agent."""

import math

from networks import Network

SIZE = 3


class Agent:
    def __init__(self):
        self.network = Network(SIZE)

    def act(self, x):
        return math.floor(self.network(x))

    def learn(self, x):
        self.network.weight += x


def show(agent):
    print("weight", agent.network.weight)
'''
NETWORKS = """\
class Network:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return self.weight * x
"""
TRAIN = """\
import sys

from agent import Agent, show

agent = Agent()
for x in range(3):
    agent.learn(x)
    print(agent.act(x))
show(agent)
print(len(sys.argv))
"""
FILES = {"networks.py": NETWORKS, "agent.py": AGENT, "train.py": TRAIN}
GIVEN = ("agent.py", "networks.py")
INLINED = (
    (
        "    def learn(self, x):\n        self.network.weight += x\n",
        "",
    ),
    ("    agent.learn(x)\n", "    agent.network.weight += x\n"),
)
"""learn() is in the loop, as *inline* does it."""


def apart(
    folder: Path, files: Mapping[str, str], *edits: tuple[str, str], given: tuple[str, ...] = GIVEN
) -> SeveralFiles:
    """Files that are converted by replacing texts of the one text."""
    one = join(folder, files, *given)
    text = one.text
    for old, new in edits:
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    return several_files(text, one)


def printed(folder: Path) -> str:
    """What the train.py of a folder prints."""
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def written(folder: Path, several: SeveralFiles) -> Path:
    """The folder into which files are written."""
    for path, data in {**several.others, Path("train.py"): several.script.encode()}.items():
        (folder / "out" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "out" / path).write_bytes(data)
    return folder / "out"


def without_blank_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def names(several: SeveralFiles) -> list[str]:
    return sorted(map(str, several.others))


def test_what_is_not_changed_is_copied_byte_for_byte(tmp_path: Path) -> None:
    several = apart(tmp_path, FILES)
    assert {str(path): data.decode() for path, data in several.others.items()} == {
        "agent.py": AGENT,
        "networks.py": NETWORKS,
    }
    assert without_blank_lines(several.script) == without_blank_lines(TRAIN)
    assert (several.changed, several.merged) == ((), {})


def test_a_change_is_made_in_the_file_of_the_definition(tmp_path: Path) -> None:
    several = apart(tmp_path, FILES, *INLINED)
    agent = several.others[Path("agent.py")].decode()
    assert without_blank_lines(agent) == without_blank_lines(AGENT.replace(*INLINED[0]))
    assert [Path(name).name for name in several.changed] == ["agent.py"]
    assert without_blank_lines(several.script) == without_blank_lines(TRAIN.replace(*INLINED[1]))
    assert printed(written(tmp_path, several)) == printed(tmp_path)


def test_what_a_changed_definition_uses_is_imported(tmp_path: Path) -> None:
    new = ("        return math.floor(self.network(x))", "        return json.loads(str(math.floor(self.network(x))))")
    several = apart(tmp_path, FILES, new, ("import sys\n", "import json\nimport sys\n"))
    assert "import json\nimport math\n" in several.others[Path("agent.py")].decode()
    assert printed(written(tmp_path, several)) == printed(tmp_path)


def test_a_function_that_only_it_calls_is_put_above_it(tmp_path: Path) -> None:
    helper = (
        "def floored(x):\n    return twice(math.floor(x)) // 2\n\n\ndef twice(x):\n    return 2 * x\n\n\nclass Agent:"
    )
    several = apart(tmp_path, FILES, ("class Agent:", helper), ("return math.floor(self", "return floored(self"))
    assert helper in several.others[Path("agent.py")].decode()
    assert without_blank_lines(several.script) == without_blank_lines(TRAIN)
    assert printed(written(tmp_path, several)) == printed(tmp_path)


def test_the_script_imports_such_a_function_if_it_calls_it_too(tmp_path: Path) -> None:
    helper = "def floored(x):\n    return math.floor(x)\n\n\nclass Agent:"
    edits = (
        ("class Agent:", helper),
        ("return math.floor(self", "return floored(self"),
        ("range(3)", "range(floored(3))"),
    )
    several = apart(tmp_path, FILES, *edits)
    assert "from agent import Agent, floored, show" in several.script.replace("floored, Agent", "Agent, floored")
    assert printed(written(tmp_path, several)) == printed(tmp_path)


def test_what_is_left_out_is_imported_no_more(tmp_path: Path) -> None:
    body = AGENT[AGENT.index("class Agent:") : AGENT.index("def show")]
    edits = (
        (body, ""),
        ("agent = Agent()", "class Agent:\n    pass\n\n\nagent = Agent()\nagent.network = Network(SIZE)"),
    )
    moved = (
        edits[0],
        (edits[1][0], edits[1][1].replace("class Agent:", "class Player:").replace("= Agent()", "= Player()")),
    )
    loop = ("    agent.learn(x)\n    print(agent.act(x))\n", "    agent.network.weight += x\n")
    several = apart(tmp_path, FILES, *moved, loop)
    assert b"class Agent" not in several.others[Path("agent.py")]
    assert "from agent import Agent" not in several.script
    assert printed(written(tmp_path, several)) == "weight 6\n1\n"


MADE = "agent = Agent()\n"
FLOORED = "return math.floor(self"
BOUND_BY_OTHERS = {
    "the script sets it": (MADE, f"SIZE = 4\n{MADE}"),
    "the script compiles it": (MADE, f"show = print if len('') else show\n{MADE}"),
    "a function sets it": ("def show(agent):\n", "def show(agent):\n    global SIZE\n    SIZE = 4\n"),
    "a function of the script sets it": (MADE, f"def grow():\n    global SIZE\n    SIZE += 1\n\n\ngrow()\n{MADE}"),
    "a loop sets it": (MADE, f"for SIZE in range(2):\n    pass\n{MADE}"),
    "it is deleted": (MADE, f"{MADE}del SIZE\n"),
}


@pytest.mark.parametrize("edit", BOUND_BY_OTHERS.values(), ids=BOUND_BY_OTHERS)
def test_a_file_whose_names_others_bind_is_part_of_the_script(tmp_path: Path, edit: tuple[str, str]) -> None:
    several = apart(tmp_path, FILES, edit)
    assert names(several) == ["networks.py"]
    (why,) = several.merged.values()
    assert "is bound by other code as well" in why


ONLY_IN_THE_SCRIPT = {
    "it uses TABLE, which is part of the script": (
        (FLOORED, f"return TABLE[0] + {FLOORED[7:]}"),
        (MADE, f"TABLE = [0]\n{MADE}"),
    ),
    "it uses int, which is part of the script": (
        (FLOORED, "return int(0) + math.floor(self"),
        (MADE, f"int = float\n{MADE}"),
    ),
    "it uses floored, which other code binds as well": (
        ("class Agent:", "def floored(x):\n    return math.floor(x)\n\n\nclass Agent:"),
        (FLOORED, "return floored(self"),
        (MADE, f"floored = floored\n{MADE}"),
    ),
    "it uses SIZE, which the conversion leaves out": (("SIZE = 3\n", ""),),
}


@pytest.mark.parametrize("why", ONLY_IN_THE_SCRIPT)
def test_what_only_the_script_has(tmp_path: Path, why: str) -> None:
    several = apart(tmp_path, FILES, *ONLY_IN_THE_SCRIPT[why])
    assert names(several) == ["networks.py"]
    assert list(several.merged.values()) == [why]


def test_a_file_is_part_of_the_script_if_what_it_imports_is(tmp_path: Path) -> None:
    several = apart(tmp_path, FILES, ("agent = Agent()", "Network = Network\nagent = Agent()"))
    assert not several.others
    assert sorted(why.replace(f"{tmp_path}/", "") for why in several.merged.values()) == [
        "Network is bound by other code as well",
        "it imports networks.py, which is part of the script",
    ]
    assert printed(written(tmp_path, several)) == printed(tmp_path)


@pytest.mark.parametrize("old", ["while True:\n    break\n", "print('made')\n", "Agent.made = True\n"])
def test_a_file_that_does_more_does_it_where_it_is_imported(tmp_path: Path, old: str) -> None:
    files = {**FILES, "agent.py": f"{AGENT}\n\n{old}", "train.py": f"print('first')\n{TRAIN}"}
    several = apart(tmp_path, files, *INLINED)
    assert names(several) == ["agent.py", "networks.py"]
    assert printed(written(tmp_path, several)) == printed(tmp_path)
    between = ("\n\ndef show", "\n\nprint('between')\n\n\ndef show")
    assert names(apart(tmp_path, files, between)) == ["networks.py"]


def test_what_a_file_does_when_it_is_imported_must_stay(tmp_path: Path) -> None:
    files = {**FILES, "agent.py": f"{AGENT}\n\nprint('made')\n"}
    several = apart(tmp_path, files, ("print('made')", "print('changed')"))
    assert list(several.merged.values()) == ["the conversion changes what it does when it is imported"]


def test_packages(tmp_path: Path) -> None:
    files = {
        "lib/__init__.py": "VERSION = 1\n",
        "lib/networks.py": NETWORKS,
        "lib/agent.py": AGENT.replace("from networks", "from .networks"),
        "train.py": TRAIN.replace("from agent", "from lib.agent"),
    }
    several = apart(tmp_path, files, *INLINED, given=("lib/agent.py", "lib/networks.py"))
    assert names(several) == ["lib/__init__.py", "lib/agent.py", "lib/networks.py"]
    assert printed(written(tmp_path, several)) == printed(tmp_path)


def test_a_module_that_is_used_by_its_name(tmp_path: Path) -> None:
    agent = AGENT.replace("from networks import Network", "import networks as parts").replace(
        "= Network(", "= parts.Network("
    )
    files = {
        **FILES,
        "agent.py": agent,
        "train.py": TRAIN.replace("from agent import Agent, show", "import agent as a"),
    }
    files["train.py"] = files["train.py"].replace("Agent()", "a.Agent()").replace("show(", "a.show(")
    changed = apart(tmp_path, files, *INLINED)
    assert "from networks import Network\n" in changed.others[Path("agent.py")].decode()
    assert printed(written(tmp_path, changed)) == printed(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("unit", ["  ", "\t", "    "])
@pytest.mark.parametrize("of_script", ["\t", "    "])
def test_line_ends_and_indentation_of_each_file_stay(tmp_path: Path, end: str, unit: str, of_script: str) -> None:
    def indented(text: str, unit: str) -> str:
        return text.replace("    ", unit)

    broken = "    return [\n          x,\n   ][0]\n"  # the lines of an expression stay as they are
    text = AGENT.replace("def show", f"def same(x):\n{broken}\n\ndef show")
    files = {
        **FILES,
        "agent.py": indented(text.replace(broken, "<broken>"), unit)
        .replace("<broken>", broken.replace("    return", f"{unit}return"))
        .replace("\n", end),
        "train.py": indented(TRAIN, of_script),
    }
    helper = "def floored(x):\n    if x:\n        return math.floor(x)\n    return 0\n\n\nclass Agent:"
    edits = [*INLINED, ("class Agent:", helper), ("return math.floor(self", "return floored(self")]
    several = apart(tmp_path, files, *((indented(old, of_script), indented(new, of_script)) for old, new in edits))
    agent = several.others[Path("agent.py")].decode()
    assert agent.count("\n") == agent.count(end)
    expected = files["agent.py"].replace(end, "\n")
    for old, new in (INLINED[0], *edits[2:]):
        assert expected.count(indented(old, unit)) == 1
        expected = expected.replace(indented(old, unit), indented(new, unit))
    assert without_blank_lines(agent) == without_blank_lines(expected)
    assert printed(written(tmp_path, several)) == printed(tmp_path)


def test_a_file_that_mixes_tabs_and_spaces(tmp_path: Path) -> None:
    mixed = AGENT.replace("        return math", "    \treturn math")
    several = apart(tmp_path, {**FILES, "agent.py": mixed}, *INLINED)
    agent = several.others[Path("agent.py")].decode()
    assert without_blank_lines(agent) == without_blank_lines(mixed.replace(*INLINED[0]))
    assert printed(written(tmp_path, several)) == printed(tmp_path)
    # LibCST does not take this
    otherwise = "def add(x):\n    for i in range(x):\n\t    x += i\n    return x\n\n\ndef show"
    files = {**FILES, "agent.py": AGENT.replace("def show", otherwise)}
    assert apart(tmp_path, files).others[Path("agent.py")].decode() == files["agent.py"]
    several = apart(tmp_path, files, *INLINED)
    assert list(several.merged.values()) == ["it mixes tabs and spaces"]
    assert printed(written(tmp_path, several)) == printed(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_of_the_script_stay(tmp_path: Path, end: str) -> None:
    edits = [(old.replace("\n", end), new.replace("\n", end)) for old, new in INLINED]
    several = apart(tmp_path, {**FILES, "train.py": TRAIN.replace("\n", end)}, *edits)
    assert several.script.count("\n") == several.script.count(end)
    assert "\r" not in several.script.replace("\r\n", "\n")
    assert printed(written(tmp_path, several)) == printed(tmp_path)


def test_what_a_file_binds_below_its_top_level_is_imported(tmp_path: Path) -> None:
    agent = (
        "try:\n    import json as form\nexcept ImportError:\n    form = None\n"
        "if form:\n    def show(x):\n        print(x)\n"
    )
    files = {"agent.py": agent, "train.py": "from agent import form, show\n\nshow(form.dumps(1))\n"}
    several = apart(tmp_path, files, given=("agent.py",))
    assert names(several) == ["agent.py"]
    assert printed(written(tmp_path, several)) == printed(tmp_path)


def test_a_file_outside_of_the_scripts_folder_is_part_of_the_script(tmp_path: Path) -> None:
    write = {"lib/agent.py": "def show(x):\n    print(x)\n", "lib/__init__.py": ""}
    for name, content in write.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "scripts").mkdir()
    several = apart(
        tmp_path / "scripts", {"train.py": "from lib.agent import show\n\nshow(1)\n"}, given=("../lib/agent.py",)
    )
    assert list(several.merged.values()) == ["it is not below the folder of train.py"]
    assert not several.others


def test_the_fixture(request: pytest.FixtureRequest) -> None:
    folder = request.config.rootpath / "fixtures"
    given = [folder / "agents" / name for name in ("dqn.py", "memory.py", "networks.py")]
    _, conversion = convert_script(str(folder / "several_files.py"), given, separately=True)
    assert conversion.several is not None
    assert [Path(name).name for name in conversion.several.changed] == ["dqn.py"]
    assert not conversion.several.merged
    assert "class " not in conversion.several.script
