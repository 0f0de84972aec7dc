"""Whether training may make a distribution, whose arguments would be checked on the host."""

import golden
import pytest
from scripts import script

from transformer.conversion.first_state import read, recognise
from transformer.values.networks.distributions import may_make

VALUES = (golden.FIXTURES / "deep_q.py").read_text(encoding="utf-8")
"""It learns values only."""


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
    ],
    ids=["values alone", "a categorical one", "the module by another name", "a network of another file"],
)
def test_distributions(source: str, may: bool) -> None:
    assert may_make(recognise(read(source, 120)).roles) == may
