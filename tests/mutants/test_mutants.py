"""Mutants are the edits they claim to be, and `verify` kills those of a sample."""

import ast
import sys
from dataclasses import replace

import pytest
import torch
from equivalent import proof
from figures import Score, Scored
from forking import preload
from generate import Mutant, canonical, mutants
from kill import Outcome, Range
from reasons import reasons
from score import sample
from targets import TARGETS

from transformer.syntax.templates import render

SCRIPT = '''
"""Docstring."""
import math


class Net:
    width = 3

    def act(self, x):
        """Docstring."""
        assert x > 0
        return math.exp(x) - 1


def setup(args):
    return args.seed + 5


def train(args):
    total, gain = 0.0, 2.0
    for i in range(3):  # three turns
        if args.gamma < 1 and not args.seed:
            gain = total / args.gamma
        elif i == 2:
            gain -= 1
        with lock:
            total += rows["a"][i] ** 2
    return total, gain, rows["b"]


if __name__ == "__main__":
    train(parse())
'''
KINDS = {
    "train": {"args": "", "total": "float", "gain": "float", "i": "int"},
    "args": {"gamma": "float", "seed": "int", "lambda_": "float"},
}
pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 writes an edited assignment otherwise")
WANTED = {
    "constant": ["total, gain = (1.0, 2.0)", "total, gain = (0.0, 4.0)", "for i in range(4):", "if i == 1:"],
    "sign": ["total, gain = (0.0, -2.0)"],
    "operator": ["gain = total * args.gamma", "gain += 1", "total += rows['a'][i] * 2", "return math.exp(x) + 1"],
    "comparison": ["if args.gamma > 1 and (not args.seed):", "if i != 2:"],
    "condition": ["if not (args.gamma < 1 and (not args.seed)):"],
    "operands": ["gain = args.gamma / total", "gain, total = (0.0, 2.0)", "return (gain, total, rows['b'])"],
    "index": ["total += rows['b'][i] ** 2", "total += rows['a'][i - 1] ** 2"],
    "name": ["gain = gain / args.gamma", "gain = total / args.lambda_", "return (total, total, rows['b'])"],
    "drop": ["(dropped)"],
    "repeat": ["(repeated)"],
}


@pytest.fixture(scope="module")
def found() -> list[Mutant]:
    return mutants(canonical(SCRIPT), KINDS, aside=["setup"])


@pytest.mark.parametrize("kind", WANTED)
def test_edits_of_each_kind(found: list[Mutant], kind: str) -> None:
    assert {*WANTED[kind]} <= {m.after for m in found if m.kind == kind}


def test_each_mutant_is_one_edit_of_the_script(found: list[Mutant]) -> None:
    text = canonical(SCRIPT)
    texts = [ast.unparse(ast.parse(m.applied(text))) for m in found]
    assert len({text, *texts}) == len(texts) + 1 == len({m.key for m in found}) + 1


def test_what_is_left_alone(found: list[Mutant]) -> None:
    edited = {m.before for m in found}
    assert not any(
        word in before for before in edited for word in ("import", "width", "assert", "seed + 5", "Docstring")
    )
    assert "train(parse())" in edited and not any("__name__" in before for before in edited)


def test_a_dropped_with_leaves_its_block(found: list[Mutant]) -> None:
    (dropped,) = [m for m in found if m.kind == "drop" and m.before == "with lock:"]
    assert "\n        total += rows['a'][i] ** 2\n" in dropped.applied(canonical(SCRIPT))


