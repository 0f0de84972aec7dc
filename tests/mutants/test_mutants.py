"""Mutants are what they are said to be, and those of a sample are told by `verify`."""

import ast
from dataclasses import replace

import pytest
from equivalent import proof
from figures import Score, Scored
from forking import preload
from generate import Mutant, canonical, mutants
from kill import Outcome, Range
from reasons import reasons
from score import sample
from targets import TARGETS

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
        ("y += x", "repeat", False),
        ("random.seed(args.seed)", "repeat", True),
        ("random.seed(next(seeds))", "repeat", False),
        ("optimizer.step()", "repeat", False),
        ("unread = (x, 2)", "drop", True),
        ("unread = draw(x)", "drop", False),
        ("read = (x, 2)", "drop", False),
    ],
)
def test_what_is_proved(statement: str, kind: str, proved: bool) -> None:
    text = canonical(f"def f():\n    {statement}\n    return y, read, t, args")
    (mutant,) = [m for m in mutants(text, {}) if m.kind == kind and m.before == statement]
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


def _edit(scope: str, before: str, after: str) -> Mutant:
    kind = {"(dropped)": "drop", "(repeated)": "repeat"}.get(after, "other")
    lines = [number for number, line in enumerate(HELPERS.splitlines(), start=1) if line.strip() == before]
    line = lines[scope == "Other.__init__"]
    return Mutant(kind, scope, before, after, line, line, ())


def test_what_another_text_does_not_show() -> None:
    """Two param groups; gradients that are read before; gradients that are added to."""
    group = _edit("", "optimizer.param_groups[0]['lr'] = args.lr", "optimizer.param_groups[-1]['lr'] = args.lr")
    first = _edit("traceable", "if args.compile:", "if not args.compile:")
    assert proof(group, HELPERS) and not proof(group, HELPERS + "optimizer.add_param_group(more)\n")
    assert proof(first, HELPERS) and not proof(first, HELPERS + "print(p.grad)\n")
    assert not proof(first, HELPERS.replace("    zero_grad()\n", "    other()\n"))


def test_the_score_leaves_out_what_is_proved(found: list[Mutant]) -> None:
    killed, lives = Outcome("refactored", "refactored, base", "", 1), Outcome("", "", "", 4)
    scored = [Scored(m, lives if i == 0 else killed, "it is" if i < 2 else "", None) for i, m in enumerate(found[:10])]
    assert Score("x.py", {}, 12, 2, tuple(scored), ()).part == 1.0
    assert Score("x.py", {}, 12, 2, (*scored, replace(scored[0], proof="")), ()).part == 8 / 9


@pytest.fixture(scope="module")
def range_() -> Range:
    preload()
    return Range(TARGETS[0])


def test_a_sample_is_told(range_: Range) -> None:
    chosen = sample([m for m in range_.mutants if range_.runs(m)], 40)
    known = {key for reason in reasons(range_.target.name) for key in reason.keys}
    lives = {m.key for m in chosen if not proof(m, range_.text) and not range_.outcome(m).killed}
    assert len(chosen) == 40
    assert lives <= known, "give a reason in benchmarks/mutants.toml, or verify better eyes"


def test_reasons_are_of_mutants_that_are(range_: Range) -> None:
    keys = {m.key for m in range_.mutants if range_.runs(m)}
    assert [key for reason in reasons(range_.target.name) for key in reason.keys if key not in keys] == []
