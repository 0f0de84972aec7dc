"""Parameters that a loss reaches in every minibatch, and the message about those that it does not."""

import textwrap

import pytest
from scripts import PARTS, edited, script

from transformer import Applied, Skipped, convert

PLAIN = {"metrics": "", "anneal": ""}
LOSS = "loss = pg_loss + 0.5 * v_loss - 0.01 * entropy.mean()"
POLICY = "loss = pg_loss - 0.01 * entropy.mean()"
REPORT = {"report": "print(iteration, global_step, v_loss.item(), pg_loss.item())"}


def minibatch(code: str, **parts: str) -> dict[str, str]:
    """The script with another loss; the report prints both of its terms."""
    return {**PLAIN, **REPORT, "minibatch": edited("minibatch", LOSS, code), **parts}


TOTAL = """
def total(pg_loss, v_loss, with_critic):
    result = pg_loss
    if with_critic:
        result = result + v_loss
    return result


"""
OF_AGENT = """

    def loss(self, pg_loss, v_loss, warm):
        return v_loss if warm else pg_loss + v_loss
"""
ADAMW = "optimizer = optim.AdamW(agent.parameters(), lr=args.learning_rate, weight_decay=0.1)"
HEAD = (
    PARTS["agent"]
    .replace("self.actor =", "self.guess = nn.Linear(2, 1)\n        self.actor =")
    .replace("return self.critic(x)", "return self.critic(x) + 0 * self.guess(x).detach()", 1)
)

SCALED = (
    PARTS["agent"]
    .replace("self.actor =", "self.scale = torch.full((1,), 0.5).float()\n        self.actor =")
    .replace("entropy(), self.critic(x)", "entropy(), self.critic(x) + 0 * torch.trace(self.scale.expand(1, 1))")
)
HARMLESS = "\n".join(f"if args.seed > {i}:\n    entropy = entropy * {i + 1}" for i in range(10))
"""Ten conditions; with each outcome, the loss reaches the same parameters."""

TARGET = "\n".join(f"        if x.sum() > {i}:\n            return self.critic(x) * {i + 1}" for i in range(10))
TARGET = f"{PARTS['agent']}\n    def target(self, x):\n{TARGET}\n        return self.critic(x)\n"
"""A method with ten conditions, each of which returns another value."""
SWITCHED = "with torch.no_grad():\n    with torch.enable_grad():\n        guess = agent.guess(b_obs[mb_inds]).mean()"

SAME = "def same(x):\n    return x\n\n\ndef stopped(x):\n    return x.detach()\n\n\n"


KINDS = """
class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 1)

    def forward(self, x):
        return self.inner(x)


class Stopped(Plain):
    def forward(self, x):
        return torch.special.i0(self.inner(x))


class Deep(Plain):
    def forward(self, x):
        return 2 * self.inner(x)


"""
"""Modules, one of which perhaps passes no gradients on."""


def given(init: str, made: str, value: str) -> dict[str, str]:
    """An agent that computes the value with one more attribute."""
    agent = PARTS["agent"].replace("def __init__(self)", f"def __init__(self{init})")
    agent = agent.replace("        self.actor =", textwrap.indent(made, 8 * " ") + "\n        self.actor =", 1)
    return {"functions": SAME + KINDS, "agent": agent.replace("self.critic(x)", value)}


EITHER = "if deep:\n    self.more = nn.Linear(1, 1)\nelse:\n    self.more = {}"

IN_A_ROW = "nn.Sequential(nn.Linear(1, 1), Deep(), nn.Sequential(nn.Linear(1, 1), Plain()))"
SEVEN = (
    "\n".join(f"    self.more{i} = Deep()" for i in range(7)),
    "\n".join(f"    self.more{i} = nn.Linear(1, 1)" for i in range(7)),
    "".join(f"self.more{i}(" for i in range(7)) + "self.critic(x)" + 7 * ")",
)
"""Seven attributes that one condition decides."""
EITHER_KIND = "if deep:\n    self.more = {}()\nelse:\n    self.more = {}()"

