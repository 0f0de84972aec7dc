"""State that persists across iterations, as parts of the script in scripts.py: saved completely, or not supported."""

from collections.abc import Mapping

from scripts import PARTS, edited, script

FORGETFUL = {"self.age += 1": "done = np.zeros(len(action), dtype=bool)", "self.state[done] = 0": "self.state[:] = 0"}
"""Replacements that make the script's environments stateless, so that a reset changes nothing."""
OVER = "        done = (np.abs(self.state[:, 0]) > 0.5) | (self.age % 7 == 0)\n"
RATE = 'optimizer.param_groups[0]["lr"] = '
STDLIB = "import os\nimport random\nimport signal\nfrom collections import deque"


def forgetful(parts: Mapping[str, str]) -> str:
    """The script with some of its parts replaced, on stateless environments."""
    text = script(parts)
    for old, new in {**FORGETFUL, OVER: ""}.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def _more(begin: str = "", more: str = "", **parts: str) -> dict[str, str]:
    report = f"{more}\n{PARTS['report']}" if more else PARTS["report"]
    return {"stdlib": STDLIB, "begin": f"{PARTS['begin']}\n{begin}", "report": report, **parts}


SAVED = {
    "a list whose length decides": _more("kls = []", f"kls.append(0.5)\n{RATE}0.01 * 0.9 ** len(kls)"),
    "a list whose length decides by its name": _more(
        "kls = []", f"kls.append(v_loss.item())\nn = len(kls)\nif n > 4:\n    {RATE}0.001"
    ),
    "a deque of numbers": _more("kls = deque(maxlen=2)", f"kls.append(float(iteration))\n{RATE}0.01 * sum(kls)"),
    "counters in an array": _more(
        "visits = np.zeros(3)", f"np.add.at(visits, [iteration % 2], 1)\n{RATE}0.01 / visits.sum()"
    ),
    "a tensor changed in place": _more("mean = torch.ones(2)", f"mean.mul_(0.7)\n{RATE}0.01 * mean.sum().item()"),
    "a rate of numpy": _more("", f"{RATE}np.float64(0.01) * iteration"),
    "what learns": _more(
        "", "if iteration == 1:\n    for p in agent.critic.parameters():\n        p.requires_grad = False"
    ),
    "the mode": _more("", f"if iteration == 1:\n    agent.eval()\n{RATE}0.01 if agent.training else 0.002"),
    "a scheduler": _more(
        "schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.8)", "schedule.step()", anneal="pass"
    ),
    "a scheduler of momentum": _more(
        "schedule = optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=50)", "schedule.step()", anneal="pass"
    ),
    "momentum": _more(optimizer="optimizer = optim.SGD(agent.parameters(), lr=args.learning_rate, momentum=0.9)"),
    "a rate that follows from the loss": _more(
        "best = 0.0", f"best = max(best, iteration % 3 + v_loss.item() / 100)\n{RATE}0.01 * min(best, 3.0)"
    ),
    "draws of random": _more("", f"{RATE}0.01 * random.random()"),
    "draws of numpy": _more("", f"{RATE}0.01 * np.random.rand()"),
    "dropout": _more(
        agent=edited(
            "agent",
            "self.actor = nn.Sequential(nn.Linear(2, 8), ",
            "self.actor = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.2), ",
        )
    ),
    "running statistics": _more(
        agent=edited(
            "agent",
            "self.critic = nn.Sequential(nn.Linear(2, 8), ",
            "self.critic = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), ",
        )
    ),
    "an optimizer that no iteration names": _more(
        anneal="pass", report="print(iteration, v_loss.item(), next(agent.parameters()).sum().item())"
    ),
    "draws of libraries that the script does not name": {
        "stdlib": "import importlib",
        "report": f"{RATE}0.01 * importlib.import_module('random').random()\n{PARTS['report']}",
    },
    "two optimizers": _more(
        "critic_optimizer = optim.Adam(agent.critic.parameters(), lr=0.01, amsgrad=True)",
        optimizer="optimizer = optim.Adam(agent.actor.parameters(), lr=args.learning_rate, eps=1e-5)",
        optimize="optimizer.zero_grad()\ncritic_optimizer.zero_grad()\nloss.backward()\noptimizer.step()\n"
        "critic_optimizer.step()",
    ),
}
"""State that checkpoints save completely. Most was once lost: a killed run silently continued with other values."""

