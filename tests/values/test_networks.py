"""Which networks are steady: they change only in the values of their parameters."""

from __future__ import annotations

import pytest
from cases import converted_by
from scripts import PARTS, script

from transformer.conversion.first_state import read, recognise
from transformer.facts.libraries import OF_MODULE
from transformer.facts.torch_api import MODULE_CONTAINERS
from transformer.values.networks.attributes import LAYERS

AGENT = PARTS["agent"]
INIT = "super().__init__()\n"
START = "def start(layer):\n    return layer\n\n\n"
COOL = "args.clip_coef *= 0.9"


def reason(**parts: str) -> str | None:
    """Why the skeleton's network, with these parts, is not known to be steady; None if it is."""
    if "def extra(" in parts.get("agent", ""):  # methods that nothing calls are ignored
        parts.setdefault("before_loop", "agent.extra(next_obs)")
    state = read(script(parts), 120)
    state = recognise(state)
    return state.history.unsteady.get("agent")


def kept(value: str) -> dict[str, str]:
    """A network that keeps a value as an attribute and computes with it."""
    agent = AGENT.replace(INIT, f"{INIT}        self.kept = {value}\n", 1)
    return {"agent": agent}


def built(lines: str, functions: str = "", **more: str) -> dict[str, str]:
    """A network whose constructor runs more lines."""
    inside = lines.replace("\n", "\n        ")
    return {"agent": functions + AGENT.replace(INIT, f"{INIT}        {inside}\n", 1), **more}


def given_size() -> str:
    """A network that keeps its constructor's argument."""
    return AGENT.replace("def __init__(self):", "def __init__(self, size):").replace(
        INIT, f"{INIT}        self.size = size\n", 1
    )


def method(body: str) -> dict[str, str]:
    """A network with one more method."""
    return {"agent": f"{AGENT}\n\n    def extra(self, x):\n        {body}\n"}


UNCALLED = "\n\n    def load(self, path):\n        self.load_state_dict(torch.load(path))\n"
"""A method that would be a reason if it ran."""

