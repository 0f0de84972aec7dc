import pytest

from transformer.dataflow.own_names import called_otherwise, captured
from transformer.syntax.tree import Tree


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("len = 5\n", "len = 5\nprint(len(x))\n", "len"),
        ("def zip(): ...\n", "def zip(): ...\ndef f():\n    return zip(a)\n", "zip"),
        ("from m import add as zip\n", "from m import add as zip\nzip(a, b)\n", "zip"),
        ("def main():\n    len = 5\n", "def main():\n    len = 5\n    print(len(x))\n", "len"),
        ("match x:\n    case [len]: pass\n", "match x:\n    case [len]: print(len(x))\n", "len"),
        ("import builtins\nbuiltins.len = f\n", "import builtins\nbuiltins.len = f\nlen(x)\n", "len"),
        ("len = 5\nlen(a)\n", "len = 5\nlen(a, b)\n", "len"),
        ("inspect = 5\n", "import inspect\ninspect = 5\ninspect.unwrap(f)\n", "inspect"),
        ("def inspect(): ...\n", "import inspect\ndef inspect(): ...\ninspect.unwrap(f)\n", "inspect"),
        ("x = 1\n", "x = len(y)\n", None),
        ("def main():\n    len = 5\n", "def f():\n    return len(x)\ndef main():\n    len = 5\n", None),
        ("len = 5\nlen(a)\n", "len = 5\nif b:\n    len(c)\n", None),
        ("sum = 5\n", "def f():\n    sum = 5\n    return a, sum\nb, sum = f()\nf(sum)\n", None),
        ("class A:\n    def len(self): ...\n", "class A:\n    def len(self): ...\nlen(x)\n", None),
        ("import inspect\n", "import inspect\ninspect.unwrap(f)\n", None),
    ],
)
def test_what_is_put_in_reads_a_name_of_the_script(before: str, after: str, name: str | None) -> None:
    assert captured(Tree(before), Tree(after)) == name


MINE = "import torch\nimport numpy as np\nimport torch.nn.functional as F\n"


@pytest.mark.parametrize(
    ("replaces", "line", "later", "name"),
    [
        ("torch.zeros = f", "x = torch.ones(3)", "x = torch.zeros(3) + 1", "zeros"),
        ("torch.Tensor.item = f", "print(x.item())", "print(x.tolist())", "item"),
        ("F.relu = f", "F.relu(x)", "F.relu(F.relu(x))", "relu"),
        ("setattr(np.random, 'shuffle', f)", "np.random.shuffle(x)", "x = torch.randperm(3)", "shuffle"),
        ("np.random.shuffle, kept = f, np.random.shuffle", "np.random.shuffle(x)", "", "shuffle"),
        ("with torch.no_grad():\n    torch.cat = f", "x", "torch.cat([x])", "cat"),
        ("torch.zeros = f", "y = torch.zeros(3)", "if a:\n    y = torch.zeros(3)", None),
        ("torch.backends.cudnn.deterministic = True", "x.item()", "x", None),
        ("torch.backends.cudnn.deterministic = True", "act(deterministic)", "act(deterministic, deterministic)", None),
        ("mine.item = f", "x.item()", "x", None),
        ("setattr(mine, 'item', f)", "x.item()", "x", None),
    ],
)
def test_a_replaced_function_is_called_as_often(replaces: str, line: str, later: str, name: str | None) -> None:
    before, after = (Tree(f"{MINE}{replaces}\n{last}\n") for last in (line, later))
    assert called_otherwise(before, after) == name