CHOSEN = {"flags", "policy", "tensor-lr", "update", "one-graph", "compile"}

MISSED = {
    "every other iteration": (minibatch(f"{POLICY}\nif iteration % 2 == 1:\n    loss += 0.5 * v_loss"), "critic"),
    "a warm-up of the values alone": (minibatch(f"{LOSS}\nif iteration <= 2:\n    loss = v_loss"), "actor"),
    "a critic that is frozen at times": (
        minibatch(f"{POLICY} + (v_loss if iteration % 3 else v_loss.detach())"),
        "critic",
    ),
    "frozen by no_grad": (
        minibatch(f"if iteration % 2:\n    with torch.no_grad():\n        v_loss = v_loss * 1\n{LOSS}"),
        "critic",
    ),
    "with gradients inside no_grad": (minibatch(f"{SWITCHED}\n{LOSS} + guess.detach()", agent=HEAD), "guess"),
    "computed and never used": (minibatch(POLICY, optimizer=ADAMW), "critic"),
    "an option": (minibatch(f"{POLICY}\nif args.seed:\n    loss = loss + v_loss"), "critic"),
    "in a function": (minibatch("loss = total(pg_loss, v_loss, iteration > 2)", functions=TOTAL), "critic"),
    "in a method": (
        minibatch("loss = agent.loss(pg_loss, v_loss, iteration < 3)", agent=PARTS["agent"] + OF_AGENT),
        "actor",
    ),
    "in a list": (
        minibatch("losses = [pg_loss]\nif iteration > 2:\n    losses.append(v_loss)\nloss = sum(losses)"),
        "critic",
    ),
    "by the loss itself": (minibatch(f"{POLICY}\nif v_loss.item() > 2:\n    loss = loss + v_loss"), "critic"),
    "through a comparison": (minibatch(f"{POLICY} + (v_loss > 1).float()"), "critic"),
    "through a number": (minibatch(f"{POLICY} + v_loss.item()"), "critic"),
    "in some turns of a loop": (
        minibatch("loss = pg_loss\nfor i in range(iteration - 1):\n    loss = loss + v_loss / 2"),
        "critic",
    ),
    "under the last of many conditions": (
        minibatch(f"{HARMLESS}\n{POLICY}\nif args.seed > 20:\n    loss = loss + v_loss"),
        "critic",
    ),
    "only where a name is bound under a condition": (
        minibatch(f"more = 0\nif args.seed:\n    more = v_loss\n{POLICY} + more"),
        "critic",
    ),
    "in one of two values": (minibatch(f"{POLICY} + (v_loss if args.seed else v_loss.item())"), "critic"),
    "a parameter among constants": (
        minibatch(
            POLICY,
            agent=SCALED.replace("torch.full((1,), 0.5).float()", "nn.Parameter(torch.full((1,), 0.5))"),
        ),
        "critic",
    ),
}
UNKNOWN = f"logged = unknown(v_loss)\n{POLICY} + torch.special.i0(\n    v_loss\n)"


@pytest.mark.parametrize("title", MISSED)
def test_an_update_whose_loss_misses_parameters_stays_eager(title: str) -> None:
    parts, network = MISSED[title]
    conversion = convert(script(parts), select=CHOSEN)
    outcomes = {step.transform.name: step.outcome for step in conversion.steps}
    graph, compiled = outcomes["one-graph"], outcomes["compile"]
    assert isinstance(graph, Skipped), graph
    assert f"does not always reach agent.{network}" in graph.reason, graph.reason
    assert isinstance(compiled, Applied), compiled
    assert any("update() is not compiled: the loss on line" in note for note in compiled.notes), compiled.notes


