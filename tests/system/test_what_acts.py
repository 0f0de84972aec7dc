"""The network that acts is the one that is trained, whatever the script does; and other things that must not be lost.

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
"""These must not apply if the network may change during the rollout or is not built of known modules."""
LAST = "nn.Linear(8, 1)"
BOTH = "agent.actor.eval()\n<rollout>\nagent.actor.train()"


@dataclass(frozen=True)
class Case:
    """An edit of the script, and the transforms that must be skipped."""

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

ADD = "def add(total, more):\n    total += more\n    return total\n\n\n"
LOSS = "pg_loss = torch.max(pg_loss1, pg_loss2).mean()"
NOISY = PARTS["minibatch"].replace("mb_advantages = b_adv", "mb_advantages = 0.01 * torch.randn(4) + b_adv")


def with_buffer(name: str, sizes: str, value: str) -> dict[str, str]:
    """One more buffer, written where the policy acts."""
    return {
        "buffers": PARTS["buffers"] + f"\n{name} = torch.zeros(({sizes})).to(device)",
        "act": PARTS["act"] + f"\n    {name}[step] = {value}",
        "report": REPORT + f"\nprint({name}.sum().item(), {name}.shape)",
    }


STORAGE = [
    Case(
        "a value of each environment for several columns",
        with_buffer("heads", "args.num_steps, args.num_envs, 2", "value"),
        (),
        fast=True,
    ),
    Case(
        "one number that a network returns for all environments",
        {
            **with_buffer("entropies", "args.num_steps, args.num_envs", "mean_entropy"),
            "agent": AGENT.replace("probs.entropy(), self", "probs.entropy().mean(), self"),
            "act": PARTS["act"].replace("logprob, _, value", "logprob, mean_entropy, value")
            + "\n    entropies[step] = mean_entropy",
            "minibatch": PARTS["minibatch"].replace("entropy.mean()", "entropy"),
        },
        (),
    ),
    Case(
        "a result that the network keeps, and that is changed there",
        {
            "agent": AGENT.replace(
                "return action, probs.log_prob(action), probs.entropy(), self.critic(x)",
                "value = self.critic(x)\n        self.last = value\n"
                "        return action, probs.log_prob(action), probs.entropy(), value",
            ),
            "step": PARTS["step"] + "\nagent.last.mul_(0.5)",
        },
        (),
        fast=True,
    ),
    Case(
        "a row of a buffer that is held when the rollout has ended",
        {
            "step": PARTS["step"] + "\nrow = rewards[step]",
            "report": "rewards /= 2.0\nprint(row.sum().item(), rewards.sum().item())\n" + REPORT,
        },
        (),
        fast=True,
    ),
    Case(
        "another default type",
        {
            "setup": PARTS["setup"] + "\ntorch.set_default_tensor_type(torch.DoubleTensor)",
            "begin": PARTS["begin"].replace("torch.Tensor(envs.reset())", "torch.tensor(envs.reset().astype(float))"),
        },
        (),
    ),
    Case(
        "another default dtype by its own name",
        {
            "third_party": "from torch import set_default_dtype",
            "setup": PARTS["setup"] + "\nset_default_dtype(torch.float64)",
        },
        (),
    ),
    Case("buffers that are not on the device", {"buffers": PARTS["buffers"].replace(".to(device)", "")}, ("storage",)),
]
HOIST = [
    Case(
        "a discount that the loop changes",
        {
            "before_loop": "args.decay = 1.0",
            "gae": PARTS["gae"].replace("rewards[t] + args", "rewards[t] + args.decay * args")
            + "\n    args.decay *= 0.99",
        },
        (),
        fast=True,
    ),
    Case(
        "a property that is another number each time",
        {
            "functions": "class Scale:\n    n = 0\n\n    @property\n    def now(self):\n        self.n += 1\n"
            "        return 1.0 / self.n\n\n\n",
            "before_loop": "scale = Scale()",
            "gae": PARTS["gae"].replace("= rewards[t] +", "= rewards[t] * scale.now +"),
        },
        (),
    ),
    Case(
        "a function that changes the rewards",
        {
            "functions": "def note(given, t):\n    given[t - 1] = 5.0\n    return 0.0\n\n\n",
            "gae": PARTS["gae"].replace("lastgaelam = delta +", "lastgaelam = note(rewards, t) + delta +"),
        },
        ("gae-hoist",),
        fast=True,
    ),
    Case(
        "returns in the memory of the rewards",
        {
            "advantages": """
                with torch.no_grad():
                    next_value = agent.get_value(next_obs).reshape(1, -1)
                    returns = rewards
                    for t in reversed(range(args.num_steps)):
                        if t == args.num_steps - 1:
                            nextreturn = next_value
                        else:
                            nextreturn = rewards[t + 1]
                        returns[t] = rewards[t] + args.gamma * nextreturn
                    advantages = returns - values
            """
        },
        ("gae-hoist",),
    ),
]
SYNC = [
    Case(
        "a loss that a function adds to in place",
        {
            "functions": ADD,
            "minibatch": edited("minibatch", LOSS, LOSS + "\npg_value = pg_loss.item()\nprint(pg_loss.item())").replace(
                "loss = pg_loss + 0.5 * v_loss", "loss = add(pg_loss, 0.5 * v_loss)"
            ),
            "report": REPORT + "\nprint(pg_value)",
        },
        (),
        fast=True,
    ),
    Case(
        "a loss that torch changes in place",
        {
            "minibatch": edited(
                "minibatch",
                LOSS,
                LOSS + "\nkept = pg_loss * 1.0\nkept_value = kept.item()\nnn.functional.relu(kept, inplace=True)",
            ),
            "report": REPORT + "\nprint(kept_value)",
        },
        (),
    ),
    Case(
        "a list that others keep while it grows",
        {
            "before_loop": "history = []",
            "minibatches": PARTS["minibatches"] + "\n    history.append(clipfracs)",
            "report": REPORT + "\nprint([len(h) for h in history])",
        },
        ("deferred-sync",),
        fast=True,
    ),
    Case(
        "a list that is emptied where it is used",
        {
            "functions": "def drain(xs):\n    total = sum(xs)\n    xs.clear()\n    return total\n\n\n",
            "report": REPORT + "\nprint(drain(clipfracs))\nprint(drain(clipfracs))",
        },
        ("deferred-sync",),
    ),
    Case(
        "a report that draws",
        {
            "minibatch": NOISY.replace(
                "ratio = (newlogprob",
                "kept = entropy * 1.0\nprint(torch.bernoulli(kept.detach().clamp(0, 1)).sum().item())\n"
                "ratio = (newlogprob",
            )
        },
        (),
    ),
]
RATES = [
    Case(
        f"a rate that is kept by {title}",
        {"before_loop": "KEY = 'lr'\nkept = []", "report": REPORT + f"\nkept.append({value})\nprint({shown})"},
        ("tensor-lr",),
        fast=title == "its state",
    )
    for title, value, shown in [
        ("a key", "optimizer.param_groups[0][KEY]", "[float(r) for r in kept]"),
        ("the object's dict", 'optimizer.__dict__["param_groups"][0]["lr"]', "[float(r) for r in kept]"),
        ("its state", "optimizer.state_dict()", '[s["param_groups"][0]["lr"] for s in kept]'),
    ]
]
RATES.append(
    Case(
        "a state that is loaded again",
        {
            "before_loop": "saved = optimizer.state_dict()",
            "report": REPORT
            + '\nif iteration == 2:\n    optimizer.load_state_dict(saved)\n    print(optimizer.param_groups[0]["lr"])',
        },
        ("tensor-lr",),
    )
)

CASES = [*MODES, *STATE, *STRUCTURE, *SIGNATURES, *OTHERS, *STORAGE, *HOIST, *SYNC, *RATES]


AT_EVERY_CHANGE = [case for case in CASES if case.fast][::4]


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[] if c in AT_EVERY_CHANGE else pytest.mark.slow, id=str(c)) for c in CASES]
)
def test_edits_of_the_script(case: Case, tmp_path: Path) -> None:
    preload()
    outcome = judge(tmp_path / "script.py", script(case.parts))
    assert outcome.kind == "equal", outcome.said
    assert set(case.skipped) <= outcome.skipped.keys()
    assert all(outcome.skipped.values())


def test_the_script_itself(tmp_path: Path) -> None:
    preload()
    outcome = judge(tmp_path / "script.py", script())
    assert outcome.kind == "equal", outcome.said
    assert not {"evaluate-once", "rollout", "one-graph", "shuffle", "policy"} & outcome.skipped.keys()
