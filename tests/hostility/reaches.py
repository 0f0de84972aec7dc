"""How hostile scripts reach what they change, in what form, and where in the script.

A path gives expressions for the network, its parts and the optimizer; a form puts a statement into a function, a
method, a property or the like; a place is a spot in the parts of scripts.py.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scripts import PARTS, edited


@dataclass(frozen=True)
class Path:
    """Expressions through which a script reaches its network and optimizer."""

    title: str
    net: str = "agent"
    actor: str = ""
    """If an expression is empty, the part is reached through the network."""
    critic: str = ""
    opt: str = "optimizer"
    setup: str = ""
    """Statements behind the making of network and optimizer."""
    functions: str = ""
    imports: str = ""
    init: str = ""
    """Statements at the end of the network's constructor."""
    parts: bool = False
    """Whether the network is made of parts that it is given."""


BOX = "class Box:\n    pass\n\n\n"
PATHS = [
    Path("by its name"),
    Path("by another name", net="twin", opt="adam", setup="twin, adam = agent, optimizer"),
    Path("in a list", net="owned[0]", opt="owned[-1]", setup="owned = [agent, optimizer]"),
    Path("in a dictionary", net='owned["net"]', opt='owned["opt"]', setup='owned = {"net": agent, "opt": optimizer}'),
    Path(
        "among the values of a dictionary",
        net="list(owned.values())[0]",
        opt="list(owned.values())[1]",
        setup="owned = dict(net=agent, opt=optimizer)",
    ),
    Path(
        "as an attribute",
        net="box.net",
        opt="box.opt",
        setup="box = Box()\nbox.net, box.opt = agent, optimizer",
        functions=BOX,
    ),
    Path(
        "in a namespace",
        net="owned.net",
        opt="owned.opt",
        setup="owned = types.SimpleNamespace(net=agent, opt=optimizer)",
        imports="import types",
    ),
    Path("through a function", net="owned()[0]", opt="owned()[1]", setup="def owned():\n    return agent, optimizer"),
    Path(
        "through a lambda",
        net="owned()",
        opt="stepped()",
        setup="owned = lambda: agent  # noqa: E731\nstepped = lambda: optimizer  # noqa: E731",
    ),
    Path(
        "through a default",
        net="owned()",
        opt="stepped()",
        setup="def owned(net=agent):\n    return net\n\ndef stepped(opt=optimizer):\n    return opt",
    ),
    Path(
        "through a weak reference",
        net="owned()",
        opt="stepped()",
        imports="import weakref",
        setup="owned, stepped = weakref.ref(agent), weakref.ref(optimizer)",
    ),
    Path(
        "through the owner of a bound method",
        net="owned.__self__",
        opt="stepped.__self__",
        setup="owned, stepped = agent.get_value, optimizer.state_dict",
    ),
    Path(
        "through a registry that the constructor fills",
        net="REGISTRY[0]",
        init="REGISTRY.append(self)",
        functions="REGISTRY = []\n\n\n",
    ),
    Path("through an attribute of the class", net="Agent.last", init="type(self).last = self"),
    Path("through a list of modules", net="owned[0]", setup="owned = nn.ModuleList([agent])"),
    Path(
        "through a cell",
        net="cell(agent)()",
        opt="cell(optimizer)()",
        functions="def cell(x):\n    return lambda: x\n\n\n",
    ),
    Path("by getattr()", actor='getattr(agent, "actor")', critic='getattr(agent, "critic")'),
    Path("parts by other names", actor="pi", critic="vf", setup="pi, vf = agent.actor, agent.critic"),
    Path("parts by _modules", actor='agent._modules["actor"]', critic='agent._modules["critic"]'),
    Path("parts by get_submodule()", actor='agent.get_submodule("actor")', critic='agent.get_submodule("critic")'),
    Path(
        "parts by named_children()",
        actor='dict(agent.named_children())["actor"]',
        critic='dict(agent.named_children())["critic"]',
    ),
    Path("parts by the order of modules()", actor="list(agent.children())[1]", critic="list(agent.children())[0]"),
    Path(
        "parts by attrgetter()",
        actor='operator.attrgetter("actor")(agent)',
        critic='operator.attrgetter("critic")(agent)',
        imports="import operator",
    ),
    Path("parts that the constructor is given", actor="parts[1]", critic="parts[0]", parts=True),
    Path(
        "through the optimizer of a holder",
        opt="box.opt",
        net="box.nets[-1]",
        functions=BOX,
        setup="box = Box()\nbox.nets, box.opt = (agent,), optimizer",
    ),
    Path("by a name of the module", net='globals()["agent"]', opt='globals()["optimizer"]'),
]