def test_an_update_whose_loss_goes_through_unknown_code_says_so() -> None:
    text = script(minibatch(UNKNOWN, functions="def unknown(x):\n    return sorted([x])"))
    (step,) = (s for s in convert(text, select=CHOSEN).steps if s.transform.name == "one-graph")
    assert isinstance(step.outcome, Skipped)
    told, line = "through torch.special.i0() on line ", text[: text.index("torch.special")].count("\n") + 1
    assert (
        f"it is not known whether the loss on line {line + 4} reaches agent.critic {told}{line}:" in step.outcome.reason
    )


STEPS = (
    PARTS["agent"].replace("return self.critic(x)", "return self.step(x)", 1)
    + """
    def step(self, x):
        return self.critic(x)
"""
)
"""A network with a method named as those of optimizers and environments."""
NET = """\
        def net(out):
            return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, out))

        self.critic, self.actor = net(1), net(2)
"""
NESTED = "\n".join(line for line in PARTS["agent"].splitlines() if "nn.Sequential" not in line)
NESTED = NESTED.replace("super().__init__()\n", f"super().__init__()\n{NET}")
"""A function inside __init__() makes the layers."""


@pytest.mark.parametrize(
    "parts",
    [
        minibatch(LOSS),
        minibatch(LOSS, agent=NESTED),
        minibatch(LOSS, agent=STEPS),
        minibatch(f"guess = agent.step(b_obs[mb_inds])\n{LOSS} + guess.mean()", agent=STEPS),
        minibatch(
            LOSS, agent=STEPS, advantages=edited("advantages", "agent.get_value(next_obs)", "agent.step(next_obs)")
        ),
        minibatch(f"{POLICY}\nif iteration % 2:\n    loss = loss + v_loss\nelse:\n    loss = loss + 2 * v_loss"),
        minibatch(f"{POLICY} + (0.5 if iteration > 2 else 0.0) * v_loss"),
        minibatch(f"{LOSS}\nif args.seed:\n    loss = 2 * loss"),
        minibatch("losses = [pg_loss, entropy.mean()]\nlosses.append(v_loss)\nloss = sum(losses)"),
        minibatch("loss = total(pg_loss, v_loss, True)", functions=TOTAL),
        minibatch("loss = torch.stack([pg_loss, v_loss]).sum()"),
        minibatch("loss = torch.max(pg_loss, v_loss) + torch.where(v_loss > 1, v_loss, 2 * v_loss)"),
        # The entropy is only logged; its parameters are those of the log-probabilities
        minibatch("loss = pg_loss + v_loss", report="print(iteration, entropy.mean().item())"),
        minibatch(f"{HARMLESS}\n{LOSS}"),
        minibatch(
            "with torch.no_grad():\n    wanted = agent.target(b_obs[mb_inds]) + agent.target(b_obs)\n"
            f"{LOSS} + wanted.mean()",
            agent=TARGET,
        ),
        minibatch(
            f"wanted = agent.target(b_obs[mb_inds]) + agent.target(b_obs)\n{LOSS} + wanted.mean()",
            agent=TARGET.replace("    def target", "    @torch.no_grad()\n    def target"),
        ),
        minibatch(f"with torch.no_grad():\n    with torch.enable_grad():\n        {LOSS}"),
        minibatch(f"{LOSS}\nlogs = entropy if args.seed else entropy"),
        minibatch(f"{POLICY} + nn.Softplus()(v_loss)"),
        minibatch(f"{POLICY} + v_loss.round()"),  # a gradient of zeros counts
        minibatch(f"{POLICY} + torch.FloatTensor(v_loss) + torch.logaddexp(v_loss, v_loss)"),
        minibatch(LOSS, agent=SCALED),
        # A method that nothing calls: its parameters get no gradient in eager or compiled code
        minibatch(LOSS, agent=HEAD),
        minibatch(
            LOSS,
            **given(
                ", ends=torch.tanh, last=same",
                "self.ends, self.last = ends, last",
                "self.last(self.ends(self.critic(x)))",
            ),
        ),
        minibatch(LOSS, **given(", deep=True", EITHER.format("same"), "self.more(self.critic(x))")),
        minibatch(LOSS, **given(", deep=True", EITHER_KIND.format("Plain", "Deep"), "self.more(self.critic(x))")),
        minibatch(LOSS, **given(", deep=True", EITHER.format("Deep()"), "self.more(self.critic(x))")),
        minibatch(LOSS, **given(", deep=True", f"if deep:\n{SEVEN[0]}\nelse:\n{SEVEN[1]}", SEVEN[2])),
        minibatch(LOSS, **given("", f"self.more = {IN_A_ROW}", "self.more(self.critic(x))")),
        minibatch(LOSS, **given("", f"self.more = {IN_A_ROW}", "self.more[-1](self.more[1](self.critic(x)))")),
        minibatch(LOSS, **given(", more=Deep()", "self.more = more", "self.more(self.critic(x))")),
        minibatch(LOSS, **given(", ends=nn.functional.elu", "self.ends = ends", "self.ends(input=self.critic(x))")),
    ],
)
def test_an_update_whose_loss_reaches_all_is_one_graph(parts: dict[str, str]) -> None:
    conversion = convert(script(parts), select=CHOSEN)
    outcome = next(step.outcome for step in conversion.steps if step.transform.name == "one-graph")
    assert isinstance(outcome, Applied), outcome


