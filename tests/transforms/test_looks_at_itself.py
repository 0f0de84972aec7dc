"""Scripts that list the names of their module, or show which functions run: they show the same when converted."""

from __future__ import annotations

from pathlib import Path

import pytest
from forking import assert_same_output
from scripts import script
from test_several_critics import SCRIPT

from transformer import convert

LOOKS = {
    "globals()": "print(sorted(k for k in globals() if k[0] != '_'))",
    "vars() of the module": "import sys\n{}print(sorted(vars(sys.modules[__name__])))",
    "dir() of the module": "import __main__\n{}print([k for k in dir(__main__) if k[0] != '_'])",
    "the globals of a function": "print(len(Walk.step.__globals__))",
    "a frame": "import sys\n{}print(sys._getframe().f_code.co_name)",
    "a function": "print(names())",
}


@pytest.mark.parametrize("look", LOOKS)
def test_an_agent_that_looks(look: str, tmp_path: Path) -> None:
    looking = SCRIPT.replace("class Walk:", "def names():\n    return sorted(globals())[-4:]\n\n\nclass Walk:", 1)
    text = LOOKS[look].format(" " * 8)
    looking = looking.replace("        self.count += 1\n", f"        self.count += 1\n        {text}\n")
    converted = convert(looking)
    if converted.converted:
        assert_same_output(tmp_path, looking, converted.source)


@pytest.mark.slow
def test_a_loop_at_the_top_keeps_its_names() -> None:
    plain = convert(script({}))
    looking = convert(script({"end": "print(sorted(globals()))\n"}))
    assert "def rollout" in plain.source and "def rollout" not in looking.source
    assert "import inspect" in plain.source and "import inspect" not in looking.source
