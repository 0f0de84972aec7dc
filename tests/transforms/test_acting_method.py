"""Methods and functions that choose the actions, of no known network."""

import pytest
from agent_script import agent_script
from cases import FLAGS, NoOp, Rewrite
from scripts import edited, script
from states import remembered

from transformer import Applied, Skipped, convert

DETACHED = """\
def get_action(obs):
    probs = Categorical(logits=agent.actor(obs))
    action = probs.sample()
    return action, probs.log_prob(action).detach(), agent.critic(obs).detach()
"""
CALL = "action, logprob, value = get_action(next_obs)\nvalues[step] = value.flatten()"
NAMED = {
    **FLAGS,
    "before_loop": 'def policy(next_obs):\n    """Choose the actions."""\n    return get_action(next_obs)\n\n',
    "act": CALL.replace("get_action(", "policy("),
}


def deciding(function: str, call: str = CALL) -> dict[str, str]:
    """A script in which a function chooses the action."""
    return {"functions": function, "act": call}


def held(old: str, new: str) -> dict[str, str]:
    """The script of deciding(DETACHED), with a piece of the function replaced."""
    assert DETACHED.count(old) == 1
    return deciding(DETACHED.replace(old, new))


REWRITES = [
    Rewrite("a function", deciding(DETACHED), NAMED),
    Rewrite(
        "under torch.no_grad()",
        deciding(
            "@torch.no_grad()\n"
            + DETACHED.replace(".detach()", "").replace("action, probs.log", "action.squeeze(), probs.log")
        ),
        NAMED,
    ),
    Rewrite(
        "more than names",
        deciding(DETACHED, CALL.replace("get_action(next_obs)", "get_action(next_obs.to(device))")),
        {
            **FLAGS,
            "before_loop": 'def policy(observation):\n    """Choose the actions."""\n'
            "    return get_action(observation)\n\n",
            "act": CALL.replace("get_action(next_obs)", "policy(next_obs.to(device))"),
        },
    ),
    Rewrite(
        "a network of another file",
        {
            "third_party": "from networks import agent_for",
            "make_agent": "agent = agent_for(envs)",
        },
        {
            **FLAGS,
            "before_loop": 'def policy(next_obs):\n    """Choose the actions."""\n'
            "    return agent.get_action_and_value(next_obs)\n\n",
            "act": edited("act", "agent.get_action_and_value", "policy"),
        },
        also=("policy",),
    ),
]

