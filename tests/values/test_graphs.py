"""Results of update() lose their autograd graph, so the update stays where the code below could notice."""

import pytest
import torch
from cases import turn
from scripts import PARTS, script

from transformer.conversion.result import Skipped
from transformer.facts import python, torch_api

LAST = "class Last:\n    def __init__(self, x):\n        self.x = x\nlast = Last(v_loss)"
NET = "class Net(nn.Module):\n"
DATA = "class Kept:\n    def __init__(self):\n        self.data = []\n    def numpy(self):\n        return self.data[0]"
VALUES_ALONE = [
    f"{LAST}\nprint(last.x.item(), isinstance(last, Last))",
    f"{LAST}\ndef shown(x):\n    return [x.x.item()]\nprint(shown(last), vars(args))",
    f"{DATA}\nkept = Kept()\nkept.data.append(v_loss)\nprint(len(kept.data), kept.data[0].item())",
    f"{NET}    def __init__(self, x):\n        super(Net, self).__init__()\n        self.x = x\nnet = Net(v_loss)\n"
    "print(net.x.item())",
    "print(v_loss.item())",
    "print(f'{v_loss:.3f}')",
    "print(f'{v_loss} of {loss}')",
    "print(float(v_loss), v_loss.detach(), (v_loss > 1), v_loss.shape, v_loss.dtype)",
    "print((v_loss * 2).item())",
    "kept = [v_loss, loss]\nprint(sum(x.item() for x in kept))",
    "def text(x):\n    return f'{x.item():.2f}'\nprint(text(v_loss))",
    "print(torch.isnan(v_loss).any())",
    "v_loss = v_loss.item()\nprint(v_loss)",
    "loss = round(float(loss.detach()), 3)\nprint(f'{loss}')",
    "loss = v_loss = loss.detach()\nprint(loss, v_loss)",
    "print(torch.tensor(v_loss), v_loss.long())",
    "kept = []\nv_loss = v_loss.item() / 4\nkept.append(v_loss)\nprint(kept)",
    "kept = []\nloss, v_loss = 0.5 * iteration, v_loss.mean().item()\nkept += [loss, v_loss]\nprint(kept)",
    "kept = {}\nfor v_loss in (1.0, 2.0):\n    kept[iteration] = v_loss\nprint(kept)",
    "while v_loss > 9:\n    v_loss = v_loss - 1\nv_loss = float(v_loss)\nprint([v_loss])",
    "agent.last = v_loss\nprint(agent)",
    "agent.past = [v_loss, {'v': loss}]\nprint(f'{agent}', str(agent), repr(agent), '{}'.format(1))",
    "agent.last = v_loss\nprint(agent.actor, agent.critic)",
]
TELLS = [
    "print(v_loss)",
    "print('v_loss', v_loss * 2)",
    "print(f'{v_loss!r}')",
    "print('%s' % v_loss)",
    "print([v_loss, 1])",
    "print({'v': loss.abs()})",
    "print(v_loss.requires_grad)",
    "print(torch.stack([loss, v_loss]).grad_fn is None)",
    "doubled = v_loss * 2\nif doubled.requires_grad:\n    print('a graph')",
    "def shown(x):\n    return str(x)\nprint(shown(v_loss))",
    "total = torch.zeros(1)\ntotal[0] = v_loss\nprint(total.requires_grad)",
    "kept = [v_loss]\nkept.append(loss)\nprint(kept)",
    "print(v_loss.is_leaf)",
    "if global_step > 4:\n    v_loss = v_loss.item()\nprint(v_loss)",
    "v_loss = v_loss.item() if global_step > 1e9 else v_loss\nprint(v_loss)",
    "kept = v_loss\nv_loss = v_loss.item()\nv_loss = kept\nprint(v_loss)",
    "kept = v_loss\nv_loss = v_loss.item()\nprint(kept)",
    "from contextlib import suppress\nwith suppress(ValueError):\n    v_loss = v_loss.item()\nprint([v_loss])",
    "try:\n    v_loss = v_loss.item()\nexcept ValueError:\n    pass\nprint([v_loss])",
    "last = 1.0\nwhile print([last]) or global_step > 1e9:\n    last = v_loss",
    "from contextlib import nullcontext\nlast = 1.0\nwith nullcontext(v_loss) as last, open(str(last)):\n    pass",
    "kept, last = {}, 1.0\nlast, kept[last] = v_loss, 2\nprint(kept)",
    "last = 1.0\nif (last := v_loss) is not None:\n    print([last])",
    "last = 1.0\nmatch v_loss:\n    case last:\n        print([last])",
    "last = 1.0\ndef later():\n    print([last])\nlast = v_loss\nlater()\nlast = 1.0",
    "print(*[x for x in (loss, v_loss)])",
    "print(max(loss, v_loss))",
    "class Last:\n    def __init__(self, x):\n        self.x = x\nlast = Last(v_loss)\nprint(last.x)",
    f"{DATA}\nkept = Kept()\nkept.data.append(v_loss)\nprint(kept.data)",
    f"{DATA}\nkept = Kept()\nkept.data.append(v_loss)\nprint(kept.numpy())",
    "class Kept:\n    pass\nkept = Kept()\nkept.data = v_loss\nprint(kept.data)",
    f"{LAST}\nimport copy\ncopy.copy(last)\nprint(len(copy.deepcopy({{'a': [last]}})))",
    f"{LAST}\nimport pickle\nprint(len(pickle.dumps(last)))",
    f"{LAST}\nimport operator\nprint(operator.attrgetter('x')(last))",
    f"{LAST}\nouter = Last(last)\ntorch.save(outer, 'outer.pt')",
    f"{LAST}\nfrom dataclasses import replace\ndef kept(x):\n    return replace(x)\nprint(kept(last))",
    f"{LAST}\ntry:\n    print(np.mean([last.x]))\nexcept RuntimeError:\n    print('a graph')",
    "named = {'v_loss': v_loss}\nfor name, x in named.items():\n    print(name, x)",
    "import logging\nlogging.warning('%s', v_loss)",
    "print(**{'sep': ' ', 'end': str(v_loss)})",
    "def both(x):\n    yield x\nprint(next(both(v_loss)))",
    "with torch.no_grad() as x, open(str(v_loss)):\n    pass",
    "if global_step > 1e9:\n    raise ValueError(v_loss)",
    "for x in [loss, v_loss]:\n    print(x)",
    "print([loss, v_loss][0])",
    "print(loss if global_step else v_loss)",
    "print((loss and v_loss).grad_fn)",
    "class Shown:\n    def __str__(self):\n        return repr(self.x)\ns = Shown()\ns.x = v_loss\nprint(s)",
    "import pickle\nprint(len(pickle.dumps(v_loss.view(1))))",
    "if global_step > 4:\n    v_loss = v_loss / 2\nprint(v_loss)",
    "mean = torch.mean(torch.cat([loss.view(1), v_loss.view(1)]))\nassert mean.grad_fn is not None",
    "print('v_loss: {}'.format(v_loss))",
    "print(repr(v_loss) + '')",
    "v_loss.backward",
    "v_loss += 1\nprint(v_loss)",
    "a, b = loss, v_loss\nprint(b)",
    "(again := v_loss)\nprint(again)",
    "print(getattr(v_loss, 'requires_grad'))",
    "print(torch.as_tensor(v_loss))",
    "import strange\nstrange.last = v_loss",
    "import strange\nstrange.kept[global_step] = v_loss",
    "every = torch.stack([loss, v_loss])[torch.tensor([0, 1])]\nprint(every)",
    "agent.last = v_loss\nAgent.__repr__ = lambda self: str(self.last)\nprint(agent)",
    f"{NET}    def extra_repr(self):\n        return f'{{self.last}}'\nnet = Net()\nnet.last = v_loss\nprint(net)",
    f"{NET}    def extra_repr(self):\n        return f'{{self.last}}'\nagent.part = Net()\nagent.part.last = v_loss\n"
    "print(f'{agent}')",
    "import strange\nagent.resize = strange.Resize((84, 84))\nagent.last = v_loss\nprint(agent)",
    "import strange\nagent.resize = strange.Resize(v_loss)\nprint(agent)",
    "import strange\nagent.resize = strange.Resize()\nagent.resize(v_loss)\nprint(agent)",
    "print(torch.is_grad_enabled() and torch.autograd.grad(v_loss, agent.parameters(), allow_unused=True))",
]


