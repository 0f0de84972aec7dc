"""What keeps an object from turn to turn, its other names, and what changes it, according to the effects of code."""

from __future__ import annotations

import ast
import textwrap

import pytest
from golden import FIXTURES
from scripts import PARTS, script

from transformer.conversion.first_state import read, recognise
from transformer.recognition.buffers import find_buffers
from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.tree import Tree
from transformer.values.effects.interpreter import Interpreter
from transformer.values.effects.moves import reads_otherwise
from transformer.values.effects.objects import UNKNOWN
from transformer.values.effects.world import World

DEFINED = """\
PAST = []
PREVIOUS = {}


def keep(x):
    PAST.append(x)


def glance(x):
    y = x * 2
    return y


def remember(x, seen=[]):
    seen.append(x)


def keeper():
    return PAST.append


def counted(x):
    counted.last = x


hold = keeper()
push = PAST.append
sinks = {"a": PAST.append}
sink = queue.Queue()


class Tracker:
    newest = None

    def __init__(self):
        self.all, self.sums, self.total = [], None, None

    def see(self, x):
        self.all.append(x)

    def note(self, x):
        y = x
        self.last = y

    def look(self, x):
        self.count = x * 2

    def first(self, x):
        if self.sums is None:
            self.sums = x
        else:
            self.sums = self.sums * 0.9 + x

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def __setitem__(self, key, x):
        self.all += [x]


tracker = Tracker()

"""


FLATTEN = f"{PARTS['flatten']}\nb_values = values.reshape(-1)"


def roles_of(parts: dict[str, str]) -> Roles:
    return recognise(
        read(script({"functions": DEFINED, "stdlib": "import collections\nimport queue", **parts}), 120)
    ).roles


def outlives(line: str, held: str = "values") -> bool:
    """Whether a line below the advantages keeps a buffer's memory beyond the turn."""
    roles = roles_of({"flatten": f"{FLATTEN}\n{line}"})
    world = roles.get(World)
    buffer = next(b for b in find_buffers(roles) if b.name == held)
    return world.outlives(world.of(buffer.call), {held}, roles.phases.loop.body) is not None


@pytest.mark.parametrize(
    "line",
    [
        "keep(b_values)",
        "keep(*[b_values])",
        "keeper()(values)",
        "hold(b_values)",
        "push(values[0])",
        "sinks['a'](b_values)",
        "sink.put(b_values)",
        "[keep(v) for v in values]",
        "tracker.see(b_values)",
        "tracker.note(values.view(-1))",
        "remember(b_values)",
        "counted(b_values)",
        "Tracker.newest = b_values",
        "setattr(tracker, 'newest', b_values)",
        "vars(tracker)['newest'] = b_values",
        "tracker[0] = b_values",
        "args.values = b_values",
        "tracker.__dict__['newest'] = b_values",
        "keep.values = b_values",
        "torch.values = b_values",
        "agent.values = values.detach()",
        "agent.register_buffer('values', b_values)",
        "for key, t in (('a', b_values),): PREVIOUS[key] = t",
        "PREVIOUS.update(a=b_values)",
        "PREVIOUS.update({'a': [b_values]})",
        "PREVIOUS.setdefault('a', b_values)",
        "PREVIOUS |= {'a': b_values}",
        "for PAST[0] in (b_values,): pass",
        "PAST += list(values)",
        "PAST.extend(v for v in values)",
        "PAST[:0] = [b_values]",
        "with torch.no_grad() as PREVIOUS['mode'], Tracker() as tracker.inner: tracker.inner.kept = b_values",
        "[PAST.append(x) for x in (b_values,)]",
        "list(map(PAST.append, values))",
        "PREVIOUS['a'] = (lambda: b_values)\nPREVIOUS['a']()",
        "PREVIOUS['a'] = dict(x=(y := b_values))",
        "globals()['old'] = b_values",
        "PREVIOUS['a'] = b_values if args.seed else None",
        "PREVIOUS['a'] = None or b_values",
        "PREVIOUS['a'] = b_values.cpu().numpy()",
        "PREVIOUS['a'] = torch.as_tensor(b_values)",
        "PREVIOUS['a'] = torch.einsum('i->i', b_values)",
        "PREVIOUS['a'] = torch.einsum('i', [b_values])",
        "PREVIOUS['a'] = torch.einsum(b_values, [0], [0])",
        "PREVIOUS['a'] = torch.einsum('i,->i', b_values, torch.ones(()))",
        "PREVIOUS['a'] = collections.ChainMap({'v': b_values})",
        "PREVIOUS['a'] = iter([b_values])",
        "PREVIOUS['a'], _ = b_values, 0",
        "PREVIOUS['a'], *_ = values",
        "optimizer.param_groups[0]['v'] = b_values",
        "envs.values = b_values",
    ],
)
def test_kept_buffers(line: str) -> None:
    assert outlives(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "glance(b_values)",
        "print(b_values)",
        "PAST.append(b_values.mean())",
        "PAST.append(b_values.clone())",
        "PREVIOUS['a'] = b_values * 2",
        "PREVIOUS['a'] = b_values.mean().item()",
        "PREVIOUS['a'] = b_values.cpu().numpy().copy()",
        "PREVIOUS['a'] = np.var(b_values.cpu().numpy())",
        "tracker.look(b_values)",
        "tracker.first(b_values)",
        "here = {'a': b_values}\nprint(len(here))",
        "here = [v for v in values]",
        "agent.get_value(b_obs)",
        "with torch.no_grad():\n    late = agent.get_value(b_obs)\n    b_values.copy_(late.view(-1))",
        "PREVIOUS['a'] = [float(v) for v in b_values]",
        "here = Tracker()\nhere.see(b_values)",
        "values.newest = 1",
    ],
)
def test_buffers_that_are_not_kept(line: str) -> None:
    assert not outlives(line)