STEADY = {
    "as it is": {},
    "a number": kept("1.5"),
    "a product of a shape": kept("int(np.array((2, 3)).prod())"),
    "numbers of numpy's": kept("float(np.log1p(2.0)) + np.mean((2, 3)) + np.maximum(2, 3)"),
    "a parameter": kept("nn.Parameter(torch.zeros(1))"),
    "layers in a list": kept("nn.Sequential(*[nn.Linear(2, 2), nn.Tanh()])"),
    "layers made in a comprehension": kept("nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])"),
    "layers in a dictionary": kept('nn.ModuleDict({"a": nn.Linear(2, 2)})'),
    "an option that it reads": {"agent": AGENT.replace("self.actor(x)", "self.actor(x) * args.clip_coef")},
    "an option": {
        "agent": given_size(),
        "make_agent": "agent = Agent(args.num_steps).to(device)",
    },
    "a function that reads parts": method("return self.critic(x) + self.actor[0].weight.mean()"),
    "arithmetic with a parameter": {
        "agent": kept("nn.Parameter(torch.zeros(1))")["agent"]
        + "\n\n    def extra(self, x):\n        return x * self.kept + self.kept[0]\n"
    },
    "arithmetic with a buffer": {
        "agent": AGENT.replace(INIT, f"{INIT}        self.register_buffer('scale', torch.ones(1))\n", 1)
        + "\n\n    def extra(self, x):\n        return x * self.scale\n"
    },
    "a loop over layers": {
        "agent": AGENT.replace(INIT, f"{INIT}        self.more = nn.ModuleList([nn.Linear(2, 2)])\n", 1)
        + "\n\n    def extra(self, x):\n        for layer in self.more:\n            x = layer(x)\n        return x\n"
    },
    "a loop over numbered layers": {
        "agent": AGENT.replace(INIT, f"{INIT}        self.more = nn.ModuleList([nn.Linear(2, 2)])\n", 1)
        + "\n\n    def extra(self, x):\n        for i, layer in enumerate(self.more):\n            x = layer(x[:, i])\n"
        "        return x\n"
    },
    "a method that calls the network itself": {
        "agent": AGENT
        + "\n\n    def forward(self, x):\n        return self.actor(x)\n"
        + "\n    def extra(self, x):\n        return self(x)\n"
    },
    "gradients are read": {"report": "print(sum(p.grad.norm().item() for p in agent.parameters()))"},
    "parameters are written to": {"report": "for p in agent.parameters():\n    p.data.mul_(0.9)"},
    "its weights are saved": {"report": 'torch.save(agent.state_dict(), "agent.pt")'},
    "train() without modes": {"head": "agent.train()"},
    "a function of the file calls it": {
        "functions": "def look(net, x):\n    return net.get_value(x)\n\n\n",
        "report": "print(look(agent, next_obs).shape)",
    },
    "super() with arguments": {"agent": AGENT.replace("super()", "super(Agent, self)", 1)},
    "a list several times": kept("nn.Sequential(*([nn.Tanh()] * 2))"),
    "a list of a list": kept("nn.Sequential(*list([nn.Tanh()]))"),
    "a list that grows": built(
        "made = [nn.Linear(2, 2)]\nmade.append(nn.Tanh())\nmade += [nn.Tanh()]\nself.kept = nn.Sequential(*made)"
    ),
    "a function of the constructor": built(
        "width = 2\ndef start(n):\n    return nn.Sequential(nn.Linear(2, width))\nself.kept = start(3)",
        before_loop="start = 1",
    ),
    "an annotated number": built("size: int = 2\nself.kept: int = size"),
    "a number of math's": {**kept("math.pi"), "stdlib": "import math"},
    "an attribute of its own": built("self.one = 1\nself.kept = self.one + 1"),
    "an attribute made of itself": built("self.kept = 1\nself.kept = self.kept + 1"),
    "options as an argument": {
        "agent": AGENT.replace("def __init__(self):", "def __init__(self, given):").replace(
            INIT, f"{INIT}        self.kept = given.num_steps\n", 1
        ),
        "make_agent": "agent = Agent(args).to(device)",
    },
    "sizes of spaces": {
        "agent": AGENT.replace("def __init__(self):", "def __init__(self, envs):").replace(
            INIT,
            f"{INIT}        space = envs.single_action_space\n        self.kept = space.n\n",
            1,
        ),
        "make_agent": "agent = Agent(envs).to(device)",
    },
    "a size of an agent's space": {
        "agent": given_size(),
        "make_agent": "agent = Agent(envs.action_space(0).n).to(device)",
    },
    "a result of a class with numbers only": {
        "agent": "class Sizes:\n    def total(self):\n        return 2 * 3\n\n\n" + given_size(),
        "make_agent": "sizes = Sizes()\nagent = Agent(sizes.total()).to(device)",
    },
    "a bias that is set when it is made": built(
        "layer = nn.Linear(2, 2)\nlayer.bias.data = torch.zeros(2)\nself.kept = layer"
    ),
    "a method that changes a local": method("y = x * 2\n        y[0] = 1\n        return y"),
    "torch's function on a parameter": {
        "agent": kept("nn.Parameter(torch.zeros(1))")["agent"]
        + "\n\n    def extra(self, x):\n        return x * torch.exp(self.kept)\n"
    },
    "a function that initialises a layer": built(
        "self.kept = initialised(nn.Linear(2, 2))",
        "def initialised(layer):\n    layer.bias.data = torch.zeros(2)\n    return layer\n\n\n",
    ),
    "a layer that is picked": {
        "agent": kept("nn.ModuleList([nn.Linear(2, 2)])")["agent"]
        + "\n\n    def extra(self, x):\n        return self.kept[0](x)\n"
    },
    "it is compared": {"report": "assert agent is not None"},
    "its mode is read": {"report": "if agent.training:\n    pass"},
    "its device is read": {"report": "print(next(agent.parameters()).is_cuda)"},
    "parameters() without a use": {"report": "agent.parameters()"},
    "an attribute is read": {"report": "print(1 if not agent.training else 2)"},
    "a method that is never called": {"agent": f"{AGENT}{UNCALLED}"},
    "a method that is called after training": {"agent": f"{AGENT}{UNCALLED}", "end": "agent.load('a')"},
    "methods that only call each other": {
        "agent": f"{AGENT}{UNCALLED}\n    def reload(self, path):\n        self.load(path)\n"
    },
    "a function that replaces an import": {
        "third_party": "from other import look",
        "functions": "def look(net, x):\n    return net.get_value(x)\n\n\n",
        "report": "print(look(agent, next_obs).shape)",
    },
    "parameters are printed": {"report": "for p in agent.parameters():\n    print(p)"},
    "parts are frozen above the loop": {
        "before_loop": "for p in agent.critic.parameters():\n    p.requires_grad = False"
    },
}


@pytest.mark.parametrize(
    ("functions", "value"),
    [
        ("def deeper(n):\n    return deeper(n + 1) if n < 3 else n\n\n\n", "deeper(1)"),
        ("def one(n):\n    return two([n])\n\n\ndef two(n):\n    return one([n, n])\n\n\n", "one(1)"),
    ],
)
def test_functions_that_call_themselves(functions: str, value: str) -> None:
    told = reason(functions=functions, **kept(value))
    assert told is not None and told.endswith("reached by too many nested calls")
    source = script({"functions": functions, **kept(value)})
    assert converted_by(source, "tensor-lr", "evaluate-once", "update", "one-graph", "cudagraphs").converted


def test_an_expression_may_be_long() -> None:
    assert reason(**kept(" + ".join(["1"] * 100))) is None


@pytest.mark.parametrize("name", STEADY)
def test_steady(name: str) -> None:
    assert reason(**STEADY[name]) is None


