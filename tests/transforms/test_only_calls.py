"""Methods of the same name in several classes: which of them a call runs."""

import sys

import pytest

from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.tree import Tree
from transformer.transforms.gathering.only_calls import only_calls

CODE = """
class Mean:
    def __init__(self):
        self.n = 0

    def update(self, x):
        self.n += 1


class Normalization:
    def __init__(self):
        self.mean = Mean()

    def norm(self, x):
        self.mean.update(x)
        return x


class Agent:
    def __init__(self):
        self.n = 0

    def update(self, replay):
        self.n += 1


{above}
agent = Agent()
norm = Normalization()
for _ in range(9):
    norm.norm(1)
    agent.update(2)
{below}
"""


HEAD = "    def update(self, x):\n"
PROPERTY = "    @property\n    def mean(self):\n        return agent\n\n"
NORM = "    def norm(self, x):\n"


def is_known(above: str = "", below: str = "", *edits: tuple[str, str], by_name: bool = False) -> bool:
    code = CODE.replace("{above}", above).replace("{below}", below)
    for old, new in edits:
        assert old in code
        code = code.replace(old, new)
    tree = Tree(code)
    found = {call.function: call for call in only_calls(Roles(tree, History(original=code)), by_name=by_name).values()}
    update = next(m for m in tree.classes["Agent"].body if getattr(m, "name", "") == "update")
    return update in found


@pytest.mark.parametrize(
    ("above", "below", "edits"),
    [
        ("", "", ()),
        ("", "mean = Mean()\nmean.update(3)", ()),
        ("", "", ((HEAD, f"    def again(self, x):\n        self.update(x)\n\n{HEAD}"),)),
        ("import torch", "", (("class Mean:", "class Mean(torch.nn.Module):"),)),
        ("", "other = norm.mean\nother.update(3)", ()),
        ("", "def f(norm):\n    norm.mean.update(3)\nf(norm)", ()),
        ("", "[norm.mean.update(3) for norm in [norm]]", ()),
        ("", "norm.__dict__.update({'count': 3})", ()),
        ("", "", (("self.mean = Mean()", "self.mean = make()"),)),
        ("", "", ((HEAD, f"{HEAD}        self = x\n        self.update()\n"),)),
    ],
    ids=["an attribute", "a name", "self", "a module", "another name", "a parameter", "a comprehension",
         "other attributes set", "an attribute made by an unknown function", "a number"],
)  # fmt: skip
def test_a_method_of_another_class_is_another(above: str, below: str, edits: tuple[tuple[str, str], ...]) -> None:
    assert is_known(above, below, *edits)