@dataclass(frozen=True)
class Place:
    """A spot in the script."""

    title: str
    hole: str
    """The part of the script, of those in HOLES, that stands there."""
    inside: bool = False
    """Whether the place is in a method of the network, which is `self` there."""


HOLES = {
    "before_loop": "PART\n<looping>",
    "head": "PART\n<heading>",
    "store": "<storing>\nPART",
    "act": "PART\n<acted>",
    "step": "PART\n<stepped>",
    "stack": "PART\n<collected>",
    "flatten": "<estimated>\nPART",
    "minibatches": edited("minibatches", "np.random.shuffle(b_inds)", "<epoch>\nnp.random.shuffle(b_inds)")
    + "\n    <epoch_done>",
    "minibatch": "<begun>\nPART",
    "optimize": "PART\n<optimized>",
    "report": "PART\n<reported>",
}
"""Parts of the script, with the spots in them; PART is the part itself, from the scenario."""

PLACES = [
    Place("before the loop", "looping"),
    Place("head", "heading"),
    Place("rollout, before the records", "storing"),
    Place("rollout, behind the policy", "acted"),
    Place("rollout, behind the environment's step", "stepped"),
    Place("rollout done", "collected"),
    Place("before the batch", "estimated"),
    Place("epoch", "epoch"),
    Place("minibatch", "begun"),
    Place("optimized", "optimized"),
    Place("epoch done", "epoch_done"),
    Place("report", "reported"),
    Place("environment", "meddled"),
    Place("constructor", "constructed", inside=True),
    Place("get_value", "valuing", inside=True),
    Place("get_action_and_value", "acting", inside=True),
]
STEPS = ("rollout, before the records", "rollout, behind the policy", "rollout, behind the environment's step")


def with_holes(parts: Mapping[str, str]) -> dict[str, str]:
    """Parts of a script with all the spots, which are empty."""
    holes = {name: text.replace("PART", parts.get(name, PARTS[name])) for name, text in HOLES.items()}
    return {**parts, **holes, **{p.hole: "" for p in PLACES if p.hole != "meddled"}}


@dataclass(frozen=True)
class Form:
    """The construct that a statement is wrapped in."""

    title: str
    write: Callable[[str], tuple[str, str, str]]
    """From a statement on `net` and `opt`: definitions of the file, statements before the loop, and what is done in
    the place, where NET and OPT stand for what is reached."""


def _function(name: str, does: str, args: str = "net, opt") -> str:
    return f"def {name}({args}):\n{textwrap.indent(does, '    ')}\n\n\n"


def _class(name: str, *methods: str) -> str:
    return f"class {name}:\n" + textwrap.indent("\n".join(m.rstrip("\n") + "\n" for m in methods), "    ") + "\n\n"


_KEEP = "def __init__(self, net, opt):\n    self.net, self.opt = net, opt"


def _method(head: str, does: str, last: str = "") -> str:
    body = "net, opt = self.net, self.opt\n" + does + (f"\n{last}" if last else "")
    return f"{head}\n{textwrap.indent(body, '    ')}"


