"""Networks with unusual constructors, calls and results, as edits of the network in scripts.py and of its calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from scripts import PARTS

HEAD = "def get_action_and_value(self, x, action=None):"
CALL = "agent.get_action_and_value(next_obs)"
LEARN = "agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])"


@dataclass(frozen=True)
class Signature:
    """Pieces of the script's text, and what replaces them."""

    title: str
    edits: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)


def _head(new: str, **more: str) -> dict[str, str]:
    return {HEAD: new, **more}


PARTS_OF = (
    "critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))\n"
    "actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))\n"
)
MADE = "self.critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))"
MADE_TOO = "self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))"
RETURNS = "return action, probs.log_prob(action), probs.entropy(), self.critic(x)"

SIGNATURES = [
    Signature("nothing odd"),
    Signature("an observation by its place alone", _head("def get_action_and_value(self, x, /, action=None):")),
    Signature("all by their places alone", _head("def get_action_and_value(self, x, action=None, /):")),
    Signature(
        "actions by keyword alone",
        {
            HEAD: "def get_action_and_value(self, x, *, action=None):",
            LEARN: "agent.get_action_and_value(b_obs[mb_inds], action=b_actions.long()[mb_inds])",
        },
    ),
    Signature(
        "actions among the rest",
        {HEAD: "def get_action_and_value(self, x, *rest):\n        action = rest[0] if rest else None"},
    ),
    Signature(
        "everything among the rest",
        {HEAD: "def get_action_and_value(self, *rest):\n        x, action = (*rest, None)[:2]"},
    ),
    Signature(
        "actions among the keywords",
        {
            HEAD: 'def get_action_and_value(self, x, **kw):\n        action = kw.get("action")',
            LEARN: "agent.get_action_and_value(b_obs[mb_inds], action=b_actions.long()[mb_inds])",
        },
    ),
    Signature(
        "actions first",
        {
            HEAD: "def get_action_and_value(self, action=None, x=None):",
            CALL: "agent.get_action_and_value(x=next_obs)",
            LEARN: "agent.get_action_and_value(b_actions.long()[mb_inds], b_obs[mb_inds])",
        },
    ),
    Signature(
        "a default that changes",
        {
            HEAD: "def get_action_and_value(self, x, action=None, noise=[0.0]):\n        noise[0] += 0.01",
            "logits=self.actor(x)": "logits=self.actor(x) * (1 + noise[0])",
        },
    ),
    Signature(
        "a temperature that the rollout gives",
        {
            HEAD: "def get_action_and_value(self, x, action=None, *, temp=1.0):",
            "logits=self.actor(x)": "logits=self.actor(x) / temp",
            CALL: "agent.get_action_and_value(next_obs, temp=1.0 / iteration)",
        },
    ),
    Signature(
        "a step that the rollout gives",
        {
            HEAD: "def get_action_and_value(self, x, action=None, step=0):",
            "logits=self.actor(x)": "logits=self.actor(x) / (1 + 0.1 * step)",
            CALL: "agent.get_action_and_value(next_obs, None, step)",
        },
    ),
    Signature("keywords from a dictionary", {CALL: 'agent.get_action_and_value(**{"x": next_obs})'}),
    Signature("starred arguments", {CALL: "agent.get_action_and_value(*[next_obs])"}),
    Signature(
        "forward() that answers all",
        {
            HEAD: "def forward(self, x, action=None):",
            CALL: "agent(next_obs)",
            LEARN: "agent(b_obs[mb_inds], b_actions.long()[mb_inds])",
        },
    ),
    Signature(
        "another name of the method",
        {RETURNS: RETURNS + "\n\n    act = get_action_and_value", CALL: "agent.act(next_obs)"},
    ),
    Signature("the method of the class", {CALL: "Agent.get_action_and_value(agent, next_obs)"}),
    Signature("a bound method that is kept", {CALL: "act(next_obs)"}, {"copy": "act = agent.get_action_and_value"}),
    Signature(
        "a partial of the method",
        {CALL: "act(next_obs)"},
        {"copy": "act = functools.partial(agent.get_action_and_value, action=None)", "stdlib": "import functools"},
    ),
    Signature(
        "a lambda around the method",
        {CALL: "act(next_obs)"},
        {"copy": "act = lambda x: agent.get_action_and_value(x)  # noqa: E731"},
    ),
    Signature(
        "a decorated method",
        {HEAD: "@counted\n    " + HEAD},
        {
            "third_party": """


COUNT = [0]


def counted(method):
    def call(*args, **kwargs):
        COUNT[0] += 1
        return method(*args, **kwargs)

    return call


""",
            "head": "print(COUNT[0])",
        },
    ),
    Signature(
        "a decorated method that warms up",
        {HEAD: "@warmed\n    " + HEAD},
        {
            "third_party": """


def warmed(method):
    def call(self, x, action=None):
        self.calls = getattr(self, "calls", 0) + 1
        return method(self, x * (1 + 0.01 * self.calls), action)

    return call


"""
        },
    ),
    Signature("a method under no_grad()", {"def get_value": "@torch.no_grad()\n    def get_value"}),
    Signature(
        "results in a dictionary",
        {
            RETURNS: 'return {"a": action, "p": probs.log_prob(action), "e": probs.entropy(), "v": self.critic(x)}',
            "action, logprob, _, value = " + CALL: f"action, logprob, _, value = {CALL}.values()",
            "_, newlogprob, entropy, newvalue = " + LEARN: f"_, newlogprob, entropy, newvalue = {LEARN}.values()",
        },
    ),
    Signature(
        "results in a named tuple",
        {RETURNS: RETURNS.replace("return ", "return Answer(") + ")"},
        {"third_party": 'from collections import namedtuple\nAnswer = namedtuple("Answer", "a p e v")'},
    ),
    Signature("results in a list", {RETURNS: RETURNS.replace("return ", "return [") + "]"}),
    Signature("a generator of results", {RETURNS: RETURNS.replace("return ", "yield from (") + ")"}),
    Signature(
        "results that are kept by the network",
        {
            RETURNS: "self.last = probs.log_prob(action)\n        return action, self.last, probs.entropy(), "
            "self.critic(x)"
        },
        {"report": "print(iteration, agent.last.sum().item(), v_loss.item())"},
    ),
    Signature(
        "parts that it is given",
        {
            "def __init__(self):": "def __init__(self, critic, actor):",
            MADE: "self.critic = critic",
            MADE_TOO: "self.actor = actor",
            "agent = Agent()": PARTS_OF.replace("\n", "\n    ") + "agent = Agent(critic, actor)",
        },
    ),
    Signature(
        "parts that it is given with a star",
        {
            "def __init__(self):": "def __init__(self, *parts):",
            MADE: "self.critic, self.actor = parts",
            MADE_TOO: "pass",
            "agent = Agent()": PARTS_OF.replace("\n", "\n    ") + "parts = [critic, actor]\n    agent = Agent(*parts)",
        },
    ),
    Signature(
        "parts that it is given by keywords",
        {
            "def __init__(self):": "def __init__(self, **parts):",
            MADE: "for name in parts:",
            MADE_TOO: "    setattr(self, name, parts[name])",
            "agent = Agent()": PARTS_OF.replace("\n", "\n    ") + "agent = Agent(**dict(critic=critic, actor=actor))",
        },
    ),
    Signature(
        "made by a class method",
        {
            "def get_value": "@classmethod\n    def make(cls):\n        return cls()\n\n    def get_value",
            "agent = Agent()": "agent = Agent.make()",
        },
    ),
    Signature(
        "made by a function",
        {"agent = Agent()": "agent = make(Agent)"},
        {"functions": "def make(kind, *args):\n    return kind(*args)\n\n\n"},
    ),
    Signature(
        "made by a partial", {"agent = Agent()": "agent = functools.partial(Agent)()"}, {"stdlib": "import functools"}
    ),
    Signature("made in a dictionary", {"agent = Agent()": 'agent = {"ppo": Agent}["ppo"]()'}),
    Signature(
        "of a derived class",
        {"class Agent(nn.Module):": "class Base(nn.Module):", "agent = Agent()": "agent = Agent()"},
        {
            "functions": "class Agent(Base):\n"
            "    def get_value(self, x):\n        return 0.5 * super().get_value(x)\n\n\n"
        },
    ),
    Signature(
        "of a class with a mixin",
        {
            "class Agent(nn.Module):": "class Agent(Warm, nn.Module):",
            "logits=self.actor(x)": "logits=self.actor(x) / self.warmth()",
        },
        {
            "third_party": """


class Warm:
    def warmth(self):
        self.n = getattr(self, "n", 0) + 1
        return 1 + 0.01 * self.n


"""
        },
    ),
    Signature(
        "a wrapper of the network",
        {CALL: "held.act(next_obs)"},
        {
            "functions": "class Held:\n    def __init__(self, net):\n        self.net = net\n\n    def act(self, x):\n"
            "        return self.net.get_action_and_value(x)\n\n\n",
            "copy": "held = Held(agent)",
        },
    ),
    Signature(
        "a wrapper that forwards attributes",
        {CALL: "held.get_action_and_value(next_obs)"},
        {
            "functions": "class Held:\n    def __init__(self, net):\n        self.net = net\n\n    "
            "def __getattr__(self, name):\n"
            "        return getattr(self.net, name)\n\n\n",
            "copy": "held = Held(agent)",
        },
    ),
    Signature(
        "a network in a dictionary", {CALL: 'nets["a"].get_action_and_value(next_obs)'}, {"copy": 'nets = {"a": agent}'}
    ),
    Signature(
        "one of two networks by turns",
        {CALL: "nets[iteration % 2].get_action_and_value(next_obs)"},
        {"copy": "other = Agent()\nnets = [agent, other]"},
    ),
    Signature(
        "an old network that acts",
        {CALL: "old.get_action_and_value(next_obs)"},
        {
            "stdlib": "import copy",
            "copy": "old = copy.deepcopy(agent)",
            "report": PARTS["report"] + "\nif iteration % 2 == 0:\n    old.load_state_dict(agent.state_dict())",
        },
    ),
    Signature(
        "a network that is exchanged",
        {},
        {
            "stdlib": "import copy",
            "report": PARTS["report"] + "\nagent = copy.deepcopy(agent)\n"
            "optimizer = optim.Adam(agent.parameters(), lr=0.01)",
        },
    ),
    Signature(
        "two networks that change places",
        {},
        {
            "copy": "other = Agent()",
            "optimizer": PARTS["optimizer"].replace("agent.parameters()", "[*agent.parameters()]"),
            "report": PARTS["report"] + "\nagent, other = other, agent",
        },
    ),
    Signature(
        "a distribution made in the rollout",
        {
            "action, logprob, _, value = " + CALL: "probs = Categorical(logits=agent.actor(next_obs))\n"
            "                action = probs.sample()\n                logprob, value = probs.log_prob(action), "
            "agent.critic(next_obs)"
        },
    ),
    Signature(
        "actions by chance",
        {
            "action = probs.sample()": "action = probs.sample() if torch.rand(()) > 0.2 else "
            "torch.randint(2, x.shape[:1])"
        },
    ),
    Signature(
        "actions that are best at times",
        {
            "action = probs.sample()": "action = probs.probs.argmax(-1) if self.greedy else probs.sample()",
            MADE: "self.greedy = False\n        " + MADE,
        },
        {"stack": "agent.greedy = not agent.greedy"},
    ),
    Signature(
        "observations that are normalised with what was seen",
        {"logits=self.actor(x)": "logits=self.actor(x - SEEN[0])"},
        {
            "third_party": "SEEN = [0.0]",
            "act": PARTS["act"] + "\nSEEN[0] = 0.9 * SEEN[0] + 0.1 * float(next_obs.mean())",
        },
    ),
    Signature("a value that depends on the batch", {"self.critic(x)\n": "self.critic(x - x.mean(0))\n"}),
    Signature(
        "a value that depends on the first row", {"entropy(), self.critic(x)": "entropy(), self.critic(x) + x[0, 0]"}
    ),
    Signature(
        "an output that is changed in place",
        {
            RETURNS: "value = self.critic(x)\n        value.mul_(0.9)\n        return action, probs.log_prob(action), "
            "probs.entropy(), value"
        },
    ),
    Signature("an input that is changed in place", {HEAD: HEAD + "\n        x.mul_(0.99)"}),
    Signature(
        "a log-probability that is the network's own",
        {"probs.log_prob(action), probs": "probs.logits.gather(-1, action.unsqueeze(-1)).squeeze(-1), probs"},
    ),
]
"""Edits are applied to the whole script, where each text must occur."""

TWISTS = {
    "": ("", ""),
    "a temperature that falls": ("reported", "agent.temp = 0.9 * getattr(agent, 'temp', 1.0)"),
    "another last layer in each turn": ("heading", "agent.critic[-1] = nn.Linear(8, 1)"),
    "a hook in each turn": ("collected", "agent.critic.register_forward_hook(lambda m, i, o: o * 0.9)"),
    "a part that is frozen by turns": (
        "heading",
        "for p in agent.actor.parameters():\n    p.requires_grad_(iteration % 2 == 0)",
    ),
    "weights that decay behind the rollout": ("collected", "for p in agent.parameters():\n    p.data.mul_(0.9)"),
}
