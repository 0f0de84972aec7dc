"""What hostile scripts do to their networks and optimizers: statements, and what a network needs for them.

In a statement NET stands for the network, ACTOR and CRITIC for its parts, OPT for the optimizer, however they are
reached. Each may run any number of times.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Effect:
    """Something that is done, and the parts of a script that it needs."""

    title: str
    does: str
    init: str = ""
    """Statements at the end of the network's constructor."""
    logits: str = "self.actor(x)"
    value: str = "self.critic(x)"
    layer: str = ""
    """A layer of the actor behind its first one."""
    functions: str = ""
    """Classes and functions of the file."""
    imports: str = ""
    given: str = ""
    """What the network's constructor is given, as `name=expression`."""
    parts: dict[str, str] = field(default_factory=dict)
    """Other parts of the script."""
    only: str = ""
    """A regular expression for the titles of places where it makes sense; everywhere where empty."""


SHIFT = "torch.full((2,), 0.1)"
SCHEDULE = """
class Schedule:
    def __init__(self):
        self.value = 1.0

    def step(self):
        self.value *= 0.9

    def get(self):
        return self.value


"""
MOVE = "with torch.no_grad():\n    "
UPDATES = "minibatch|optimized|epoch|epoch done|report|head|before the loop|rollout done"
"""Places outside of torch.no_grad() at which gradients may be switched."""

MODES = [
    Effect("train() and eval() of a part", "ACTOR.train(not ACTOR.training)", layer="nn.Dropout(0.3)"),
    Effect("eval() of a part", "ACTOR.eval()", layer="nn.Dropout(0.3)"),
    Effect("train() and eval() of the network", "NET.train(not NET.training)", layer="nn.Dropout(0.3)"),
    Effect(
        "training set on every module",
        "for module in NET.modules():\n    module.training = not module.training",
        layer="nn.Dropout(0.3)",
    ),
    Effect("modes set by apply()", "NET.apply(lambda module: module.train(False))", layer="nn.Dropout(0.3)"),
    Effect("eval() of a layer", "ACTOR[1].eval()", layer="nn.Dropout(0.3)"),
    Effect("eval() of the last child", "list(ACTOR.children())[1].train(False)", layer="nn.AlphaDropout(0.3)"),
    Effect("an annealed Dropout", "ACTOR[1].p = 0.9 * ACTOR[1].p", layer="nn.Dropout(0.3)"),
    Effect(
        "dropout by a function that asks for the mode",
        "NET.training = not NET.training",
        logits="nn.functional.dropout(self.actor(x), 0.3, self.training)",
    ),
    Effect("the mode of a BatchNorm", "ACTOR.train(not ACTOR.training)", layer="nn.BatchNorm1d(8)"),
    Effect("a BatchNorm that follows its input in training alone", "ACTOR.eval()", layer="nn.BatchNorm1d(8)"),
    Effect("the momentum of a BatchNorm", "ACTOR[1].momentum = 0.5 * ACTOR[1].momentum", layer="nn.BatchNorm1d(8)"),
    Effect("a RReLU, which draws in training", "ACTOR.train(not ACTOR.training)", layer="nn.RReLU()"),
]

