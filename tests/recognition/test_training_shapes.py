"""Training in other shapes than a rollout loop above epochs: conversions print what the original prints.

Each is run in this process, original and converted, with the flags off and with `--compile` and nothing compiled.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from programs import printed
from scripts import PARTS, edited, script

from transformer import Conversion, convert

QUIET = {"metrics": "", "report": "print(turn, loss.item(), v_loss.item())", "anneal": ""}
ON_POLICY = ("rollout", "gae", "update", "compile")


@dataclass(frozen=True)
class Shape:
    """A script, the transforms that must apply to it, and those that must not."""

    title: str
    parts: dict[str, str]
    applied: tuple[str, ...] = ("update", "compile")
    held: dict[str, str] = field(default_factory=dict)
    """Transforms that are skipped, each with a piece of the reason."""
    edit: Callable[[str], str] = str
    """Changes the script's text at the end."""

    def __str__(self) -> str:
        return self.title

    def text(self) -> str:
        """The script."""
        return self.edit(script({**QUIET, "loop": "for turn in range(args.num_iterations):", **self.parts}, spare=True))


# --- one environment step per turn ------------------------------------------------------------------------------------

GATHERED = """
obs, rewards = torch.stack(seen), torch.stack(paid)
actions, logprobs = torch.stack(chosen), torch.stack(likely)
dones, values = torch.stack(ended), torch.stack(worth)
"""
TURN = """
with torch.no_grad():
    action, logprob, _, value = agent.get_action_and_value(next_obs)
seen.append(next_obs)
ended.append(next_done)
worth.append(value.flatten())
chosen.append(action)
likely.append(logprob)
next_obs, reward, done, info = envs.step(action.cpu().numpy())
paid.append(torch.tensor(reward).float().to(device).view(-1))
next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)
if <full>:
    <gathered>
    <advantages>
    <flat>
    <epochs>
    <told>
    <emptied>
"""
EMPTY = "seen, ended, worth, chosen, likely, paid = [], [], [], [], [], []"


def turns(full: str, **parts: str) -> dict[str, str]:
    """One environment step per turn, and an update in some turns."""
    return {
        "allocate": "\n" + EMPTY,
        "loop": "for turn in range(args.num_iterations * args.num_steps):",
        "collect": TURN.replace("<full>", full),
        "gathered": GATHERED,
        "flat": PARTS["flatten"],
        "epochs": PARTS["minibatches"],
        "told": QUIET["report"],
        "emptied": EMPTY,
        **dict.fromkeys(("estimate", "flatten", "minibatches", "report"), ""),
        **parts,
    }


def in_main(text: str) -> str:
    """The script with its training in a function."""
    return text.replace('if __name__ == "__main__":', "def main():") + "\n\nmain()\n"


TURNS = [
    Shape("lists that are full", turns("len(seen) == args.num_steps"), ("policy", "update", "one-graph", "compile")),
    Shape("every few turns", turns("(turn + 1) % args.num_steps == 0"), ("policy", "update", "compile")),
    Shape("in a function", turns("len(seen) == args.num_steps"), ("policy", "update", "compile"), edit=in_main),
    Shape(
        "lists that others hold",
        turns(
            "len(seen) == args.num_steps",
            before_loop="others = [seen, paid]",
            emptied="print(len(others[0]))\n" + EMPTY,
        ),
    ),
    Shape(
        "lists that are emptied in place",
        turns(
            "len(seen) == args.num_steps",
            emptied="for one in (seen, ended, worth, chosen, likely, paid):\n    one.clear()",
        ),
    ),
    Shape(
        "a report in each turn of what the update leaves",
        turns(
            "len(seen) == args.num_steps",
            before_loop="loss = torch.zeros(())",
            report="print(turn, loss.item(), len(seen))",
        ),
    ),
]