CHANGING = {
    "layers added to others": method(
        "more = self.critic + nn.Sequential()\n        more[0] = nn.Tanh()\n        return x"
    ),
    "parameters added to others": {
        "agent": kept("nn.ParameterList([nn.Parameter(torch.zeros(1))])")["agent"]
        + "\n\n    def extra(self, x):\n        more = self.kept + []\n        return x\n"
    },
    "a function": kept("lambda x: x"),
    "a list": kept("[1.0]"),
    "an array": kept("np.array([1.0])"),
    "products along a dimension": kept("np.prod(((2, 3), (4, 5)), 0)"),
    "sums along a dimension": kept("np.array([[2, 3], [4, 5]]).sum(axis=0)"),
    "an array that numpy writes to": kept("np.add(2, 3, out=[1.0])"),
    "a sorted list": kept("sorted((2, 1))"),
    "an iterator": kept("zip((1, 2), (3, 4))"),
    "a list in a list": {"agent": given_size(), "make_agent": "sizes = [[1.0]]\nagent = Agent(sizes[0]).to(device)"},
    "an array of the file": {
        "agent": "SCALE = np.array([1.0])\n\n\n" + AGENT.replace("self.actor(x)", "self.actor(x) * float(SCALE[0])"),
        "head": "SCALE[0] *= 0.9",
    },
    "a list of layers": kept("[nn.Linear(2, 2)]"),
    "a tensor": kept("torch.ones(1)"),
    "a generator": kept("torch.Generator()"),
    "a counter": kept("itertools.count()"),
    "a file": kept("open('x')"),
    "dropout": kept("nn.Dropout(0.5)"),
    "batch norm": kept("nn.BatchNorm1d(2)"),
    "dropout of a recurrent layer": kept("nn.LSTM(2, 2, 2, dropout=0.5)"),
    "spectral norm": kept("nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))"),
    "an argument that is kept": {
        "agent": AGENT.replace("def __init__(self):", "def __init__(self, given):").replace(
            INIT, f"{INIT}        self.given = given\n", 1
        ),
        "make_agent": "agent = Agent(lambda: 1.0).to(device)",
    },
    "parts made outside, with other names": {
        "agent": AGENT.replace("def __init__(self):", "def __init__(self, critic, actor):")
        .replace("self.critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))", "self.critic = critic")
        .replace("self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))", "self.actor = actor"),
        "make_agent": "critic, actor = nn.Linear(2, 1), nn.Linear(2, 2)\nagent = Agent(critic, actor).to(device)",
    },
    "a part made by one of two calls": {
        "functions": "class Head(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.n = n\n\n\ndef make(n):\n    return Head(n)\n\n\n",
        **built("self.one = make(1)\nself.two = make([1.0])"),
    },
    "spread arguments": {"make_agent": "agent = Agent(*()).to(device)"},
    "a class attribute": {"agent": AGENT.replace("    def __init__", "    temp = 1.0\n\n    def __init__", 1)},
    "another base": {"agent": AGENT.replace("nn.Module", "nn.Sequential", 1)},
    "a method of torch redefined": {"agent": AGENT + "\n\n    def train(self, mode=True):\n        return self\n"},
    "an attribute by __getattr__": {"agent": AGENT + "\n\n    def __getattr__(self, name):\n        return 1\n"},
    "a property": {"agent": AGENT + "\n\n    @property\n    def temp(self):\n        return 1\n"},
    "a call of itself without forward()": method("return self(x)"),
    "a method that sets": method("self.calls = 1"),
    "a method that sets a mode": method("self.actor.training = False"),
    "a method that passes self on": method("return print(self)"),
    "a method that gives a part another name": method("net = self.actor\n        net.append(nn.Tanh())"),
    "a method that changes a part": method("self.actor.append(nn.Tanh())"),
    "a method that reads a changing name": {**method("return x / iteration")},
    "a method that changes a numbered layer": {
        "agent": AGENT.replace(INIT, f"{INIT}        self.more = nn.ModuleList([nn.Sequential()])\n", 1)
        + "\n\n    def extra(self, x):\n        for i, layer in enumerate(self.more):\n            layer.append(x)\n"
    },
    "numpy's generator": method("return x + np.random.rand()"),
    "a mutable default": {"agent": AGENT + "\n\n    def extra(self, x, seen=[]):\n        return x\n"},
    "a function that keeps the network": {
        "agent": AGENT.replace(INIT, f"{INIT}        keep(self)\n", 1),
        "functions": "ALL = []\n\n\ndef keep(net):\n    ALL.append(net)\n\n\n",
    },
    "a function of the constructor that keeps the layer": built(
        "def start(n):\n    MADE.append(nn.Linear(2, n))\n    return MADE[-1]\nself.kept = start(3)", "MADE = []\n\n\n"
    ),
    "a function of the constructor that is bound twice": built(
        "def start(n):\n    return nn.Linear(2, n)\nif args.seed:\n    start = other\nself.kept = start(3)"
    ),
    "a function of the constructor that is kept": built(
        "def start(n):\n    return nn.Linear(2, n)\nself.kept, self.start = start(3), start"
    ),
    "a function of the constructor that is passed on": built(
        "def start(n):\n    return nn.Linear(2, n)\nself.kept = nn.Linear(2, 2)\nother(start)"
    ),
    "a function of the constructor that sets an attribute": built(
        "def start(n):\n    self.more = [n]\n    return nn.Linear(2, n)\nself.kept = start(3)"
    ),
    "a function of the constructor with an unknown value": built(
        "made = other()\ndef start(n):\n    return nn.Sequential(nn.Linear(2, n), made)\nself.kept = start(3)"
    ),
    "a layer in a list of the script": built(
        "part = nn.Linear(2, 2)\nALL.append(part)\nself.kept = part", "ALL = []\n\n\n"
    ),
    "a function that puts a layer into a list of the script": built(
        "self.kept = keep(nn.Linear(2, 2))",
        "ALL = []\n\n\ndef keep(layer):\n    ALL.append(layer)\n    return layer\n\n\n",
    ),
    "a function that puts a layer into its default": built(
        "self.kept = keep(nn.Linear(2, 2))", "def keep(layer, kept=[]):\n    kept.append(layer)\n    return layer\n\n\n"
    ),
    "a function that keeps a layer as its attribute": built(
        "self.kept = keep(nn.Linear(2, 2))", "def keep(layer):\n    keep.weight = layer\n    return layer\n\n\n"
    ),
    **{
        f"a function of a name that {what}": built("self.kept = start(nn.Linear(2, 2))", f"{START}{again}\n\n\n")
        for what, again in {
            "an exception gets": "try:\n    pass\nexcept ValueError as start:\n    pass",
            "a pattern gets": "match print:\n    case start:\n        pass",
            "is defined again": "if print:\n    def start(layer):\n        return [layer]",
            "is imported": "from other import start",
        }.items()
    },
    "a layer whose name the file redefines": {
        **built("self.kept = Linear(2, 2)", "def Linear(a, b):\n    return [a, b]\n\n\n"),
        "third_party": "from torch.nn import Linear",
    },
    "a layer of a module bound in the constructor": built("nn = other\nself.kept = nn.Linear(2, 2)"),
    "a decorated function": built("self.kept = start(nn.Linear(2, 2))", f"@other\n{START}"),
    "a decorated function that is given the network": {
        "functions": "@other\ndef look(net):\n    return 1\n\n\n",
        "report": "look(agent)",
    },
    "a class whose name is imported later": {"agent": f"{AGENT}\n\nfrom other import Agent\n"},
    "an attribute of an unknown object": kept("other.size"),
    "a constant of torch that is no number": kept("torch.float32"),
    "the result of an unknown object": kept("make()().size()"),
    "the variable of a with block": built("with open('x') as f:\n    self.kept = f"),
    "a name that training sets": {
        "agent": kept("size")["agent"],
        "setup": PARTS["setup"] + "\nsize = 1",
        "functions": "def grow():\n    global size\n    size += 1\n\n\n",
        "head": "grow()",
    },
    "a method defined twice": {"agent": AGENT + "\n\n    def get_value(self, x):\n        return self.critic(x)\n"},
    "a buffer with a computed name": {
        "agent": built("self.register_buffer(str(self.actor), torch.ones(1))")["agent"]
        + "\n\n    def extra(self, x):\n        return x * self.total\n"
    },
    "a result of a class that reads a global": {
        "agent": "class Sizes:\n    def total(self):\n        return len(MADE)\n\n\n" + given_size(),
        "make_agent": "sizes = Sizes()\nagent = Agent(sizes.total()).to(device)",
    },
    "an entry of a global that the constructor sets": built("MADE[0] = 1", "MADE = {}\n\n\n"),
    "torch's function that changes a part": method("return torch.relu_(self.actor[0].weight)"),
    "a function made by a function": method("return make()(x)"),
    "a method under another name": method("f = self.get_value\n        return f(x)"),
    "layers zipped with inputs": {
        "agent": kept("nn.ModuleList([nn.Linear(2, 2)])")["agent"]
        + "\n\n    def extra(self, x):\n        for a, b in zip(self.kept, x):\n            x = a(b)\n"
        "        return x\n"
    },
    "a method that returns parameters": {
        "agent": AGENT + "\n\n    def weights(self):\n        return self.actor.parameters()\n\n"
        "    def extra(self, x):\n        return self.weights()\n"
    },
    "a method with a function in it": method("f = lambda: x\n        return f()"),
    "the script as a module": {"head": "importlib.import_module('__main__').agent = None"},
    "parameters that are given away": {"report": "for p in agent.parameters():\n    keep(p)"},
    **{
        f"an option that it reads, set {how}": {
            "agent": AGENT.replace("self.actor(x)", "self.actor(x) * args.clip_coef"),
            "functions": f"{functions}\n\n\n",
            "before_loop": before,
            "head": head,
        }
        for how, functions, before, head in (
            ("by an object that is called", f"class S:\n    def __call__(self):\n        {COOL}", "s = S()", "s()"),
            ("in a with block", f"class S:\n    def __exit__(self, *a):\n        {COOL}", "", "with S():\n    pass"),
            ("by a constructor", f"class S:\n    def __init__(self):\n        {COOL}", "", "S()"),
            ("under another name", f"def cool():\n    {COOL}", "again = cool", "again()"),
            ("from a list", f"def cool():\n    {COOL}", "all = [cool]", "all[0]()"),
            ("by a generator", f"def cool():\n    while True:\n        {COOL}\n        yield", "g = cool()", "next(g)"),
            ("by its text", "", "", "setattr(args, 'clip_coef', 0.9 / iteration)"),
            ("among its variables", "", "d = vars(args)", "d['clip_coef'] *= 0.9"),
            ("under another name of all options", "", "a = args", "a.clip_coef *= 0.9"),
        )
    },
    **{
        f"a method that loads, {how}": {"agent": f"{AGENT}{UNCALLED}", **more}
        for how, more in {
            "called in the loop": {"head": "agent.load('a')"},
            "called above it": {"before_loop": "agent.load('a')"},
            "kept under another name": {"before_loop": "again = agent.load"},
            "called by a function": {"functions": "def again(net):\n    net.load('a')\n\n\n", "head": "again(agent)"},
            "found by its name": {"head": "getattr(agent, 'load')('a')"},
            "called by another method": {
                "agent": f"{AGENT}{UNCALLED}\n    def reload(self):\n        self.load('a')\n",
                "head": "agent.reload()",
            },
        }.items()
    },
    "a method that the constructor finds by a computed name": {
        "agent": f"{AGENT}{UNCALLED}".replace(INIT, f"{INIT}        self.late = getattr(self, 'lo' + 'ad')\n", 1),
        "head": "agent.late('a')",
    },
    "a method of its class under another name": {
        "functions": "def other(self, x):\n    return x\n\n\n",
        "before_loop": "kind = Agent",
        "head": "kind.get_value = other",
    },
    "its class in a container": {"before_loop": "kinds = {'a': Agent}"},
    "its class is given away": {"before_loop": "keep(Agent)"},
    "a method that torch calls": {
        "agent": f"{AGENT}\n\n    def forward(self, x):\n        self.load_state_dict(torch.load('a'))\n"
    },
    "a method that Python calls": {
        "agent": f"{AGENT}\n\n    def __bool__(self):\n        self.load_state_dict(torch.load('a'))\n"
    },
    "its constructor again": {"head": "agent.__init__()"},
    "its constructor again, by a method": {
        "agent": f"{AGENT}\n\n    def anew(self):\n        self.__init__()\n",
        "head": "agent.anew()",
    },
    "a parameter under a plus sign": {
        "agent": kept("nn.Parameter(torch.zeros(1))")["agent"],
        "head": "(+agent.kept).requires_grad_(False)",
    },
    "parameters in a dictionary": {"head": "for p in agent.state_dict(keep_vars=True).values():\n    p.grad = None"},
    "a function of the file with the name of torch's": {
        "third_party": "from copy import deepcopy",
        "functions": "def deepcopy(net):\n    net.critic = None\n\n\n",
        "head": "deepcopy(agent)",
    },
    "a function of the file with the name of Python's": {
        "functions": "def print(net):\n    net.critic = None\n\n\n",
        "head": "print(agent)",
    },
    "a function whose name is imported later": {
        "functions": "def look(net, x):\n    return net.get_value(x)\n\n\nfrom other import look\n\n\n",
        "report": "print(look(agent, next_obs).shape)",
    },
    "an attribute made of itself by an unknown function": built("self.kept = 1\nself.kept = other(self.kept)"),
    "an attribute made of itself alone": built("self.kept += 1"),
    "passed to a decorator": {"before_loop": "@keep(agent)\ndef f():\n    pass"},
    "another name": {"before_loop": "net = agent"},
    "a list of networks": {"before_loop": "nets = [agent]"},
    "a part under another name": {"before_loop": "part = agent.critic"},
    "a part is set": {"head": "agent.critic = nn.Linear(2, 1)"},
    "an element of a part is set": {"head": "agent.critic[0] = nn.Linear(2, 8)"},
    "a part grows": {"head": "agent.critic.append(nn.Identity())"},
    "set_submodule": {"head": 'agent.set_submodule("critic.0", nn.Linear(2, 8))'},
    "a part by text": {"head": 'getattr(agent, "critic")[0] = nn.Linear(2, 8)'},
    "modules": {"head": "for m in agent.modules():\n    m.training = False"},
    "apply": {"head": "agent.apply(print)"},
    "another dtype": {"head": "if iteration == 2:\n    agent.double()"},
    "load_state_dict that assigns": {"head": "agent.load_state_dict(agent.state_dict(), assign=True)"},
    "pruning": {"head": 'nn.utils.prune.l1_unstructured(agent.critic[0], "weight", 1)'},
    "swapped tensors": {"head": "torch.utils.swap_tensors(agent.critic[0].weight, nn.Parameter(torch.ones(8, 2)))"},
    "a hook": {"head": "agent.register_forward_hook(print)"},
    "a hook on all modules": {"head": "torch.nn.modules.module.register_module_forward_hook(print)"},
    "a buffer": {"head": 'agent.register_buffer("b", torch.ones(1))'},
    "frozen in the loop": {"head": "for p in agent.parameters():\n    p.requires_grad_(False)"},
    "frozen through the optimizer": {
        "head": 'for group in optimizer.param_groups:\n    for p in group["params"]:\n        p.requires_grad = False'
    },
    "other memory": {"head": "for p in agent.parameters():\n    p.data = p.data.clone()"},
    "moved in the loop": {"head": 'agent.to("cpu")'},
    "made in the loop": {"head": "agent = Agent()"},
    "made in a function": {
        "functions": "def anew():\n    global agent\n    agent = Agent()\n\n\n",
        "head": "anew()",
    },
    "given to unknown code": {"before_loop": "wandb.watch(agent)", "third_party": "import wandb"},
    "in a closure": {"before_loop": "change = lambda: agent.critic.append(nn.Identity())"},
    "a replaced function of torch": {"head": "torch.nn.functional.tanh = torch.relu"},
    "a method of the class": {"head": "Agent.get_value = None"},
    "torch's precision": {"head": "torch.set_default_dtype(torch.float64)"},
    "a name by text": {"head": 'globals()["agent"].critic = None'},
    "an attribute by text": {"head": 'setattr(agent, "critic", None)'},
}


