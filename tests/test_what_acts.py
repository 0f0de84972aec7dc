"""The network that acts is the one that is trained, whatever a script does to it; and more that must not be lost.

Each case is a small edit of the script in scripts.py on which a conversion once computed something else, crashed, or
would have, had an allowance been a list of spellings that are wrong. Conversions are equal bit by bit, with the flags
off and with them on and nothing compiled; the transforms that would not be right are skipped, and say why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from forking import preload
from judge import judge
from scripts import PARTS, edited, script

AGENT, REPORT = PARTS["agent"], PARTS["report"]
DROPOUT = AGENT.replace("nn.Tanh(), nn.Linear(8, 2)", "nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 2)")
STEADY = ("evaluate-once",)
"""What must not be applied where the network may change during the rollout, or is no network of known modules."""
LAST = "nn.Linear(8, 1)"
BOTH = "agent.actor.eval()\n<rollout>\nagent.actor.train()"


@dataclass(frozen=True)
class Case:
    """An edit of the script, and what must be skipped on it."""

    title: str
    parts: Mapping[str, str]
    skipped: tuple[str, ...] = STEADY
    fast: bool = field(default=False)

    def __str__(self) -> str:
        return self.title


def with_state(init: str, logits: str = "self.actor(x)", given: str = "") -> str:
    """A network with more attributes, which its policy uses."""
    text = AGENT.replace("def __init__(self)", f"def __init__(self{given})").replace(
        "logits=self.actor(x)", f"logits={logits}"
    )
    return text.replace("super().__init__()", "super().__init__()\n        " + init.replace("\n", "\n        "))


MODES = [
    Case("the mode of a part", {"agent": DROPOUT, "collect": BOTH}, fast=True),
    Case(
        "the mode of a part through a helper",
        {
            "agent": DROPOUT,
            "functions": "def mode(module, train):\n    module.train(train)\n\n\n",
            "collect": "mode(agent.actor, False)\n<rollout>\nmode(agent.actor, True)",
        },
    ),
    Case(
        "modes of parts in a list",
        {
            "agent": DROPOUT,
            "copy": "nets = [agent.actor, agent.critic]",
            "head": "for net in nets:\n    net.eval()",
            "stack": "for net in nets:\n    net.train()",
        },
    ),
    Case(
        "modes of networks in a dictionary",
        {
            "agent": DROPOUT,
            "copy": 'models = {"agent": agent}',
            "head": "for model in models.values():\n    model.eval()",
            "stack": "for model in models.values():\n    model.train()",
        },
    ),
    Case(
        "the mode of another name",
        {"agent": DROPOUT, "copy": "pi = agent.actor", "head": "pi.eval()", "stack": "pi.train()"},
    ),
    Case(
        "modes that are set as attributes",
        {
            "agent": DROPOUT,
            "head": "for m in agent.modules():\n    m.training = False",
            "stack": "for m in agent.modules():\n    m.training = True",
        },
    ),
]

SCHEDULE = """
class Schedule:
    def __init__(self):
        self.value = 1.0

    def get(self):
        return self.value