TURNS += [
    Shape(
        "a network that is made anew",
        turns("len(seen) == args.num_steps", emptied=EMPTY + "\nagent.load_state_dict(Agent().state_dict())"),
    ),
    Shape(
        "a name that stands for another network",
        turns(
            "len(seen) == args.num_steps",
            before_loop="spare = Agent()",
            emptied=EMPTY + "\nagent, spare = spare, agent\noptimizer = optim.Adam(agent.parameters(), lr=0.01)",
        ),
        ("update",),
        {"policy": "binds agent"},
    ),
    Shape(
        "a rate that falls in each turn",
        turns("len(seen) == args.num_steps", head='optimizer.param_groups[0]["lr"] *= 0.99'),
        ("policy", "update"),
    ),
    Shape(
        "two lists that are one",
        turns(
            "len(seen) == args.num_steps",
            emptied=EMPTY.replace("[], [], [], [], [], []", "[], [], [], [], [], []\nended = ended[:]"),
        ),
    ),
]

# --- an object that trains --------------------------------------------------------------------------------------------

NAMES = "agent optimizer envs args device obs actions logprobs rewards dones values next_obs next_done"
OURS = rf"(?<![\w.\"])({NAMES.replace(' ', '|')})\b(?!=)"


def own(text: str) -> str:
    """A part of the script with the object's attributes in place of variables."""
    return re.sub(OURS, r"self.\1", textwrap.dedent(text).strip("\n"))


def method(head: str, text: str, result: str = "") -> str:
    return f"\n    def {head}:\n{textwrap.indent(own(text) + result, '        ')}\n"


ROLLOUT = script({**QUIET, "loop": "for turn in range(1):"})
ROLLOUT = textwrap.dedent(
    ROLLOUT[
        ROLLOUT.index("        for step in") : ROLLOUT.index("        with torch.no_grad():\n            next_value")
    ]
)
EPOCHS = script({**QUIET, "loop": "for turn in range(1):"})
EPOCHS = textwrap.dedent(EPOCHS[EPOCHS.index("        b_obs =") : EPOCHS.index("        print(turn")])
ESTIMATE = script({**QUIET, "loop": "for turn in range(1):"})
ESTIMATE = textwrap.dedent(
    ESTIMATE[
        ESTIMATE.index("        with torch.no_grad():\n            next_value") : ESTIMATE.index("        b_obs =")
    ]
)
BEGIN = "next_obs = torch.Tensor(envs.reset()).to(device)\nnext_done = torch.zeros(args.num_envs).to(device)\n"
LEARNER = (
    "class Learner<base>:\n    def __init__(self, args, agent, optimizer, envs, device):\n"
    + textwrap.indent("".join(f"self.{n} = {n}\n" for n in ("args", "agent", "optimizer", "envs", "device")), " " * 8)
    + textwrap.indent(own(PARTS["buffers"] + "\n" + BEGIN), " " * 8)
    + "\n"
    + method("collect(self)", ROLLOUT.replace("    global_step += args.num_envs\n", ""))
    + method("estimate(self)", ESTIMATE, "\nreturn advantages, returns")
    + method("update(self, advantages, returns)", EPOCHS, "\nreturn loss.item(), v_loss.item()")
)
MADE = "Learner(args, agent, optimizer, envs, device)"
STEPPED = """
learner.collect()
advantages, returns = learner.estimate()
losses = learner.update(advantages, returns)
print(turn, *losses)
"""
RUN = "\n    def run(self, turns):\n        for turn in range(turns):\n" + textwrap.indent(
    STEPPED.strip("\n").replace("learner.", "self."), " " * 12
)


def learner(text: str = LEARNER, **parts: str) -> dict[str, str]:
    """The phases as methods, called from the module."""
    return {
        "functions": text.replace("<base>", "") + "\n",
        "allocate": "",
        "begin": "",
        "before_loop": f"learner = {MADE}",
        "collect": STEPPED,
        **dict.fromkeys(("estimate", "flatten", "minibatches", "report"), ""),
        **parts,
    }


