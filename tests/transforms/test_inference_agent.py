import textwrap

import pytest
from cases import INFERENCE, NoOp, Rewrite
from scripts import edited

IMPORTS = {name: INFERENCE[name] for name in ("stdlib", "third_party")}
COMMENT = "# The inference copy shares the parameters of the trained one; a deepcopy draws no random numbers\n"
SHARED = COMMENT + (
    "agent_inference = deepcopy(agent).requires_grad_(False)\nfrom_module(agent).data.to_module(agent_inference)\n"
)
COPY = textwrap.dedent(INFERENCE["copy"]).strip()

CALLED = """
    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = nn.Linear(2, 1)
            self.actor = nn.Linear(2, 2)

        def forward(self, x, action=None):
            probs = Categorical(logits=self.actor(x))
            if action is None:
                action = probs.sample()
            return action, probs.log_prob(action), probs.entropy(), self.critic(x)
"""
TWO = """
    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = nn.Linear(2, 2)

        def forward(self, x):
            return Categorical(logits=self.mean(x))


    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = nn.Linear(2, 1)

        def forward(self, x):
            return self.value(x)
"""


def agent_with(method: str) -> dict[str, str]:
    """The agent with one more method."""
    return {"agent": edited("agent", "def get_value", method + "\n\ndef get_value")}


REWRITES = [
    Rewrite("methods of the agent", {}, INFERENCE),
    Rewrite(
        "the agent called itself",
        {
            "agent": CALLED,
            "act": edited("act", "agent.get_action_and_value(next_obs)", "agent(next_obs)"),
            "advantages": edited("advantages", "agent.get_value(next_obs)", "agent(next_obs)[3]"),
            "minibatch": edited("minibatch", "agent.get_action_and_value(", "agent("),
        },
        {
            **IMPORTS,
            "copy": SHARED + "policy = agent_inference",
            "act": edited("act", "agent.get_action_and_value(next_obs)", "policy(next_obs)"),
            "advantages": edited("advantages", "agent.get_value(next_obs)", "policy(next_obs)[3]"),
        },
    ),
    Rewrite(
        "the critic's own module",
        {"advantages": edited("advantages", "agent.get_value(next_obs)", "agent.critic(next_obs)")},
        {
            **IMPORTS,
            "copy": SHARED + "policy = agent_inference.get_action_and_value\ncritic = agent_inference.critic",
            "act": INFERENCE["act"],
            "advantages": edited("advantages", "agent.get_value(next_obs)", "critic(next_obs)"),
        },
    ),
    Rewrite(
        "two networks",
        {
            "agent": TWO,
            "make_agent": "actor = Actor()\ncritic = Critic()",
            "optimizer": "optimizer = optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)",
            "act": """
                with torch.no_grad():
                    probs = actor(next_obs)
                    action = probs.sample()
                    logprob = probs.log_prob(action)
                    values[step] = critic(next_obs).flatten()
            """,
            "advantages": edited("advantages", "agent.get_value", "critic"),
            "minibatch": """
                probs, newvalue = actor(b_obs[mb_inds]), critic(b_obs[mb_inds])
                ratio = (probs.log_prob(b_actions[mb_inds]) - b_logprobs[mb_inds]).exp()
                <metrics>
                v_loss = ((newvalue.view(-1) - b_returns[mb_inds]) ** 2).mean()
                loss = v_loss - (ratio * b_advantages[mb_inds]).mean()
                <optimize>
            """,
        },
        {
            **IMPORTS,
            "copy": COMMENT
            + "actor_inference = deepcopy(actor).requires_grad_(False)\n"
            + "from_module(actor).data.to_module(actor_inference)\n"
            + "critic_inference = deepcopy(critic).requires_grad_(False)\n"
            + "from_module(critic).data.to_module(critic_inference)\n"
            + "policy = actor_inference\n",
            "act": """
                with torch.no_grad():
                    probs = policy(next_obs)
                    action = probs.sample()
                    logprob = probs.log_prob(action)
                    values[step] = critic_inference(next_obs).flatten()
            """,
            "advantages": edited("advantages", "agent.get_value", "critic_inference"),
        },
    ),
    Rewrite(
        "evaluation mode where no module knows it",
        {"head": "agent.eval()", "functions": "Distribution = torch.distributions.Normal\n\n\n"},
        INFERENCE,
    ),
    Rewrite(
        "names that are taken",
        {"setup": 'policy = get_value = agent_inference = "cpu"\ndevice = torch.device(policy)'},
        {
            **IMPORTS,
            "copy": COPY.replace("agent_inference", "agent_inference_1")
            .replace("policy =", "policy_1 =")
            .replace("get_value =", "get_value_1 ="),
            "act": edited("act", "agent.get_action_and_value", "policy_1"),
            "advantages": edited("advantages", "agent.get_value", "get_value_1"),
        },
    ),
    Rewrite(
        "the action is clipped on its way to the environment",
        {
            "step": edited("step", "action.cpu().numpy()", "clipped").replace(
                "next_obs, reward", "clipped = np.clip(action.cpu().numpy(), 0, 1)\nnext_obs, reward", 1
            )
        },
        INFERENCE,
    ),
    Rewrite(
        "parameters loaded after the optimizer is made",
        {"before_loop": "agent.load_state_dict(agent.state_dict())"},
        {
            **IMPORTS,
            "before_loop": "agent.load_state_dict(agent.state_dict())\n" + COPY,
            "act": INFERENCE["act"],
            "advantages": INFERENCE["advantages"],
        },
    ),
]