@pytest.mark.parametrize("bound", ["globals()['box'] = PAST", "names = globals()\nfor names['box'] in (PAST,): pass"])
def test_a_variable_that_is_bound_by_its_names_text_may_be_anything(bound: str) -> None:
    roles = roles_of({"flatten": f"{FLATTEN}\nbox = []\n{bound}\nprint(box)"})
    (read,) = (n for n in roles.tree.of(ast.Name) if n.id == "box" and isinstance(n.ctx, ast.Load))
    assert UNKNOWN in roles.get(World).of(read)


def test_a_variable_that_is_read_before_it_is_bound_keeps_a_buffer() -> None:
    roles = roles_of({"flatten": f"{FLATTEN}\nold = b_values", "head": "print(old)", "before_loop": "old = None"})
    world = roles.get(World)
    buffer = next(b for b in find_buffers(roles) if b.name == "values")
    held = world.outlives(world.of(buffer.call), {"values"}, roles.phases.loop.body)
    assert held is not None and held.what == "old may hold it from one iteration to the next"


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("ours = []", False),
        ("ours = other = []", True),
        ("other = ours = []", True),
        ("tracker.ours = ours = []", True),
        ("PREVIOUS['a'] = ours = []", True),
        ("(other := [])\nours = other", True),
        ("ours = []\nPAST.append(ours)", True),
        ("sink.ours = ours = []", True),
        ("sink.get()[0] = ours = []", True),
        ("sink.queue.held = [ours := []]", True),
        ("for sink.ours in ([],): ours = sink.ours", True),
        ("ours = []\nprint(ours)", False),
        ("ours = []\nglance(ours)", False),
        ("ours = []\nours = [*ours]", False),
    ],
)
def test_second_names(line: str, same: bool) -> None:
    roles = roles_of({"flatten": f"{FLATTEN}\n{line}"})
    world = roles.get(World)
    made = next(n for n in roles.tree.of(ast.List) if not n.elts and n.lineno > roles.phases.loop.lineno)
    assert (world.other_names(world.of(made), "ours") is not None) is same