ALONE = {
    "loop": "for turn in range(1):",
    "collect": "pass",
}
SECOND = f"second = {MADE.replace('agent, optimizer', 'other, optim.Adam(other.parameters(), lr=0.01)')}"
LEARNERS = [
    Shape("methods of one object", learner(), ("dissolve", "storage", "one-graph", *ON_POLICY)),
    Shape(
        "two objects of the class",
        learner(
            before_loop=f"learner = {MADE}\nother = Agent()\n{SECOND}",
            collect=STEPPED + STEPPED.replace("learner", "second"),
        ),
    ),
    Shape(
        "two objects that share a network",
        learner(
            before_loop=f"learner = {MADE}\nsecond = {MADE}", collect=STEPPED + STEPPED.replace("learner", "second")
        ),
    ),
    Shape(
        "an object that is kept elsewhere",
        learner(before_loop=f"learner = {MADE}\nkept = [learner]", collect=STEPPED + "print(len(kept))"),
    ),
    Shape(
        "update() is called from two places",
        learner(collect=STEPPED + "print(*learner.update(advantages, returns))"),
    ),
    Shape(
        "update() returns early",
        learner(
            LEARNER.replace(
                "def update(self, advantages, returns):",
                "def update(self, advantages, returns):\n        if self.args.update_epochs == 0:\n"
                "            return 0.0, 0.0",
            )
        ),
    ),
    Shape(
        "update() returns early, and nothing is made of its result",
        learner(
            LEARNER.replace(
                "def update(self, advantages, returns):",
                "def update(self, advantages, returns):\n        if self.args.update_epochs == 0:\n            return",
            ).replace("return loss.item(), v_loss.item()", "print(loss.item(), v_loss.item())"),
            collect=STEPPED.replace("losses = ", "").replace("print(turn, *losses)", ""),
        ),
        ("dissolve", "storage", "rollout", "gae", "update", "compile"),
    ),
    Shape(
        "run() in a method of a derived class",
        learner(
            LEARNER.replace("<base>", "(Named)") + RUN,
            agent=PARTS["agent"] + "\n\n\nclass Named:\n    def name(self):\n        return type(self).__name__",
            before_loop=f"learner = {MADE}\nprint(learner.name())\nlearner.run(args.num_iterations)",
            **ALONE,
        ),
        ON_POLICY,
    ),
    Shape(
        "update() is overridden",
        learner(
            LEARNER
            + "\n\nclass Louder(Learner):\n    def update(self, advantages, returns):\n        print('louder')\n"
            + "        return super().update(2 * advantages, returns)\n",
            before_loop=f"learner = {MADE.replace('Learner', 'Louder')}",
        ),
    ),
    Shape(
        "update() is replaced",
        learner(
            before_loop="plain = Learner.update\nLearner.update = lambda self, a, r: plain(self, 2 * a, r)\n"
            f"learner = {MADE}"
        ),
    ),
    Shape(
        "its optimizer is replaced",
        learner(
            before_loop=f"learner = {MADE}",
            collect=STEPPED + "if turn == 0:\n    learner.optimizer = optim.SGD(agent.parameters(), lr=0.1)",
        ),
        ("update",),
    ),
    Shape(
        "its network is replaced",
        learner(
            before_loop=f"learner = {MADE}\nother = Agent()",
            collect=STEPPED
            + "learner.agent = other\n"
            + "learner.optimizer = optim.Adam(other.parameters(), lr=0.01)\nprint(len(vars(learner)))",
        ),
        ("update",),
    ),
    Shape(
        "an object that holds the object",
        learner(
            LEARNER
            + "\n\nclass Runner:\n    def __init__(self, learner):\n        self.learner = learner\n"
            + RUN.replace("self.", "self.learner."),
            before_loop=f"Runner({MADE}).run(args.num_iterations)",
            **ALONE,
        ),
    ),
]

# --- optimizers -------------------------------------------------------------------------------------------------------