@pytest.mark.parametrize(
    ("init", "made", "value"),
    [
        (
            ", deep=True",
            "if deep:\n    self.ends = torch.tanh\nelse:\n    self.ends = stopped",
            "self.ends(self.critic(x))",
        ),
        (", ends=None", "self.ends = ends or unknown()", "self.ends(self.critic(x))"),
        (", ends=torch.special.i0", "self.ends = ends", "self.ends(self.critic(x))"),
        (", deep=True", EITHER.format("torch.special.i0"), "self.more(self.critic(x))"),
        ("", "self.ends = lambda x: x.detach()", "self.ends(self.critic(x))"),
        ("", "def inner(x):\n    return x.detach()\n\nself.ends = inner", "self.ends(self.critic(x))"),
        (", deep=True", EITHER_KIND.format("Plain", "Stopped"), "self.more(self.critic(x))"),
        (", deep=True", EITHER_KIND.format("Plain", "unknown"), "self.more(self.critic(x))"),
        (
            ", deep=True",
            f"if deep:\n{SEVEN[0]}\nelse:\n{SEVEN[1].replace('nn.Linear(1, 1)', 'Stopped()', 1)}",
            SEVEN[2],
        ),
        (", deep=True", EITHER.format("Stopped()"), "self.more(self.critic(x))"),
        (", more=Stopped()", "self.more = more", "self.more(self.critic(x))"),
        ("", f"self.more = {IN_A_ROW.replace('Plain', 'Stopped')}", "self.more(self.critic(x))"),
        ("", f"self.more = {IN_A_ROW.replace('Deep', 'Stopped')}", "self.more(self.critic(x))"),
        ("", f"self.more = {IN_A_ROW.replace('Deep', 'Stopped')}", "self.more[1](self.critic(x))"),
    ],
    ids=[
        "one of two functions",
        "an unknown function",
        "a function that may lose the gradient",
        "such a function, or a layer",
        "a lambda",
        "a function within",
        "of one class, or of another that may stop gradients",
        "of a class, or made by unknown code",
        "the first of seven that one condition decides",
        "a layer, or an object of a class that may stop gradients",
        "an object that is given",
        "the last in a row",
        "one in the middle",
        "one in the middle, called alone",
    ],
)
def test_an_attribute_of_several_values_is_unknown(init: str, made: str, value: str) -> None:
    conversion = convert(script(minibatch(LOSS, **given(init, made, value))), select=CHOSEN)
    outcome = next(step.outcome for step in conversion.steps if step.transform.name == "one-graph")
    assert isinstance(outcome, Skipped), outcome


WIDE = """class Wide(Agent):
    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), {}


"""
EITHER_AGENT = "if args.seed:\n    agent = Agent().to(device)\nelse:\n    agent = {}"


