"""The arguments that a script prints, without those that the conversion added."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from transformer.verify import Recording
from transformer.verify.arguments import added_options, without_options
from transformer.verify.recording import Moment, Print

ADDED = frozenset({"compile", "measure_burnin", "precision"})


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (["Namespace(seed=1, compile=False, measure_burnin=3)"], ["Namespace(seed=1)"]),
        (["{'compile': False, 'seed': 1}"], ["{'seed': 1}"]),
        (["Args(precision='fp32', seed=1)"], ["Args(seed=1)"]),
        (["Namespace(seed=1, precision='bf16')"], ["Namespace(seed=1)"]),
        (["|seed|1|", "|precision|fp32|", "precision: 0.5"], ["|seed|1|", "precision: 0.5"]),
        (["│   seed=1,", "│   compile=False,", "│   measure_burnin=3", ")"], ["│   seed=1", ")"]),
        (["│   compile=False,", "│   seed=1", ")"], ["│   seed=1", ")"]),
        (["{", '  "compile": false,', '  "seed": 1,', '  "measure_burnin": 3', "}"], ["{", '  "seed": 1', "}"]),
        (["seed: 1", "compile: False", "done"], ["seed: 1", "done"]),
        (["|param|value|", "|-|-|", "|seed|1|", "|compile|False|"], ["|param|value|", "|-|-|", "|seed|1|"]),
        (["compile=True", "recompile=False", "loss,", "1"], ["compile=True", "recompile=False", "loss,", "1"]),
    ],
)
def test_added_arguments_are_left_out(printed: list[str], expected: list[str], toy_recording: Recording) -> None:
    lines = tuple(Print(Moment(0, 0), line) for line in printed)
    peer = replace(toy_recording, prints=lines, texts=lines)
    left = without_options(replace(peer, peers=(peer,)), ADDED)
    assert [[p.line for p in r.prints] for r in (left, *left.peers)] == [expected, expected]
    assert [[p.line for p in r.texts] for r in (left, *left.peers)] == [expected, expected]


def test_added_options_are_those_of_one_side() -> None:
    before = "@dataclass\nclass Args:\n    seed: int = 1\n"
    assert added_options(before, before + "    compile: bool = False\n") == {"compile"}
    parser = "parser.add_argument('--seed')\n"
    assert added_options(parser, parser + "parser.add_argument('--measure-burnin')\n") == {"measure_burnin"}


def test_options_of_a_file_that_the_original_imports_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "options.py").write_text("import broken\nparser.add_argument('--seed')\n")
    (tmp_path / "broken.py").write_text("parser.add_argument('--compile'\n")
    merged = "parser.add_argument('--seed')\nparser.add_argument('--compile')\n"
    assert added_options("from options import parser\n", merged, tmp_path / "train.py") == {"compile"}