CHANGES = {
    "ca = action.cpu().numpy()\nnp.clip(ca, 0, 1, out=ca)": True,
    "action.view(-1).fill_(1)": True,
    "action.detach()[0] = 1": True,
    "action[0] += 1": True,
    "spoil(action)": True,
    "[spoil][0](action)": True,
    "for f in [spoil]: f(action.data)": True,
    "np.put(action.numpy(), 0, 1)": True,
    "sink.put(action)": True,
    "action.apply_(float)": True,
    "ca = action.cpu().numpy().copy()\nnp.clip(ca, 0, 1, out=ca)": False,
    "action.clone().fill_(1)": False,
    "torch.clamp(action, 0, 1)": False,
    "torch.nn.functional.relu(action, True)": True,
    "torch.nn.functional.elu(action, 1.0, args.seed > 0)": True,
    "torch.nn.functional.leaky_relu(action, inplace=True)": True,
    "torch.nn.functional.relu(*(action, True))": True,
    "torch.nn.functional.relu(action)": False,
    "torch.nn.functional.elu(action, 1.0)": False,
    "other = torch.nn.functional.relu(action + 1, True)": False,
    "print(action)": False,
    "glance(action)": False,
    "other = action + 1\nother[0] = 2": False,
}


@pytest.mark.parametrize(("line", "changed"), CHANGES.items(), ids=list(CHANGES))
def test_changes_of_an_action(line: str, changed: bool) -> None:
    parts = {"record": f"{PARTS['record']}\n{line}"}
    roles = roles_of({**parts, "functions": DEFINED + "\ndef spoil(x):\n    x[0] = 1\n\n"})
    assert roles.rollout is not None
    held = roles.get(World).changes(roles.get(World).named("action"), roles.rollout.body)
    assert (held is not None) is changed


RESETS = {
    "args.minibatch_size //= 2": True,
    "if entropy.mean() > 1: args.minibatch_size = 2": True,
    "setattr(args, 'minibatch_size', 2)": True,
    "vars(args)['minibatch_size'] = 2": True,
    "args.__dict__['minibatch_size'] = 2": True,
    "args.__dict__.update(minibatch_size=2)": True,
    "smaller(args)": True,
    "sink.put(args)": True,
    "args.learning_rate = 1": False,
    "print(args.minibatch_size)": False,
    "glance(args)": False,
}


RAISING = """
class Strange(Exception):
    pass


class Halving(Exception):
    def __init__(self, options):
        options.minibatch_size //= 2


class Shown(Exception):
    def __init__(self, options, *more):
        super().__init__(*more)
        self.options = options
"""
RAISES = {
    "raise ValueError": False,
    "raise ValueError(f'{loss} with {args.clip_coef}')": False,
    "raise NotImplementedError(args) from None": False,
    "raise RuntimeError() from ValueError(loss)": False,
    "raise Strange(args)": False,
    "raise Strange": False,
    "raise Shown(args, 'no number')": False,
    "error = FloatingPointError(args)": False,
    "raise builtins.ValueError(args)": False,
    "raise Halving(args)": True,
    "raise ERRORS[0](args)": True,
    "raise ERRORS[1]": True,
    "raise queue.Empty(args)": True,
    "raise sink.get()": True,
}


@pytest.mark.parametrize(("line", "reset"), RAISES.items(), ids=list(RAISES))
def test_an_exception_runs_no_unknown_code(line: str, reset: bool) -> None:
    defined = f"{DEFINED}{RAISING}\nERRORS = [Halving, sink.get()]\n\n"
    parts = {"flatten": f"{FLATTEN}\nsink.put(args)", "stdlib": "import builtins\nimport collections\nimport queue"}
    roles = roles_of({**parts, "metrics": f"{PARTS['metrics']}\nif loss.isnan():\n    {line}", "functions": defined})
    assert resets(roles) is reset


CAUGHT = {
    "raise ValueError(args)": "args.minibatch_size = 1",
    "raise Shown(args)": "error.options.minibatch_size = 1",
    "raise KeyError([args])": "error.args[0][0].minibatch_size = 1",
}


