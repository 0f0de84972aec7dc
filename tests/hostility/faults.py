"""Scripts that were once converted wrongly, grouped by what they do, in many forms.

Each is built of a way of ways.py, in a place of the script. What is expected of all is the same: the transform is held
back, or the conversion's results are equal. Those that are still wrong are named in `WRONG`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scenarios import filled
from scripts import PARTS
from ways import (
    ALIASES,
    CHANGES,
    HOLDS,
    LOOKUPS,
    PRINTS,
    VIEWS,
    Hold,
    defined,
    naming,
    put,
)


@dataclass(frozen=True)
class Fault:
    """A script, with the subject and the title that name it."""

    about: str
    title: str
    source: str

    @property
    def name(self) -> str:
        """Its unique name."""
        return f"{self.about}: {self.title}"

    def __str__(self) -> str:
        return self.name


WRONG_FILE = Path(__file__).with_name("faults_wrong.txt")
WRONG = frozenset(WRONG_FILE.read_text(encoding="utf-8").splitlines())
"""The names of those that are still converted wrongly; `try_faults.py --write` finds them."""


def script(parts: dict[str, str], base: str = "at the top", later: str = "") -> str:
    """The script with parts of its own, and the definitions that they use, or what is put in later."""
    used = defined(*parts.values(), later)
    return filled({**parts, "functions": used + parts.get("functions", "")} if used.strip() else parts, base)


def swapped(text: str, old: str, new: str) -> str:
    """The script with one statement, which must occur once, replaced by others."""
    (indent,) = re.findall(rf"^( *){re.escape(old)}$", text, flags=re.MULTILINE)
    return text.replace(f"{indent}{old}\n", textwrap.indent(new.rstrip(), indent) + "\n")


def holding(hold: Hold, value: str, name: str = "", base: str = "at the top") -> str:
    """A script that keeps a value beyond the iteration and reads it in each later one."""
    name = name or value
    batch = PARTS["flatten"] + "\nb_values = values.reshape(-1)"
    parts = {
        "flatten": batch + "\n" + put(value, hold.does),
        "collected": f"print(total({put(name, hold.held)}))",
        "reported": f"print(total({put(name, hold.held)}))",
    }
    return script(parts, base)


def held() -> Iterator[tuple[str, str]]:
    """Buffers are kept beyond the iteration."""
    for way, hold in HOLDS.items():
        yield f"b_values, {way}", holding(hold, "b_values")
    for view, expression in VIEWS.items():
        yield f"{view} of values", holding(HOLDS["+= list()"], put("values", expression))
        yield (
            f"{view} of values, in a dictionary",
            holding(HOLDS["update() of a dictionary"], put("values", expression)),
        )
    for alias in ALIASES:
        hold = Hold(naming(alias, HOLDS["setdefault()"].does), HOLDS["setdefault()"].held)
        yield f"b_obs by {alias}", holding(hold, "b_obs")


def changed() -> Iterator[tuple[str, str]]:
    """The action is changed before it is recorded, or weights are changed during the rollout."""
    for way, does in CHANGES.items():
        yield f"action, {way}", script({"acted": put("action", does)})
        late = {"record": "<late>\n" + PARTS["record"], "late": put("action", does)}
        yield f"logprob, {way}", script({"acted": put("logprob", does)})
        if way in ("fill_()", "clip() of an array, out=", "a helper", "map()", "a callback of a list"):
            yield f"action before its record, {way}", script({**late})
            yield f"next_obs, {way}", script({"acted": put("next_obs", does)})
    for alias in ALIASES:
        yield (
            f"action by {alias}",
            script({"acted": naming(alias, "X.fill_(1)").replace("X", "action")}),
        )
    for view, expression in VIEWS.items():
        does = f"changed = {put('action', expression)}\nchanged += 1 - changed"
        yield f"action through {view}", script({"acted": does})
    for title, (made, called) in CALLED_BACK.items():
        yield (
            f"weights, {title}",
            script({"before_loop": made, "stepped": called}),
        )


CALLED_BACK = {
    "a callback of a list": ("callbacks = [cool]", "for callback in callbacks:\n    callback(agent)"),
    "a callback by its index": ("callbacks = [cool]", "callbacks[0](agent)"),
    "a callback of a dictionary": ('callbacks = {"cool": cool}', 'callbacks["cool"](agent)'),
    "callbacks among a dictionary's values": (
        'callbacks = {"cool": cool}',
        "for f in callbacks.values():\n    f(agent)",
    ),
    "a callback of a deque": ("callbacks = collections.deque([cool])", "callbacks.rotate()\ncallbacks[0](agent)"),
    "a callback as an attribute": ("SPACE.callback = cool", "SPACE.callback(agent)"),
    "a callback with its network": (
        "callbacks = []\ncallbacks.append(lambda: cool(agent))",
        "for callback in callbacks:\n    callback()",
    ),
    "a callback that keeps its network": (
        "class Cooling:\n    def __init__(self, net):\n        self.net = net\n\n    def __call__(self):\n"
        "        cool(self.net)\n\ncallbacks = {0: Cooling(agent)}",
        "for callback in callbacks.values():\n    callback()",
    ),
    "a callback with a layer": (
        "layers = [agent.critic[0]]\ncallbacks = [lambda: layers[0].weight.data.mul_(0.9)]",
        "callbacks[-1]()",
    ),
    "a partial of a list": (
        "callbacks = [functools.partial(cool, agent)]",
        "for callback in callbacks:\n    callback()",
    ),
    "a comprehension over callbacks": ("callbacks = [cool]", "[f(agent) for f in callbacks]"),
    "map() over callbacks": ("callbacks = [cool]", "list(map(lambda f: f(agent), callbacks))"),
    "a stack of callbacks": (
        "callbacks = [cool]",
        "with contextlib.ExitStack() as stack:\n    for f in callbacks:\n        stack.callback(f, agent)",
    ),
    "a registry by a decorator": (
        "callbacks = []\n\ndef register(f):\n    callbacks.append(f)\n    return f\n\n"
        "@register\ndef chill(net):\n    cool(net)\n",
        "for callback in callbacks:\n    callback(agent)",
    ),
    "a method of a callback": (
        "class Callback:\n    def on_step(self, net):\n        cool(net)\n\ncallbacks = [Callback()]",
        "for callback in callbacks:\n    callback.on_step(agent)",
    ),
    "callbacks of the options": ("args.callbacks = [cool]", "for callback in args.callbacks:\n    callback(agent)"),
    "a generator": (
        "def cooling(net):\n    while True:\n        cool(net)\n        yield\n\nticks = cooling(agent)",
        "next(ticks)",
    ),
    "a schedule of lambdas": ("plan = {3: lambda net: cool(net)}", "plan.get(step, same)(agent)"),
    "a finalizer": ("import weakref", "weakref.finalize(Keeper(), cool, agent)"),
    "apply()": ("", "agent.apply(lambda m: cool(m) if m is agent else None)"),
}


def resized() -> Iterator[tuple[str, str]]:
    """The minibatch size changes inside the minibatch loop."""
    for title, does in RESIZES.items():
        for place in ("begun", "optimized", "epoch"):
            parts = {place: does}
            if "cfg" in does:
                parts["before_loop"] = "cfg = args"
            yield f"{title}, {place}", script(parts)
    for title, does in {
        "a variable": "size = 4",
        "a variable by a walrus": "(size := 4)",
        "a variable of a loop": "for size in (4,):\n    pass",
        "a variable of a with": "with contextlib.nullcontext(4) as size:\n    pass",
        "a variable on a condition": "if epoch == 0:\n    size = 2",
        "a variable by globals()": 'globals()["size"] = 4',
    }.items():
        text = swapped(script({"optimized": does}), "clipfracs = []", "clipfracs, size = [], 8")
        yield title, text.replace("args.minibatch_size", "size")
    for title, does in {
        "the batch size": "args.batch_size = 8",
        "the end of a slice": "end += 1",
        "the start of a slice": "start += 1",
        "the indices": "b_inds = b_inds[::-1].copy()",
        "the indices in place": "b_inds[:] = b_inds[::-1]",
        "the indices by another name": "same = b_inds\nsame.sort()",
        "the indices by a function": "np.ndarray.sort(b_inds)",
        "the indices by a list": "for held in [b_inds]:\n    held.sort()",
    }.items():
        yield title, script({"optimized": does})
    for title, (above, does) in {
        "a hook of the optimizer": ("optimizer.register_step_post_hook(lambda *given: resize(args))", "pass"),
        "a hook of a parameter": ("next(agent.parameters()).register_hook(lambda grad: resize(args))", "pass"),
        "a hook of a layer": ("agent.critic[0].register_forward_hook(lambda *given: resize(args))", "pass"),
        "a rate's schedule": (
            "plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: resize(args) or 1.0)",
            "plan.step()",
        ),
        "a generator's expression": ("turns = (resize(args) for _ in range(999))", "next(turns)"),
        "a map": ("turns = map(resize, [args] * 999)", "next(turns)"),
        "a map in a chain": ("turns = enumerate(map(resize, [args] * 999))", "for turn in turns:\n    break"),
    }.items():
        yield title, script({"before_loop": above, "optimized": does})


RESIZES = {
    "on a condition": "if entropy.mean() > 0.01:\n    args.minibatch_size = max(2, args.minibatch_size // 2)",
    "always": "args.minibatch_size = 2",
    "an augmented assignment": "args.minibatch_size = 8\nargs.minibatch_size //= 2 + epoch",
    "setattr()": 'setattr(args, "minibatch_size", 2)',
    "setattr() by the class": 'object.__setattr__(args, "minibatch_size", 2)',
    "vars()": 'vars(args)["minibatch_size"] = 2',
    "__dict__": "args.__dict__.update(minibatch_size=2)",
    "another name": "cfg.minibatch_size = 2",
    "a function": "resize(args)",
    "a function that is handed on": "list(map(resize, [args]))",
    "a list of functions": "for f in [resize]:\n    f(args)",
    "a target of a loop": "for args.minibatch_size in (2,):\n    pass",
    "a target of a with": "with contextlib.nullcontext(2) as args.minibatch_size:\n    pass",
    "a target among others": "args.minibatch_size, _ = 2, 0",
    "a lambda": "(lambda a: resize(a))(args)",
    "a partial": "functools.partial(resize, args)()",
}
RESIZES = {k: v.replace("entropy.mean()", "epoch + 1") if k == "on a condition" else v for k, v in RESIZES.items()}


def shared() -> Iterator[tuple[str, str]]:
    """A list of numbers has a second name, and is read through it."""
    for title, (made, read) in SECOND_NAMES.items():
        for when, place in (
            ("in the minibatch", "optimized"),
            ("in the epoch", "epoch_done"),
            ("at the end", "reported"),
        ):
            parts = {place: f"print(read_numbers({read}))"}
            yield f"{title}, read {when}", swapped(script(parts, later=made), "clipfracs = []", made)
    for title, does in {
        "isinstance() of one": "print([isinstance(x, float) for x in clipfracs])",
        "its type": "print(type(clipfracs[0]))",
        "sorted by a key": "print(sorted(clipfracs, key=str))",
        "json": "import json\nprint(json.dumps(clipfracs))",
        "a set": "print(len({*clipfracs}))",
        "max()": "print(max(clipfracs, default=0))",
        "a format": 'print(f"{clipfracs[-1]:.3f} {clipfracs[-1]!r} {clipfracs}")',
        "pickle": "import pickle\nprint(len(pickle.dumps(clipfracs)))",
        "an index": "print(clipfracs.index(clipfracs[-1]))",
        "what is in it": "print(0.0 in clipfracs, clipfracs.count(0.0))",
        "a truth value": "print([bool(c) for c in clipfracs])",
        "is": "print(clipfracs[0] is clipfracs[-1])",
        "a dictionary": "print(dict.fromkeys(clipfracs))",
        "hash()": "print(hash(tuple(clipfracs)))",
    }.items():
        yield title, script({"reported": does})


SECOND_NAMES = {
    "a chain": ("stats = clipfracs = []", "stats"),
    "a chain the other way": ("clipfracs = stats = []", "stats"),
    "a later name": ("clipfracs = []\nstats = clipfracs", "stats"),
    "an earlier name": ("stats = []\nclipfracs = stats", "stats"),
    "a tuple": ("stats = []\nclipfracs, _ = stats, 0", "stats"),
    "a walrus": ("stats = (clipfracs := [])", "stats"),
    "a with": ("stats = []\nwith contextlib.nullcontext(stats) as clipfracs:\n    pass", "stats"),
    "a loop": ("stats = []\nfor clipfracs in (stats,):\n    pass", "stats"),
    "an item": ('clipfracs = []\nHELD["c"] = clipfracs', 'HELD["c"]'),
    "an item in a chain": ('HELD["c"] = clipfracs = []', 'HELD["c"]'),
    "setdefault()": ('HELD.clear()\nclipfracs = HELD.setdefault("c", [])', 'HELD["c"]'),
    "an attribute": ("SPACE.c = clipfracs = []", "SPACE.c"),
    "an array of objects": ("clipfracs = []\nARRAY[0] = clipfracs", "ARRAY[0]"),
    "an attribute later": ("clipfracs = []\nSPACE.c = clipfracs", "SPACE.c"),
    "a list of lists": ("clipfracs = []\nKEPT[:] = [clipfracs]", "KEPT[0]"),
    "a starred list": ("_, *KEPT[:] = 0, (clipfracs := [])", "KEPT[0]"),
    "a function's result": ("stats = []\nclipfracs = same(stats)", "stats"),
    "a function that keeps": ("clipfracs = []\nKEPT.clear()\nkeep(clipfracs)", "KEPT[0]"),
    "a closure": ("clipfracs = []\nread = lambda: clipfracs  # noqa: E731", "read()"),
    "a default": ("clipfracs = []\n\ndef read(c=clipfracs):\n    return c\n", "read()"),
    "a partial": ("clipfracs = []\nread = functools.partial(same, clipfracs)", "read()"),
    "a bound method": ("clipfracs = []\nread = clipfracs.copy", "read()"),
    "an iterator": ("clipfracs = []\nstats = [clipfracs.__iter__]", "[*stats[0]()]"),
    "a conditional": ("stats = []\nclipfracs = stats if args else []", "stats"),
    "an or": ("stats = []\nclipfracs = args and stats", "stats"),
    "a dictionary of lists": ("logs = collections.defaultdict(list)\nlogs.clear()\nclipfracs = logs['c']", "logs['c']"),
    "a property": ("clipfracs = []\nKEEPER.slot = clipfracs", "KEEPER.slot"),
    "a namespace": ("clipfracs = []\nstats = types.SimpleNamespace(c=clipfracs)", "stats.c"),
    "a comprehension": ("stats = []\n[clipfracs] = [x for x in (stats,)]", "stats"),
    "a match": ("stats = []\nmatch stats:\n    case clipfracs:\n        pass", "stats"),
    "globals()": ("clipfracs = []", 'globals()["clipfracs"]'),
    "a class": ("clipfracs = []\n\nclass Stats:\n    c = clipfracs\n", "Stats.c"),
    "+= of itself": ("stats = []\nclipfracs = stats\nclipfracs += []", "stats"),
}


def asked() -> Iterator[tuple[str, str]]:
    """A result of the update is later asked for its gradient or its graph."""
    minibatch = PARTS["minibatch"]
    for name in ("newvalue", "ratio", "loss", "v_loss", "entropy", "mb_advantages"):
        for title, expression in GRADIENTS.items():
            yield f"{title} of {name}", script({"reported": f"print({put(name, expression)})"})
    for name in ("newvalue", "ratio", "v_loss"):
        for title, read in {
            "at the end": "reported",
            "in the minibatch": "optimized",
            "in the epoch": "epoch_done",
        }.items():
            text = minibatch.replace("<optimize>", f"{name}.retain_grad()\n<optimize>")
            yield (
                f"retain_grad() of {name}, read {title}",
                script({"minibatch": text, read: f"print({name}.grad.sum().item())"}),
            )
    rows = minibatch.replace("b_obs[mb_inds]", "mb_obs")
    for title, made in {
        "requires_grad_()": "mb_obs = b_obs[mb_inds].requires_grad_()",
        "requires_grad_(True)": "mb_obs = b_obs[mb_inds]\nmb_obs.requires_grad_(True)",
        "requires_grad = True": "mb_obs = b_obs[mb_inds]\nmb_obs.requires_grad = True",
        "detach() with requires_grad_()": "mb_obs = b_obs[mb_inds].detach().requires_grad_()",
        "a new tensor": "mb_obs = b_obs[mb_inds].clone().requires_grad_()",
        "setattr()": 'mb_obs = b_obs[mb_inds]\nsetattr(mb_obs, "requires_grad", True)',
        "a loop": "mb_obs = b_obs[mb_inds]\nfor t in (mb_obs,):\n    t.requires_grad_()",
        "a method of the class": "mb_obs = b_obs[mb_inds]\ntorch.Tensor.requires_grad_(mb_obs)",
        "a Variable": "mb_obs = torch.autograd.Variable(b_obs[mb_inds], requires_grad=True)",
        "a parameter": "mb_obs = nn.Parameter(b_obs[mb_inds])",
    }.items():
        for when in ("reported", "epoch_done", "optimized"):
            parts = {"minibatch": made + "\n" + rows, when: "print(mb_obs.grad.sum().item())"}
            yield f"inputs by {title}, {when}", script({**parts})
    for title, hook in {
        "a hook": "ratio.register_hook(lambda g: KEPT.append(g.sum().item()))",
        "a hook on the loss": "loss.register_hook(lambda g: KEPT.append(g.item()))",
        "autograd.grad()": "KEPT.append(torch.autograd.grad(v_loss, newvalue, retain_graph=True)[0].sum().item())",
    }.items():
        text = minibatch.replace("<optimize>", f"{hook}\n<optimize>")
        yield title, script({"minibatch": text, "reported": "print(KEPT)"})


GRADIENTS = {
    "grad": "X.grad is None",
    "requires_grad": "X.requires_grad",
    "grad_fn": "X.grad_fn is None",
    "the name of grad_fn": 'getattr(X.grad_fn, "name", len)  is len',
    "getattr() of requires_grad": 'getattr(X, "requires_grad")',
    "is_leaf": "X.is_leaf",
    "attrgetter()": 'operator.attrgetter("requires_grad")(X)',
    "a list of requires_grad": "[t.requires_grad for t in [X]]",
    "retains_grad": "X.retains_grad",
    "a product's requires_grad": "(X * 2).requires_grad",
    "the requires_grad of a stack": "torch.stack([X]).requires_grad",
    "a function that asks": "(lambda t: t.requires_grad)(X)",
}


def looked_up() -> Iterator[tuple[str, str]]:
    """A helper looks a global up by a name given as text."""
    for title, expression in LOOKUPS.items():
        for name, place in (
            ("global_step", "acted"),
            ("next_obs", "stepped"),
            ("next_done", "collected"),
            ("v_loss", "reported"),
            ("mb_inds", "optimized"),
            ("values", "collected"),
        ):
            if title == "locals()":
                yield f"{title}, {name} at {place}", script({place: f"print({show(put(name, expression))})"})
                continue
            helper = f"def helper():\n    return {put(name, expression)}\n\n\n"
            if title == "vars()":
                helper = ""
            call = put(name, expression) if title == "vars()" else "helper()"
            yield f"{title}, {name} at {place}", script({"functions": helper, place: f"print({show(call)})"})
    for title, does in {
        "globals()": 'globals()["global_step"] += 1',
        "globals().update()": "globals().update(global_step=global_step + 1)",
        "exec()": 'exec("global_step += 1", globals())',
        "setattr() of the module": 'setattr(sys.modules["__main__"], "global_step", global_step + 1)',
        "an attribute of the module": 'sys.modules["__main__"].global_step += 1',
        "a function's globals": 'same.__globals__["global_step"] += 1',
        "a frame": 'inspect.currentframe().f_globals["global_step"] += 1',
        "globals by another name": 'NAMES()["global_step"] += 1',
        "setitem()": 'operator.setitem(globals(), "global_step", global_step + 1)',
    }.items():
        helper = f"def helper():\n    {does}\n\n\n"
        yield f"{title} that sets, in a helper", script({"functions": helper, "stepped": "helper()"})
        yield f"{title} that sets", script({"stepped": does})


def show(expression: str) -> str:
    return f"np.asarray({expression}.detach() if torch.is_tensor({expression}) else {expression}, dtype=float).sum()"


def written_out() -> Iterator[tuple[str, str]]:
    """An f-string prints the text of a name or an expression by `=`, and a transform replaces it."""
    for base in ("at the top", "in main()", "in functions", "in an object"):
        for title, (place, expression) in EXPRESSIONS.items():
            yield f"{title}, {base}", script({place: f'print(f"{{{expression}=}}")'}, base)
    for title, (spot, after) in {
        "a method's attribute": ('print(f"{self.clip=}")', ""),
        "a method's attribute, with a format": ('print(f"{self.clip = :.3f}")', ""),
        "a method's expression": ('print(f"{self.clip * 2=}")', ""),
        "a method's attribute in an expression": ('print(f"{max(self.clip, 0)=}")', ""),
        "an attribute of the object": ("", 'print(f"{s.clip=}")'),
        "a nested attribute": ('print(f"{self.args.seed=} {self.clip!r}")', ""),
        "an attribute in a format": ('print(f"{1.0:{self.width}} {self.width=}")', ""),
        "the name of the class": ("print(type(self).__name__)", ""),
        "the name of the method": ("print(inspect.currentframe().f_code.co_name)", ""),
        "a call of a method": ('print(f"{self.twice(2)=}")', ""),
        "the object's __dict__": ("", "print(sorted(vars(s)))"),
        "dir() of the object": ("", 'print([n for n in dir(s) if n[0] != "_"])'),
    }.items():
        yield f"in an object: {title}", in_an_object(spot, after)
    for title, spot in {
        "a parameter": 'print(f"{rate=}")',
        "a variable of the function": 'print(f"{count=}")',
        "an expression of a parameter": 'print(f"{rate * 2 = }")',
        "a parameter's attribute": 'print(f"{options.seed=}")',
        "a parameter that is a network": 'print(f"{net.critic[0].bias.sum().item()=}")',
        "a parameter, nested": 'print(f"{[rate for _ in range(2)]=}")',
        "the function's own name": "print(inspect.currentframe().f_code.co_name)",
        "locals() of the function": "print(sorted(locals()))",
        "a parameter by locals()": 'print(locals()["rate"])',
    }.items():
        yield f"in a function: {title}", in_a_function(spot)


def in_an_object(spot: str, after: str = "") -> str:
    """A script that trains in a method, which does something at the end of each iteration; then something is done."""
    text = script({"reported": spot}, "in an object")
    text = text.replace("> args.clip_coef", "> self.clip")
    text = text.replace(
        "class Trainer:\n",
        "class Trainer:\n    def __init__(self, args):\n"
        "        self.args, self.clip, self.width = args, args.clip_coef, 8\n\n"
        "    def twice(self, x):\n        return 2 * x * self.width\n\n",
    )
    text = text.replace("        args = parse_args()\n", "        args = self.args\n")
    end = f"    s = Trainer(parse_args())\n    s.run()\n    {after}\n"
    return text.replace("    Trainer().run()\n", end.rstrip() + "\n")


def in_a_function(spot: str) -> str:
    """A script whose update is a function with names of its own, which does something at its end."""
    text = script({}, "in functions", spot)
    head, train, rest = re.split(r"(def train\(.*?return v_loss, clipfracs\n)", text, flags=re.DOTALL)
    train = re.sub(r"\bagent\b", "net", re.sub(r"\boptimizer\b", "opt", train)).replace("args.", "options.")
    train = train.replace("returns):", "returns, options, rate):\n    count = 0")
    train = train.replace("> options.clip_coef", "> rate")
    end = f"    count += 1\n    {spot}\n    return v_loss, clipfracs\n"
    train = train.replace("    return v_loss, clipfracs\n", end)
    return head + train + rest.replace("advantages, returns)\n", "advantages, returns, args, args.clip_coef)\n")


EXPRESSIONS = {
    "a buffer": ("reported", "values.mean().item()"),
    "a buffer in the rollout": ("stepped", "rewards[step].sum().item()"),
    "a rate": ("reported", "optimizer.param_groups[0]['lr']"),
    "a rate, half of it": ("reported", "optimizer.param_groups[0]['lr'] / 2"),
    "a loss": ("reported", "v_loss.item()"),
    "a list": ("reported", "clipfracs"),
    "a mean of a list": ("reported", "np.mean(clipfracs)"),
    "a policy": ("acted", "value.sum().item()"),
    "flags of an array": ("stepped", "next_done.sum().item()"),
    "an action": ("acted", "action.float().sum().item()"),
    "an advantage": ("estimated", "advantages.sum().item()"),
    "an advantage's step": ("reported", "lastgaelam.sum().item()"),
    "a loss that is a tensor": ("reported", "v_loss"),
    "the indices": ("begun", "len(mb_inds)"),
}


def shadowed() -> Iterator[tuple[str, str]]:
    """A name of Python that conversions use is the script's own; and training in an async function."""
    for name in BUILTINS:
        own = f"def {name}(*args):\n    return builtins.{name}(*args) and 0\n\n\n"
        yield f"{name} is a function", script({"functions": own})
        yield f"{name} is a variable of the module", script({"begin": f"{PARTS['begin']}\n{name} = 5"})
        yield f"{name} is a variable of main()", script({"begin": f"{PARTS['begin']}\n{name} = 5"}, "in main()")
        yield f"{name} is a variable of the rollout", script({"stepped": f"{name} = 5"})
        yield f"{name} is an import", script({"functions": f"from operator import add as {name}\n\n\n"})
    for name, gives in {
        "print": 'builtins.print("own", *args)',
        "range": "builtins.range(*args)[:1]",
        "reversed": "builtins.reversed(*args)",
        "int": "builtins.int(*args) + 1",
        "max": "builtins.min(*args)",
    }.items():
        own = f"def {name}(*args):\n    return {gives}\n\n\n"
        for place in ("stepped", "optimized", "reported"):
            does = {"print": "print(v_loss.item())", "max": "print(max(3, 4))", "int": "print(int(2))"}.get(name, "")
            does = does.replace("v_loss", "value.mean()") if place == "stepped" else does
            yield f"{name} of its own, used, {place}", script({"functions": own, place: does})
    yield "print is another for all", script({"before_loop": 'builtins.print = functools.partial(print, "own")'})
    for name in ("inspect", "TensorDict", "CudaGraphModule", "transition", "transitions", "storage", "rows", "torch_"):
        yield f"{name} is a variable of the module", script({"begin": f"{PARTS['begin']}\n{name} = 5"})
        yield f"{name} is a function", script({"functions": f"def {name}():\n    return 5\n\n\n"})
    for title, (main, end) in {
        "async def main()": ("async def main():", "asyncio.run(main())"),
        "an awaited function": ("async def train():", "async def main():\n    await train()\n\nasyncio.run(main())"),
        "a generator": ("def train():\n    yield 0", "for _ in train():\n    pass"),
        "a nested function": ("def main():\n  def train():", "  train()\nmain()"),
        "a lambda's function": ("def main(_=None):", "(lambda: main())()"),
    }.items():
        text = script({"stdlib": "import asyncio", "main": "async def MAIN():"})
        body = text.partition("async def MAIN():\n")
        inner = "  " if "nested" in title else ""
        body = (body[0], body[1], "\n".join(inner + line if line else line for line in body[2].rstrip().split("\n")))
        yield title, f"{body[0]}{main}\n{body[2]}\n{end}\n"