FORMS = [
    Form("a function", lambda does: (_function("meddle", does), "", "meddle(NET, OPT)")),
    Form(
        "a function with keywords",
        lambda does: (_function("meddle", does, "*, opt=None, net"), "", "meddle(net=NET, opt=OPT)"),
    ),
    Form(
        "a function with starred arguments",
        lambda does: (_function("meddle", "net, opt = owned_by\n" + does, "*owned_by"), "", "meddle(*(NET, OPT))"),
    ),
    Form(
        "a function that is handed on",
        lambda does: (
            _function("meddle", does) + _function("call", "f(*args)", "f, *args"),
            "",
            "call(meddle, NET, OPT)",
        ),
    ),
    Form(
        "a method",
        lambda does: (
            _class("Meddler", _KEEP, _method("def meddle(self):", does)),
            "meddler = Meddler(NET, OPT)",
            "meddler.meddle()",
        ),
    ),
    Form(
        "an object that is called",
        lambda does: (
            _class("Meddler", _KEEP, _method("def __call__(self):", does)),
            "meddle = Meddler(NET, OPT)",
            "meddle()",
        ),
    ),
    Form(
        "a static method",
        lambda does: (_class("Meddler", "@staticmethod\n" + _function("meddle", does)), "", "Meddler.meddle(NET, OPT)"),
    ),
    Form(
        "a closure",
        lambda does: (
            _function("meddler", "def meddle():\n" + textwrap.indent(does, "    ") + "\nreturn meddle"),
            "meddle = meddler(NET, OPT)",
            "meddle()",
        ),
    ),
    Form(
        "a partial",
        lambda does: (_function("meddle", does), "meddle_it = functools.partial(meddle, NET, opt=OPT)", "meddle_it()"),
    ),
    Form(
        "a list of callbacks",
        lambda does: (
            _function("meddle", does),
            "callbacks = [lambda: meddle(NET, OPT)]",
            "for callback in callbacks:\n    callback()",
        ),
    ),
    Form(
        "a context manager",
        lambda does: (
            _class(
                "Meddler", _KEEP, _method("def __enter__(self):", does), "def __exit__(self, *error):\n    return False"
            ),
            "meddler = Meddler(NET, OPT)",
            "with meddler:\n    pass",
        ),
    ),
    Form(
        "a property",
        lambda does: (
            _class("Meddler", _KEEP, _method("@property\ndef meddled(self):", does, "return 0")),
            "meddler = Meddler(NET, OPT)",
            "global_step += meddler.meddled",
        ),
    ),
    Form(
        "an operator",
        lambda does: (
            _class("Meddler", _KEEP, _method("def __iadd__(self, n):", does, "return self")),
            "meddler = Meddler(NET, OPT)",
            "meddler += 1",
        ),
    ),
    Form(
        "formatting",
        lambda does: (
            _class("Meddler", _KEEP, _method("def __str__(self):", does, 'return "done"')),
            "meddler = Meddler(NET, OPT)",
            'print(f"{meddler}")',
        ),
    ),
    Form(
        "a generator",
        lambda does: (
            _function("meddler", "while True:\n" + textwrap.indent(does, "    ") + "\n    yield"),
            "meddling = meddler(NET, OPT)",
            "next(meddling)",
        ),
    ),
    Form(
        "an iteration",
        lambda does: (
            _class("Meddler", _KEEP, _method("def __iter__(self):", does, "return iter(())")),
            "meddler = Meddler(NET, OPT)",
            "for _ in meddler:\n    pass",
        ),
    ),
    Form(
        "a subscript",
        lambda does: (
            _class("Meddler", _KEEP, _method("def __getitem__(self, i):", does, "return i")),
            "meddler = Meddler(NET, OPT)",
            "meddler[0]",
        ),
    ),
    Form(
        "a thread",
        lambda does: (
            _function("meddle", does),
            "",
            "worker = threading.Thread(target=meddle, args=(NET, OPT))\nworker.start()\nworker.join()",
        ),
    ),
]
IMPORTS = {"a partial": "import functools", "a thread": "import threading"}

WHENS = ["", "if iteration > 1:", "if iteration % 2 == 0:"]
"""Conditions of a place in the loop."""