@pytest.mark.parametrize(("line", "handled"), CAUGHT.items(), ids=list(CAUGHT))
def test_what_an_exception_holds_may_be_changed_where_it_is_caught(line: str, handled: str) -> None:
    tried = f"try:\n    if loss.isnan():\n        {line}\nexcept Exception as error:\n    {{}}"
    for handler, reset in ((handled, True), ("print(error)", False)):
        lines = f"{PARTS['metrics']}\n{tried.format(handler)}"
        roles = roles_of({"metrics": lines, "functions": f"{DEFINED}{RAISING}\n"})
        assert resets(roles) is reset, handler


CLIPPED = """
class Keeping(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options
        self.layer = nn.Linear(1, 1)
        self.register_buffer("seen", torch.zeros(1))


keeping = Keeping(None)
weights = keeping.layer.weight
"""
OF_PARAMETERS = {
    "nn.utils.clip_grad_norm_(keeping.parameters(), 0.5)": False,
    "norm = torch.nn.utils.clip_grad_norm_([*keeping.parameters()], 0.5)": False,
    "nn.utils.clip_grad_value_(parameters=keeping.layer.parameters(), clip_value=1.0)": False,
    "nn.utils.parametrize.register_parametrization(keeping, 'layer', nn.Identity())": True,
    "nn.utils.weight_norm(keeping)": True,
}


@pytest.mark.parametrize(("line", "reset"), OF_PARAMETERS.items(), ids=list(OF_PARAMETERS))
def test_what_clips_gradients_sets_no_option(line: str, reset: bool) -> None:
    held = "keeping.options = args"
    roles = roles_of(
        {
            "flatten": f"{FLATTEN}\n{held}",
            "metrics": f"{PARTS['metrics']}\n{line}",
            "functions": f"{DEFINED}{CLIPPED}\n",
        }
    )
    assert resets(roles) is reset
    world = roles.get(World)
    weights = next(n for n in roles.tree.of(ast.Attribute) if ast.unparse(n) == "keeping.layer.weight")
    assert world.changes(world.of(weights), roles.minibatch_loop.body) is not None


def resets(roles: Roles) -> bool:
    """Whether the minibatch size may change in the minibatch loop."""
    sizes = (n for n in roles.tree.of(ast.Attribute) if ast.unparse(n) == "args.minibatch_size")
    size = next(n for n in sizes if isinstance(n.ctx, ast.Load))
    loop = roles.minibatch_loop
    assert loop is not None
    return roles.get(World).resets(size, loop.body) is not None


@pytest.mark.parametrize(("line", "reset"), RESETS.items(), ids=list(RESETS))
def test_changes_of_an_option(line: str, reset: bool) -> None:
    smaller = "\ndef smaller(options):\n    options.minibatch_size = 1\n\n"
    roles = roles_of({"metrics": f"{PARTS['metrics']}\n{line}", "functions": DEFINED + smaller})
    assert resets(roles) is reset


@pytest.mark.parametrize("layer", ["nn.Linear(2, sink.get())", "nn.ModuleList([sink.get()])"])
def test_a_layer_does_not_hold_its_size(layer: str) -> None:
    """If a layer held a number from an unknown object, what changes the network might change the options."""
    agent = PARTS["agent"].replace("self.actor =", f"self.other = {layer}\n        self.actor =")
    metrics = f"{PARTS['metrics']}\nnn.utils.weight_norm(agent)"
    setup = f"{PARTS['setup']}\nsink.put(args)"
    roles = roles_of({"agent": agent, "functions": DEFINED, "setup": setup, "metrics": metrics})
    assert resets(roles) is ("Linear" not in layer)


CALLED_BY_OTHERS = """
def drawn(distribution, deep=False):
    if deep:
        return drawn(distribution.base_dist)
    return distribution.sample()


"""