"""
STATE = [
    Case(
        "a tensor that is trained and no parameter",
        {
            "agent": with_state("self.shift = torch.zeros(2, requires_grad=True)", "self.actor(x) + self.shift"),
            "optimizer": "optimizer = optim.Adam([*agent.parameters(), agent.shift], lr=args.learning_rate)",
        },
        fast=True,
    ),
    Case(
        "a list of modules",
        {
            "agent": with_state("self.heads = [nn.Linear(2, 2), nn.Linear(2, 2)]", "sum(h(x) for h in self.heads)"),
            "optimizer": "optimizer = optim.Adam(\n    [*agent.parameters(), *agent.heads[0].parameters()], "
            "lr=args.learning_rate\n)",
        },
    ),
    Case(
        "an encoder that is held in a list",
        {
            "agent": with_state("self.held = [nn.Linear(2, 2)]", "self.actor(self.held[0](x))"),
            "optimizer": "optimizer = optim.Adam(\n    [*agent.parameters(), *agent.held[0].parameters()], "
            "lr=args.learning_rate\n)",
        },
    ),
    Case(
        "a generator of torch's",
        {
            "agent": with_state(
                "self.source = torch.Generator().manual_seed(1)",
                "self.actor(x) + torch.randn(2, generator=self.source)",
            )
        },
    ),
    Case(
        "a generator of numpy's",
        {"agent": with_state("self.source = np.random.default_rng(1)", "self.actor(x) * (1 + self.source.random())")},
    ),
    Case(
        "a count",
        {
            "stdlib": "import itertools",
            "agent": with_state("self.count = itertools.count(1)", "self.actor(x) / next(self.count)"),
        },
    ),
    Case(
        "a Dropout that is annealed",
        {
            "agent": DROPOUT,
            "head": "for m in agent.modules():\n    if isinstance(m, nn.Dropout):\n        m.p = 0.3 / iteration",
        },
    ),
    Case(
        "a schedule's bound method",
        {
            "functions": SCHEDULE,
            "agent": with_state("self.temp = temp", "self.actor(x) / self.temp()", ", temp"),
            "make_agent": "schedule = Schedule()\nagent = Agent(schedule.get).to(device)",
            "report": REPORT + "\nschedule.value *= 0.5",
        },
        fast=True,
    ),
    Case(
        "a lambda that reads the loop's variable",
        {
            "agent": with_state("self.temp = temp", "self.actor(x) / self.temp()", ", temp"),
            "make_agent": "agent = Agent(lambda: 1.0 / iteration).to(device)",
        },
    ),
    Case("a lock", {"stdlib": "import threading", "agent": with_state("self.lock = threading.Lock()")}, ()),
    Case("an open file", {"stdlib": "import os", "agent": with_state('self.log = open(os.devnull, "w")')}, ()),
    Case(
        "a traced module",
        {"agent": with_state("self.traced = torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2))", "self.traced(x)")},
    ),
]

FOUR = {"report": REPORT}
STRUCTURE = [
    Case(
        "a layer that a function replaces",
        {"functions": f"def renew(model):\n    model.critic[-1] = {LAST}\n\n\n", "report": REPORT + "\nrenew(agent)"},
        fast=True,
    ),
    Case(
        "a layer of a network in a dictionary",
        {"copy": 'models = {"agent": agent}', "report": REPORT + f'\nmodels["agent"].critic[2] = {LAST}'},
    ),
    Case("a layer by getattr()", {"report": REPORT + f'\ngetattr(agent, "critic")[2] = {LAST}'}),
    Case("a layer by set_submodule()", {"report": REPORT + f'\nagent.set_submodule("critic.2", {LAST})'}),
    Case("one more layer", {"report": REPORT + "\nagent.critic.append(nn.Tanh())"}),
    Case(
        "other parameters by load_state_dict()",
        {
            "report": REPORT + "\nstate = {k: 0.5 * v for k, v in agent.state_dict().items()}\n"
            "agent.load_state_dict(state, assign=True)"
        },
    ),
    Case(
        "pruning",
        {
            "third_party": "import torch.nn.utils.prune as prune",
            "report": REPORT + '\nprune.l1_unstructured(agent.actor[0], "weight", 0.5)',
        },
    ),
    Case(
        "a parametrization",
        {
            "functions": "class Half(nn.Module):\n    def forward(self, w):\n        return 0.5 * w\n\n\n",
            "third_party": "from torch.nn.utils import parametrize",
            "report": REPORT + '\nparametrize.register_parametrization(agent.actor[0], "weight", Half())',
        },
    ),
    Case(
        "swapped tensors",
        {"report": REPORT + "\ntorch.utils.swap_tensors(agent.actor[2].bias, nn.Parameter(torch.ones(2)))"},
    ),
    Case(
        "a buffer that is registered in the loop",
        {
            "agent": AGENT.replace("logits=self.actor(x)", 'logits=self.actor(x) + getattr(self, "extra", 0)'),
            "head": 'agent.register_buffer("extra", torch.tensor([0.5 * iteration, 0.0]))',
        },
    ),
    Case(
        "a hook that is registered in the loop",
        {"head": "agent.actor.register_forward_hook(lambda module, given, result: 0.5 * result)"},
    ),
]

PARTS_GIVEN = {
    "make_agent": "critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))\n"
    "actor = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 2))\n"
    "parts = [critic, actor]\nagent = Agent(*parts).to(device)",
    "head": "parts[1].eval()",
    "stack": "parts[1].train()",
}
TAKEN = AGENT.replace(
    "self.critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))", "self.critic = critic"
).replace("self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))", "self.actor = actor")
SIGNATURES = [
    Case(
        "parts given by their places alone",
        {**PARTS_GIVEN, "agent": TAKEN.replace("def __init__(self)", "def __init__(self, critic, actor, /)")},
    ),
    Case(
        "parts among the rest",
        {
            **PARTS_GIVEN,
            "agent": TAKEN.replace("def __init__(self)", "def __init__(self, critic, *rest)").replace(
                "self.actor = actor", "self.actor = rest[0]"
            ),
        },
        fast=True,
    ),
    Case(
        "parts given with a star",
        {**PARTS_GIVEN, "agent": TAKEN.replace("def __init__(self)", "def __init__(self, critic, actor)")},
    ),
    Case(
        "a schedule given by its place alone",
        {
            "functions": SCHEDULE,
            "agent": with_state("self.plan = plan", "self.actor(x) / self.plan.value", ", plan, /"),
            "make_agent": "schedule = Schedule()\nagent = Agent(schedule).to(device)",
            "report": REPORT + "\nschedule.value *= 0.5",
        },
    ),
]

RPO = AGENT.replace(
    "probs = Categorical(logits=self.actor(x))",
    "logits = self.actor(x)\n        if action is not None:\n"
    "            noise = torch.FloatTensor(logits.shape).uniform_(-0.1, 0.1)\n            logits = logits + noise\n"
    "        probs = Categorical(logits=logits)",
)
OTHERS = [
    Case(
        "closures of the rollout that outlive the turn",
        {
            "before_loop": "fs = []",
            "step": PARTS["step"] + "\nfs.append(lambda: global_step + step)",
            "report": REPORT + "\nprint(sum(f() for f in fs))",
        },
        ("rollout",),
        fast=True,
    ),
    Case(
        "parameters that are frozen in the loop",
        {"head": "for p in agent.critic.parameters():\n    p.requires_grad_(iteration != 2)"},
        ("one-graph",),
        fast=True,
    ),
    Case("a tensor of a size", {"agent": RPO}, ("float-arrays",)),
    Case(
        "permutations that the script seeds",
        {
            "minibatches": edited(
                "minibatches",
                "np.random.shuffle(b_inds)",
                "np.random.seed(args.seed + epoch)\nnp.random.shuffle(b_inds)",
            )
        },
        ("shuffle",),
        fast=True,
    ),
]

CASES = [*MODES, *STATE, *STRUCTURE, *SIGNATURES, *OTHERS]


@pytest.mark.parametrize("case", [pytest.param(c, marks=[] if c.fast else pytest.mark.slow, id=str(c)) for c in CASES])
def test_what_is_run_is_what_was_written(case: Case, tmp_path: Path) -> None:
    preload()
    outcome = judge(tmp_path / "script.py", script(case.parts))
    assert outcome.kind == "equal", outcome.said
    assert set(case.skipped) <= outcome.skipped.keys()
    assert all(outcome.skipped.values())


def test_nothing_is_lost_of_the_script_itself(tmp_path: Path) -> None:
    preload()
    outcome = judge(tmp_path / "script.py", script())
    assert outcome.kind == "equal", outcome.said
    assert not {"evaluate-once", "rollout", "one-graph", "shuffle", "policy"} & outcome.skipped.keys()