FULLY = ("storage", "one-graph", *ON_POLICY)
MAKES = "def make(args, agent):\n    return optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)\n"
BOTH = (
    "def build(args):\n    net = Agent()\n    opt = optim.Adam(net.parameters(), lr=args.learning_rate, eps=1e-5)\n"
    "    return net, opt\n"
)
SIGNED = """
class Signed(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad.sign(), alpha=-group["lr"] / self.steps)
"""
PLAIN = """
class Descent:
    def __init__(self, params, lr):
        self.params, self.lr = list(params), lr

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        with torch.no_grad():
            for p in self.params:
                p -= self.lr * p.grad
"""
CHOSEN = (
    "def make(args, agent):\n    if args.learning_rate > 1:\n        return optim.SGD(agent.parameters(), lr=1.0)\n"
    "    return optim.Adam(agent.parameters(), lr=args.learning_rate)\n"
)
SEVERAL = "optimizers = [optim.Adam(agent.actor.parameters(), lr=0.01), optim.SGD(agent.critic.parameters(), lr=0.1)]"
STEPS = edited("optimize", "optimizer.zero_grad()", "for opt in optimizers:\n    opt.zero_grad()").replace(
    "optimizer.step()", "for opt in optimizers:\n    opt.step()"
)
OPTIMIZERS = [
    Shape(
        "a function makes it", {"functions": MAKES, "optimizer": "optimizer = make(args, agent)"}, ("inline", *FULLY)
    ),
    Shape(
        "a function makes it and the network",
        {"functions": BOTH, "make_agent": "agent, optimizer = build(args)", "optimizer": ""},
        ("inline", *FULLY),
    ),
    Shape(
        "a method makes it",
        {
            "agent": PARTS["agent"]
            + "\n\n    def make(self, lr):\n        return optim.Adam(self.parameters(), lr=lr)",
            "optimizer": "optimizer = agent.make(args.learning_rate)",
        },
        ("inline", *FULLY),
    ),
    Shape(
        "a function makes it, and is kept",
        {
            "functions": MAKES,
            "optimizer": "makers = [make]\noptimizer = make(args, agent)",
            "end": "    print(len(makers))",
        },
        ON_POLICY,
    ),
    Shape(
        "a function makes it in each turn",
        {"functions": MAKES, "optimizer": "", "head": "optimizer = make(args, agent)"},
        ("rollout", "gae", "update"),
    ),
    Shape(
        "a function makes it, with variables that the script has",
        {
            "functions": MAKES.replace(
                "return optim.Adam(agent.parameters()", "values = agent.parameters()\n    return optim.Adam(values"
            ),
            "optimizer": "optimizer = make(args, agent)",
        },
        ("inline", *ON_POLICY),
    ),
    Shape(
        "a class of the file with a rate of its own",
        {
            "functions": PLAIN + "\n    def calm(self, pace):\n        self.lr = pace * self.lr\n",
            "optimizer": "optimizer = Descent(agent.parameters(), 0.01)",
            "head": "optimizer.calm(0.5)",
        },
        ON_POLICY,
    ),
    Shape(
        "a function chooses it",
        {"functions": CHOSEN, "optimizer": "optimizer = make(args, agent)"},
        ON_POLICY,
        {"one-graph": "made more than once"},
    ),
    Shape(
        "two calls make it",
        {"functions": MAKES, "optimizer": "optimizer = make(args, agent)\nspare = make(args, agent)"},
        ON_POLICY,
        {"one-graph": "not known"},
    ),
    Shape(
        "a class derived from torch's, which counts",
        {"functions": SIGNED, "optimizer": "optimizer = Signed(agent.parameters(), 0.01)"},
        ("rollout", "gae", "update"),
        {"one-graph": "not known"},
    ),
    Shape(
        "its gradients are cleared by the network",
        {
            "functions": SIGNED.replace("        self.steps += 1\n", "").replace(" / self.steps", ""),
            "optimizer": "optimizer = Signed(agent.parameters(), 0.01)",
            "optimize": PARTS["optimize"].replace("optimizer.zero_grad", "agent.zero_grad"),
        },
        ON_POLICY,
    ),
    Shape(
        "a class of the file",
        {"functions": PLAIN, "optimizer": "optimizer = Descent(agent.parameters(), 0.01)"},
        ON_POLICY,
        {"one-graph": "not known"},
    ),
    Shape("a list of several", {"optimizer": SEVERAL, "optimize": STEPS}, ON_POLICY),
]

