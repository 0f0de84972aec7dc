"""Code that may change a network or its methods without naming them."""

import pytest

from transformer.recognition.history import History
from transformer.recognition.roles import Roles
from transformer.syntax.tree import Tree
from transformer.values.networks.sealed import overlooked

HEAD = "import torch\nnet = torch.nn.Sequential(torch.nn.Linear(1, 1))\n"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("net.set_submodule('0', other)", True),
        ("net.add_module('other', other)", True),
        ("net.named_children()", True),
        ("net._modules['0'] = other", True),
        ("net.__delattr__('0')", True),
        ("type(net).__mro__[0]", True),
        ("step.__code__.co_consts", True),
        ("__builtins__", True),
        ("net.load_state_dict(other)", False),
        ("net.train()", False),
        ("net(x).cpu()", False),
    ],
)
def test_access_without_names(code: str, found: bool) -> None:
    roles = Roles(Tree(HEAD + code), History(original=HEAD + code))
    assert (overlooked(roles, []) is not None) == found