@pytest.mark.parametrize("name", CHANGING)
def test_not_known_to_be_steady(name: str) -> None:
    assert reason(**CHANGING[name]) is not None


def restructured(**parts: str) -> str | None:
    """Why parameters of the skeleton's network may be replaced; None if they stay."""
    return recognise(read(script(parts), 120)).history.restructured.get("agent")


BUILT = AGENT.replace(INIT, f"{INIT}        self.build()\n", 1) + (
    "\n\n    def build(self):\n        self.more = nn.Linear(2, 2)\n"
)
"""A constructor that calls a method to make a layer."""
SAVING = "\n\n    def write(self):\n        torch.save(self.actor.state_dict(), 'a')\n"
WIDE = "class Wide(Agent):\n    def __init__(self):\n        super().__init__()\n\n\n"
KEEPS = f"{WIDE.rstrip()}\n\n    def keep(self, kept):\n        kept.append(self)\n\n\n"
EITHER = f"part = nn.Linear(2, 2)\nif args.seed:\n    {PARTS['make_agent'].strip()}\nelse:\n    agent = Wide()"
HELD = "class Held(Agent):\n    def __init__(self, part):\n        super().__init__()\n        self.part = part\n\n\n"
OTHER = f"{PARTS['make_agent']}\nother = Agent()"
RENAMED = "net = agent\nif iteration > 9:\n    net = copy.deepcopy(agent).cpu()\ntorch.save(net, 'a')"
CHOSEN = "with torch.no_grad():\n    net = other if args.seed else agent\n"