@pytest.mark.parametrize("line", ["sink.put(drawn)", "sink.put(Agent)", "sink.put([agent])"])
def test_calls_by_unknown_code_stay_apart(line: str) -> None:
    parts = {"agent": PARTS["agent"].replace("probs.sample()", "drawn(probs)"), "functions": DEFINED + CALLED_BY_OTHERS}
    roles = roles_of({**parts, "setup": f"{PARTS['setup']}\n{line}"})
    assert roles.rollout is not None
    assert {thing.kind for thing in roles.get(World).named("action")} == {"tensor"}


@pytest.mark.parametrize(
    ("value", "also", "alone"),
    [
        ("value", "", True),
        ("value.view(-1)", "", True),
        ("value * 2", "", True),
        ("next_obs", "", True),  # the environment returns a copy
        ("next_obs[action]", "", True),
        ("torch.tensor(next_done)", "", True),
        ("agent.get_value(next_obs)", "", True),
        ("value", "nn.functional.relu(value)", True),
        ("value", "print(value)", True),
        ("agent.actor[0].weight", "with torch.no_grad():\n    agent.actor[0].weight.mul_(2)", False),
        ("value", "value += 1", False),
        ("value.to(device, copy=False)", "value += 1", False),
        ("value", "other = value.view(-1)\nother[0] = 1", False),
        ("value", "nn.functional.relu(value, True)", False),
        ("value", "(lambda x: x.add_(1))(value)", False),
        ("value", "[f.zero_() for f in (value, value)]", False),
        ("value", "queue.Queue().put(value)", False),
        ("value.mean()", "queue.Queue().put(value)", True),
        ("value.to(device)", "queue.Queue().put(value)", False),
        ("value", "make()(value)", False),
        ("info", "", False),
        ("torch.from_numpy(envs.state)", "", False),  # the environment changes its state
        ("torch.from_numpy(envs.state).float()", "", False),
        ("torch.Tensor(envs.state).to(device)", "", False),
        ("torch.as_tensor(envs.state)[None].contiguous().cpu()", "", False),
        ("torch.asarray(envs.state).double()", "", False),
        ("torch.tensor(envs.state).float()", "", True),
        ("value", "value.numpy().sort()", False),
        ("value", "np.asarray(value).put([0], [1.0])", False),
        ("np.zeros(2)", "torch.from_numpy(looked_at).squeeze(0).data.relu_()", False),
        ("np.zeros(2)", "torch.from_numpy(looked_at).double().neg_()", False),
    ],
)
def test_values_that_a_step_may_write_into(value: str, also: str, alone: bool) -> None:
    roles = roles_of({"record": f"{PARTS['record']}\nlooked_at = {value}\n{also}"})
    assert roles.rollout is not None
    stmts = (s for s in roles.rollout.body if isinstance(s, ast.Assign))
    made = next(s.value for s in stmts if ast.unparse(s.targets[0]) == "looked_at")
    assert roles.get(World).is_left_alone(made, roles.rollout.body) is alone


@pytest.mark.parametrize(("value", "alone"), [("value", False), ("value.mean()", True), ("value.view(-1)", False)])
def test_an_unknown_network_does_not_hold_what_is_computed(value: str, alone: bool) -> None:
    agent = PARTS["agent"].replace("self.critic = ", "self.critic = queue.Queue().get()  # ")
    roles = roles_of({"agent": agent, "record": f"{PARTS['record']}\nlooked_at = {value}"})
    assert roles.rollout is not None
    made = next(s.value for s in roles.rollout.body if isinstance(s, ast.Assign) and "looked" in ast.unparse(s))
    assert roles.get(World).is_left_alone(made, roles.rollout.body) is alone


@pytest.mark.parametrize(
    ("options", "stays"),
    [("4, 2", True), ("4, 2, padding_idx=0", True), ("4, 2, max_norm=1.0", False), ("4, 2, 0, 1.0", False)],
)
def test_a_layer_that_renormalizes_its_parameter_changes_it(options: str, stays: bool) -> None:
    agent = PARTS["agent"].replace("self.critic = ", f"self.codes = nn.Embedding({options})\n        self.critic = ")
    metrics = f"{PARTS['metrics']}\nprint(agent.codes.weight.sum())\nagent.codes(mb_inds)"
    roles = roles_of({"agent": agent, "metrics": metrics})
    assert roles.minibatch_loop is not None
    body = roles.minibatch_loop.body
    place = next(i for i, s in enumerate(body) if "codes.weight" in ast.unparse(s))
    assert (reads_otherwise(roles, body[place], body[place + 1 : place + 2]) is None) is stays