# --- conditions on arguments ------------------------------------------------------------------------------------------

CURIOUS = {
    "parser": PARTS["parser"] + '\nparser.add_argument("--exploration", default="rnd")',
    "optimizer": PARTS["optimizer"] + '\npredictor = nn.Linear(2, 4)\nif args.exploration == "rnd":\n'
    "    curious = optim.Adam(predictor.parameters(), lr=0.01)",
    "optimize": PARTS["optimize"] + '\nif args.exploration == "rnd":\n    curious.zero_grad()\n'
    "    predictor(b_obs[mb_inds]).square().mean().backward()\n"
    "    curious.step()",
    "report": "print(turn, loss.item(), predictor.weight.sum().item())",
}
CONDITIONS = [
    Shape("a second loss under a condition", CURIOUS, ("one-graph", *ON_POLICY)),
    Shape("in a function", CURIOUS, ("one-graph", *ON_POLICY), edit=in_main),
    Shape(
        "that does not hold",
        {**CURIOUS, "parser": CURIOUS["parser"].replace('default="rnd"', 'default="none"')},
        ("one-graph", *ON_POLICY),
    ),
    Shape(
        "that does not hold, in a function",
        {**CURIOUS, "parser": CURIOUS["parser"].replace('default="rnd"', 'default="none"')},
        ("one-graph", *ON_POLICY),
        edit=in_main,
    ),
    Shape(
        "on an argument that training changes",
        {**CURIOUS, "head": 'args.exploration = "rnd" if turn < 2 else "none"'},
        ON_POLICY,
        {"one-graph": "is not a statement of its own that always runs"},
    ),
    Shape(
        "on an argument that a function changes",
        {
            **CURIOUS,
            "functions": 'def calm(options):\n    options.exploration = "none"\n',
            "head": "if turn == 2:\n    calm(args)",
        },
        ON_POLICY,
        {"one-graph": "is not a statement of its own that always runs"},
    ),
    Shape(
        "on a variable",
        {
            **CURIOUS,
            "begin": PARTS["begin"] + "\ncuriously = torch.ones(())",
            "head": "curiously -= 0.4",
            "optimize": CURIOUS["optimize"].replace('args.exploration == "rnd"', "curiously > 0"),
        },
        ("rollout", "gae", "update"),
        {"one-graph": "is not a statement of its own that always runs"},
    ),
]

# --- locals() ---------------------------------------------------------------------------------------------------------

ASKS = 'if "v_loss" in locals():\n    print(v_loss.item())'
LOCALS = [
    Shape("asks for a name that is read", {"report": ASKS}, ON_POLICY),
    Shape(
        "asks for a name that objects have, too",
        {"functions": "class Last:\n    v_loss = 0.5\n", "report": f"{ASKS}\nelse:\n    print(Last.v_loss)"},
        ON_POLICY,
    ),
    Shape("asks below the training", {"end": textwrap.indent(ASKS, "    ")}, ("one-graph", *ON_POLICY)),
    Shape("asks above the update", {"head": ASKS}, ("rollout", "gae", "update")),
    Shape(
        "asks for a name that is never bound",
        {"report": 'if "w_loss" in locals():\n    print(w_loss)\nprint(v_loss.item())'},
        ON_POLICY,
    ),
]
SEEN = [
    {"report": "print(sorted(locals()))"},
    {"report": "print(locals().get('v_loss'))"},
    {"report": 'print("v_loss" in locals())'},
    {"functions": "def other():\n    v_loss = 1\n    return v_loss\n", "report": ASKS},
    {"report": 'if "v_loss" not in locals():\n    v_loss = torch.zeros(())\nprint(v_loss)'},
]

