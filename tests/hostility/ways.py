"""Ways to do one thing to a value, as axes that combine: to name it, hold it, change it, move it, print it, look it up.

X stands for the value: an expression that has no effect. A way may run any number of times, in any place where X is
bound. What it needs of the file stands in `DEFINITIONS`.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from functools import cache

DEFINITIONS = """
import builtins
import collections
import contextlib
import copy
import functools
import importlib
import inspect
import operator
import queue
import sys
import types

KEPT = []
HELD = {}
ARRAY = np.full(2, 0.0, dtype=object)
RECORD = np.zeros(1, dtype=[("v", object)])
CALLED = []
DONE = collections.deque(maxlen=4)
SPACE = types.SimpleNamespace()


class Keeper:
    last, all = 0.0, []

    def keep(self, x):
        self.all.append(x)

    def __iadd__(self, x):
        self.all.append(x)
        return self

    def __setitem__(self, key, x):
        self.all.append(x)

    def __call__(self, x):
        self.all.append(x)
        return x

    @property
    def slot(self):
        return self.last

    @slot.setter
    def slot(self, x):
        self.last = x


KEEPER = Keeper()


def keep(x):
    KEPT.append(x)


def same(x):
    return x


def pair(x):
    yield x
    yield x


def collector():
    while True:
        KEPT.append((yield))


COLLECTOR = collector()
COLLECTOR.send(None)


def total(things):
    return [float(torch.as_tensor(x).detach().double().sum()) for x in things]


def spoil(x):
    x.fill_(1)


def flatten_array(x):
    x[:] = 0


def call(f, *args):
    return f(*args)


class Spoiler:
    def __call__(self, x):
        x[0] = 1


CALLBACKS = [spoil]
NAMED = {"spoil": spoil}


NAMES = globals
EVALUATE = eval
TOOLS = {"eval": eval, "globals": globals}


def TEXTS(names):
    return names


def executed(text):
    found = {}
    exec(f"found['x'] = {text}", globals(), {"found": found})
    return found["x"]


def reader(function):
    return function


def main_module():
    import __main__

    return __main__


def read_numbers(numbers):
    return [isinstance(x, float) and x for x in numbers][-3:], len(numbers)


def cool(net):
    net.critic[0].weight.data.mul_(0.9)
    net.actor[0].weight.data.mul_(0.9)