def of_update(report: str) -> object:
    return turn("update", script({"report": PARTS["report"] + "\n" + report})).outcome


@pytest.mark.parametrize("report", VALUES_ALONE)
def test_code_that_takes_values_only(report: str) -> None:
    assert not isinstance(of_update(report), Skipped)


STRANGE = PARTS["minibatch"].replace("((newvalue.view(-1)", "torch.mean(strange.errors(newvalue.view(-1)")
STRANGE = STRANGE.replace("** 2).mean()", "** 2)")
"""A loss made by a library: its type is unknown."""


@pytest.mark.parametrize(
    "change",
    [
        ("0.01 * entropy.mean()", "0.01 * entropy[:1]"),
        ("0.01 * entropy.mean()", "strange.bonus(entropy)"),
        ("0.5 * v_loss", "strange.scale * v_loss"),
        ("torch.max(pg_loss1, pg_loss2).mean()", "torch.max(pg_loss1, pg_loss2).mean(0, True)"),
        ("torch.max(pg_loss1, pg_loss2).mean()", "strange.mean(pg_loss1, pg_loss2)"),
    ],
)
def test_a_text_of_a_loss_that_may_have_dimensions(change: tuple[str, str]) -> None:
    """One element in one dimension is trained as a number is, and shown as a tensor with its grad_fn."""
    minibatch, report = PARTS["minibatch"].replace(*change), f"{PARTS['report']}\nprint(f'{{loss}}')"
    assert minibatch != PARTS["minibatch"]
    outcome = turn(
        "update", script({"third_party": "import strange", "minibatch": minibatch, "report": report})
    ).outcome
    assert isinstance(outcome, Skipped)
    assert "shows loss with its grad_fn" in outcome.reason