NOOPS = [
    NoOp("it has a name", {}, "already has a name", also=("policy",), kind="not needed"),
    NoOp(
        "a network alone",
        {"act": edited("act", "agent.get_action_and_value(next_obs)", "agent(next_obs)")},
        "no function",
    ),
    NoOp(
        "a gradient",
        held("probs.log_prob(action).detach()", "probs.log_prob(action)"),
        "outside of torch.no_grad(): gradients may flow through line {line}",
        at="log_prob(action), agent.critic(obs).d",
    ),
    NoOp(
        "a gradient of its draw",
        held("probs.sample()", "probs.rsample()"),
        "gradients may flow through line {line}",
        at="return action, probs.log_prob(action).d",
    ),
    NoOp(
        "a network of another file, with gradients",
        {
            "third_party": "from networks import agent_for",
            "make_agent": "agent = agent_for(envs)",
            "act": "action, logprob, _, value = agent.get_action_and_value(next_obs)\nvalues[step] = value.flatten()",
        },
        "which is not in this file, outside of torch.no_grad()",
    ),
    NoOp(
        "a network of another file, with an array",
        {
            "third_party": "from networks import agent_for",
            "make_agent": "agent = agent_for(envs)",
            "act": edited(
                "act", "agent.get_action_and_value(next_obs)", "agent.get_action_and_value(next_obs.numpy())"
            ),
        },
        "which is not in this file, an argument not known to be a tensor",
        also=("policy",),
    ),
    NoOp(
        "a list grows",
        held("    return", "    kept.append(action)\n    return"),
        "does more than compute: line {line}",
        "append",
    ),
    NoOp(
        "an attribute is set",
        held("    return", "    agent.last = action\n    return"),
        "does more than compute: line {line}",
        "agent.last",
    ),
    NoOp(
        "a number is read",
        held("return action", "return action.item()"),
        "line {line} calls action.item()",
        "return action.item",
    ),
    NoOp(
        "numbers of numpy's",
        held("action = probs.sample()", "action = probs.sample() + np.random.randint(2)"),
        "line {line} calls np.random.randint()",
        "randint",
    ),
    NoOp(
        "an element of an array",
        held("return action,", "return action.numpy()[0],"),
        "line {line} may compute with an array: index the tensor before it becomes one, x[0].numpy()",
        "numpy()[0]",
    ),
    NoOp(
        "arithmetic with an array",
        deciding(
            DETACHED.replace("    probs", "    obs = torch.as_tensor(obs / 255)\n    probs", 1),
            CALL.replace("(next_obs)", "(next_obs.numpy())"),
        ),
        "line {line} passes get_action() next_obs.numpy(), which is not known to be a tensor",
        "next_obs.numpy())",
    ),
    NoOp(
        "a type of tensors",
        held("    probs", "    obs = torch.FloatTensor(obs)\n    probs"),
        "does more than compute: line {line} calls torch.FloatTensor()",
        "FloatTensor",
    ),
    NoOp(
        "a generator of Python's",
        {
            **deciding(DETACHED),
            "third_party": "import random as python_random",
            "make_agent": "generator = python_random.Random(1)\n" + edited("make_agent", "agent", "agent"),
        },
        "line {line} names random.Random, from which compiled code draws one number repeatedly",
        "python_random.Random",
    ),
    NoOp(
        "a changing number",
        deciding(DETACHED.replace("(obs)", "(obs, step)", 1), CALL.replace("(next_obs)", "(next_obs, step)")),
        "also passes get_action() step, which is not known to be a tensor",
    ),
    NoOp(
        "arguments of a list",
        deciding(DETACHED, CALL.replace("(next_obs)", "(*[next_obs])")),
        "calls get_action()",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrites(rewrite: Rewrite) -> None:
    rewrite.check("acting-method")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noops(noop: NoOp) -> None:
    noop.check("acting-method")


ACT = """        with torch.no_grad():
            return self.actor(torch.as_tensor(obs)).numpy()
"""


@pytest.mark.parametrize(
    ("body", "applies"),
    [
        (ACT, True),
        ("        action = self.actor(torch.as_tensor(obs)).data.numpy().flatten()\n        return action\n", True),
        ("        obs = torch.as_tensor(obs)\n        return self.actor(obs).detach().numpy().reshape(-1)\n", True),
        ("        action = self.actor(torch.as_tensor(obs)).data.numpy()\n        return action * 2\n", False),
        ("        action = self.actor(torch.as_tensor(obs)).data.numpy().clip(-1, 1)\n        return action\n", False),
        ("        action = self.actor(torch.as_tensor(obs)).data.numpy()\n        return action[0] + action\n", False),
    ],
)
def test_a_method_that_returns_an_array(body: str, applies: bool) -> None:
    """Compiled, numpy arithmetic gives arrays where the script gets numbers."""
    conversion = convert(agent_script({ACT: body}))
    (outcome,) = (s.outcome for s in conversion.steps if s.transform.name == "acting-method")
    assert isinstance(outcome, Applied if applies else Skipped), outcome
    assert ("return agent.act(obs)\n" in conversion.source) == applies


def test_the_function_comes_from_the_line_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    states = remembered(monkeypatch)
    source = script(deciding(DETACHED))
    assert "def policy(next_obs)" in convert(source).source
    (call,) = (n for n, line in enumerate(source.splitlines(), 1) if " = get_action(next_obs)" in line)
    lines = [
        (state, n)
        for state in states.values()
        for n, line in enumerate(state.tree.code.splitlines(), 1)
        if line.strip() == "return get_action(next_obs)"
    ]
    assert lines and {state.origin(n) for state, n in lines} == {call}