HELD_BACK: dict[str, tuple[dict[str, str], str]] = {
    "a tensor bound anew": (
        {
            "begin": PARTS["begin"] + "\nmean = torch.zeros(2)",
            "report": f"{PARTS['report']}\nmean = 0.9 * mean + 1\nprint(mean.sum())",
        },
        "mean lives across iterations, and is not known to be a number",
    ),
    "a dict whose length decides": (
        {
            "begin": PARTS["begin"] + "\nseen = {}",
            "report": PARTS["report"] + "\nseen[iteration] = 1\noptimizer.param_groups[0]['lr'] = 0.9 ** len(seen)",
        },
        "seen is not saved",
    ),
    "a dict of rates": (
        {
            "begin": PARTS["begin"] + "\nrates = {'lr': 0.1}",
            "report": PARTS["report"] + "\nrates['lr'] *= 0.9\nprint(rates['lr'])",
        },
        "may change rates",
    ),
    "a list of anything but numbers": (
        {
            "begin": PARTS["begin"] + "\npairs = []",
            "report": PARTS["report"]
            + "\npairs.append((iteration, agent))\nn = len(pairs)\nif n > 4:\n    agent.eval()",
        },
        "pairs is not saved",
    ),
    "a function that counts in an attribute": (
        {
            "functions": "def count():\n    count.calls = getattr(count, 'calls', 0) + 1\n    return count.calls\n\n\n",
            "report": PARTS["report"] + "\nprint(count())",
        },
        "count.calls is set in training",
    ),
    "a function's list": (
        {
            "functions": "def count():\n    count.calls.append(1)\n    return len(count.calls)\n\n\n"
            "count.calls = []\n\n\n",
            "report": PARTS["report"] + "\nprint(count())",
        },
        "count.calls is kept by a function",
    ),
    "a default argument that grows": (
        {
            "functions": "def count(seen=[]):\n    seen.append(1)\n    return len(seen)\n\n\n",
            "report": PARTS["report"] + "\nprint(count())",
        },
        "the default argument []",
    ),
    "another name of a tensor": (
        {
            "begin": PARTS["begin"] + "\nmean = torch.ones(2)\nother = mean",
            "report": PARTS["report"] + "\nother[0] *= 0.7\nprint(mean[0].item())",
        },
        "it is not known what state other holds",
    ),
    "setattr": (
        {"report": PARTS["report"] + "\nsetattr(agent, 'seen', getattr(agent, 'seen', 0) + 1)\nprint(agent.seen)"},
        "setattr() may change",
    ),
    "an attribute of environments": (
        {"report": PARTS["report"] + "\nenvs.level = iteration"},
        "envs.level is set in training",
    ),
    "an attribute of modules": (
        {"report": PARTS["report"] + "\nfor m in agent.modules():\n    m.p = 0.3 * getattr(m, 'p', 1)\n    print(m.p)"},
        "m.p is set in training",
    ),
    "a tensor beside parameters": (
        {
            "agent": edited("agent", "super().__init__()", "super().__init__()\nself.mean = torch.ones(2)").replace(
                "return self.critic(x)\n", "return self.critic(x) + self.mean.mul_(0.9).sum()\n"
            )
        },
        "may change self.mean, which no state_dict() holds",
    ),
    "a buffer that is not persistent": (
        {
            "agent": edited(
                "agent",
                "super().__init__()",
                "super().__init__()\nself.register_buffer('temp', torch.ones(1), persistent=False)",
            ),
            "report": PARTS["report"] + "\nagent.temp.mul_(1.3)\nprint(agent.temp.item())",
        },
        "may change agent.temp, which no state_dict() holds",
    ),
    "an object of the file": (
        {
            "functions": "class Scale:\n    def __init__(self):\n        self.n = 0\n\n\n",
            "begin": PARTS["begin"] + "\nscale = Scale()",
            "report": PARTS["report"] + "\nscale.n += 1\nprint(scale.n)",
        },
        "it is not known what state scale holds",
    ),
    "a generator of its own": (
        {
            "begin": PARTS["begin"] + "\nrng = np.random.default_rng(1)",
            "report": PARTS["report"] + "\nprint(rng.random())",
        },
        "it is not known what state rng holds",
    ),
    "an option that is set": (
        {"report": PARTS["report"] + "\nargs.seed += 1\nprint(args.seed)"},
        "args.seed is set in training",
    ),
    "an attribute of a class": (
        {"report": PARTS["report"] + "\nAgent.seen = getattr(Agent, 'seen', 0) + 1\nprint(Agent.seen)"},
        "Agent.seen is set in training",
    ),
    "a global that a function sets": (
        {
            "functions": "calls = 0\n\n\ndef called():\n    global calls\n    calls += 1\n\n\n",
            "report": PARTS["report"] + "\ncalled()\nprint(calls)",
        },
        "calls are set in a function",
    ),
    "a number bound in iterations alone": (
        {"report": PARTS["report"] + "\nif iteration == 1:\n    mean = 0.5\nelse:\n    mean = 0.9 * mean\nprint(mean)"},
        "mean lives across iterations, but is bound only inside the loop",
    ),
    "a value that a network keeps": (
        {
            "agent": edited(
                "agent",
                "return self.critic(x)",
                "self.seen = getattr(self, 'seen', 0) + 1\nreturn self.critic(x) * self.seen",
            )
        },
        "Agent.get_value() changes self.seen, which no state_dict() holds",
    ),
}
"""State that prevents checkpoints: parts, and a piece of the reason."""