@pytest.mark.parametrize(
    ("read", "past", "stays"),
    [
        ("print(v_loss)", "loss.backward()", True),
        ("print(v_loss.item(), args.seed)", "optimizer.step()", True),
        ("print(v_loss)", "v_loss = v_loss * 2", False),
        ("print(v_loss.detach())", "v_loss.mul_(2)", False),
        ("print(v_loss.detach())", "other = v_loss.view(1)\nother += 1", False),
        ("print(agent.actor[0].weight.sum())", "loss.backward()", True),
        ("print(agent.actor[0].weight.sum())", "optimizer.step()", False),
        ("print(agent.actor[0].weight.sum())", "keep(agent)\nprint()", True),
        ("print(agent.actor[0].weight.grad)", "print()", False),  # code that computes gradients may be unseen
        ("print(v_loss.grad_fn)", "loss.backward()", False),
        ("print(args.seed)", "args.seed += 1", False),
        ("print(args.seed)", "vars(args).update(seed=2)", False),
        ("print(PAST[0])", "PAST[0] = 1", False),
        ("print(PAST[0])", "keep(1)", False),
        ("print(PREVIOUS)", "keep(1)", True),
        ("print(global_step)", "global_step += 1", False),
        ("print(optimizer.param_groups[0]['lr'])", "optimizer.step()", False),
    ],
)
def test_code_that_reads_otherwise_when_it_is_moved(read: str, past: str, stays: bool) -> None:
    metrics = f"{PARTS['metrics']}\n{read}\n{past}"
    roles = roles_of({"metrics": metrics, "functions": DEFINED, "setup": f"{PARTS['setup']}\nglobal_step = 0"})
    assert roles.minibatch_loop is not None
    body = roles.minibatch_loop.body
    place = next(i for i, s in enumerate(body) if ast.unparse(s) == ast.unparse(ast.parse(read)))
    moved = body[place + 1 : place + 1 + len(ast.parse(past).body)]
    assert (reads_otherwise(roles, body[place], moved) is None) is stays


@pytest.mark.parametrize("name", ["in_methods", "several_agents", "acts_into_memory", "recurrent_lstm"])
def test_rerunning_all_frames_finds_nothing_more(name: str) -> None:
    roles = recognise(read(FIXTURES.joinpath(f"{name}.py").read_text(encoding="utf-8"), 120)).roles
    code = Interpreter(roles)
    found = code.heap.version, {**code.values}
    code._last_runs.clear()
    for frame in code.frames:
        code._run_frame(frame)
    assert (code.heap.version, code.values) == found


def test_effects_of_a_call_are_in_a_fixed_order() -> None:
    """The first effect found is the reason, and the order of a set differs between processes."""
    tamper = (
        "def tamper(x):\n    args.num_steps = 1\n    unseen(args)\n    global glow\n    glow = x\n    PAST.append(x)"
    )
    roles = roles_of({"functions": f"{DEFINED}\n\n{tamper}", "flatten": f"{FLATTEN}\ntamper(obs)"})
    call = next(s for s in ast.walk(roles.tree.root) if isinstance(s, ast.Expr) and ast.unparse(s) == "tamper(obs)")
    orders = [effect.order for _, effect in roles.get(World).happens([call])]
    assert len({order[0] for order in orders}) >= 4 and orders == sorted(orders)


UNCALLED = {
    "a function": {"main": "def train():"},
    "a function in a function": {"main": "def make():\n    def train():\n        <body>\n    return train"},
    "a method": {"main": "class Trainer:\n    def train(self):\n        <body>"},
    "a method of a class in a function": {
        "main": "def make():\n    class Trainer:\n        def train(self):\n            <body>\n    return Trainer"
    },
}


