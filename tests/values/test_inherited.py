"""A network with a base class in the file: an inherited method counts where it runs, and only there."""

import pytest
from golden import FIXTURES

from transformer import Applied, convert

SCRIPT = (FIXTURES / "agent_is_a_module.py").read_text(encoding="utf-8")
BASE = "    def put_data(self, transition):\n"
PI = "        return F.softmax(self.policy_head(F.relu(self.body(x))), dim=dim)\n"
MOVED = "    def pi(self, x, dim=0):\n" + PI


def acts_without_gradients(*edits: tuple[str, str]) -> bool:
    code = SCRIPT
    for old, new in edits:
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return any(s.transform.name == "acting" and isinstance(s.outcome, Applied) for s in convert(code).steps)


@pytest.mark.parametrize(
    "edits",
    [
        (),
        ((MOVED + "\n", ""), (BASE, MOVED + "\n" + BASE)),
        ((PI, "        return self(x, dim)\n\n    def forward(self, x, dim):\n" + PI),),
    ],
    ids=["the base keeps steps", "the base acts", "through forward()"],
)
def test_it_acts_without_gradients(edits: tuple[tuple[str, str], ...]) -> None:
    assert acts_without_gradients(*edits)


@pytest.mark.parametrize(
    "edits",
    [
        (
            (PI, "        return self.scaled(x, dim)\n"),
            (BASE, "    def scaled(self, x, dim):\n        self.last = x\n" + PI + "\n" + BASE),
        ),
        ((PI, "        return self(x, dim)\n\n    def forward(self, x, dim):\n        self.last = x\n" + PI),),
        ((PI, "        self.put_data(x)\n" + PI),),
    ],
    ids=["an inherited method sets an attribute", "forward() sets one", "an inherited method keeps what it is given"],
)
def test_it_does_not_if_a_method_may_keep_a_graph(edits: tuple[tuple[str, str], ...]) -> None:
    assert not acts_without_gradients(*edits)