STATE = [
    Effect("a number as attribute", "NET.temp *= 0.9", init="self.temp = 1.0", logits="self.actor(x) / self.temp"),
    Effect(
        "a number set by setattr()",
        'setattr(NET, "temp", NET.temp * 0.9)',
        init="self.temp = 1.0",
        logits="self.actor(x) / self.temp",
    ),
    Effect(
        "a number in __dict__",
        'NET.__dict__["temp"] *= 0.9',
        init="self.temp = 1.0",
        logits="self.actor(x) / self.temp",
    ),
    Effect(
        "a number in vars()",
        "vars(NET).update(temp=NET.temp * 0.9)",
        init="self.temp = 1.0",
        value="self.critic(x) * self.temp",
    ),
    Effect(
        "a number in a list",
        "NET.temps.append(NET.temps[-1] * 0.9)",
        init="self.temps = [1.0]",
        logits="self.actor(x) / self.temps[-1]",
    ),
    Effect(
        "a number in a dictionary",
        'NET.settings["temp"] *= 0.9',
        init='self.settings = {"temp": 1.0}',
        logits='self.actor(x) / self.settings["temp"]',
    ),
    Effect(
        "a number of the class",
        "type(NET).temp = 0.9 * type(NET).temp",
        init="type(self).temp = 1.0",
        logits="self.actor(x) / self.temp",
    ),
    Effect(
        "a number of a layer",
        "CRITIC[0].gain = 0.9 * CRITIC[0].gain",
        init="self.critic[0].gain = 1.0",
        value="self.critic(x) * self.critic[0].gain",
    ),
    Effect(
        "an array as attribute",
        "NET.scale[0] *= 0.9",
        init="self.scale = np.ones(2, dtype=np.float32)",
        logits="self.actor(x) * torch.from_numpy(self.scale)",
    ),
    Effect(
        "a tensor as attribute, replaced",
        "NET.shift = NET.shift + 0.1",
        init="self.shift = torch.zeros(2)",
        logits="self.actor(x) * (1 + self.shift[0])",
    ),
    Effect(
        "a tensor as attribute, changed in place",
        "NET.shift[0] += 0.1",
        init="self.shift = torch.zeros(2)",
        logits="self.actor(x) + self.shift",
    ),
    Effect(
        "a tensor that is trained and no parameter",
        MOVE + "NET.shift.mul_(0.9)",
        init="self.shift = torch.full((2,), 0.1).requires_grad_(True)",
        logits="self.actor(x) + self.shift",
        parts={"optimizer": "optimizer = optim.Adam([*agent.parameters(), agent.shift], lr=args.learning_rate)"},
    ),
    Effect(
        "a trained tensor in a list",
        MOVE + "NET.shifts[0].mul_(0.9)",
        init="self.shifts = [torch.full((2,), 0.1, requires_grad=True)]",
        logits="self.actor(x) + self.shifts[0]",
        parts={"optimizer": "optimizer = optim.Adam([*agent.parameters(), *agent.shifts], lr=args.learning_rate)"},
    ),
    Effect(
        "a list of modules",
        "NET.heads.append(nn.Linear(2, 2))",
        init="self.heads = [nn.Linear(2, 2)]",
        logits="self.actor(x) + sum(head(x) for head in self.heads)",
    ),
    Effect(
        "an encoder held in a list, replaced",
        "NET.encoder[0] = nn.Linear(2, 2)",
        init="self.encoder = [nn.Linear(2, 2)]",
        logits="self.actor(self.encoder[0](x))",
    ),
    Effect(
        "an encoder held in a list, trained",
        MOVE + "NET.encoder[0].weight.mul_(0.9)",
        init="self.encoder = [nn.Linear(2, 2)]",
        logits="self.actor(self.encoder[0](x))",
        parts={
            "optimizer": "optimizer = optim.Adam(\n    [*agent.parameters(), *agent.encoder[0].parameters()], "
            "lr=args.learning_rate\n)"
        },
    ),
    Effect(
        "modules in a dictionary",
        'NET.nets["pi"] = nn.Linear(2, 2)',
        init='self.nets = {"pi": nn.Linear(2, 2)}',
        logits='self.nets["pi"](x)',
    ),
    Effect(
        "a generator of torch",
        "NET.source.manual_seed(3)",
        init="self.source = torch.Generator().manual_seed(1)",
        logits="self.actor(x) + torch.randn(2, generator=self.source)",
    ),
    Effect(
        "a generator of numpy",
        "NET.source.standard_normal()",
        init="self.source = np.random.default_rng(1)",
        logits="self.actor(x) + float(self.source.standard_normal())",
        value="self.critic(x) + float(self.source.standard_normal())",
    ),
    Effect(
        "a count",
        "next(NET.count)",
        init="self.count = itertools.count()",
        imports="import itertools",
        logits="self.actor(x) / (1 + 0.01 * next(self.count))",
    ),
    Effect(
        "a generator function",
        "next(NET.noise)",
        init="self.noise = (0.01 * i for i in range(10**9))",
        value="self.critic(x) + next(self.noise)",
    ),
    Effect(
        "an iterator over a list",
        "next(NET.cycle)",
        init="self.cycle = itertools.cycle([0.1, 0.2, 0.3])",
        imports="import itertools",
        value="self.critic(x) + next(self.cycle)",
    ),
    Effect(
        "a counter that the network moves",
        "NET.calls += 3",
        init="self.calls = 0",
        functions="def counted(net):\n    net.calls += 1\n    return net.calls\n\n\n",
        logits="self.actor(x) / (1 + 0.01 * counted(self))",
    ),
    Effect(
        "a buffer, replaced",
        "NET.scale = NET.scale * 0.9",
        init='self.register_buffer("scale", torch.ones(2))',
        logits="self.actor(x) * self.scale",
    ),
    Effect(
        "a buffer, changed in place",
        "NET.scale.mul_(0.9)",
        init='self.register_buffer("scale", torch.ones(2))',
        logits="self.actor(x) * self.scale",
    ),
    Effect(
        "a buffer in _buffers",
        'NET._buffers["scale"] = NET.scale * 0.9',
        init='self.register_buffer("scale", torch.ones(2))',
        logits="self.actor(x) * self.scale",
    ),
    Effect(
        "a buffer by get_buffer()",
        'NET.get_buffer("scale").mul_(0.9)',
        init='self.register_buffer("scale", torch.ones(2))',
        logits="self.actor(x) * self.scale",
    ),
    Effect(
        "a buffer that is not saved",
        "NET.scale.copy_(NET.scale * 0.9)",
        init='self.register_buffer("scale", torch.ones(2), persistent=False)',
        value="self.critic(x * self.scale)",
    ),
    Effect(
        "a schedule as attribute",
        "NET.schedule.step()",
        init="self.schedule = Schedule()",
        functions=SCHEDULE,
        logits="self.actor(x) / self.schedule.value",
    ),
    Effect(
        "a bound method of a schedule",
        "NET.schedule.__self__.step()",
        given="schedule=Schedule().get",
        init="self.schedule = schedule",
        functions=SCHEDULE,
        logits="self.actor(x) / self.schedule()",
    ),
    Effect(
        "a stored lambda",
        "NET.knob[0] *= 0.9",
        init="self.knob = [1.0]\nself.read = lambda: self.knob[0]",
        logits="self.actor(x) / self.read()",
    ),
    Effect(
        "a stored partial",
        "NET.knob[0] *= 0.9",
        imports="import functools",
        init="self.knob = [1.0]\nself.read = functools.partial(self.knob.__getitem__, 0)",
        logits="self.actor(x) / self.read()",
    ),
    Effect(
        "a stored callable, replaced",
        "NET.act = torch.relu if NET.act is torch.tanh else torch.tanh",
        init="self.act = torch.tanh",
        logits="self.actor(self.act(x))",
    ),
    Effect(
        "a property",
        "NET._temp *= 0.9",
        init="self._temp = 1.0",
        logits="self.actor(x) / self.temp",
        parts={"methods": "@property\ndef temp(self):\n    return self._temp"},
    ),
    Effect(
        "a property with a setter",
        "NET.temp = NET.temp * 0.9",
        init="self._temp = 1.0",
        logits="self.actor(x) / self.temp",
        parts={
            "methods": "@property\ndef temp(self):\n    return self._temp\n\n@temp.setter\n"
            "def temp(self, value):\n    self._temp = value"
        },
    ),
    Effect(
        "__getattr__ beside the module's",
        "NET.extra[0] *= 0.9",
        init="self.extra = [1.0]",
        logits="self.actor(x) / self.warmth",
        parts={
            "methods": 'def __getattr__(self, name):\n    if name == "warmth":\n        return self.extra[0]\n'
            "    return super().__getattr__(name)"
        },
    ),
    Effect(
        "a cached result",
        "NET.memo.clear()",
        init="self.memo = {}",
        functions="""
def remembered(net, x):
    key = tuple(x.shape)
    if key not in net.memo:
        net.memo[key] = net.critic(x).detach().mean().item()
    return net.memo[key]


""",
        value="self.critic(x) + 0.1 * remembered(self, x)",
    ),
    Effect(
        "a global that the network reads",
        'KNOB["temp"] *= 0.9',
        functions='KNOB = {"temp": 1.0}\n\n\n',
        logits='self.actor(x) / KNOB["temp"]',
    ),
    Effect(
        "a global that a function rebinds",
        "cool()",
        logits="self.actor(x) / TEMP",
        functions="TEMP = 1.0\n\n\ndef cool():\n    global TEMP\n    TEMP *= 0.9\n\n\n",
    ),
    Effect(
        "a default that is a list",
        "NET.knob.__defaults__[0][0] *= 0.9",
        init="self.knob = knob",
        functions="def knob(value=[1.0]):\n    return value[0]\n\n\n",
        logits="self.actor(x) / self.knob()",
    ),
    Effect(
        "a lock as attribute",
        "with NET.lock:\n    NET.temp *= 0.9",
        init="self.lock = threading.Lock()\nself.temp = 1.0",
        imports="import threading",
        logits="self.actor(x) / self.temp",
    ),
    Effect(
        "an open file as attribute", 'NET.log.write("on")', init='self.log = open(os.devnull, "w")', imports="import os"
    ),
    Effect(
        "a traced module as attribute",
        MOVE + "next(NET.traced.parameters()).mul_(0.9)",
        init="self.traced = torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2))",
        logits="self.traced(x)",
    ),
    Effect(
        "a scripted module as attribute",
        MOVE + "next(NET.scripted.parameters()).mul_(0.9)",
        init="self.scripted = torch.jit.script(nn.Linear(2, 2))",
        logits="self.scripted(x)",
    ),
    Effect(
        "a network held by another in a tuple",
        MOVE + "NET.pair[0].weight.mul_(0.9)",
        init="self.pair = (nn.Linear(2, 2), 0.5)",
        logits="self.actor(x) + self.pair[1] * self.pair[0](x)",
    ),
    Effect(
        "a state that is carried from call to call",
        "NET.trace.zero_()",
        init="self.trace = torch.zeros(2)",
        functions="def traced(net, x):\n    net.trace = 0.5 * net.trace + 0.1 * x.detach().mean(0)\n"
        "    return net.trace\n\n\n",
        logits="self.actor(x) + traced(self, x)",
    ),
    Effect(
        "statistics that the network updates",
        "NET.mean *= 0.9",
        init='self.register_buffer("mean", torch.zeros(2))',
        functions="def normal(net, x):\n    net.mean += 0.01 * (x.detach().mean(0) - net.mean)\n"
        "    return x - net.mean\n\n\n",
        value="self.critic(normal(self, x))",
    ),
]