def uncalled(parts: dict[str, str], **further: str) -> Roles:
    """A training in functions that nothing in the file calls."""
    text = script({"functions": DEFINED, "stdlib": "import collections\nimport queue", **further})
    head, _, body = text.partition('if __name__ == "__main__":\n')
    main = parts["main"]
    before, _, behind = main.partition("<body>") if "<body>" in main else (f"{main}\n    ", "", "")
    column = len(before) - len(before.rstrip(" "))
    body = textwrap.indent(textwrap.dedent(body), " " * column)
    return recognise(read(f"{head}{before.rstrip(' ')}{body.rstrip()}{behind}\n", 120)).roles


@pytest.mark.parametrize("parts", UNCALLED.values(), ids=UNCALLED)
@pytest.mark.parametrize(
    ("line", "held"),
    [("", False), ("values.mul_(2)", True), ("sink.put(values)\nsink.get()", True), ("b_values[0] = 0", True)],
    ids=["nothing", "in place", "by a queue", "through a view"],
)
def test_a_training_that_nothing_calls(parts: dict[str, str], line: str, held: bool) -> None:
    roles = uncalled(parts, flatten=f"{FLATTEN}\n{line}")
    world = roles.get(World)
    buffer = next(b for b in find_buffers(roles) if b.name == "values")
    rest = [s for s in roles.phases.loop.body if not isinstance(s, ast.For)]
    assert (world.changes(world.of(buffer.call), rest) is not None) is held


def test_unknown_memory_may_change() -> None:
    roles = roles_of({})
    assert roles.get(World).changes((), roles.phases.loop.body) is not None


def world_of(code: str) -> tuple[World, ast.Call]:
    """The objects of a script without a training, and the call that makes a network."""
    roles = Roles(Tree(code), History())
    return World(roles), next(n for n in roles.tree.of(ast.Call) if ast.unparse(n) == "nn.Linear(2, 2)")


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ("print(len(locals()))", True),
        ("seen = 'net' in locals()", True),
        ("names = locals()\n    names['net'] = None", True),
        ("outside.show(locals())", False),
        ("names = locals()\n    outside.show(names['net'])", False),
        ("outside.show(vars())", False),
        ("print([locals() for _ in range(2)])", False),
    ],
)
def test_locals_of_a_function_are_a_dict_of_its_variables(call: str, known: bool) -> None:
    body = f"net = nn.Linear(2, 2)\n    other = nn.Linear(3, 3)\n    {call}\n    return other\n\n\nmake()\n"
    world, made = world_of(f"import outside\nimport torch.nn as nn\n\n\ndef make():\n    {body}")
    assert world.is_known(world.of(made)) is known


@pytest.mark.parametrize(
    ("asked", "known"), [("'x' in locals()", True), ("'x' in globals()", False), ("'x' in list(locals())", False)]
)
def test_a_name_that_a_module_asks_for(asked: str, known: bool) -> None:
    world, made = world_of(f"import outside\nimport torch.nn as nn\n\nnet = nn.Linear(2, 2)\noutside.show({asked})\n")
    assert world.is_known(world.of(made)) is known


def test_a_function_of_the_file_called_locals() -> None:
    code = "import outside\nimport torch.nn as nn\n\n\ndef locals():\n    outside.show(net)\n    return []\n\n\n"
    world, made = world_of(f"{code}net = nn.Linear(2, 2)\nprint('x' in locals())\n")
    assert not world.is_known(world.of(made))