@pytest.mark.parametrize(
    "parts",
    [
        {"agent": BUILT},
        {"agent": BUILT.replace("super()", "super(Agent, self)", 1)},
        {"agent": BUILT.replace("super().__init__()", "nn.Module.__init__(self)", 1)},
        {"agent": f"{AGENT}\n\n    def load(self):\n        self.actor = torch.load('a')\n"},
        {"agent": f"{AGENT}{SAVING}", "head": "agent.write()"},
        {"agent": f"{AGENT}{UNCALLED}", "head": "agent.load('a') if iteration > 9 else None"},
        {"head": "print(not agent.training)"},
        {
            "functions": "def look(net: Agent | None, nets: list[Agent]) -> Agent:\n"
            "    assert isinstance(net, Agent)\n\n\n",
            "before_loop": "class Other(Agent):\n    pass",
            "head": "print(Agent.__name__)",
            "end": "evaluate(Model=Agent)",
        },
        {"make_agent": OTHER, "head": f"{CHOSEN}    print(net.get_value(next_obs).shape)"},
        {"third_party": "import copy", "report": RENAMED},
        {"head": "net = agent\nlast = net\nprint(last.get_value(next_obs).shape)"},
        {"functions": WIDE, "make_agent": EITHER},
    ],
    ids=[
        "made by a method",
        "made by a method of Python 2",
        "made by a method, with its base class called by name",
        "not called",
        "a part is saved",
        "values are loaded",
        "asked",
        "its class is named",
        "one of two",
        "under another name, or a copy",
        "under two other names",
        "made by one of two calls",
    ],
)
def test_parameters_that_stay(parts: dict[str, str]) -> None:
    assert restructured(**parts) is None


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"agent": BUILT, "head": "agent.build()"}, "sets self.more"),
        ({"functions": WIDE, "make_agent": EITHER.replace("else:", "if not args.seed:")}, "exactly one call"),
        ({"functions": WIDE, "make_agent": EITHER.replace("else:\n    ", "")}, "exactly one call"),
        ({"functions": KEEPS, "make_agent": EITHER}, "passes self on"),
        ({"functions": WIDE + HELD, "make_agent": EITHER.replace("Wide()", "Held(part)")}, "which has other names"),
        ({"agent": BUILT, "before_loop": "again = agent.build", "head": "again()"}, "sets self.more"),
        ({"agent": BUILT.replace("self.build()", "self.late = lambda: self.build()", 1)}, "sets self.more"),
        (
            {
                "agent": f"{BUILT}\n    def frost(self):\n        self.more.requires_grad_(False)\n",
                "head": "agent.frost()",
            },
            "uses self.more in a way",
        ),
        ({"agent": BUILT.replace("nn.Module", "nn.Sequential", 1)}, "sets self.more"),
        (
            {"agent": f"{BUILT}\n    def anew(self):\n        super().__init__()\n", "head": "agent.anew()"},
            "constructor",
        ),
        (
            {"agent": f"{BUILT}        self.more = other(self.more)\n", "head": "agent.build()"},
            "sets self.more",
        ),
        ({"agent": BUILT.replace("self.more =", "yield\n        self.more =", 1)}, "sets self.more"),
        ({"agent": BUILT.replace("self.build()", "self.late = (self.build() for _ in 'a')", 1)}, "sets self.more"),
        (
            {"agent": BUILT.replace(INIT, f"{INIT}        self.late = getattr(self, 'bu' + 'ild')\n", 1)},
            "passes self on",
        ),
        ({"agent": BUILT.replace(INIT, f"{INIT}        LATE.append(self)\n", 1)}, "passes self on"),
        ({"agent": AGENT.replace(INIT, f"{INIT}        LATE.append(self)\n", 1)}, "passes self on"),
        ({"agent": f"@rebuilding\n{BUILT}"}, "has decorators, keywords or bases that may change it"),
        (
            {"agent": BUILT.replace("nn.Module", "nn.Module, metaclass=Rebuilding", 1)},
            "has decorators, keywords or bases",
        ),
        ({"agent": f"{BUILT}        KEPT.append(self)\n"}, "passes self on"),
        ({"agent": f"{BUILT}        KEPT.append(self.more)\n"}, "uses self.more in a way"),
        ({"agent": f"{BUILT}        self.thaw = lambda: self.more.requires_grad_(True)\n"}, "self.more"),
        ({"head": "agent.__init__()"}, "calls agent.__init__()"),
        ({"head": "Agent.get_value = other"}, "uses Agent, whose methods may"),
        ({"before_loop": "kind = Agent"}, "uses Agent, whose methods may"),
        (
            {
                "agent": f"{AGENT}{SAVING.replace('state_dict()', 'state_dict(keep_vars=True)')}",
                "head": "agent.write()",
            },
            "uses self.actor in a way",
        ),
        (
            {"agent": f"{AGENT}{SAVING.replace('torch.save', 'keep')}", "head": "agent.write()"},
            "uses self.actor in a way",
        ),
        ({"make_agent": OTHER, "head": "net = other if args.seed else agent\nnet.get_value(next_obs)"}, "uses net"),
        ({"make_agent": OTHER, "head": f"{CHOSEN}    net.requires_grad_(False)"}, "uses net"),
        ({"make_agent": OTHER, "head": f"{CHOSEN}    net.actor = None"}, "uses net"),
        ({"make_agent": OTHER, "head": f"{CHOSEN}    net.actor(next_obs)"}, "uses net"),
        ({"make_agent": OTHER, "head": f"{CHOSEN}    net.__init__()"}, "uses net"),
        ({"make_agent": OTHER, "head": f"{CHOSEN}    keep(net)"}, "uses net"),
        ({"make_agent": OTHER, "head": f"{CHOSEN}net.get_value(next_obs)"}, "uses net"),
        ({"make_agent": OTHER, "head": f"{CHOSEN}    do = lambda: net.zero_grad()"}, "uses net"),
        ({"head": "net = agent\nnet.critic = nn.Linear(2, 1)"}, "sets net.critic"),
        ({"before_loop": "net = agent", "head": "net.critic[0] = nn.Linear(2, 8)"}, "sets net.critic[0]"),
        ({"before_loop": "net = agent", "head": "net.critic.append(nn.Identity())"}, "calls net.critic.append()"),
        ({"head": "net = agent\nlast = net\nlast.requires_grad_(False)"}, "calls last.requires_grad_()"),
        ({"head": "net = agent\nfor p in net.parameters():\n    p.requires_grad = False"}, "sets requires_grad of p"),
        ({"head": "net = agent\nkeep(net)"}, "gives net to keep()"),
        ({"head": "net = agent\nnets = [net]"}, "uses net"),
        ({"head": "net = agent\nargs.net = net"}, "another name"),
        ({"head": "net, other = agent, 1"}, "uses agent"),
        ({"head": "net = other = agent\nother.actor = None"}, "another name"),
        ({"head": "class Held:\n    net = agent\nHeld.net.actor = None"}, "another name"),
        ({"functions": "def cut():\n    net.critic = None\n\n\n", "head": "net = agent\ncut()"}, "sets net.critic"),
        (
            {"functions": "def cut():\n    global net\n    net = None\n\n\n", "head": "net = agent"},
            "functions may rebind",
        ),
        ({"head": "net = agent\nagent = net"}, "agent"),
        ({"make_agent": OTHER, "head": "args.net = other if args.seed else agent"}, "another name"),
        ({"make_agent": OTHER, "head": "(other if args.seed else agent).requires_grad_(False)"}, "another name"),
        (
            {
                "make_agent": OTHER,
                "head": "class Held:\n    net = other if args.seed else agent\nHeld.net.actor = None",
            },
            "another name",
        ),
    ],
)
def test_parameters_that_may_be_replaced(parts: dict[str, str], why: str) -> None:
    found = restructured(**parts)
    assert found is not None
    assert why in found