PARAMETERS = [
    Effect(
        "parameters scaled in place", MOVE + "for p in NET.parameters():\n        p.mul_(0.99)", only=r"^(?!loss made)"
    ),
    Effect("parameters scaled by their data", "for p in CRITIC.parameters():\n    p.data.mul_(0.9)"),
    Effect("parameters that get other memory", "for p in NET.parameters():\n    p.data = p.data * 0.99"),
    Effect("a bias that is filled", "CRITIC[-1].bias.data.fill_(0.1)"),
    Effect("a layer that is initialised anew", "nn.init.normal_(ACTOR[0].weight, std=0.5)"),
    Effect(
        "modules that are reset by apply()",
        'NET.apply(lambda m: m.reset_parameters() if hasattr(m, "reset_parameters") else None)',
    ),
    Effect("another parameter", "ACTOR[-1].bias = nn.Parameter(ACTOR[-1].bias.detach() * 0.9)"),
    Effect(
        "another parameter in _parameters",
        'CRITIC[-1]._parameters["bias"] = nn.Parameter(CRITIC[-1].bias.detach() + 0.1)',
    ),
    Effect("two layers that share their memory", "CRITIC[0].weight.data = ACTOR[0].weight.data"),
    Effect("two layers that share a parameter", "CRITIC[0].weight = ACTOR[0].weight"),
    Effect("loading of a state", "NET.load_state_dict({k: v * 0.99 for k, v in NET.state_dict().items()})"),
    Effect(
        "loading of a state by assignment",
        "NET.load_state_dict({k: v.clone() * 0.99 for k, v in NET.state_dict().items()}, assign=True)",
    ),
    Effect("a state that is changed where it is", 'NET.state_dict()["critic.0.bias"].add_(0.1)'),
    Effect(
        "swapped tensors",
        "torch.utils.swap_tensors(ACTOR[-1].bias, nn.Parameter(torch.full((2,), 0.1)))",
        only="before the loop|head|report|rollout done",
    ),
    Effect("numpy's view of a parameter", "CRITIC[-1].bias.detach().numpy()[:] += 0.1"),
    Effect(
        "vectors and back",
        "nn.utils.vector_to_parameters(0.99 * nn.utils.parameters_to_vector(NET.parameters()), NET.parameters())",
    ),
    Effect("clamped parameters", MOVE + "for p in ACTOR.parameters():\n        p.clamp_(-0.3, 0.3)"),
    Effect("another dtype and back", "NET.double().float()"),
    Effect(
        "an average of the network",
        MOVE + "for old, new in zip(NET.old, NET.parameters()):\n        new.lerp_(old, 0.1)",
        init="self.old = [p.detach().clone() for p in self.parameters()]",
    ),
    Effect(
        "noise on the parameters", MOVE + "for p in ACTOR.parameters():\n        p.add_(0.01 * torch.randn_like(p))"
    ),
]