# --- several agents ---------------------------------------------------------------------------------------------------

GRID = """
class Grid:
    def __init__(self):
        self.time = 0
        self.place = {i: np.zeros(2, dtype=np.float32) + i for i in range(2)}

    def reset(self):
        return dict(self.place)

    def step(self, chosen):
        self.time += 1
        self.place = {i: p + 0.1 * (chosen[i] - 0.5) + 0.01 * self.time for i, p in self.place.items()}
        self.place = {i: p.astype(np.float32) for i, p in self.place.items()}
        return dict(self.place), {i: float(p.sum()) for i, p in self.place.items()}, self.time % 5 == 0, {}
"""
AGENTS = """
agents = {i: Agent() for i in range(2)}
optimizers = {i: optim.Adam(agents[i].parameters(), lr=0.01) for i in agents}
"""
EACH = """
for step in range(args.num_steps):
    chosen = {}
    for <each>:
        obs[i][step] = torch.tensor(next_obs[i])
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(obs[i][step])
        actions[i][step], logprobs[i][step], values[i][step] = action, logprob, value[0]
        chosen[i] = action.item()
    next_obs, paid, done, info = grid.step(chosen)
    for i in paid:
        rewards[i][step] = paid[i]
for <each>:
    advantages = torch.zeros_like(rewards[i])
    tail = 0.0
    for t in reversed(range(args.num_steps)):
        tail = rewards[i][t] - values[i][t] + args.gamma * tail
        advantages[t] = tail
    returns = advantages + values[i]
    for epoch in range(args.update_epochs):
        for mb_inds in torch.randperm(args.num_steps).split(args.minibatch_size):
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs[i][mb_inds], actions[i][mb_inds])
            ratio = (newlogprob - logprobs[i][mb_inds]).exp()
            gain = torch.min(advantages[mb_inds] * ratio, advantages[mb_inds] * ratio.clamp(0.8, 1.2)).mean()
            v_loss = ((newvalue.view(-1) - returns[mb_inds]) ** 2).mean()
            loss = 0.5 * v_loss - gain - 0.01 * entropy.mean()
            optimizers[i].zero_grad()
            loss.backward()
            optimizers[i].step()
    print(turn, i, loss.item(), v_loss.item())
"""
KEPT = """
obs = [torch.zeros(args.num_steps, 2) for _ in agents]
actions, logprobs, rewards, values = ([torch.zeros(args.num_steps) for _ in agents] for _ in range(4))
"""


def several(each: str, edit: Callable[[str], str] = str, agents: str = AGENTS) -> dict[str, str]:
    """A network and an optimizer for each of two simultaneous players."""
    return {
        "functions": GRID,
        "make_agent": agents,
        "optimizer": "",
        "allocate": KEPT,
        "begin": "grid = Grid()\nnext_obs = grid.reset()",
        "collect": edit(EACH.replace("<each>", each)),
        **dict.fromkeys(("estimate", "flatten", "minibatches", "report"), ""),
    }


LIST = "agents = [Agent(), Agent()]\noptimizers = [optim.Adam(agent.parameters(), lr=0.01) for agent in agents]"
AGENTS_OF = [
    Shape("dictionaries", several("i, agent in agents.items()"), ("rollout", "update")),
    Shape("lists", several("i, agent in enumerate(agents)", agents=LIST), ("rollout", "update", "compile")),
    Shape(
        "pairs",
        several(
            "i, (agent, optimizer) in enumerate(zip(agents, optimizers))",
            lambda t: t.replace("optimizers[i].", "optimizer."),
            LIST,
        ),
        ("rollout", "update", "compile"),
    ),
    Shape(
        "by key", several("i in agents", lambda t: t.replace("agent.", "agents[i].")), ("rollout", "update", "compile")
    ),
    Shape(
        "one of whom stops to learn",
        several(
            "i, agent in agents.items()",
            lambda t: t + "\nif turn == 0:\n    optimizers[1] = optim.SGD(agents[1].parameters(), lr=0.0)",
        ),
        ("rollout", "update"),
    ),
    Shape(
        "one network for both",
        several("i, agent in enumerate(agents)", agents=LIST.replace("Agent(), Agent()", "Agent()] * 2 + [")),
        ("rollout", "update"),
    ),
]

