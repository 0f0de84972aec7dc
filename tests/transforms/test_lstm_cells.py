"""lstm-cells: which loops over the steps of an LSTM it rewrites, and what the compiled code computes."""

import sys
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from cases import NoOp, turn
from scripts import PARTS, script
from torch import nn

from transformer import Applied, convert
from transformer.syntax.templates import render
from transformer.transforms.compiling.lstm_cells import INFO

AGENT = """\
class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 8)
        for name, param in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.constant_(param, 0)
        self.critic = nn.Linear(8, 1)
        self.actor = nn.Linear(8, 2)

    def get_states(self, x, state, done):
        hidden = x.reshape((-1, 1, self.lstm.input_size))
        done = done.reshape((-1, 1))
        new_hidden = []
        # Step by step
        for h, d in zip(hidden, done):
            h, state = self.lstm(
                h.unsqueeze(0),
                (
                    (1.0 - d).view(1, -1, 1) * state[0],
                    (1.0 - d).view(1, -1, 1) * state[1],
                ),
            )
            new_hidden += [h]  # (1, envs, size)
        new_hidden = torch.flatten(torch.cat(new_hidden), 0, 1)
        return new_hidden, state

    def features(self, x):
        state = (torch.zeros(1, 1, self.lstm.hidden_size), torch.zeros(1, 1, 8))
        return self.get_states(x, state, torch.zeros(len(x)))[0]

    def get_value(self, x):
        return self.critic(self.features(x))

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(self.features(x)))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(self.features(x))
"""
LOOP = AGENT[AGENT.index("        for h, d") : AGENT.index("        new_hidden = torch.flatten")]
BRANCH = """\
        if torch.compiler.is_dynamo_compiling() and state[0].device.type == "cpu":
            h, state = lstm_cells(self.lstm, hidden, done, state)
            new_hidden += [h]
        else:
""" + textwrap.indent(LOOP, "    ")
ALSO = ("policy", "update")


def edited(*changes: tuple[str, str]) -> str:
    """The network with pieces of its text replaced; each occurs once."""
    text = AGENT
    for old, new in changes:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text


def steps(text: str) -> str:
    """The network with other statements in place of its loop."""
    return edited((LOOP, textwrap.indent(text, "        ")))


@dataclass(frozen=True)
class Case:
    """A network, and pieces of its rewritten loop."""

    title: str
    agent: str
    branches: tuple[str, ...] = ()
    strict: bool = False
    parts: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.title


KEEP = """\
for x_t, done_t in zip(x.view(-1, 1, 2), done, strict=True):
    keep = (1.0 - done_t).view(1, -1, 1)  # it ends with its episode
    out, state = self.lstm(x_t.unsqueeze(0), (keep * state[0], keep * state[1]))
    new_hidden.append(out)
"""
ONCE = """\
        if torch.compiler.is_dynamo_compiling() and state[0].device.type == "cpu":
            out, state = lstm_cells(self.lstm, x.view(-1, 1, 2), done, state)
            new_hidden.append(out)
        else:
            for x_t, done_t in zip(x.view(-1, 1, 2), done, strict=True):
                keep = (1.0 - done_t).view(1, -1, 1)  # it ends with its episode
"""
SECOND = LOOP.replace("new_hidden", "second").replace("self.lstm", "self.other").replace("(hidden", "(new")
TWO = edited(
    ("self.lstm = nn.LSTM(2, 8)\n", "self.lstm = nn.LSTM(2, 8)\n        self.other = nn.LSTM(8, 8)\n"),
    ("        return new_hidden, state", "        new = new_hidden.reshape((-1, 1, 8))\n        second = []\n"
     f"{SECOND}        return torch.cat(second, dim=0).flatten(0, 1), state"),
)  # fmt: skip

REWRITES = [
    Case("cleanrl's", AGENT, (BRANCH,)),
    Case("with a name for the masks", steps(KEEP), (ONCE,), strict=True),
    Case(
        "joined in the result",
        edited(
            ("        new_hidden = torch.flatten(torch.cat(new_hidden), 0, 1)\n", ""),
            ("return new_hidden, state", "return torch.cat(new_hidden, 0).flatten(0, 1), state"),
        ),
        (BRANCH,),
    ),
    Case("two", TWO, (BRANCH, "h, state = lstm_cells(self.other, new, done, state)\n            second += [h]\n")),
    Case(
        "sizes and parameters are read, and a network goes on to functions of the file",
        AGENT,
        (BRANCH,),
        parts={
            "functions": "def size_of(model):\n    return model.lstm.num_layers + model.lstm.weight_hh_l0.numel()",
            "begin": f"print(size_of(agent), id(agent))\n{PARTS['begin']}",
        },
    ),
]


