"""Acting on-policy gets torch.no_grad() where nothing reads or needs the graph of its results."""

import textwrap

import pytest
from cases import turn
from scripts import PARTS, edited, script

from transformer import Applied, Skipped, Step

ACT = """
action, logprob, _, value = agent.get_action_and_value(next_obs)
values[step] = value.flatten().detach()
"""
RECORD = "actions[step] = action\nlogprobs[step] = logprob.detach()"
HEADS = edited("agent", "    def get_value", "    def act(self, x):\n        {act}\n\n    def get_value")


def acting(**parts: str) -> Step:
    given = {"act": ACT.strip(), "record": RECORD} | parts
    return turn("acting", script({name: textwrap.dedent(text) for name, text in given.items()}))


def heads(act: str = "return self.actor(x), self.critic(x)") -> str:
    return HEADS.replace("{act}", act.replace("\n", "\n        "))


OF_LOGITS = """
logits, value = agent.act(next_obs)
probs = Categorical(logits=logits)
action = probs.sample()
logprob = probs.log_prob(action)
values[step] = value.detach().view(-1)
"""


DENSITY = "def density(x):\n    return half(x) - 0.5 * np.log(2 * np.pi)\n\n\ndef half(x):\n    return x / 2\n"
"""A function that networks call, with a number of numpy's and another function."""


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"record": "actions[step] = action\nlogprobs[step] = torch.tensor(logprob.tolist())"},
        {"record": "actions[step] = action\nlogprobs[step] = logprob.data"},
        {"agent": heads(), "act": OF_LOGITS},
        {"agent": heads("logits = self.actor(x)\nreturn logits, self.critic(x)"), "act": OF_LOGITS},
        {
            "before_loop": "kept = []",
            "record": "actions[step] = action\nkept.append((logprob, value))\nlogprobs[step] = kept[-1][0].detach()",
        },
        {"agent": heads("import random\nif random.random() < 0.1:\n    x = x + random.gauss(0, 1)\n"
                        "return self.actor(x), self.critic(x)"), "act": OF_LOGITS},
        {"functions": "def plain(x):\n    return x.detach()\n", "record": RECORD.replace(".detach()", "").replace(
            "= logprob", "= plain(logprob)")},
        {"before_loop": "optimizer.register_step_post_hook(lambda *x: print('stepped'))"},
        {"third_party": "import gymnasium as gym", "before_loop": "resets = gym.vector.AutoresetMode.SAME_STEP"},
        {"functions": DENSITY, "agent": heads("return density(self.actor(x)), self.critic(x)"), "act": OF_LOGITS},
        {"stdlib": "import math", "agent": heads("return self.actor(x) * math.sqrt(2.0), self.critic(x)"),
         "act": OF_LOGITS},
        {"functions": "class Own(optim.Adam):\n    def __init__(self, *args, **options):\n        "
                      "super().__init__(*args, **options)\n        self._optimizer_step_pre_hooks = {}\n"},
    ],
    ids=["detach", "tolist", "data", "a distribution", "a name in the method", "a list", "Python's random numbers",
         "a function", "a hook of the optimizer", "an environment's mode", "a function that the network calls",
         "a number", "hooks that a class of optimizers sets"],
)  # fmt: skip
def test_acting_on_policy(parts: dict[str, str]) -> None:
    step = acting(**parts)
    assert isinstance(step.outcome, Applied), step.outcome
    added = [line.strip() for line in step.after.splitlines() if line not in step.before.splitlines()]
    assert added[0] == "with torch.no_grad():"
    assert len(added) == 2


KEPT_GRAPH = "actions[step] = action\n" + "logprobs[step] = logprob"