BUILTINS = (
    "zip",
    "len",
    "bool",
    "hasattr",
    "isinstance",
    "type",
    "list",
    "tuple",
    "dict",
    "float",
    "int",
    "sum",
    "max",
    "min",
    "any",
    "all",
    "enumerate",
    "next",
    "iter",
    "slice",
    "id",
    "callable",
    "getattr",
    "abs",
    "sorted",
    "map",
    "repr",
    "str",
)


def printed() -> Iterator[tuple[str, str]]:
    """A value of rollout or update is printed."""
    for name, place in PRINTED:
        for title, does in PRINTS.items():
            if title == "json" and name == "optimizer":
                continue
            yield f"{title} of {name} at {place}", script({place: put(name, does)})


PRINTED = (
    ("v_loss", "reported"),
    ("ratio", "reported"),
    ("newvalue", "epoch_done"),
    ("entropy", "optimized"),
    ("mb_advantages", "optimized"),
    ("loss", "optimized"),
    ("values", "reported"),
    ("advantages", "estimated"),
    ("next_done", "stepped"),
    ("next_obs", "acted"),
    ("action", "stepped"),
    ("value", "acted"),
    ("lastgaelam", "reported"),
    ("nextnonterminal", "reported"),
    ("clipfracs", "reported"),
    ("mb_inds", "optimized"),
    ("start", "reported"),
    ("b_inds", "reported"),
    ("optimizer.param_groups[0]['lr']", "reported"),
    ("optimizer", "reported"),
    ("reward", "stepped"),
    ("done", "stepped"),
)


ITEMS = {
    "storage": held,
    "evaluate-once": changed,
    "shuffle": resized,
    "deferred-sync": shared,
    "update": asked,
    "rollout": looked_up,
    "inline and dissolve": written_out,
    "names of Python": shadowed,
    "prints": printed,
}


def faults() -> list[Fault]:
    """All fault scripts; each has a different text."""
    found = [Fault(item, title, source) for item, make in ITEMS.items() for title, source in make()]
    return list({f.source: f for f in reversed(found)}.values())[::-1]
