import ast

import pytest

from transformer.syntax.tree import Tree
from transformer.values.reports import is_report

REPORTS = {
    "print(1)": "",
    "writer.add_scalar('x', 1, 2)": "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter('runs')",
    "writer.add_text('x', 'y')": (
        "from tensorboardX import SummaryWriter\nwriter = None\nif main:\n    writer = SummaryWriter()"
    ),
    "log.info(1)": "import logging\nlog = logging.getLogger(__name__)",
    "wandb.log({'x': 1})": "import wandb",
    "run.log({'x': 1})": "import wandb as w\nrun = w.init() if args.track else None",
    "sys.stdout.write('x')": "import sys",
    "self.writer.add_scalar('x', 1)": (
        "from torch.utils import tensorboard\nclass A:\n    def __init__(self, writer):\n        self.writer = writer\n"
        "A(tensorboard.SummaryWriter())"
    ),
    "out.add_scalar('x', 1)": (
        "from torch.utils.tensorboard import SummaryWriter\ndef train(args, out=None):\n    pass\n"
        "train(1, SummaryWriter())\ntrain(1)"
    ),
    "log.error(1)": "import logging\nlog = logging.getLogger(__name__)",
    "log.warning(1)": "import logging\nlog: logging.Logger = logging.getLogger(__name__)",
    "w.add_scalar('x', 1)": "from torch.utils.tensorboard import SummaryWriter\nwith SummaryWriter() as w:\n    pass",
}
OTHERS = {
    "print(1)": "def print(x):\n    CALLS.append(x)",
    "print(1, file=meter)": "",
    "meter.log(1)": "class Meter:\n    def log(self, x):\n        self.x = x\nmeter = Meter()",
    "writer.add_scalar('x', 1, 2)": (
        "from torch.utils.tensorboard import SummaryWriter\nclass Mine(SummaryWriter):\n    pass\nwriter = Mine()"
    ),
    "writer.add_text('x', 'y')": (
        "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()\nwriter.add_text = keep"
    ),
    "log.info(1)": "import logging\nlog = logging.getLogger(__name__)\nfor log in logs:\n    pass",
    "wandb.log({'x': 1})": "import wandb\nwandb = Meter(wandb)",
    "sink.write(1)": "import types\nsink = types.SimpleNamespace(write=values.append)",
    "self.writer.add_scalar('x', 1)": (
        "from torch.utils.tensorboard import SummaryWriter\nclass A:\n    def __init__(self, writer):\n"
        "        self.writer = writer\nA(SummaryWriter())\nA(meter)"
    ),
    "out.add_scalar('x', 1)": "def train(args, out):\n    pass\nstart(train)",
    "given.log(1)": "import logging\ndef f(given):\n    pass",
    "unknown.log(1)": "",
    "writer": "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()",
    "(log or meter).info(1)": "import logging\nlog = logging.getLogger(__name__)",
    "note.info(1)": "import logging\nnote = logging.getLogger(__name__)\nclass note:\n    pass",
    "told.info(1)": "import logging\ntold = logging.getLogger(__name__)\ndef told():\n    pass",
    "log.debug(1)": "import logging\nlog = logging.getLogger(__name__)\nf = lambda log: log",
    "given.info(1)": "import logging\nclass A:\n    def f(self, given):\n        pass\nA().f(logging.getLogger())",
    "wandb.watch(1)": "import wandb",
}


@pytest.mark.parametrize(
    ("call", "before", "reports"),
    [*((c, b, True) for c, b in REPORTS.items()), *((c, b, False) for c, b in OTHERS.items())],
)
def test_reports(call: str, before: str, reports: bool) -> None:
    tree = Tree(f"{before}\n{call}\n")
    stmt = tree.root.body[-1]
    assert isinstance(stmt, ast.Expr)
    assert is_report(tree, stmt.value) == reports