NONE = "no call of a trained network under torch.no_grad() was found in the rollout or the advantages"

NOOPS = [
    NoOp(
        "gradients flow through the rollout",
        {
            "act": edited("act", "torch.no_grad()", "torch.enable_grad()").replace("flatten()", "flatten().detach()"),
            "advantages": edited("advantages", "with torch.no_grad()", "with torch.enable_grad()"),
        },
        NONE,
    ),
    NoOp(
        "another network acts",
        {
            "make_agent": "agent = Agent().to(device)\nold = Agent().to(device)",
            "act": edited("act", "agent.", "old."),
            "advantages": edited("advantages", "agent.", "old."),
        },
        NONE,
    ),
    NoOp(
        "a class from another file",
        {"agent": "from agents import Agent"},
        "a class that is not in this file",
    ),
    NoOp(
        "a network that is replaced",
        {"before_loop": "agent = torch.jit.script(agent)"},
        "a class that is not in this file",
    ),
    NoOp(
        "switched between training and evaluation",
        {
            "agent": edited("agent", "nn.Tanh(), nn.Linear(8, 1)", "nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1)"),
            "head": "agent.eval()",
        },
        "line {line} switches agent between training and evaluation",
        at="agent.eval()",
    ),
    NoOp(
        "switched, with a part whose option says that it drops",
        {
            "agent": edited(
                "agent", "super().__init__()", "super().__init__()\nself.lstm = nn.LSTM(2, 2, 2, dropout=0.1)"
            ),
            "head": "agent.eval()",
        },
        "line {line} switches agent between training and evaluation",
        at="agent.eval()",
    ),
    NoOp(
        "an attribute that is written",
        {"head": "agent.temperature = 1 / iteration"},
        "line {line} writes an attribute of agent",
        at="agent.temperature",
    ),
    NoOp(
        "running statistics",
        agent_with(
            "def normalize(self, x):\n    self.mean = 0.9 * self.mean + 0.1 * x.mean(0)\n    return x - self.mean"
        ),
        "normalize (line {line}) changes the network's own state when called",
        at="self.mean = 0.9",
    ),
    NoOp(
        "a history",
        agent_with("def remember(self, x):\n    self.seen.append(x)"),
        "remember (line {line}) keeps a history on the network",
        at="self.seen.append",
    ),
    NoOp(
        "an environment inside the network",
        {
            "agent": edited(
                "agent",
                "__init__(self):\n        super().__init__()",
                "__init__(self, envs):\n    super().__init__()\n    self.envs = envs",
            ),
            "make_agent": "agent = Agent(envs).to(device)",
        },
        "the network keeps the environment (line {line}), which must not be copied",
        at="self.envs = envs",
    ),
    NoOp(
        "batch normalization",
        {
            "agent": edited(
                "agent",
                "nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)",
                "nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)",
            )
        },
        "BatchNorm1d (line {line}), whose state changes when called",
        at="BatchNorm1d",
    ),
    NoOp(
        "made by a function",
        {"functions": "def build():\n    return Agent()\n\n\n", "make_agent": "agent = build()"},
        "a class that is not in this file",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("inference-agent")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("inference-agent")