@pytest.mark.parametrize(
    ("value", "made", "applies"),
    [
        ("2 * self.critic(x)", "Wide()", True),
        ("torch.special.i0(self.critic(x))", "Wide()", False),
    ],
)
def test_a_network_of_one_of_two_classes(value: str, made: str, applies: bool) -> None:
    parts = minibatch(LOSS, functions=WIDE.format(value), make_agent=EITHER_AGENT.format(made))
    conversion = convert(script(parts), select=CHOSEN)
    outcome = next(step.outcome for step in conversion.steps if step.transform.name == "one-graph")
    assert isinstance(outcome, Applied) is applies, outcome


OWN = """
import gymnasium as gym
import torch
import torch.nn as nn
from torch.distributions import Categorical

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(4, 2)
        self.critic = nn.Linear(4, 1)

    def evaluate(self, x, a):
        dist = Categorical(logits=self.actor(x))
        return dist.log_prob(a), self.critic(x).mean()

class PPO:
    def __init__(self, given, lr):
        self.policy = given
        self.optimizer = torch.optim.Adam(given.parameters(), lr=lr)

    def learn(self, obs, actions, logs, adv):
        total = 0.0
        for _ in range(4):
            for idx in torch.randperm(len(obs)).split(32):
                log, value = self.policy.evaluate(obs[idx], actions[idx])
                loss = -((log - logs[idx]).exp() * adv[idx]).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += value.item()
        return total

def main():
    env = gym.make("CartPole-v1")
    net = Net()
    agent = PPO(net, 0.001)
    state, _ = env.reset(seed=1)
    for update in range(10):
        obs, actions = torch.zeros(128, 4), torch.zeros(128, dtype=torch.long)
        logs, rewards = torch.zeros(128), torch.zeros(128)
        for t in range(128):
            with torch.no_grad():
                obs[t] = torch.as_tensor(state)
                dist = Categorical(logits=net.actor(obs[t]))
                actions[t] = dist.sample()
                logs[t] = dist.log_prob(actions[t])
            state, reward, end, cut, _ = env.step(actions[t].item())
            rewards[t] = reward
            if end or cut:
                state, _ = env.reset()
        total = agent.learn(obs, actions, logs, rewards - rewards.mean())
        print(update, total)

if __name__ == "__main__":
    main()
"""
"""An object is given the network, and keeps it under another name; the values are only logged."""


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        (("", ""), ".critic"),
        (("given", "net"), ".critic"),
        (("given", "policy"), ".critic"),
        (("adv[idx]).mean()", "adv[idx]).mean() + value"), None),
    ],
)
def test_a_network_that_an_object_is_given(change: tuple[str, str], missed: str | None) -> None:
    outcomes = {step.transform.name: step.outcome for step in convert(OWN.replace(*change)).steps}
    if missed is None:
        assert isinstance(outcomes["one-graph"], Applied), outcomes["one-graph"]
    else:
        assert isinstance(outcomes["one-graph"], Skipped)
        assert f"{missed}, with which it is computed" in outcomes["one-graph"].reason


HEAD = "class Head({base}):\n    def log_probs(self, actions):\n        return {value}\n\n\nclass Net("
LOG = "super().log_prob(actions)"


def own_distribution(value: str, base: str = "Categorical", further: str = "", called: str = "log_probs") -> str:
    code = OWN.replace("class Net(", HEAD.format(base=base, value=value), 1).replace(
        "class Net(", f"{further}class Net(", 1
    )
    code = code.replace("dist = Categorical(logits=self.actor(x))", "dist = Head(logits=self.actor(x))")
    code = code.replace("return dist.log_prob(a), self", f"return dist.{called}(a), self")
    return code.replace("adv[idx]).mean()", "adv[idx]).mean() + value")