@pytest.mark.parametrize(
    ("statement", "kind", "proved"),
    [
        ("y = x.mean() + 1", "repeat", True),
        ("y = y.mean() + 1", "repeat", False),
        ("y = sample(x)", "repeat", False),
        ("y = x.exp_()", "repeat", False),
        ("y, z = (z, x)", "repeat", False),
        ("t['a'] = x.clone()", "repeat", True),
        ("t['a'] = t['b'].clone()", "repeat", False),
        ("args.n = args.m * 2", "repeat", True),
        ("args.n = args.n * 2", "repeat", False),
        ("args.n = len(vars(args))", "repeat", False),
        ("a[i] = x", "repeat", False),
        ("for i in range(n):\n        b = x + b\n        a[i] = b", "repeat", True),
        ("for i in range(n):\n        b = a[0]\n        a[i] = b", "repeat", False),
        ("for i in rows:\n        b = x + b\n        a[i] = b", "repeat", False),
        ("y += x", "repeat", False),
        ("random.seed(args.seed)", "repeat", True),
        ("random.seed(next(seeds))", "repeat", False),
        ("slow.load_state_dict(actor.state_dict())", "repeat", True),
        ("slow.load_state_dict(mixed(actor))", "repeat", False),
        ("optimizer.step()", "repeat", False),
        ("unread = (x, 2)", "drop", True),
        ("unread = draw(x)", "drop", False),
        ("read = (x, 2)", "drop", False),
    ],
)
def test_what_is_proved(statement: str, kind: str, proved: bool) -> None:
    text = canonical(f"def f():\n    {statement}\n    return y, read, t, args")
    last = statement.splitlines()[-1].strip()
    (mutant,) = [m for m in mutants(text, {}) if m.kind == kind and m.before == last]
    assert bool(proof(mutant, text)) == proved


HELPERS = """\
class Agent(nn.Module):

    def __init__(self):
        super().__init__()

    def act(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = sample(probs)
        return (action, probs.entropy())

class Other(Base):

    def __init__(self):
        super().__init__()

def rows(kept, carry, change):
    both = (kept, change)
    shared = all((r.dim() > 1 for r in both))
    if shared and carry == 0:
        kept, change = (r.numpy() for r in both)
    for t in range(3):
        kept[t] = carry = change[t] + carry

def reads(kept, carry, change):
    for t in range(3):
        kept[t] = carry = change[t] + kept[t]

def sample(d):
    if captured and isinstance(d, torch.distributions.Normal):
        return sample(d.base_dist)
    if captured and isinstance(d, torch.distributions.Categorical):
        return d.probs

def traceable(optimizer):

    def backward(loss):
        for p, grad in zip(parameters, grads):
            if p.grad is None or grad is None:
                p.grad = grad
            else:
                p.grad.copy_(grad)
    if args.compile:
        p.grad = torch.zeros_like(p)
    return backward

def update(x):
    a, b, c = envs.step(x)
    e, f, g = envs.step(x)
    done = np.logical_or(a, b)
    over = e or f
    only = e
    kept = torch.zeros_like(x)
    rows(kept, carry, x)
    reads(kept, carry, x)
    _, entropy = agent.act(x, x.abs())
    _, drawn = agent.act(x)
    zero_grad()
    backward(loss)
    v = np.var((x - done).numpy())
    w = np.mean((x - done).numpy())
    return (v, w)
optimizer = optim.Adam(agent.parameters(), lr=0.1)
optimizer.param_groups[0]['lr'] = args.lr
backward = traceable(optimizer)
if args.cudagraphs:
    update = CudaGraphModule(update, warmup=20)
"""
PROVED = [
    ("rows", "shared = all((r.dim() > 1 for r in both))", "shared = all((r.dim() > 2 for r in both))", True),
    ("rows", "shared = all((r.dim() > 1 for r in both))", "shared = all((r.pop() > 1 for r in both))", False),
    ("rows", "if shared and carry == 0:", "if shared or carry == 0:", True),
    ("rows", "if shared and carry == 0:", "(dropped)", True),
    ("rows", "kept, change = (r.numpy() for r in both)", "(dropped)", True),
    ("rows", "kept, change = (r.numpy() for r in both)", "change, kept = (r.numpy() for r in both)", False),
    ("traceable.backward", "if p.grad is None or grad is None:", "if p.grad is not None or grad is None:", True),
    ("traceable.backward", "if p.grad is None or grad is None:", "(dropped)", False),
    ("traceable.backward", "p.grad.copy_(grad)", "(repeated)", True),
    ("sample", "if captured and isinstance(d, torch.distributions.Normal):", "(dropped)", True),
    ("sample", "if captured and isinstance(d, torch.distributions.Categorical):", "(dropped)", False),
    ("traceable", "if args.compile:", "if not args.compile:", True),
    ("traceable", "p.grad = torch.zeros_like(p)", "(dropped)", True),
    ("traceable", "p.grad = torch.zeros_like(p)", "p.grad = torch.zeros_like(q)", False),
    ("Agent.__init__", "super().__init__()", "(repeated)", True),
    ("Other.__init__", "super().__init__()", "(repeated)", False),
    ("update", "rows(kept, carry, x)", "(repeated)", True),
    ("update", "reads(kept, carry, x)", "(repeated)", False),
    ("update", "_, entropy = agent.act(x, x.abs())", "(repeated)", True),
    ("update", "_, drawn = agent.act(x)", "(repeated)", False),
    ("update", "a, b, c = envs.step(x)", "b, a, c = envs.step(x)", True),
    ("update", "a, b, c = envs.step(x)", "a, c, b = envs.step(x)", False),
    ("update", "e, f, g = envs.step(x)", "f, e, g = envs.step(x)", False),
    ("update", "v = np.var((x - done).numpy())", "v = np.var((done - x).numpy())", True),
    ("update", "w = np.mean((x - done).numpy())", "w = np.mean((done - x).numpy())", False),
    ("", "optimizer.param_groups[0]['lr'] = args.lr", "optimizer.param_groups[-1]['lr'] = args.lr", True),
    ("", "optimizer.param_groups[0]['lr'] = args.lr", "optimizer.param_groups[1]['lr'] = args.lr", False),
    ("", "optimizer.param_groups[0]['lr'] = args.lr", "(repeated)", True),
    ("", "backward = traceable(optimizer)", "(repeated)", True),
    ("", "backward = traceable(optimizer)", "(dropped)", False),
    ("", "if args.cudagraphs:", "(dropped)", True),
    ("", "update = CudaGraphModule(update, warmup=20)", "(dropped)", True),
    ("", "update = CudaGraphModule(update, warmup=20)", "(repeated)", False),
]