@pytest.mark.parametrize("case", REWRITES, ids=str)
def test_rewrite(case: Case) -> None:
    step = turn(INFO.name, script({"agent": case.agent, **case.parts}), ALSO)
    assert isinstance(step.outcome, Applied), step.outcome
    function = render("lstm_cells", lstm_cells="lstm_cells", strict=case.strict)
    assert function + "\n\nclass Agent(nn.Module):\n" in step.after
    for branch in case.branches:
        assert branch in step.after
    loops = step.before.count("in zip(")
    assert step.after.count("is_dynamo_compiling()") == loops == step.after.count("in zip(") - 1
    assert '        torch._dynamo.config.allow_rnn = device.type == "cpu"\n' in step.after, "below what compiles"
    others = {line.strip() for line in step.before.splitlines()} - {line.strip() for line in step.after.splitlines()}
    assert not others, "every line is still there"


def used(line: str) -> str:
    """The network with one more statement in its constructor."""
    return edited(
        ("        self.critic = nn.Linear(8, 1)\n", f"        self.critic = nn.Linear(8, 1)\n        {line}\n")
    )


def made(how: str) -> str:
    return edited(("nn.LSTM(2, 8)", how))


UNKNOWN = "lstm is not called in a loop over time of a known form"
REACHED = "may change what the parts of a network do"
NOOPS = [
    NoOp("no LSTM", {"agent": PARTS["agent"]}, "has an LSTM", kind="not needed"),
    NoOp("GRU", {"agent": made("nn.GRU(2, 8)")}, "has an LSTM", kind="not needed"),
    *(
        NoOp(how, {"agent": made(how)}, "an LSTM with more than its two sizes")
        for how in (
            "nn.LSTM(2, 8, 2)",
            "nn.LSTM(2, 8, num_layers=1)",
            "nn.LSTM(2, 8, bias=False)",
            "nn.LSTM(2, 8, batch_first=True)",
            "nn.LSTM(2, 8, dropout=0.5)",
            "nn.LSTM(2, 8, bidirectional=True)",
            "nn.LSTM(2, 8, proj_size=4)",
            "nn.LSTM(*(2, 8))",
            "nn.LSTM(2, 8, **{})",
        )
    ),
    NoOp("around it", {"agent": made("nn.utils.weight_norm(nn.LSTM(2, 8), 'weight_hh_l0')")}, "does not keep as an"),
    NoOp(
        "made under a condition",
        {"agent": edited(("self.lstm = nn.LSTM(2, 8)", "if True:\n            self.lstm = nn.LSTM(2, 8)"))},
        "that the constructor does not keep as an attribute",
    ),
    NoOp("made twice", {"agent": used("self.lstm = nn.LSTM(2, 8)")}, "in more than one place"),
    NoOp("set again", {"agent": used("self.lstm = None")}, "uses self.lstm other than"),
    NoOp("handed on", {"agent": used("nn.utils.weight_norm(self.lstm, 'bias_hh_l0')")}, "uses self.lstm other than"),
    NoOp("a weight is set", {"agent": used("self.lstm.weight_hh_l0 = None")}, "uses self.lstm other than"),
    NoOp("a setting is read", {"agent": used("print(self.lstm.batch_first)")}, "uses self.lstm other than"),
    NoOp("called elsewhere", {"agent": used("self.lstm(torch.ones(1, 1, 2))")}, "uses self.lstm other than"),
    NoOp(
        "used by the script",
        {"agent": AGENT, "begin": f"agent.lstm.flatten_parameters()\n{PARTS['begin']}"},
        "uses agent.lstm other than",
    ),
    NoOp("by its name", {"agent": used("getattr(self.actor, 'lstm', None)")}, "which occurs in a text"),
    NoOp(
        "another base",
        {"agent": edited(("class Agent(nn.Module):", "class Base(nn.Module):\n    pass\n\n\nclass Agent(Base):"))},
        "derived only from nn.Module",
    ),
    NoOp(
        "a class of its own",
        {"agent": f"class Own(nn.LSTM):\n    pass\n\n\n{made('Own(2, 8)')}"},
        "derived only from nn.Module",
    ),
    *(
        NoOp(title, {"agent": AGENT, "begin": f"{line}\n{PARTS['begin']}"}, reason)
        for title, line, reason in (
            ("a hook", "agent.register_forward_hook(print)", REACHED),
            ("goes through the modules", "[m.train() for m in agent.modules()]", REACHED),
            ("applies something", "agent.apply(nn.utils.weight_norm)", REACHED),
            ("autocast", "torch.autocast('cpu').__enter__()", REACHED),
            ("is handed on", "optim.watch(agent)", "passes a network on"),
            ("is handed on in a list", "optim.watch([agent])", "passes a network on"),
            ("is handed on by its name", "optim.watch(models=agent)", "passes a network on"),
        )
    ),
    NoOp(
        "another LSTM",
        {"agent": AGENT, "begin": f"nn.LSTM = nn.GRU\n{PARTS['begin']}"},
        "no trained network of a class of this file has an LSTM",
        kind="not needed",
    ),
    NoOp(
        "is handed on by a function of the file",
        {
            "agent": AGENT,
            "functions": "def prepare(model):\n    optim.watch(model)",
            "begin": f"prepare(agent)\n{PARTS['begin']}",
        },
        "passes a network on",
    ),
    NoOp("another layer", {"agent": used("self.gru = nn.GRU(2, 8)")}, "makes another recurrent layer"),
    NoOp(
        "another LSTM outside of training",
        {"agent": AGENT, "functions": "class Other(nn.Module):\n    layer = nn.LSTM(2, 8)"},
        "makes another recurrent layer",
    ),
    NoOp(
        "configures torch.compile",
        {"agent": AGENT, "begin": f"torch._dynamo.config.allow_rnn = True\n{PARTS['begin']}"},
        "configures torch.compile for recurrent layers",
    ),
    NoOp("hands itself on", {"agent": used("optim.watch(self)")}, "passes a network on"),
    NoOp(
        "torch is set",
        {"agent": AGENT, "begin": f"nn = nn\n{PARTS['begin']}"},
        "torch is not imported by its name",
    ),
    *(
        NoOp(title, {"agent": edited(*changes)}, UNKNOWN)
        for title, changes in (
            ("h is read below", [("return new_hidden, state", "return new_hidden + 0 * h.sum(), state")]),
            ("d is read below", [("return new_hidden, state", "return new_hidden + 0 * d.sum(), state")]),
            ("the list is not empty", [("new_hidden = []", "new_hidden = [hidden[:1, :, :1].repeat(1, 1, 8)]")]),
            ("the list is shared", [("new_hidden = []", "new_hidden = self.kept = []")]),
            ("the list is made elsewhere", [("new_hidden = []\n", "new_hidden = []\n        print(x.dtype)\n")]),
            ("stacked", [("torch.cat(new_hidden)", "torch.stack(new_hidden)")]),
            ("joined by another dimension", [("torch.cat(new_hidden)", "torch.cat(new_hidden, 1)")]),
            ("read twice", [("torch.cat(new_hidden), 0", "torch.cat(new_hidden), len(new_hidden) * 0")]),
            (
                "read again",
                [
                    ("new_hidden = torch.flatten", "joined = torch.flatten"),
                    ("return new_hidden, state", "return joined + 0 * len(new_hidden), state"),
                ],
            ),
            ("the steps are no tensor", [("x.reshape((-1, 1, self.lstm.input_size))", "[x[:, None]]")]),
            ("the dones are no tensor", [("done = done.reshape((-1, 1))", "done = list(done)")]),
            ("perhaps no tensor", [("done = done.reshape((-1, 1))", "if len(x):\n            done = list(done)")]),
            ("more is zipped", [("for h, d in zip(hidden, done)", "for h, d, _ in zip(hidden, done, done)")]),
            ("other steps", [("for h, d in zip(hidden, done)", "for h, d in reversed(list(zip(hidden, done)))")]),
            ("no step's dimension", [("h.unsqueeze(0)", "h.unsqueeze(1)")]),
            ("the other way round", [("(1.0 - d).view(1, -1, 1) * state[0]", "d.view(1, -1, 1) * state[0]")]),
            ("one part is kept", [("(1.0 - d).view(1, -1, 1) * state[1]", "state[1]")]),
            ("changed parts", [("(1.0 - d).view(1, -1, 1) * state[1]", "(1.0 - d).view(1, -1, 1) * state[0]")]),
            ("of whole numbers", [("(1.0 - d).view(1, -1, 1) * state[0]", "(1 - d).view(1, -1, 1) * state[0]")]),
            ("something else is put in", [("new_hidden += [h]", "new_hidden += [h * 2]")]),
            ("more is done", [("            new_hidden += [h]", "            d\n            new_hidden += [h]")]),
            ("else", [("        new_hidden = torch.flatten", "        else:\n            print(x)\n"
              "        new_hidden = torch.flatten")]),
            ("in a decorated method", [("    def get_states", "    @torch.enable_grad()\n    def get_states")]),
            ("a function of its own", [("        new_hidden = []", "        f = lambda: h\n        new_hidden = []")]),
            ("another self", [("        new_hidden = []", "        self = self\n        new_hidden = []")]),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    replace(noop, also=ALSO).check(INFO.name)


def test_another_target() -> None:
    source = script({"agent": AGENT})
    chosen = {"flags", "policy", "update", "compile", INFO.name}
    assert "lstm_cells" in convert(source, select=chosen).source
    assert "allow_rnn = True\n" in convert(source, select=chosen, target="cpu").source
    assert "lstm_cells" not in convert(source, select=chosen, target="cuda").source


@pytest.mark.slow
def test_other_transforms_decide_the_same() -> None:
    """All other transforms decide as they do for the original loop."""
    steps = {s.transform.name: s.outcome for s in convert(script({"agent": AGENT})).steps}
    without = {s.transform.name: s.outcome for s in convert(script({"agent": AGENT}), ignore={INFO.name}).steps}
    assert isinstance(steps.pop(INFO.name), Applied) and without.pop(INFO.name)
    assert steps == without


def emitted() -> Callable[..., Any]:
    space: dict[str, Any] = {"torch": torch}
    exec(render("lstm_cells", lstm_cells="lstm_cells", strict=False), space)
    function: Callable[..., Any] = space["lstm_cells"]
    return function


def loop(lstm: nn.LSTM, hidden: torch.Tensor, done: torch.Tensor, state: Any) -> Any:
    """The loop as scripts write it."""
    new_hidden = []
    for h, d in zip(hidden, done, strict=False):
        h, state = lstm(h.unsqueeze(0), ((1.0 - d).view(1, -1, 1) * state[0], (1.0 - d).view(1, -1, 1) * state[1]))
        new_hidden += [h]
    return torch.cat(new_hidden), state


@pytest.mark.parametrize("dones", [torch.float64, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize(
    "steps, envs, inputs, size", [(1, 1, 1, 1), (1, 5, 3, 4), (9, 1, 4, 3), (16, 3, 5, 7), (33, 4, 16, 8)]
)
def test_equals_the_loop(steps: int, envs: int, inputs: int, size: int, dones: torch.dtype) -> None:
    """Outputs, states and all gradients, with episodes that end at the first step, later, and at the last."""
    torch.manual_seed(steps)
    lstm = nn.LSTM(inputs, size).double()
    hidden = torch.randn(steps, envs, inputs, dtype=torch.float64, requires_grad=True)
    done = (torch.rand(steps, envs) < 0.3).to(dones)
    done[0, 0] = done[-1, -1] = steps > 1
    state = tuple(torch.randn(1, envs, size, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weights = torch.randn(3, steps, envs, size, dtype=torch.float64)
    results = []
    for function in (loop, emitted()):
        outputs, (h, c) = function(lstm, hidden, done, state)
        assert outputs.shape == (steps, envs, size) and h.shape == c.shape == (1, envs, size)
        total = (weights[0] * outputs).sum() + (weights[1, 0] * h).sum() + (weights[2, 0] * c).sum()
        results.append([outputs, h, c, *torch.autograd.grad(total, [hidden, *state, *lstm.parameters()])])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 3), (6, 3, 1)], ids=str)
def test_shapes_of_the_dones(shape: tuple[int, ...]) -> None:
    """All shapes that the loop takes: a number per step or per environment, in any layout, also for fewer steps."""
    lstm, hidden, done = nn.LSTM(2, 4).double(), torch.randn(7, 3, 2).double(), (torch.rand(shape) < 0.4).double()
    state = (torch.randn(1, 3, 4).double(), torch.randn(1, 1, 4).double().expand(1, 3, 4))
    with torch.no_grad():
        expected, found = loop(lstm, hidden, done, state), emitted()(lstm, hidden, done, state)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_in_compiled_code_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager code runs the loop itself; compiled code computes the same within rounding."""
    converted = types.ModuleType("converted")
    exec(compile(convert(script({"agent": AGENT})).source, "converted", "exec"), vars(converted))
    monkeypatch.setitem(sys.modules, "converted", converted)
    monkeypatch.setattr(torch._dynamo.config, "allow_rnn", True)
    calls = []
    cells = converted.lstm_cells

    @torch.compiler.disable
    def counted(*given: Any) -> Any:
        calls.append(len(given[1]))
        return cells(*given)

    monkeypatch.setattr(converted, "lstm_cells", counted)
    agent = converted.Agent().double()
    given = torch.randn(6, 2).double(), (torch.randn(1, 1, 8).double(), torch.randn(1, 1, 8).double())
    done = torch.tensor([0.0, 1, 0, 0, 0, 1]).double()
    expected = agent.get_states(*given, done)
    assert not calls
    torch._dynamo.reset()
    found = torch.compile(agent.get_states, backend="eager")(*given, done)
    assert calls == [6]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