STRUCTURE = [
    Effect("another last layer", "CRITIC[-1] = nn.Linear(8, 1)"),
    Effect("another critic", "NET.critic = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))"),
    Effect("another critic by setattr()", 'setattr(NET, "critic", nn.Linear(2, 1))'),
    Effect("another layer by set_submodule()", 'NET.set_submodule("critic.2", nn.Linear(8, 1))'),
    Effect("another layer in _modules", 'CRITIC._modules["2"] = nn.Linear(8, 1)'),
    Effect("another layer by add_module()", 'ACTOR.add_module("2", nn.Linear(8, 2))'),
    Effect("one more layer", "CRITIC.append(nn.Tanh())"),
    Effect("one more layer by insert()", "CRITIC.insert(1, nn.Softplus())"),
    Effect("one more layer by extend()", "CRITIC.extend([nn.Tanh()])"),
    Effect("a layer less", "if len(CRITIC) > 2:\n    del CRITIC[1]"),
    Effect("a layer that is popped", "if len(ACTOR) > 2:\n    ACTOR.pop(1)"),
    Effect("another activation", "ACTOR[1] = nn.ReLU() if isinstance(ACTOR[1], nn.Tanh) else nn.Tanh()"),
    Effect("a layer's own forward()", "ACTOR[1].forward = torch.relu"),
    Effect("a part's own forward()", "CRITIC.forward = lambda x: 0.5 * x.sum(-1, keepdim=True)"),
    Effect("another class of a layer", "ACTOR[1].__class__ = nn.Sigmoid"),
    Effect("pruning", 'prune.l1_unstructured(ACTOR[0], "weight", 0.1)', imports="import torch.nn.utils.prune as prune"),
    Effect(
        "a parametrization",
        "if not parametrize.is_parametrized(CRITIC[0]):\n"
        '    parametrize.register_parametrization(CRITIC[0], "weight", Half())',
        functions="class Half(nn.Module):\n    def forward(self, w):\n        return 0.5 * w\n\n\n",
        imports="import torch.nn.utils.parametrize as parametrize",
    ),
    Effect(
        "weight norm",
        "if not parametrize.is_parametrized(CRITIC[0]):\n    nn.utils.parametrizations.weight_norm(CRITIC[0])",
        imports="import torch.nn.utils.parametrize as parametrize",
    ),
    Effect(
        "spectral norm, which works at each call",
        "if not parametrize.is_parametrized(ACTOR[0]):\n    nn.utils.parametrizations.spectral_norm(ACTOR[0])",
        imports="import torch.nn.utils.parametrize as parametrize",
    ),
    Effect(
        "a buffer that is registered late",
        'NET.register_buffer("extra", torch.full((2,), 0.1))',
        logits='self.actor(x) + getattr(self, "extra", 0)',
    ),
    Effect(
        "a parameter that is registered late",
        'NET.register_parameter("extra", nn.Parameter(torch.ones(2)))',
        logits='self.actor(x) + getattr(self, "extra", 0)',
    ),
    Effect("a hook", "ACTOR.register_forward_hook(lambda module, given, result: result * 0.99)"),
    Effect("a hook before a layer", "CRITIC[0].register_forward_pre_hook(lambda module, given: (given[0] * 0.9,))"),
    Effect("a hook that draws", "ACTOR[1].register_forward_hook(lambda m, i, o: o + 0.1 * torch.randn_like(o))"),
    Effect(
        "a hook that is removed",
        "NET.handle.remove()",
        init="self.handle = self.actor.register_forward_hook(lambda m, i, o: o * 0.5)",
    ),
    Effect(
        "a hook that counts",
        "CRITIC.register_forward_hook(count)",
        value="self.critic(x) + 0.01 * len(CALLS)",
        functions="CALLS = []\n\n\ndef count(module, given, result):\n    CALLS.append(0)\n\n\n",
    ),
    Effect("a hook on gradients", "ACTOR[0].weight.register_hook(lambda grad: grad * 0.5)"),
    Effect("a hook on a module's gradients", "CRITIC.register_full_backward_hook(lambda m, i, o: None)"),
    Effect(
        "a hook after accumulation",
        "CRITIC[0].weight.register_post_accumulate_grad_hook(halve)",
        functions="def halve(p):\n    p.grad.mul_(0.5)\n\n\n",
    ),
    Effect("a hook in _forward_hooks", "ACTOR._forward_hooks[0] = lambda m, i, o: o * 0.9"),
    Effect("another method of the network", "NET.get_value = lambda x: 0.5 * NET.critic(x)", only=r"^(?!.*get_value)"),
    Effect(
        "another method of the class",
        "type(NET).get_value = other_value",
        functions="def other_value(self, x):\n    return 0.5 * self.critic(x)\n\n\n",
    ),
    Effect(
        "a method that is wrapped",
        "NET.get_action_and_value = functools.partial(type(NET).get_action_and_value, NET)",
        imports="import functools",
    ),
    Effect(
        "a policy that is replaced",
        "NET.get_action_and_value = types.MethodType(warmer, NET)",
        imports="import types",
        functions="def warmer(self, x, action=None):\n    probs = Categorical(logits=self.actor(x) / 2)\n"
        "    if action is None:\n        action = probs.sample()\n"
        "    return action, probs.log_prob(action), probs.entropy(), self.critic(x)\n\n\n",
    ),
]