@pytest.mark.parametrize(("scope", "before", "after", "proved"), PROVED)
def test_what_is_proved_of_a_script(scope: str, before: str, after: str, proved: bool) -> None:
    assert bool(proof(_edit(scope, before, after), HELPERS)) == proved


def _edit(scope: str, before: str, after: str, text: str = HELPERS) -> Mutant:
    kind = {"(dropped)": "drop", "(repeated)": "repeat"}.get(after, "other")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line.strip() == before]
    line = lines[-(scope in ("", "Other.__init__"))]  # the last one of those that read the same
    return Mutant(kind, scope, before, after, line, line, ())


GRAPHS = """\
class Agent(nn.Module):

    def act(self, x):
        probs = Normal(self.mean(x), self.std)
        return sample(probs)

def sample(d):
    if captured and isinstance(d, torch.distributions.Normal):
        return torch.randn(d.loc.shape) * d.scale + d.loc
    if captured and isinstance(d, torch.distributions.Categorical):
        probs = d.probs.reshape(-1, d.probs.shape[-1])
        drawn = (probs / torch.empty_like(probs).exponential_(1)).argmax(-1)
        return drawn
    return d.sample()

TRACEABLE

def rollout(x):
    if args.compile:
        act(x)
    else:
        policy(x)

def update(x):
    zero_grad()
    backward(loss)
optimizer = optim.Adam(agent.parameters(), lr=0.1)
if args.compile or args.cudagraphs:
    for group in optimizer.param_groups:
        group['lr'] = torch.tensor(group['lr'], dtype=torch.float64, device='cpu')
zero_grad, backward, optimizer_step = (optimizer.zero_grad, lambda loss: loss.backward(), optimizer.step)
if args.compile:
    zero_grad, backward, optimizer_step = traceable(optimizer)
if torch.device(device).type != 'cpu':
    gae = torch.compile(gae, options=options)
if args.cudagraphs:
    if args.compile:
        act = CudaGraphModule(act, warmup=20)
    else:
        policy = CudaGraphModule(policy, warmup=20)
    if args.batch_size % args.minibatch_size == 0:
        update = CudaGraphModule(update, warmup=20)
if args.cudagraphs or args.compile:
    optimizer.param_groups[0]['lr'].fill_(args.lr * 2)
else:
    optimizer.param_groups[0]['lr'] = args.lr * 2
for x in torch.randperm(args.batch_size, device=device).split(args.minibatch_size):
    update(x)
""".replace("TRACEABLE", ast.unparse(ast.parse(render("traceable", traceable="traceable", only=True, scheduled=False))))
TRACED = "zero_grad, backward, optimizer_step = traceable(optimizer)"
EAGER = "(optimizer.zero_grad, lambda loss: loss.backward(), optimizer.step)"
RATE, CUT = "if args.compile or args.cudagraphs:", "if args.batch_size % args.minibatch_size == 0:"
NORMAL, CATEGORICAL = (f"if captured and isinstance(d, torch.distributions.{k}):" for k in ("Normal", "Categorical"))
DRAWN = "drawn = (probs / torch.empty_like(probs).exponential_(1)).argmax(-1)"
PROVED_OF_GRAPHS = [
    ("", TRACED, "(dropped)", True),
    ("", TRACED, "(repeated)", False),
    ("", TRACED.replace("traceable(optimizer)", EAGER), "(repeated)", True),
    ("", "if torch.device(device).type != 'cpu':", "if torch.device(device).type == 'cpu':", True),
    ("", "if torch.device(device).type != 'cpu':", "(dropped)", True),
    ("", "if torch.device(device).type != 'cpu':", "if torch.device(device).pop() != 'cpu':", False),
    ("", CUT, "if args.batch_size // args.minibatch_size == 0:", True),
    ("", CUT, "if args.minibatch_size % args.batch_size == 0:", True),
    ("", CUT, "if args.batch_size % args.minibatch_size == -1:", True),
    ("", CUT, "if args.batch_size % args.minibatch_size == 1:", False),
    ("", CUT, "if args.minibatch_size % args.minibatch_size == 0:", False),
    ("", CUT, "if args.batch_size % args.minibatch_size != 0:", False),
    ("", "if args.compile:", "if args.cudagraphs:", True),
    ("", "if args.compile:", "if not args.compile:", False),
    ("", RATE, "if args.compile or args.cudagraphs or args.x:", True),
    ("", RATE, "if args.cudagraphs or args.cudagraphs:", False),
    ("", "if args.cudagraphs or args.compile:", "if args.cudagraphs or args.cudagraphs:", False),
    ("sample", NORMAL, NORMAL.replace("and", "or"), True),
    ("sample", CATEGORICAL, CATEGORICAL.replace("and", "or"), True),
    ("sample", CATEGORICAL, "if captured and isinstance(torch.distributions.Categorical, d):", True),
    ("sample", NORMAL, "if captured and isinstance(torch.distributions.Normal, d):", False),
    ("sample", DRAWN, DRAWN.replace("(-1)", "(1)"), True),
    ("sample", DRAWN, DRAWN.replace("(-1)", "(0)"), False),
]