def test_both_networks_report_an_unknown_part() -> None:
    part = "class Part(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.f = print\n\n\n"
    agent = kept("Part()")["agent"]
    optimizer = "optimizer = optim.Adam([*agent.parameters(), *other.parameters()], lr=args.learning_rate, eps=1e-5)"
    parts = {"agent": part + agent, "make_agent": f"{PARTS['make_agent']}\nother = Agent()", "optimizer": optimizer}
    unsteady = recognise(read(script(parts), 120)).history.unsteady
    assert unsteady.keys() == {"agent", "other"}
    assert len({why.partition(" keeps ")[2] for why in unsteady.values()}) == 1


@pytest.mark.parametrize(
    "head",
    [
        'optimizer.param_groups[0]["params"][0].requires_grad = False',
        "grow(agent)\ngrow(other)",
    ],
)
def test_both_networks_report_a_use_of_both(head: str) -> None:
    parts = {
        "functions": "def grow(net):\n    net.critic.append(nn.Identity())\n\n\n",
        "make_agent": f"other = Agent()\n{PARTS['make_agent']}",
        "optimizer": "optimizer = optim.Adam([*other.parameters(), *agent.parameters()], lr=args.learning_rate)",
        "head": head,
    }
    assert recognise(read(script(parts), 120)).history.unsteady.keys() == {"agent", "other"}