@pytest.mark.parametrize(
    "parts",
    [
        {"record": KEPT_GRAPH},  # update() goes backward through it
        {"record": RECORD + "\nprint(logprob)"},
        {"record": RECORD + "\nother = logprob\nprint(other.grad_fn)"},
        {"record": RECORD + "\nif value.requires_grad:\n    global_step += 1"},
        {"record": RECORD + "\nextra.append(value.sum())", "head": "extra = []",
         "optimize": "loss += extra[-1]\noptimizer.zero_grad()\nloss.backward(retain_graph=True)\noptimizer.step()"},
        {"agent": heads(), "act": OF_LOGITS.replace(".log_prob(action)", ".log_prob(action)\nprint(logprob)")},
        {"agent": heads(), "act": OF_LOGITS + "print(probs)"},
        {"agent": heads(), "act": OF_LOGITS + "print(probs.probs)"},
        {"agent": heads(), "act": OF_LOGITS + "action = torch.distributions.Normal(value, 1).rsample()\nprint(action)"},
        {"agent": heads(), "head": "ds = []", "act": OF_LOGITS + "ds.append(probs)",
         "learn": "loss = torch.distributions.kl_divergence(ds[0], ds[-1]).mean()\nloss.backward()\n<was>"},
        {"agent": heads(), "act": OF_LOGITS,
         "record": RECORD + "\nprint(torch.distributions.kl_divergence(Categorical(logits=obs[0]), probs))"},
        {"agent": heads(), "act": OF_LOGITS, "record": RECORD + "\nprint(probs.expand((2, 2)).entropy().grad_fn)"},
        {"record": RECORD + "\ntry:\n    value.numpy()\nexcept RuntimeError:\n    print('slow')"},
        {"record": RECORD + "\ntry:\n    x = value.cpu().numpy()\nexcept Exception:\n    print('slow')"},
        {"record": RECORD + "\ntry:\n    np.array(value)\nexcept (RuntimeError, KeyError):\n    print('slow')"},
        {"stdlib": "import contextlib", "record": RECORD
         + "\nwith contextlib.suppress(RuntimeError):\n    value.numpy()\n    print('plain')"},
        {"before_loop": "old = agent.critic.forward\nagent.critic.forward = lambda x: old(x) + global_step"},
        {"before_loop": "def loud(*x):\n    print(torch.is_grad_enabled())\nnn.functional.linear = loud"},
        {"before_loop": "nn.modules.module.register_module_forward_hook(lambda m, x, y: print(y.requires_grad))"},
        {"before_loop": "nn.modules.module.register_module_full_backward_hook(lambda *x: None)"},
        {"before_loop": "optimizer.register_step_post_hook(lambda *x: print(logprob))"},
        {"before_loop": "torch.autograd.graph.saved_tensors_hooks(print, print).__enter__()"},
        {"stdlib": "from torch.overrides import TorchFunctionMode as Watch", "before_loop": "Watch().__enter__()"},
        {"third_party": "import strange", "before_loop": "strange.CountingMode().__enter__()"},
        {"functions": "def shown(x):\n    print(x)\n", "record": RECORD + "\nshown(logprob)"},
        {"functions": "class Kept:\n    pass\n\nlast = Kept()\n",
         "record": RECORD + "\nlast.value = value\nprint(last.value)"},
        {"third_party": "import strange", "record": RECORD + "\nstrange.keep(value)"},
        {"third_party": "import strange", "record": RECORD + "\nstrange.last = value"},
        {"third_party": "import strange", "record": RECORD + "\nstrange.kept[step] = value"},
        {"agent": heads("x *= self.critic(x)\nreturn self.actor(x), self.critic(x)"), "act": OF_LOGITS,
         "store": "obs[step] = next_obs.clone()\ndones[step] = next_done",
         "step": "print(next_obs)\n<was>"},
        *({"functions": DENSITY.replace("return x / 2", f"return {other}"), "act": OF_LOGITS,
           "agent": heads("return density(self.actor(x)), self.critic(x)")}
          for other in ("x @ x.T", "np.log(x)", "np.log(len(x)) * x", "x if print(x) else x", "x.requires_grad * x")),
        {"agent": heads("x.add_(self.critic(x))\nreturn self.actor(x), self.critic(x)"), "act": OF_LOGITS,
         "store": "obs[step] = next_obs.clone()\ndones[step] = next_done",
         "step": "print(next_obs)\n<was>"},
    ],
)  # fmt: skip
def test_acting_whose_graph_may_show_stays(parts: dict[str, str]) -> None:
    parts = {name: text.replace("<was>", PARTS[name]) for name, text in parts.items()}
    step = acting(**parts)
    assert isinstance(step.outcome, Skipped), step.after
    assert step.outcome.left_as_it_was


def test_the_backward_pass_that_goes_through_acting_is_named() -> None:
    outcome = acting(head="extra = []", record=RECORD + "\nextra.append(value.sum())", optimize="loss += extra[-1]\n"
                     "optimizer.zero_grad()\nloss.backward(retain_graph=True)\noptimizer.step()").outcome  # fmt: skip
    assert isinstance(outcome, Skipped)
    assert outcome.reason.endswith("may compute gradients back through loss")


DECIDES = """
def act(self, x):
    with torch.no_grad():
        probs = Categorical(logits=self.actor(x))
        action = probs.sample()
        return action, probs.log_prob(action), self.critic(x)
""".strip()
CALLED = "action, logprob, value = agent.act(next_obs)\nvalues[step] = value.flatten()"


@pytest.mark.parametrize(
    ("method", "named"),
    [
        (DECIDES, True),
        ("@torch.no_grad()\n" + DECIDES, True),
        (DECIDES.replace("x):\n", "x):\n    x = x.clone()\n"), True),
        (DECIDES.replace("        return", "        self.last = action\n        return"), False),
        (DECIDES.replace("        return", "        print('acts')\n        return"), False),
        (DECIDES.replace("        return", "        action = torch.tensor(action.tolist())\n        return"), False),
    ],
    ids=["a block", "a decorator", "more above it", "keeps an object", "prints", "goes to the host"],
)
def test_a_method_under_no_grad_needs_none(method: str, named: bool) -> None:
    parts = {"agent": edited("agent", "    def get_value", textwrap.indent(method, "    ") + "\n\n    def get_value")}
    step, source = acting(**parts, act=CALLED), script({**parts, "act": CALLED, "record": RECORD})
    assert isinstance(step.outcome, Skipped) and step.outcome.kind == "not needed", step.outcome
    assert turn("policy", source).applied == named


def test_a_network_called_outside_of_no_grad_is_no_policy() -> None:
    method = DECIDES.replace("        return action, probs.log_prob(action), self.critic(x)",
                             "    return action, probs.log_prob(action), self.critic(x)")  # fmt: skip
    parts = {"agent": edited("agent", "    def get_value", textwrap.indent(method, "    ") + "\n\n    def get_value")}
    outcome = turn("policy", script({**parts, "act": CALLED})).outcome
    assert isinstance(outcome, Skipped) and "outside of torch.no_grad()" in outcome.reason