@pytest.mark.parametrize(
    ("above", "below", "edits"),
    [
        ("", "norm.mean = agent", ()),
        ("", "for norm.mean in [agent]:\n    pass", ()),
        ("", "norm.mean, x = agent, 1", ()),
        ("", "setattr(norm, 'me' + 'an', agent)", ()),
        ("from types import SimpleNamespace", "SimpleNamespace(mean=agent).mean.update(3)", ()),
        ("from types import SimpleNamespace", "both = SimpleNamespace(mean=agent)\nboth.mean.update(3)", ()),
        ("Both = namedtuple('Both', 'mean')", "both = Both(agent)\nboth.mean.update(3)", ()),
        ("class Both:\n    mean = None", "Both.mean = agent\nBoth().mean.update(3)", ()),
        ("class Both:\n    def __getattr__(self, x):\n        return agent", "both = Both()\nboth.mean.update(3)", ()),
        ("", "def f(norm):\n    norm.update(3)\nfor one in (norm, agent):\n    f(one)", ()),
        ("", "[norm.update(3) for norm in (Mean(), agent)]", ()),
        ("", "norm.__dict__.update({'mean': agent})", ()),
        ("", "norm.__dict__['mean'] = agent", ()),
        ("", "vars(norm)['mean'] = agent", ()),
        ("", "mean = Mean()\nmean = agent\nmean.update(3)", ()),
        ("", "def f(mean):\n    mean.update(3)\nmean = Mean()\nf(agent)", ()),
        ("", "def f(mean):\n    def g():\n        mean.update(3)\n    g()\nmean = Mean()\nf(agent)", ()),
        ("", "Mean.update(agent, 3)", ()),
        ("", "Agent.update = print", ()),
        ("", "kept = Agent.update\nkept(agent, 1)", ()),
        ("class Twice(Agent):\n    def update(self, x):\n        Agent.update(self, x)", "agent = Twice()", ()),
        ("", "class Both(Agent, Mean):\n    pass\nboth = Both()\nboth.update(3)", ()),
        ("", "class Both(Mean, Agent):\n    pass\nboth = Both()\nboth.update(3)", ()),
        ("", "", (("class Agent:", "class Agent(Mean):"),)),
        ("", "", (("class Mean:", "class Mean(Agent):"), ("class Agent:", "class Agent(object):"))),
        ("def remade(cls):\n    return Agent", "", (("class Mean:", "@remade\nclass Mean:"),)),
        ("Mean = Agent", "", ()),
        ("", "", (("class Mean:\n", "class Mean:\n    def __new__(cls):\n        return Agent()\n\n"),)),
        ("", "", (("self.mean = Mean()", "self.mean = Mean() if len('x') else agent"),)),
        ("", "keep(agent)", (("self.mean = Mean()", "self.mean = make()"),)),
        ("", "norm.norm(agent)", ((HEAD, f"{HEAD}        self = x\n        self.update()\n"),)),
        ("", "", (("self.mean = Mean()", "pass"), (NORM, PROPERTY + NORM))),
    ],
)  # fmt: skip
def test_receivers_that_may_be_of_the_class(above: str, below: str, edits: tuple[tuple[str, str], ...]) -> None:
    assert not is_known(above, below, *edits)


SETTINGS = """
class Settings:
    def __init__(self):
        self.rate = 3


settings = Settings()
with open("settings.json") as file:
    read = json.load(file)
for key in read:
    {below}
"""


@pytest.mark.parametrize("decorated", ["", "@dataclass\n", "@dataclass(frozen=True)\n", "@remade\n"])
@pytest.mark.parametrize("held", ["settings", "norm.settings", "agent", "norm.any", "read"])
@pytest.mark.parametrize(
    "below",
    ["{}.__dict__[key] = read[key]", "vars({})[key] = 3", "setattr({}, key, read[key])", "print(getattr({}, key))"],
)
def test_attributes_of_another_object_by_text(decorated: str, held: str, below: str) -> None:
    imports = "import json\nfrom dataclasses import dataclass\n"
    code = SETTINGS.replace("class", f"{decorated}class").replace("{below}", below.format(held))
    kept = "self.mean = Mean()\n        self.settings = settings\n        self.any = unknown(agent)"
    known = is_known(imports, code, ("self.mean = Mean()", kept))
    assert known == (held in ("settings", "norm.settings") and decorated != "@remade\n")


@pytest.mark.parametrize(
    "below",
    [
        "print(dir(agent))",
        "print('update' in dir(Agent))",
        "print(vars(Agent).keys())",
        "print(sorted(vars(type(agent))))",
        "vars(agent)['update'] = print",
        "vars(agent)[name] = print",
        "print(getattr(agent, f'{name}')(1))",
        "print(agent.__class__.__dict__.keys())",
        "agent.__class__ = Mean",
        "print(agent.__dir__())",
        "import inspect\nprint(inspect.getmembers(agent))",
        "import inspect\nprint(inspect.getsource(Agent))",
        "import sys\nprint(sys._getframe().f_code.co_name)",
        "print(getattr(agent, 'up' + kind)(1))",
        "print(getattr(agent, f'update{kind}')(1))",
        "def run(x, name):\n    getattr(x, name)(1)\nrun(agent, 'up' + 'date')",
        "print(hasattr(agent, 'up' + kind))",
        "match agent:\n    case Agent(update=u):\n        print('has it')",
        "mock.patch.object(Agent, 'update', print).start()",
        "register(Agent)",
    ],
)
def test_code_that_may_look_the_method_up(below: str) -> None:
    if below.startswith("match") and sys.version_info < (3, 10):
        pytest.skip("no patterns in this version")
    assert not is_known("", below)