def test_locals_above_a_network_do_not_show_it() -> None:
    body = "outside.show(locals())\n    net = nn.Linear(2, 2)\n    return net\n\n\nmake()\n"
    world, made = world_of(f"import outside\nimport torch.nn as nn\n\n\ndef make():\n    {body}")
    assert world.is_known(world.of(made))


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("outside.log(optimizer.param_groups[0]['lr'])", True),
        ("for group in optimizer.param_groups:\n    outside.log({'rate': group['lr']})", True),
        ("rate = optimizer.param_groups[0]['lr']\noutside.log(rate)\nrate *= 2", True),
        ("outside.log(optimizer.param_groups[0])", False),
        ("outside.log(optimizer.param_groups)", False),
        ("outside.log(optimizer.param_groups[0]['params'])", False),
        ("outside.log(optimizer.param_groups[0][outside.key])", False),
    ],
)
def test_the_rate_of_an_optimizer_is_a_number(line: str, known: bool) -> None:
    made = "net = nn.Linear(2, 2)\noptimizer = torch.optim.Adam(net.parameters(), lr=0.1)\n"
    tree = Tree(f"import outside\nimport torch\nfrom torch import nn\n\n{made}{line}\n")
    world = World(Roles(tree, History()))
    call = next(n for n in tree.of(ast.Call) if ast.unparse(n.func) == "torch.optim.Adam")
    assert world.is_known(world.of(call)) is known


def test_the_rate_of_an_optimizer_may_be_a_tensor_that_it_was_given() -> None:
    made = "rate = torch.tensor(0.1)\nnet = nn.Linear(2, 2)\noptimizer = torch.optim.Adam(net.parameters(), lr=rate)\n"
    for given in ("", "optimizer.param_groups[0]['lr'] = rate\n"):
        start = made.replace("lr=rate", "lr=0.1") if given else made
        tree = Tree(f"import torch\nfrom torch import nn\n\n{start}{given}read = optimizer.param_groups[0]['lr']\n")
        world = World(Roles(tree, History()))
        call = next(n for n in tree.of(ast.Call) if ast.unparse(n.func) == "torch.tensor")
        assert world.named("read") >= world.of(call), given


EITHER = """\
import numpy as np
import torch

def made(flag):
    if flag:
        return torch.zeros(2)
    return np.zeros(2)

either = made({flag})
for _ in range(3):
    result = {expression}
"""


@pytest.mark.parametrize(
    ("expression", "is_tensor"),
    {
        "either + np.ones(2)": False,
        "np.ones(2) * either": False,
        "-either": False,
        "either > either": False,
        "either + torch.ones(2)": True,
        "torch.ones(2) - either": True,
        "torch.ones(2) * np.ones(2)": True,
        "torch.ones(2) * 3": True,
    }.items(),
)
def test_an_operator_on_what_may_be_an_array(expression: str, is_tensor: bool) -> None:
    tree = Tree(EITHER.format(flag="input()", expression=expression))
    world = World(Roles(tree, History(original=tree.code)))
    assert world.is_tensor("result") is is_tensor


STEPPED = """\
import functools
import inspect
import outside
import torch
from torch import nn

net = nn.Linear(2, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)


def update():
    {line}


update()
"""


@pytest.mark.parametrize(
    ("line", "known"),
    {
        "torch.no_grad()(inspect.unwrap(type(optimizer).step)).__get__(optimizer)()": True,
        "inspect.unwrap(type(optimizer).step)(optimizer)": True,
        "type(optimizer).step(optimizer)": True,
        "torch.no_grad()(optimizer.step)()": True,
        "torch.enable_grad()(lambda: optimizer.step())()": True,
        "torch.no_grad()(outside.step)(optimizer)": False,
        "torch.no_grad()(outside.step or optimizer.step)()": False,
        "torch.no_grad()(outside.steps[0] if outside.steps else optimizer.step)()": False,
        "torch.no_grad()(lambda: outside.step(optimizer))()": False,
        "inspect.unwrap(outside.step)(optimizer)": False,
        "type(outside.optimizer).step(optimizer)": False,
        "outside.step.__get__(optimizer)()": False,
        "functools.partial(outside.step, optimizer)()": False,
    }.items(),
)
def test_a_step_without_its_wrappers(line: str, known: bool) -> None:
    tree = Tree(STEPPED.format(line=line))
    world = World(Roles(tree, History()))
    (update,) = tree.of(ast.FunctionDef)
    assert (world.functions_run(update) is not None) is known
    changed = {thing for _, _, thing in world.changed()}
    assert not known or changed & world.reach(world.named("net"))
