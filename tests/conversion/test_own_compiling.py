"""Scripts that call torch.compile themselves: that code stays unchanged, and no flags are added."""

import ast

import pytest
from scripts import PARTS, script

from transformer import Skipped, convert

PLAIN = {"metrics": "", "report": "print(iteration, global_step)", "anneal": ""}
LEARN = {
    "functions": "def learn(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns, agent, optimizer, args):\n"
    "    <minibatch>\n\n\n",
    "learn": "learn(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns, agent, optimizer, args)",
}

CHOSEN = {"flags", "policy", "sampling", "update", "compile"}

OWN = {
    "a method": {"copy": "agent.get_action_and_value = torch.compile(agent.get_action_and_value)"},
    "a network": {"make_agent": "agent = torch.compile(Agent().to(device))"},
    "a network in place": {"copy": "agent.compile()"},
    "a part of a network": {"copy": "agent.actor = torch.jit.script(agent.actor)"},
    "by a decorator": {"agent": PARTS["agent"].replace("    def get_a", "    @torch.compile\n    def get_a")},
    "by a decorator with options": {
        "agent": PARTS["agent"].replace("    def get_a", "    @torch.compile(dynamic=False)\n    def get_a")
    },
    "a class": {"agent": "@torch.compile\n" + PARTS["agent"]},
    "by another name": {
        "third_party": "from torch import compile as fast",
        "copy": "agent.get_value = fast(agent.get_value)",
    },
    "in a function": {
        "functions": "def speed_up(network):\n    network.get_value = torch.compile(network.get_value)\n\n\n",
        "copy": "speed_up(agent)",
    },
}  # fmt: skip


@pytest.mark.parametrize("title", OWN)
def test_what_the_script_compiles_stays(title: str) -> None:
    source = script({**PLAIN, **OWN[title]})
    conversion = convert(source, select=CHOSEN)
    outcomes = {step.transform.name: step.outcome for step in conversion.steps}
    flags, sampling = outcomes["flags"], outcomes["sampling"]
    assert isinstance(flags, Skipped)
    assert flags.left_as_it_was
    assert "already uses torch.compile" in flags.reason
    assert isinstance(sampling, Skipped)
    after = conversion.steps[-1].after
    kept = [ast.get_source_segment(source, n) for n in ast.parse(source).body if getattr(n, "name", "") == "Agent"]
    assert kept[0] in after
    if "functions" in OWN[title]:
        name = OWN[title]["functions"].partition("(")[0]
        assert name in after


def test_what_is_compiled_does_not_become_a_part_of_the_loop() -> None:
    assert convert(script({**PLAIN, **LEARN}), select={"inline", "shuffle"}).steps
    compiled = convert(script({**PLAIN, **LEARN, "before_loop": "learn = torch.compile(learn)"}))
    assert not compiled.steps
    assert compiled.errors


def test_compile_of_regular_expressions_is_none_of_torch() -> None:
    parts = {"stdlib": "import re", "setup": PARTS["setup"] + "\npattern = re.compile('a')\nre.compile('b')"}
    outcome = next(
        s.outcome for s in convert(script({**PLAIN, **parts}), select=CHOSEN).steps if s.transform.name == "flags"
    )
    assert not isinstance(outcome, Skipped)