GRADIENTS = [
    Effect(
        "a part that is frozen and thawed",
        "for p in CRITIC.parameters():\n    p.requires_grad_(not p.requires_grad)",
        only=UPDATES,
    ),
    Effect("a part that is frozen", "ACTOR.requires_grad_(False)", only="head|report|epoch|rollout done"),
    Effect("a layer that is frozen", "ACTOR[0].requires_grad_(False)", only=UPDATES),
    Effect("a parameter that is frozen", "CRITIC[0].weight.requires_grad = False", only=UPDATES),
    Effect(
        "parameters frozen by name",
        'for name, p in NET.named_parameters():\n    p.requires_grad = "critic" in name or not p.requires_grad',
        only=UPDATES,
    ),
    Effect(
        "gradients that are dropped",
        "for p in CRITIC.parameters():\n    p.grad = None",
        only="head|report|epoch|minibatch|optimized",
    ),
    Effect(
        "gradients that are scaled", "for p in NET.parameters():\n    if p.grad is not None:\n        p.grad.mul_(0.5)"
    ),
    Effect(
        "parameters that the optimizer holds frozen",
        'for p in OPT.param_groups[0]["params"][:2]:\n    p.requires_grad_(not p.requires_grad)',
        only=UPDATES,
    ),
]

NETWORK = [*MODES, *STATE, *PARAMETERS, *STRUCTURE, *GRADIENTS]