def resize(args):
    args.minibatch_size = max(2, args.minibatch_size // 2)
"""


@dataclass(frozen=True)
class Hold:
    """Statements after which a value is held, and an expression for all that is."""

    does: str
    held: str


ALIASES = {
    "itself": ("", "X"),
    "another name": ("alias = X", "alias"),
    "a chain of names": ("alias = other = X", "other"),
    "a name of a tuple": ("alias, _ = X, 0", "alias"),
    "a starred name": ("_, *aliases = 0, X", "aliases[0]"),
    "a walrus": ("(alias := X)", "alias"),
    "a loop over a tuple": ("for alias in (X,):\n    pass", "alias"),
    "a loop over pairs": ('for _, alias in (("x", X),):\n    pass', "alias"),
    "a loop over a dictionary": ('for _, alias in {"x": X}.items():\n    pass', "alias"),
    "a loop over a zip": ("for alias, _ in zip([X], [0]):\n    pass", "alias"),
    "a with": ("with contextlib.nullcontext(X) as alias:\n    pass", "alias"),
    "a match": ("match (X,):\n    case (alias,):\n        pass", "alias"),
    "a conditional": ("alias = X if args is not None else 0", "alias"),
    "an or": ("alias = None or (X,)", "alias[0]"),
    "an item of a list": ("box = [X]", "box[0]"),
    "an item of a dictionary": ("box = dict(x=X, y=0)", 'box["x"]'),
    "an attribute": ("SPACE.box = X", "SPACE.box"),
    "a function's result": ("alias = same(X)", "alias"),
    "a lambda's result": ("alias = (lambda: X)()", "alias"),
    "a partial's result": ("alias = functools.partial(same, X)()", "alias"),
    "what a generator yields": ("alias = next(pair(X))", "alias"),
    "what next() gives": ("alias = next(iter([X]))", "alias"),
    "what map() gives": ("[alias] = map(same, [X])", "alias"),
    "what reduce() gives": ("alias = functools.reduce(lambda a, b: b, [0, X])", "alias"),
    "what an object gives": ("alias = KEEPER(X)", "alias"),
    "what pop() gives": ("alias = [X].pop()", "alias"),
    "what copy.copy() gives": ("alias, = copy.copy([X])", "alias"),
    "what getitem() gives": ("alias = operator.itemgetter(0)([X])", "alias"),
    "what an exception carries": (
        "try:\n    raise LookupError(X)\nexcept LookupError as error:\n    alias = error.args[0]",
        "alias",
    ),
    "a variable of a class": ("class Box:\n    x = X", "Box.x"),
    "a default": ("def boxed(x=X):\n    return x", "boxed()"),
    "an item of a comprehension": ("alias, = [x for x in (X,)]", "alias"),
}
"""Statements, and the expression that is X from then on."""

TENSORS = (
    "torch.Tensor(X)",
    "torch.FloatTensor(X)",
    "torch.tensor(X)",
    "torch.as_tensor(X)",
    "torch.as_tensor(X, dtype=torch.float32)",
    "torch.asarray(X)",
    "torch.from_numpy(X)",
    "torch.from_numpy(np.asarray(X))",
    "torch.from_numpy(X.reshape(-1, 2))",
    "torch.stack([torch.from_numpy(row) for row in X])",
)
"""How arrays become tensors, with and without a copy."""
VIEWS = {
    "itself": "X",
    "view()": "X.view(-1)",
    "reshape()": "X.reshape(-1)",
    "detach()": "X.detach()",
    "data": "X.data",
    "a slice": "X[:]",
    "an ellipsis": "X[...]",
    "unbind()": "X.unbind(0)[0]",
    "split()": "X.split(1)[0]",
    "narrow()": "X.narrow(0, 0, 1)",
    "a row": "X[0]",
    "rows of a loop": "next(iter(X))",
    "a transpose": "X.transpose(0, -1)",
    "expand_as()": "X.expand_as(X)",
    "as_strided()": "X.as_strided(X.shape, X.stride())",
    "flatten()": "X.flatten()",
    "contiguous()": "X.contiguous()",
    "to()": "X.to(X.dtype)",
    "cpu()": "X.cpu()",
    "numpy()": "X.detach().cpu().numpy()",
    "asarray()": "np.asarray(X.detach())",
    "numpy and back": "torch.from_numpy(X.detach().numpy())",
    "as_tensor()": "torch.as_tensor(X)",
    "a broadcast": "torch.broadcast_tensors(X, X)[0]",
    "requires_grad_()": "X.detach().requires_grad_(False)",
    "getattr()": 'getattr(X, "data")',
    "vsplit": "torch.atleast_1d(X)",
    "a memoryview": "np.frombuffer(memoryview(X.detach().numpy()), X.detach().numpy().dtype)",
}
"""Expressions that share X's memory, wherever X has a dimension."""

HOLDS = {
    "append()": Hold("KEPT.append(X)", "KEPT"),
    "append() of a loop over pairs": Hold('for key, t in (("v", X),):\n    HELD[key] = t', "HELD.values()"),
    "an item of a dictionary": Hold('HELD["v"] = X', "HELD.values()"),
    "an item by the iteration": Hold("HELD[iteration] = X", "HELD.values()"),
    "update() of a dictionary": Hold('batch = {"v": X}\nHELD.update(batch)', "HELD.values()"),
    "update() with pairs": Hold('HELD.update([("v", X)])', "HELD.values()"),
    "|= of a dictionary": Hold('HELD |= {"v": X}', "HELD.values()"),
    "setdefault()": Hold("HELD.setdefault(iteration, X)", "HELD.values()"),
    "setdefault() of a list": Hold('HELD.setdefault("v", []).append(X)', 'HELD.get("v", [])'),
    "+= list()": Hold("KEPT += list((X,))", "KEPT"),
    "+= of a tuple": Hold("KEPT += (X,)", "KEPT"),
    "extend() of a map": Hold("KEPT.extend(map(same, [X]))", "KEPT"),
    "extend() of a generator": Hold("KEPT.extend(pair(X))", "KEPT"),
    "a slice": Hold("KEPT[len(KEPT):] = [X]", "KEPT"),
    "a starred target": Hold("_, *KEPT[:] = 0, X", "KEPT"),
    "a target among others": Hold('HELD["v"], _ = X, 0', "HELD.values()"),
    "an attribute": Hold("KEEPER.last = X", "[KEEPER.last]"),
    "an attribute of a namespace": Hold("SPACE.v = X", "vars(SPACE).values()"),
    "an attribute of the options": Hold("args.kept = X", '[getattr(args, "kept", 0.0)]'),
    "an attribute of a function": Hold("keep.last = X", '[getattr(keep, "last", 0.0)]'),
    "an attribute of the network": Hold("agent.kept = X", '[getattr(agent, "kept", 0.0)]'),
    "an attribute of a class": Hold("Keeper.last = X", "[KEEPER.last]"),
    "an attribute of a tensor": Hold("torch.kept = X", '[getattr(torch, "kept", 0.0)]'),
    "setattr()": Hold('setattr(SPACE, "v", X)', "vars(SPACE).values()"),
    "__dict__": Hold('SPACE.__dict__["v"] = X', "vars(SPACE).values()"),
    "vars()": Hold("vars(SPACE).update(v=X)", "vars(SPACE).values()"),
    "a property": Hold("KEEPER.slot = X", "[KEEPER.last]"),
    "a default argument": Hold("def look(x=X):\n    return x\n\nCALLED.append(look)", "[f() for f in CALLED]"),
    "a lambda's default": Hold("CALLED.append(lambda x=X: x)", "[f() for f in CALLED]"),
    "a keyword default": Hold("def look(*, x=X):\n    return x\n\nCALLED.append(look)", "[f() for f in CALLED]"),
    "a partial": Hold("CALLED.append(functools.partial(same, X))", "[f() for f in CALLED]"),
    "a walrus": Hold('HELD["v"] = (kept := X)', "HELD.values()"),
    "a walrus in a condition": Hold("if (kept := X) is not None:\n    KEPT.append(kept)", "KEPT"),
    "a with": Hold("with contextlib.nullcontext(X) as SPACE.v:\n    pass", "vars(SPACE).values()"),
    "a loop's target": Hold("for SPACE.v in (X,):\n    pass", "vars(SPACE).values()"),
    "a loop's item": Hold('for HELD["v"] in (X,):\n    pass', "HELD.values()"),
    "a comprehension that appends": Hold("[KEPT.append(t) for t in (X,)]", "KEPT"),
    "a dictionary comprehension": Hold('HELD.update({k: t for k, t in (("v", X),)})', "HELD.values()"),
    "a generator that is used up": Hold("any(KEPT.append(t) for t in (X,))", "KEPT"),
    "map() of append()": Hold("list(map(KEPT.append, [X]))", "KEPT"),
    "append() by its class": Hold("list.append(KEPT, X)", "KEPT"),
    "append() by another name": Hold("add = KEPT.append\nadd(X)", "KEPT"),
    "append() by getattr()": Hold('getattr(KEPT, "append")(X)', "KEPT"),
    "append() by methodcaller()": Hold('operator.methodcaller("append", X)(KEPT)', "KEPT"),
    "setitem()": Hold('operator.setitem(HELD, "v", X)', "HELD.values()"),
    "__setitem__()": Hold('HELD.__setitem__("v", X)', "HELD.values()"),
    "iadd()": Hold("operator.iadd(KEPT, [X])", "KEPT"),
    "insert()": Hold("KEPT.insert(0, X)", "KEPT"),
    "a deque": Hold("DONE.append(X)", "DONE"),
    "a deque's left end": Hold("DONE.appendleft(X)", "DONE"),
    "a function": Hold("keep(X)", "KEPT"),
    "a function with a keyword": Hold("keep(x=X)", "KEPT"),
    "a function with stars": Hold('keep(**{"x": X})', "KEPT"),
    "a method": Hold("KEEPER.keep(X)", "KEEPER.all"),
    "an operator of a class": Hold("KEEPER += X", "KEEPER.all"),
    "an item of a class": Hold("KEEPER[0] = X", "KEEPER.all"),
    "an object that is called": Hold("KEEPER(X)", "KEEPER.all"),
    "send()": Hold("COLLECTOR.send(X)", "KEPT"),
    "a class": Hold("class Held:\n    v = X\n\nKEPT.append(Held)", "[c.v for c in KEPT]"),
    "a caught exception": Hold(
        "try:\n    raise LookupError(X)\nexcept LookupError as error:\n    KEPT.append(error.args[0])", "KEPT"
    ),
    "a bound method": Hold("CALLED.append(X.sum)", "[f() for f in CALLED]"),
    "a bound method of a dictionary": Hold('HELD["read"] = X.clone', '[HELD["read"]() if "read" in HELD else 0.0]'),
    "a partial of a bound method": Hold("CALLED.append(functools.partial(X.add, 0.0))", "[f() for f in CALLED]"),
    "a buffer by the class": Hold(
        'nn.Module.register_buffer(agent, "kept", X, persistent=False)', '[getattr(agent, "kept", 0.0)]'
    ),
    "a nested list": Hold("KEPT.append([[X]])", "[t[0][0] for t in KEPT]"),
    "a namedtuple": Hold('KEPT.append(collections.namedtuple("Row", "v")(X))', "[t.v for t in KEPT]"),
    "a namespace in a list": Hold("KEPT.append(types.SimpleNamespace(v=X))", "[t.v for t in KEPT]"),
    "a copy of a list": Hold("KEPT.append(copy.copy([X]))", "[t[0] for t in KEPT]"),
    "sorted()": Hold("KEPT += sorted([X], key=id)", "KEPT"),
    "reversed()": Hold("KEPT += reversed([X])", "KEPT"),
    "enumerate()": Hold("for _, t in enumerate([X]):\n    KEPT.append(t)", "KEPT"),
    "an array of objects": Hold("ARRAY[0] = X", "ARRAY.tolist()"),
    "a view of an array of objects": Hold("ARRAY.reshape(-1)[:1][0] = X", "list(ARRAY)"),
    "fill() of an array of objects": Hold("ARRAY.fill(X)", "list(ARRAY[:1])"),
    "a copied array of objects": Hold("ARRAY[0] = X\nKEPT[:] = ARRAY.copy()", "KEPT"),
    "a new array of objects": Hold("KEPT.append(np.array([X, None], dtype=object))", "[t[0] for t in KEPT]"),
    "an array joined from arrays of objects": Hold(
        "ARRAY[0] = X\nKEPT[:] = [np.concatenate([ARRAY, ARRAY])]", "[t for all in KEPT for t in all]"
    ),
    "a field of an array": Hold('RECORD["v"][0] = X', 'list(RECORD["v"])'),
    "frompyfunc()": Hold("KEPT.append(np.frompyfunc(lambda i: X, 1, 1)(np.arange(1)))", "[t[0] for t in KEPT]"),
    "a queue": Hold('HELD.setdefault("q", queue.Queue()).put(X)', 'HELD.get("q", queue.Queue()).queue'),
    "globals()": Hold('globals()["kept_x"] = X', '[globals().get("kept_x", 0.0)]'),
    "exec()": Hold('exec("KEPT.append(it)", {"KEPT": KEPT, "it": X})', "KEPT"),
    "a match": Hold("match (X,):\n    case (t,):\n        KEPT.append(t)", "KEPT"),
    "a conditional": Hold('HELD["v"] = X if args is not None else None', "HELD.values()"),
    "a boolean": Hold('HELD["v"] = args and X', "HELD.values()"),
    "a sum of lists": Hold("KEPT[:] = KEPT + [X]", "KEPT"),
    "a starred list": Hold("KEPT[:] = [*KEPT, X]", "KEPT"),
    "a starred dictionary": Hold('SPACE.d = {**{"v": X}}', 'getattr(SPACE, "d", {}).values()'),
    "dict.fromkeys()": Hold("HELD.update(dict.fromkeys([iteration], X))", "HELD.values()"),
    "an assertion": Hold("assert KEPT.append(X) is None", "KEPT"),
    "an f-string": Hold('f"{KEPT.append(X)}"', "KEPT"),
    "a decorator": Hold("@(lambda f: KEPT.append(X) or f)\ndef nothing():\n    pass", "KEPT"),
    "a cached function": Hold(
        "cached = functools.lru_cache(None)(lambda: X)\ncached()\nCALLED.append(cached)", "[f() for f in CALLED]"
    ),
    "an index": Hold("SPACE.v = (X, 0)[0]", "vars(SPACE).values()"),
    "a context of its own": Hold("with contextlib.ExitStack() as stack:\n    stack.callback(KEPT.append, X)", "KEPT"),
    "a ChainMap": Hold('collections.ChainMap(HELD)["v"] = X', "HELD.values()"),
    "a defaultdict": Hold(
        'HELD.setdefault("d", collections.defaultdict(list))["v"].append(X)', 'HELD.get("d", {"v": []})["v"]'
    ),
    "a TensorDict of lists": Hold("nn.Module.__setattr__(agent, 'kept', X)", '[getattr(agent, "kept", 0.0)]'),
    "a tensor's attribute": Hold("HELD.setdefault('t', torch.zeros(1)).kept = X", "[t.kept for t in HELD.values()]"),
    "an optimizer's state": Hold(
        'optimizer.param_groups[0]["kept"] = X', '[optimizer.param_groups[0].get("kept", 0.0)]'
    ),
    "an environment": Hold("envs.kept = X", '[getattr(envs, "kept", 0.0)]'),
}
"""Each holds X beyond the iteration."""

CHANGES = {
    "an item": "X[0] = 1 - X[0]",
    "an augmented item": "X[0] *= 0",
    "fill_()": "X.fill_(1)",
    "zero_()": "X.zero_()",
    "view().fill_()": "X.view(-1).fill_(1)",
    "an item of detach()": "X.detach()[0] = 1",
    "an item of data": "X.data[0] = 1",
    "copy_()": "X.copy_(torch.zeros_like(X))",
    "clamp_()": "X.clamp_(0, 0)",
    "threshold by its place": "nn.functional.elu(X.sub_(1).float(), 1.0, True)\nnn.functional.relu(X.neg_(), True)",
    "out=": "torch.zeros(X.shape, dtype=X.dtype, out=X)",
    "clip() of an array, out=": "ca = X.detach().cpu().numpy()\nnp.clip(ca, 0, 0, out=ca)",
    "an item of an array": "X.detach().numpy()[0] = 1",
    "fill() of an array": "ca = X.detach().numpy()\nca.fill(1)",
    "*= of an array": "ca = X.detach().numpy()\nca *= 0",
    "copyto()": "np.copyto(X.detach().numpy(), 0)",
    "multiply() with a place for the result": "ca = X.detach().numpy()\nnp.multiply(ca, 0, ca)",
    "putmask()": "np.putmask(X.detach().numpy(), X.detach().numpy() == 0, 1)",
    "place()": "np.place(X.detach().numpy(), X.detach().numpy() == 0, [1])",
    "rows of a loop": "for row in X:\n    row.fill_(1)",
    "an enumerated loop": "for i, _ in enumerate(X):\n    X[i] = 1",
    "swapped rows": "X[[0, 1]] = X[[1, 0]]",
    "a helper": "spoil(X)",
    "a helper that is handed on": "call(spoil, X)",
    "a helper by its object": "Spoiler()(X)",
    "a helper's keyword": "spoil(x=X)",
    "a helper on an array": "flatten_array(X.detach().numpy())",
    "a lambda": "(lambda x: x.fill_(1))(X)",
    "map()": "list(map(spoil, [X]))",
    "a comprehension": "[x.fill_(1) for x in [X]]",
    "setitem()": "operator.setitem(X, 0, 1)",
    "getattr()": 'getattr(X, "fill_")(1)',
    "a method of the class": "torch.Tensor.fill_(X, 1)",
    "a foreach function": "torch._foreach_zero_([X])",
    "unbind()": "X.unbind(0)[0].fill_(1)",
    "a chunk": "X.chunk(2)[0].fill_(1)",
    "set_()": "X.set_(torch.ones_like(X))",
    "new data": "X.data = torch.ones_like(X)",
    "a callback of a list": "for callback in CALLBACKS:\n    callback(X)",
    "a callback of a dictionary": 'NAMED["spoil"](X)',
    "a partial": "functools.partial(spoil, X)()",
    "torch.utils.dlpack": "torch.from_dlpack(X.detach()).fill_(1)",
    "a with": "with contextlib.nullcontext(X) as x:\n    x.fill_(1)",
    "a mask": "X[X == 0] = 1",
    "index_fill_()": "X.index_fill_(0, torch.tensor([0]), 1)",
    "nn.init": "nn.init.zeros_(X.data.unsqueeze(0)) if X.is_floating_point() else X.zero_()",
    "torch.where's out=": "torch.where(X == 0, torch.ones_like(X), torch.zeros_like(X), out=X)",
}
"""Each changes what X holds in place; X is a tensor with rows."""

PRINTS = {
    "print()": "print(X)",
    "an f-string": 'print(f"{X}")',
    "!r": 'print(f"{X!r}")',
    "=": 'print(f"{X=}")',
    "= with a format": 'print(f"{X = !s}")',
    "format()": 'print("{}".format(X))',
    "%": 'print("%s" % (X,))',
    "str()": "print(str(X))",
    "repr()": "print(repr(X))",
    "in a dictionary": 'print({"x": X})',
    "in a list": "print([X])",
    "len() of its text": "print(len(str(X)))",
    "__repr__()": "print(X.__repr__())",
    "write()": 'sys.stdout.write(str(X) + "\\n")',
    "map(str)": "print(*map(str, [X]))",
    "join()": 'print(",".join([str(X)]))',
    "its type": "print(type(X))",
    "its dtype": 'print(getattr(X, "dtype", None))',
    "its gradient": 'print(getattr(X, "requires_grad", None), getattr(X, "grad_fn", None) is None)',
    "whether it is a leaf": 'print(getattr(X, "is_leaf", None))',
    "its shape": 'print(getattr(X, "shape", None), np.shape(X))',
    "its strides": "print(X.stride() if torch.is_tensor(X) else 0)",
    "whether it is a number": "print(isinstance(X, (int, float)), isinstance(X, torch.Tensor))",
    "json": 'import json\nprint(json.dumps({"x": float(X)}) if np.size(X) == 1 else 0)',
}
"""Each prints something of X."""

LOOKUPS = {
    "globals()": 'globals()["X"]',
    "globals().get()": 'globals().get("X")',
    "globals by another name": 'NAMES()["X"]',
    "vars()": 'vars()["X"]',
    "locals()": 'locals()["X"]',
    "eval()": 'eval("X")',
    "exec()": 'executed("X")',
    "eval by another name": 'EVALUATE("X")',
    "builtins.eval": 'builtins.eval("X")',
    "eval by getattr()": 'getattr(builtins, "eval")("X", globals())',
    "eval of a compiled text": 'eval(compile("X", "", "eval"))',
    "eval in a dictionary of functions": 'TOOLS["eval"]("X", TOOLS["globals"]())',
    "sys.modules": 'sys.modules["__main__"].X',
    "sys.modules and getattr()": 'getattr(sys.modules[__name__], "X")',
    "sys.modules and vars()": 'vars(sys.modules[__name__])["X"]',
    "__main__": '__import__("__main__").X',
    "an import of __main__": "main_module().X",
    "importlib": 'importlib.import_module("__main__").X',
    "__dict__": 'sys.modules["__main__"].__dict__["X"]',
    "a function's globals": 'same.__globals__["X"]',
    "a method's globals": 'Keeper.keep.__globals__["X"]',
    "a network's globals": 'type(agent).get_value.__globals__["X"]',
    "a frame": 'inspect.currentframe().f_globals["X"]',
    "sys._getframe()": 'sys._getframe(0).f_globals["X"]',
    "inspect.stack()": 'inspect.stack()[0].frame.f_globals["X"]',
    "attrgetter()": 'operator.attrgetter("X")(sys.modules[__name__])',
    "inspect.getmembers()": 'dict(inspect.getmembers(sys.modules[__name__]))["X"]',
    "a format of the globals": 'TEXTS(globals())["X"]',
    "closure variables": 'inspect.getclosurevars(reader(lambda: X)).globals["X"]',
}
"""Expressions that find a global by its name in a text."""


def naming(alias: str, does: str) -> str:
    """Statements in which X got another name first."""
    before, after = ALIASES[alias]
    return "\n".join(filter(None, [before, put(after, does)]))


def put(value: str, does: str) -> str:
    """Statements about a value: it stands for X, in texts too."""
    return re.sub(r"\bX\b", lambda _: value, does)


@cache
def _pieces() -> list[tuple[str, set[str]]]:
    """Each definition, and the names that it binds."""
    return [(ast.get_source_segment(DEFINITIONS, s) or "", _binds(s)) for s in ast.parse(DEFINITIONS).body]


def defined(*texts: str) -> str:
    """The definitions that statements use, and what those use: no others, for a conversion may shy at each of them."""
    kept: set[int] = set()
    pieces = _pieces()
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    while new := {i for i, (_, names) in enumerate(pieces) if names & words} - kept:
        kept |= new
        words |= {word for i in new for word in re.findall(r"\w+", pieces[i][0])}
    imports = [pieces[i][0] for i in sorted(kept) if pieces[i][0].startswith("import ")]
    others = [pieces[i][0] for i in sorted(kept) if not pieces[i][0].startswith("import ")]
    return "".join(f"{text}\n" for text in imports) + "".join(f"\n\n{text}\n" for text in others) + "\n\n"


def _binds(stmt: ast.stmt) -> set[str]:
    """The names that a definition binds, or is about."""
    if isinstance(stmt, ast.Import):
        return {alias.name for alias in stmt.names}
    if isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
        return {stmt.name}
    return {n.id for n in ast.walk(stmt) if isinstance(n, ast.Name) and n.id.isupper()}


MOVES = {
    "clone()": "X = X.clone()",
    "cpu()": "X = X.cpu()",
    "to() with a copy": 'X = X.to("cpu", copy=True)',
    "a round trip through numpy": "X = torch.from_numpy(X.detach().numpy())",
    "a copy of its array": "X = torch.as_tensor(X.detach().numpy().copy())",
    "another dtype and back": "X = X.double().to(X.dtype)",
    "deepcopy()": "X = copy.deepcopy(X.detach())",
    "contiguous()": "X = X.contiguous()",
    "a stack of its rows": "X = torch.stack([*X])",
    "a list and back": "X = torch.tensor(X.tolist(), dtype=X.dtype)",
    "a copy into new memory": "X = torch.empty_like(X).copy_(X)",
    "a change of names": "moved, X = X, X.clone()\nmoved.zero_()",
    "a change of names and back": "moved = X\nX = moved",
    "a swap of rows": "X = X.flip(0)",
    "other strides": "X = X.unsqueeze(0).squeeze(0)",
    "detach()": "X = X.detach()",
    "a deletion of another name": "moved = X\ndel moved",
}
"""Each puts X, or a copy of it, where it was not."""

AROUND = {
    "": "X",
    "every other iteration": "if iteration % 2:\n    X",
    "but in the first iteration": "if iteration > 1:\n    X",
    "without gradients": "with torch.no_grad():\n    X",
    "once in a loop": "for _ in range(1):\n    X",
    "in a try": "try:\n    X\nfinally:\n    pass",
    "in a while": "while True:\n    X\n    break",
    "in a with": "with contextlib.suppress(KeyError):\n    X",
}
"""Code to put around statements."""


def around(head: str, does: str) -> str:
    """Statements with code around them."""
    shape = AROUND[head]
    indent = re.findall(r"^( *)X$", shape, flags=re.MULTILINE)[0]
    return re.sub(r"^ *X$", lambda _: textwrap.indent(does, indent), shape, flags=re.MULTILINE)