@pytest.mark.parametrize("report", VALUES_ALONE[:3])
def test_code_that_takes_values_of_an_unknown_loss(report: str) -> None:
    parts = {"third_party": "import strange", "minibatch": STRANGE, "report": PARTS["report"] + "\n" + report}
    outcome = turn("update", script(parts)).outcome
    assert not isinstance(outcome, Skipped), outcome.reason


@pytest.mark.parametrize(
    "report",
    [
        "other = v_loss\nprint(other.grad_fn)",
        "a, b = v_loss, 1\nprint(a)",
        "other = v_loss * 2\nlast = other\nprint(last)",
        "other = v_loss[0] if global_step else v_loss\nprint(other)",
        "kept = [v_loss]\nprint(kept)",
        "def shown(x):\n    print(x)\nshown(v_loss)",
        "total = torch.zeros(1)\ntotal[0] = v_loss\nprint(total)",
        "class Last:\n    pass\nlast = Last()\nlast.x = v_loss\nprint(last.x)",
        "for x in v_loss:\n    print(x)",
        "total = 0\ntotal += v_loss\nprint(total)",
    ],
)
def test_an_unknown_loss_is_not_followed(report: str) -> None:
    parts = {"third_party": "import strange", "minibatch": STRANGE, "report": PARTS["report"] + "\n" + report}
    outcome = turn("update", script(parts)).outcome
    assert isinstance(outcome, Skipped)
    assert "use `.detach()` or `.item()`" in outcome.reason


@pytest.mark.parametrize("report", TELLS)
def test_code_that_shows_the_graph(report: str) -> None:
    outcome = of_update(report)
    assert isinstance(outcome, Skipped)
    assert "which results of update" in outcome.reason
    assert ".detach()" in outcome.reason


@pytest.mark.parametrize("name", sorted(torch_api.PLAIN))
def test_attribute_is_the_same_without_a_graph(name: str) -> None:
    tensor = torch.ones(2, 3, requires_grad=True) * 2
    with_graph, without = getattr(tensor, name), getattr(tensor.detach(), name)
    assert torch.equal(with_graph, without) if name == "data" else with_graph == without
    assert not getattr(with_graph, "requires_grad", False)


@pytest.mark.parametrize("name", sorted(python.CONVERTS | {"all", "any", "callable"}))
def test_builtin_takes_values_alone(name: str) -> None:
    tensor = torch.ones((), requires_grad=True) * 2
    given = [tensor] if name in ("all", "any") else tensor
    plain = [tensor.detach()] if name in ("all", "any") else tensor.detach()
    function = getattr(__import__("builtins"), name)
    assert function(given) == function(plain)
    assert type(function(given)) in (bool, complex, float, int)


@pytest.mark.parametrize("name", sorted(python.SHOWS - {"print", "format"}))
def test_builtin_shows_the_graph(name: str) -> None:
    tensor = torch.ones((), requires_grad=True) * 2
    function = getattr(__import__("builtins"), name)
    assert function(tensor) != function(tensor.detach())