OPTIMIZER = [
    Effect("a rate", 'OPT.param_groups[0]["lr"] *= 0.9'),
    Effect("a rate of each group", 'for group in OPT.param_groups:\n    group["lr"] = group["lr"] * 0.9'),
    Effect("a rate of the last group", 'OPT.param_groups[-1]["lr"] = 0.001'),
    Effect("a rate by update()", 'OPT.param_groups[0].update(lr=0.9 * OPT.param_groups[0]["lr"])'),
    Effect("a rate by a loop over keys", 'for key in ("lr", "eps"):\n    OPT.param_groups[0][key] *= 0.9'),
    Effect("a rate under another name", 'group = OPT.param_groups[0]\ngroup["lr"] = 0.9 * group["lr"]'),
    Effect("weight decay", 'OPT.param_groups[0]["weight_decay"] += 0.01'),
    Effect("betas", 'OPT.param_groups[0]["betas"] = (0.8 * OPT.param_groups[0]["betas"][0], 0.99)'),
    Effect("amsgrad", 'OPT.param_groups[0]["weight_decay"] = 0.1 if OPT.param_groups[0]["weight_decay"] == 0 else 0'),
    Effect("a state that is forgotten", "OPT.state.clear()"),
    Effect("moments that are scaled", 'for state in OPT.state.values():\n    state["exp_avg"].mul_(0.5)'),
    Effect("steps that are set back", 'for state in OPT.state.values():\n    state["step"].fill_(1)'),
    Effect("a state that is loaded", "OPT.load_state_dict(OPT.state_dict())"),
    Effect(
        "a state with another rate",
        'saved = OPT.state_dict()\nsaved["param_groups"][0]["lr"] = 0.001\nOPT.load_state_dict(saved)',
    ),
    Effect("gradients that are zeroed", "OPT.zero_grad(set_to_none=False)", only="^(?!.*loss made)"),
    Effect("a step more", "OPT.step()", only="epoch done|report|optimized|head"),
    Effect(
        "a group more",
        'if len(OPT.param_groups) < 2:\n    OPT.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": 0.1})',
    ),
    Effect(
        "rates that are noted",
        'RATES.append(OPT.param_groups[0]["lr"])',
        functions="RATES = []\n\n\n",
        parts={"report": "print(iteration, [float(rate) for rate in RATES])"},
    ),
    Effect(
        "a rate that is noted by attribute",
        'NOTES.last = OPT.param_groups[0]["lr"]',
        functions="class NOTES:\n    last = 0.0\n\n\n",
        parts={"head": "print(float(NOTES.last))"},
    ),
    Effect(
        "a clip range that follows the rate",
        'OPT.settings.clip_coef = 5 * float(OPT.param_groups[0]["lr"])',
        parts={"copy": "optimizer.settings = args"},
    ),
    Effect(
        "a rate that is part of the loss",
        'OPT.settings.gamma = 1 - OPT.param_groups[0]["lr"]',
        parts={"copy": "optimizer.settings = args"},
    ),
    Effect(
        "a hook after each step",
        "OPT.register_step_post_hook(note)",
        functions="NOTED = [0]\n\n\ndef note(optimizer, args, kwargs):\n    NOTED[0] += 1\n\n\n",
        parts={"report": "print(iteration, NOTED[0], v_loss.item())"},
    ),
    Effect(
        "a hook that changes the rate",
        "OPT.register_step_pre_hook(cool)",
        functions='def cool(optimizer, args, kwargs):\n    optimizer.param_groups[0]["lr"] *= 0.99\n\n\n',
    ),
    Effect(
        "a scheduler",
        "SCHEDULERS[0].step()",
        functions="SCHEDULERS = []\n\n\n",
        parts={"copy": "SCHEDULERS.append(optim.lr_scheduler.ExponentialLR(optimizer, 0.9))"},
        only="^(?!before the loop|constructor)",
    ),
    Effect(
        "a scheduler with a lambda",
        "SCHEDULERS[0].step()",
        functions="SCHEDULERS = []\n\n\n",
        parts={"copy": "SCHEDULERS.append(optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.9**n))", "anneal": ""},
        only="^(?!before the loop|constructor)",
    ),
    Effect(
        "a scheduler of one's own",
        "SCHEDULERS[0].step()",
        functions="""
SCHEDULERS = []


class Decay:
    def __init__(self, optimizer):
        self.optimizer, self.n = optimizer, 0

    def step(self):
        self.n += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.03 * 0.9**self.n


""",
        parts={"copy": "SCHEDULERS.append(Decay(optimizer))"},
        only="^(?!before the loop|constructor)",
    ),
    Effect(
        "a rate that a scheduler tells",
        "print(SCHEDULERS[0].get_last_lr())",
        functions="SCHEDULERS = []\n\n\n",
        parts={
            "copy": "SCHEDULERS.append(optim.lr_scheduler.CosineAnnealingLR(optimizer, 9))",
            "report": "SCHEDULERS[0].step()\nprint(iteration, v_loss.item())",
            "anneal": "",
        },
        only="^(?!before the loop|constructor)",
    ),
    Effect("a rate by its default", 'OPT.defaults["lr"] = 0.001'),
    Effect("parameters that leave the optimizer", 'OPT.param_groups[0]["params"] = OPT.param_groups[0]["params"][:4]'),
    Effect("parameters in another order", 'OPT.param_groups[0]["params"].reverse()'),
]