@pytest.mark.parametrize(
    "below",
    [
        "print(isinstance(agent, Agent))",
        "print(agent.__class__.__name__, type(agent).__name__)",
        "options = parse()\nprint(vars(options), getattr(options, name))",
        "import torch\nprint(getattr(torch, name))",
        "print(vars(agent)['n'], getattr(agent, f'count_{kind}', 0))",
        "setattr(agent, 'count_' + kind, 1)",
        "other: Agent = agent",
        "Agent.count = 3\nprint(Agent.count, type(agent).count)",
        "print(Agent.__name__)",
    ],
)
def test_lookups_that_find_no_method(below: str) -> None:
    alone = (HEAD, "    def add(self, x):\n"), ("self.mean.update(x)", "self.mean.add(x)")
    assert is_known("", below, *alone)


@pytest.mark.parametrize("name", ["forward", "__call__"])
def test_a_method_that_is_called_without_its_name_stays(name: str) -> None:
    code = CODE.replace("{above}", "").replace("{below}", "")
    code = code.replace("def update(self, replay)", f"def {name}(self, replay)")
    tree = Tree(code.replace("agent.update(2)", f"agent.{name}(2)"))
    assert name not in {function.name for function in only_calls(Roles(tree, History(original=code)), by_name=False)}


JUDGE = "def judge(norm, x):\n    norm.mean.update(x)\n"
LINEAR = (
    ("class Mean:", "class Mean(torch.nn.Module):"),
    ("self.mean = Mean()", "self.mean = Mean().to('cpu')"),
)


@pytest.mark.parametrize(
    ("below", "edits"),
    [
        ("judge(norm, 3)", ()),
        ("judge(x=3, norm=norm)\njudge(norm, 4)", ()),
        ("def all(other):\n    judge(other, 3)\nall(norm)", ()),
        ("judge(norm, agent)", ()),
        ("judge(norm, 3)", LINEAR),
        ("judge(norm, 3)", (*LINEAR, (".to('cpu')", ".to('cpu').eval()"))),
    ],
    ids=["one call", "several", "handed on", "another parameter", "moved", "moved and in another mode"],
)
def test_a_parameter_whose_calls_are_all_known(below: str, edits: tuple[tuple[str, str], ...]) -> None:
    assert is_known("import torch", JUDGE + below, *edits, by_name=True)


@pytest.mark.parametrize(
    ("below", "edits"),
    [
        ("", ()),
        ("judge(norm, 3)\njudge(Both(agent), 3)", ()),
        ("judge(made(), 3)", ()),
        ("for norm in norms:\n    judge(norm, 3)", ()),
        ("judge(norm, 3)\nrun(judge)", ()),
        ("judge(*both)", ()),
        ("globals()['judge'](other, 3)\njudge(norm, 3)", ()),
        ("judge(norm, 3)\njudge = print", ()),
        ("judge(norm, 3)", (("norm.mean.update(x)", "norm = x\n    norm.mean.update(x)"),)),
        ("judge(norm, 3)", (("def judge(", "@wrapped\ndef judge("),)),
        ("judge(norm, 3)", (("norm.mean.update(x)", "norm.mean.update(x)\n    judge(x.norm, x)"),)),
        ("judge(norm, 3)", (("self.mean = Mean()", "self.mean = Mean().to(3)"),)),
        ("judge(norm, 3)", (("self.mean = Mean()", "self.mean = Mean().twin(3)"), LINEAR[0])),
        ("judge(norm, 3)", (*LINEAR, (HEAD, f"    def to(self, where):\n        return agent\n\n{HEAD}"))),
    ],
    ids=["never called", "of two classes", "made by a function", "in a loop", "handed on", "unpacked", "by text",
         "bound anew", "bound in it", "decorated", "calls itself", "no module", "another method", "its own method"],
)  # fmt: skip
def test_a_parameter_whose_calls_are_not_all_known(below: str, edits: tuple[tuple[str, str], ...]) -> None:
    assert not is_known("import torch", JUDGE + below, *edits, by_name=True)
