"""A script for gymnasium 1 is converted like one for gymnasium 0.29, and its conversion is equal."""

from __future__ import annotations

import golden
import gymnasium
import pytest
from test_equality import recorded

from transformer import convert
from transformer.verify import compare
from transformer.verify.arguments import added_options, without_options

FIXTURE = "gymnasium_continuous.py"
CHANGES = {
    "np.clip(x, -8.0, 8.0))": "np.clip(x, -8.0, 8.0), env.observation_space)",
    """\
        for item in infos.get("final_info", []):
            if item is not None:
                scores.append(float(item["episode"]["r"][0]))
""": """\
        if "episode" in infos:
            scores.append(float(infos["episode"]["r"][0]))
""",
    """\
            if "final_info" in infos:
                for ended in infos["final_info"]:
                    if ended and "episode" in ended:
                        score, length = ended["episode"]["r"], ended["episode"]["l"]
""": """\
            if "episode" in infos:
                for which, ended in enumerate(infos["_episode"]):
                    if ended:
                        score, length = infos["episode"]["r"][which], infos["episode"]["l"][which]
""",
}
"""Parts of the fixture that gymnasium 1 has changed."""


def for_gymnasium_1() -> str:
    text = (golden.FIXTURES / FIXTURE).read_text(encoding="utf-8")
    for old, new in CHANGES.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_it_converts_as_one_for_0_29_does() -> None:
    conversion, earlier = convert(for_gymnasium_1()), golden.conversion_of(golden.FIXTURES / FIXTURE)
    assert [s.transform.name for s in conversion.steps if s.applied] == [
        s.transform.name for s in earlier.steps if s.applied
    ]


@pytest.mark.skipif(gymnasium.__version__.startswith("0."), reason="gymnasium is older than 1")
def test_conversion_is_equal() -> None:
    text = for_gymnasium_1()
    converted = convert(text).source
    original, ours = recorded(FIXTURE, text), recorded(FIXTURE, converted)
    assert len(original.steps) > 0
    assert any("return" in line.line for line in original.prints)
    assert compare(original, without_options(ours, added_options(text, converted))) == ()