def test_tables_agree_with_torch() -> None:
    torch = pytest.importorskip("torch")
    own = {name for name in dir(torch.nn.Module) if not name.startswith("_") and "hook" not in name}
    assert own - {"forward"} <= OF_MODULE
    assert all(issubclass(getattr(torch.nn, name), torch.nn.Module) for name in LAYERS | MODULE_CONTAINERS)


def test_the_reason_has_the_line_of_the_original() -> None:
    why = reason(head="agent.critic.append(nn.Identity())")
    source = script({"head": "agent.critic.append(nn.Identity())"}).splitlines()
    line = next(n for n, text in enumerate(source, 1) if "append(nn.Identity())" in text)
    assert why is not None and why.startswith(f"original line {line} ")


@pytest.mark.parametrize(
    ("kept", "use", "known"),
    [
        ("3", "other(agent.kept)", True),
        ("'a' if len(str(x)) else 'b'", "other(agent.kept)", True),
        ("isinstance(x, int)", "again = agent.kept\nother(again)", True),
        ("isinstance(x, int)", "other([agent.kept], n=agent.kept)", True),
        ("[1]", "other(agent.kept)", False),
        ("self.critic", "other(agent.kept)", False),
        ("self.critic if x else 3", "other(agent.kept)", False),
        ("unknown(x)", "other(agent.kept)", False),
    ],
)
def test_an_option_that_a_network_keeps(kept: str, use: str, known: bool) -> None:
    made = PARTS["agent"].replace("super().__init__()", "super().__init__()\n        x = 1", 1)
    agent = made.replace("\n\n    def get_value", f"\n        self.kept = {kept}\n\n    def get_value", 1)
    found = restructured(agent=agent, third_party="from judges import other, unknown", before_loop=use)
    assert (found is None) is known