@pytest.mark.parametrize(
    "given",
    [
        {"value": LOG},
        {"value": f"{LOG}.unsqueeze(-1).squeeze(-1)"},
        {"value": "self.log_prob(actions)"},
        {"value": LOG, "called": "log_prob"},
        {"value": "self.scaled(actions)\n\n    def scaled(self, x):\n        return super().log_prob(x) * 1.0"},
        {"value": LOG, "further": "class Other(Head):\n    pass\n\n\n"},
    ],
)
def test_a_distribution_of_the_files_own_class(given: dict[str, str]) -> None:
    outcomes = {step.transform.name: step.outcome for step in convert(own_distribution(**given)).steps}
    assert isinstance(outcomes["one-graph"], Applied), outcomes["one-graph"]


@pytest.mark.parametrize(("value", "missed"), [(LOG, True), (f"{LOG}.detach()", False), ("self.entropy()", True)])
def test_a_loss_that_leaves_out_what_an_own_distribution_computed(value: str, missed: bool) -> None:
    code = own_distribution(value).replace(
        "loss = -((log - logs[idx]).exp() * adv[idx]).mean() + value", "loss = value"
    )
    code = code.replace("total += value.item()", "total += log.sum().item()")
    outcomes = {step.transform.name: step.outcome for step in convert(code).steps}
    assert isinstance(outcomes["one-graph"], Skipped) is missed, outcomes["one-graph"]
    assert not missed or "net.actor" in outcomes["one-graph"].reason


@pytest.mark.parametrize(
    "given",
    [
        {"value": f"{LOG}\n\n    def __init__(self, logits):\n        super().__init__(logits=logits.detach())"},
        {"value": f"{LOG}\n\n    @property\n    def best(self):\n        return self.probs.detach()"},
        {"value": LOG, "further": "Head.log_probs = lambda self, x: x * 1.0\n\n\n"},
        {"value": LOG, "further": "Head = Categorical\n\n\n"},
        {"value": LOG, "further": "class Head(Categorical):\n    pass\n\n\n"},
        {"value": LOG, "base": "Categorical, object"},
    ],
    ids=["a constructor", "a property", "a method that is set", "bound again", "defined again", "another base"],
)
def test_a_distribution_that_may_do_more(given: dict[str, str]) -> None:
    outcomes = {step.transform.name: step.outcome for step in convert(own_distribution(**given)).steps}
    assert isinstance(outcomes["one-graph"], Skipped), outcomes["one-graph"]


KEPT = "        self.policy = given\n"
LEARNS = "        total = agent.learn("


@pytest.mark.parametrize(
    ("made", "trained", "applies"),
    [
        ("", "", True),
        ("        self.other = Net()\n", "        agent.policy, agent.other = agent.other, agent.policy\n", False),
        ("        self.nets = [given, Net()]\n", "        agent.policy = agent.nets[update % 2]\n", False),
        (
            "        self.first, self.other = given, Net()\n",
            "        agent.policy = agent.other if update % 2 else agent.first\n",
            False,
        ),
        ("        self.old = Net()\n", "        agent.old = copy.deepcopy(agent.policy)\n", True),
        ("        self.lag = 1\n", "        agent.lag = 2\n", True),
        ("", "        shown = Net()\n        print(shown.actor.weight.sum().item())\n", True),
        ("", "        for one in (agent.policy, Net()):\n            print(one.critic.bias.item())\n", True),
    ],
    ids=[
        "none",
        "exchanged",
        "of a list",
        "by a condition",
        "a copy",
        "a number",
        "one more",
        "a loop",
    ],
)
def test_training_that_sets_an_attribute_to_another_network(made: str, trained: str, applies: bool) -> None:
    code = OWN.replace("adv[idx]).mean()", "adv[idx]).mean() + value").replace(KEPT, KEPT + made)
    code = "import copy\n" + code.replace(LEARNS, trained + LEARNS)
    outcomes = {step.transform.name: step.outcome for step in convert(code).steps}
    assert isinstance(outcomes["one-graph"], Applied) is applies, outcomes["one-graph"]
    assert applies or not isinstance(outcomes["compile"], Applied) or "() is not compiled" in str(outcomes["compile"])