@pytest.mark.parametrize(("scope", "before", "after", "proved"), PROVED_OF_GRAPHS)
def test_what_is_proved_of_graphs(scope: str, before: str, after: str, proved: bool) -> None:
    assert bool(proof(_edit(scope, before, after, GRAPHS), GRAPHS)) == proved


@pytest.mark.parametrize(
    ("scope", "before", "after", "old", "new"),
    [
        ("", TRACED, "(dropped)", "p.grad.copy_(grad)", "p.grad.add_(grad)"),
        ("", TRACED, "(dropped)", "agent.parameters()", "some"),
        ("", TRACED, "(dropped)", "lambda loss: loss.backward()", "lambda loss: loss.backward(retain_graph=True)"),
        ("", CUT, "if args.batch_size // args.minibatch_size == 0:", "split(args.minibatch_size", "split(args.size"),
        ("", "if args.compile:", "if args.cudagraphs:", "    else:\n        policy(x)", "    act(x)"),
        ("", RATE, "if args.compile or args.cudagraphs or args.x:", "optim.Adam(", "optim.SGD("),
        ("sample", CATEGORICAL, CATEGORICAL.replace("and", "or"), "probs = Normal(", "probs = Other("),
        (
            "sample",
            CATEGORICAL,
            CATEGORICAL.replace("and", "or"),
            "captured and isinstance(d, torch.distributions.N",
            "no(",
        ),
    ],
)
def test_what_another_text_of_graphs_does_not_show(scope: str, before: str, after: str, old: str, new: str) -> None:
    other = GRAPHS.replace(old, new)
    assert other != GRAPHS and not proof(_edit(scope, before, after, other), other)


