"""Whether training may make a distribution, whose arguments would be checked on the host."""

import golden
import pytest
from scripts import script

from transformer.conversion.first_state import read, recognise
from transformer.values.networks.distributions import may_make

LAYERS = "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))"
VALUES = (golden.FIXTURES / "deep_q.py").read_text(encoding="utf-8")
"""It learns values only."""
MADE = "QNetwork(env.observation_space.shape[0], env.action_space.n)"


@pytest.mark.parametrize(
    ("source", "may"),
    [
        (VALUES, False),
        (script(), True),
        (VALUES.replace("import torch\n", "import torch\nimport torch.distributions as D\n", 1), True),
        (
            VALUES.replace("import torch\n", "import torch\nfrom nets import QNet\n", 1).replace(
                "= QNetwork(", "= QNet("
            ),
            True,
        ),
        (VALUES.replace(MADE, LAYERS), False),
        (VALUES.replace(MADE, f"nn.Sequential(Body(), {LAYERS})"), True),
    ],
    ids=[
        "values alone",
        "a categorical one",
        "the module by another name",
        "a network of another file",
        "layers alone",
        "layers and others",
    ],
)
def test_distributions(source: str, may: bool) -> None:
    assert may_make(recognise(read(source, 120)).roles) == may
