"""Methods that are replaced: another name for one, or a function that does what torch's does, goes on as before."""

import pytest
from cases import converted_by
from scripts import script

MIDWAY = "if iteration == 2:\n    {}"
MOCK = "from unittest import mock"
OTHER = """
def other(self, x, action=None):
    return Agent.get_value(self, x)


class Double(Agent):
    pass


def put(owner, name, value):
    object.__setattr__(owner, name, value)


def put_here(owner, value):
    owner.{} = value
"""
ACT = "get_action_and_value"


def applied(line: str, *, functions: str = "", imports: str = "", where: str = "head") -> set[str]:
    made = {"functions": functions, "third_party": imports, where: line}
    asked = ("gae", "policy", "storage", "gae-hoist", "tensor-lr", "deferred-sync", "one-graph", "compile")
    return {step.transform.name for step in converted_by(script(made), *asked).steps if step.applied}


REPLACED = {
    "an attribute": f"agent.{ACT} = other",
    "of the class": f"Agent.{ACT} = other",
    "by its name": f"setattr(agent, '{ACT}', other)",
    "in __dict__": f"agent.__dict__['{ACT}'] = other",
    "in vars": f"vars(agent)['{ACT}'] = other",
    "by object": f"object.__setattr__(agent, '{ACT}', other)",
    "by a name that is made": f"put(agent, 'get_' + '{ACT[4:]}', other)",
    "in a function": "put_here(agent, other)",
    "the class": "agent.__class__ = Double",
    "the class, by its name": "object.__setattr__(agent, '__class__', Double)",
    "of a part": "agent.actor.__class__ = nn.Sequential",
    "by a patch": f"mock.patch.object(agent, '{ACT}', other).start()",
    "by a patch of the class": f"mock.patch.object(Agent, '{ACT}', other).start()",
    "by a patch of a path": f"mock.patch('__main__.Agent.{ACT}', other).start()",
    "by unknown code": f"patched(agent, '{ACT}', other)",
    "by unknown code, with keywords": f"patched(target=Agent, attribute='{ACT}', new=other)",
}


@pytest.mark.parametrize("line", REPLACED.values(), ids=REPLACED)
def test_the_policy_has_no_other_name(line: str) -> None:
    found = applied(MIDWAY.format(line), functions=OTHER.format(ACT), imports=MOCK)
    assert {"gae"} <= found
    assert not {"policy", "compile"} & found


KEPT = {
    "another attribute": "agent.count = 3",
    "another attribute by its name": "patched(agent, 'count', 3)",
    "a text": "report('loss', agent)",
    "of a logger": f"writer.add_text('{ACT}', 'x')",
    "of a library that is known": "torch.save(agent.state_dict(), 'parameters')",
}


@pytest.mark.parametrize("line", KEPT.values(), ids=KEPT)
def test_the_policy_has_a_name_beside_what_sets_no_method(line: str) -> None:
    assert {"policy", "compile"} <= applied(MIDWAY.format(line))


ZERO = "lambda: [p.grad.mul_(0.5) for p in agent.parameters() if p.grad is not None]"
OF_TORCH = {
    "zero_grad": f"optimizer.zero_grad = {ZERO}",
    "step": "optimizer.step = agent.forward",
    "of its class": f"optim.Adam.zero_grad = lambda self: ({ZERO})()",
    "of a class that is looked up": f"type(optimizer).zero_grad = lambda self: ({ZERO})()",
    "by its name": f"setattr(optimizer, 'zero_grad', {ZERO})",
    "by a patch": f"mock.patch.object(optim.Adam, 'step', {ZERO}).start()",
    "in a function": f"put_here(optim.Adam, {ZERO})",
    "of an object's": f"kept = [optimizer]\nkept[0].zero_grad = {ZERO}",
    "backward": "torch.Tensor.backward = print",
}


@pytest.mark.parametrize("where", ["head", "before_loop"])
@pytest.mark.parametrize("line", OF_TORCH.values(), ids=OF_TORCH)
def test_an_update_with_an_optimizers_other_method_is_no_graph(line: str, where: str) -> None:
    found = applied(line, functions=OTHER.format("step"), imports=MOCK, where=where)
    assert "update" in found
    assert "one-graph" not in found


def test_a_layers_method_that_changes_is_not_compiled() -> None:
    line = MIDWAY.format("nn.Tanh.forward = lambda self, x: x")
    assert "compile" not in applied(line)
    assert "compile" in applied("nn.Tanh.forward = nn.Tanh.forward", where="before_loop")


COUNTER = """
class Counter:
    def __init__(self):
        self.step = 0


counter = Counter()
"""


@pytest.mark.parametrize("line", ["counter.state = 3", "counter.training = True", "args.cuda = True"])
def test_attributes_that_are_no_methods(line: str) -> None:
    assert {"one-graph", "compile"} <= applied(line, functions=COUNTER)


def test_an_attribute_of_a_methods_name() -> None:
    assert {"one-graph", "compile"} <= applied("counter.step += 1", functions=COUNTER)
    environment = COUNTER.replace("class Counter:", "class Counter(gymnasium.Env):")
    assert {"one-graph", "compile"} <= applied("counter.step += 1", functions=environment, imports="import gymnasium")
    derived = COUNTER.replace("class Counter:", "class Counter(optim.Adam):")
    assert not {"one-graph", "compile"} & applied("counter.step += 1", functions=derived)


@pytest.mark.parametrize(
    "line",
    [
        "mock.patch.object(args, 'num_steps', 4).start()",
        "patched(args, 'num_steps', 4)",
        "setattr(args, 'num_steps', 4)",
        "object.__setattr__(args, 'num_steps', 4)",
    ],
)
def test_a_size_that_is_set_by_its_name(line: str) -> None:
    found = applied(MIDWAY.format(line), imports=MOCK)
    assert not {"storage", "gae-hoist"} & found