def test_facts_that_proofs_rest_on() -> None:
    """Learning rates as floats and as tensors, gradients in two ways, draws in two ways: the same bits."""
    torch.manual_seed(1)
    x, rates = torch.randn(9, 4), [torch.tensor(3e-3, dtype=torch.float64), 3e-3]
    nets = [torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)) for _ in rates]
    nets[1].load_state_dict(nets[0].state_dict())
    adams = [torch.optim.Adam(n.parameters(), lr=r, eps=1e-5) for n, r in zip(nets, rates, strict=True)]
    for _ in range(5):
        for net, adam in zip(nets, adams, strict=True):
            adam.zero_grad()
            loss = (net(x) ** 2).mean()
            if net is nets[0]:
                loss.backward()
            else:
                for p, grad in zip(net.parameters(), torch.autograd.grad(loss, [*net.parameters()]), strict=True):
                    p.grad = grad
            adam.step()
        assert all(map(torch.equal, nets[0].parameters(), nets[1].parameters()))
    probs, scale = torch.rand(64, 7).softmax(-1), torch.rand(64, 7)
    for drawn in (
        lambda: torch.distributions.Categorical(probs).sample(),
        lambda: (probs / torch.empty_like(probs).exponential_(1)).argmax(-1),
    ), (
        lambda: torch.distributions.Normal(probs, scale).sample(),
        lambda: torch.randn(probs.shape) * scale + probs,
    ):  # fmt: skip
        first, second = ((torch.manual_seed(2), draw())[1] for draw in drawn)
        assert torch.equal(first, second)


def test_what_another_text_does_not_show() -> None:
    """Two param groups; gradients that are read before; gradients that are added to."""
    group = _edit("", "optimizer.param_groups[0]['lr'] = args.lr", "optimizer.param_groups[-1]['lr'] = args.lr")
    first = _edit("traceable", "if args.compile:", "if not args.compile:")
    assert proof(group, HELPERS) and not proof(group, HELPERS + "optimizer.add_param_group(more)\n")
    assert proof(first, HELPERS) and not proof(first, HELPERS + "print(p.grad)\n")
    assert not proof(first, HELPERS.replace("    zero_grad()\n", "    other()\n"))


def test_the_score_leaves_out_what_is_proved(found: list[Mutant]) -> None:
    killed, lives = Outcome("flags-off", "flags-off, base", "", 1), Outcome("", "", "", 4)
    scored = [Scored(m, lives if i == 0 else killed, "it is" if i < 2 else "", None) for i, m in enumerate(found[:10])]
    assert Score("x.py", {}, 12, 2, tuple(scored), ()).part == 1.0
    assert Score("x.py", {}, 12, 2, (*scored, replace(scored[0], proof="")), ()).part == 8 / 9


@pytest.fixture
def range_() -> Range:
    preload()
    return Range(TARGETS[0])


@pytest.mark.slow
def test_a_sample_is_told_and_reasons_are_of_mutants_that_run(range_: Range) -> None:
    keys = {m.key for m in range_.mutants if range_.runs(m)}
    assert [key for reason in reasons(range_.target.name) for key in reason.keys if key not in keys] == []
    chosen = sample([m for m in range_.mutants if range_.runs(m)], 10)
    known = {key for reason in reasons(range_.target.name) for key in reason.keys}
    lives = {m.key for m in chosen if not proof(m, range_.text) and not range_.outcome(m).killed}
    assert len(chosen) == 10
    assert lives <= known, "give a reason in benchmarks/lists/mutants.toml, or verify better eyes"


@pytest.mark.slow
def test_reasons_are_of_mutants_that_are(range_: Range) -> None:
    range_.places = [place for place in range_.places if not place.emulated]  # what runs there makes no other mutants
    keys = {m.key for m in range_.mutants}
    assert [key for reason in reasons(range_.target.name) for key in reason.keys if key not in keys] == []
