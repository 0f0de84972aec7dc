"""What is found once, of the whole script."""

import pytest
from scripts import script

from transformer.conversion.first_state import read, recognise

PRECISIONS = {
    "agent.double()": "double",
    "agent.to(dtype=torch.float64)": "float64",
    "half = torch.half": "half",
    "torch.set_default_dtype(torch.float64)": "set_default_dtype",
    "arrow.half(agent)": "half",
    "arrow.Schema().double(agent)": "double",
    "agent.to(broad)": "double",
    "column = ('return', arrow.float64())": None,
    "kind = arrow.types.float64": None,
    "column = float64()": None,
    "wide = np.float64(1)": None,
    "wide = np.zeros(1, dtype=np.float64)": None,
    "agent.to(torch.float32)": None,
}


@pytest.mark.parametrize(("line", "name"), PRECISIONS.items(), ids=list(PRECISIONS))
def test_another_precision_is_one_of_torch(line: str, name: str | None) -> None:
    imports = "import arrow\nfrom arrow import float64\nfrom torch import double as broad"
    source = script({"stdlib": imports, "setup": line})
    found = recognise(read(source, 120)).history.other_precision
    assert found is None if name is None else found is not None and found.endswith(f"uses {name}")