QUICK = (
    "lists that are full", "update() is called from two places", "update() is replaced", "a function makes it",
    "a class of the file", "a second loss under a condition", "asks for a name that is read", "dictionaries",
)  # fmt: skip
"""The titles of shapes that are not marked slow."""


def shapes() -> list[object]:
    """All shapes, as parameters of a test."""
    names = ("turn", "learner", "optimizer", "condition", "locals", "several")
    groups = zip(names, (TURNS, LEARNERS, OPTIMIZERS, CONDITIONS, LOCALS, AGENTS_OF), strict=True)
    marks = {True: [], False: [pytest.mark.slow]}
    return [
        pytest.param(shape, id=f"{name}: {shape}", marks=marks[shape.title in QUICK])
        for name, group in groups
        for shape in group
    ]


def converted(text: str) -> Conversion:
    """The conversion with the original's permutations and order of arithmetic."""
    return convert(text, ignore=["shuffle", "evaluate-once"])


@pytest.mark.parametrize("shape", shapes())
def test_shape(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shape.text()
    made = converted(text)
    assert made.converted, made.errors
    outcomes = {step.transform.name: step.outcome for step in made.steps}
    applied = [step.transform.name for step in made.steps if step.applied]
    assert set(shape.applied) <= set(applied), (applied, outcomes)
    for name, reason in shape.held.items():
        assert name not in applied
        assert reason in outcomes[name].reason
    monkeypatch.setattr(sys, "argv", ["script.py"])
    before = printed(text)
    assert before
    assert printed(made.source) == before
    assert bool(made.options) == ("compile" in applied)  # no flags if nothing is compiled
    if not made.options:
        return
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(sys, "argv", ["script.py", "--compile"])
    assert printed(made.source) == before


@pytest.mark.parametrize("parts", SEEN, ids=lambda parts: parts["report"])
def test_lookups_in_locals_are_refused(parts: dict[str, str]) -> None:
    (found,) = convert(script({**QUIET, "loop": "for turn in range(3):", **parts}, spare=True)).errors
    assert found.code == "LC005"
    assert "locals() sees all names" in found.message


SUPERVISED = """
import torch

net = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(3):
    for x, y in data:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
"""
SAMPLED = """
import torch


def learn(agent, target, optimizer, buffer):
    for _ in range(8):
        batch = buffer.sample(32)
        best = target(batch.next_obs).max(1).values
        loss = (agent(batch.obs).exp() - batch.rewards - best.detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("source", [SUPERVISED, SAMPLED], ids=["supervised", "from a replay buffer"])
def test_an_update_of_no_policy_stays(source: str) -> None:
    (found,) = convert(source).diagnostics
    assert found.code == "LC004"


def test_a_method_that_uses_super_stays() -> None:
    text = LEARNER.replace("<base>", "(Paced)").replace("pg_loss + 0.5", "super().pace() * pg_loss + 0.5")
    paced = "class Paced:\n    def pace(self):\n        return 2.0\n\n\n"
    parts = learner(functions=paced + text + "\n", collect=STEPPED * 2)
    made = convert(script({**QUIET, "loop": "for turn in range(3):", **parts}, spare=True))
    (found,) = made.errors
    assert found.code == "LC005"
    assert "uses super" in found.message


def test_a_warning_if_only_the_update_is_converted() -> None:
    made = convert(script({**QUIET, "loop": "for turn in range(3):", **learner(collect=STEPPED * 2)}, spare=True))
    (found,) = [d for d in made.warnings if d.code == "LC102"]
    assert "only the update is converted: the environment is stepped here in collect" in found.message
    assert "envs.step(" in made.original.splitlines()[found.line - 1]
