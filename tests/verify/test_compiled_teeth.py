"""Conversions that are wrong only when compiled: the check of compiled functions catches them."""

from __future__ import annotations

from pathlib import Path

import golden
import pytest
from scripts import edited, script

from transformer import all_transforms, convert
from transformer.verify.names import COMPILED, COMPILED_OTHERS, FLAGS_ON
from transformer.verify.run import Run
from transformer.verify.verify import Task, verify

LOGGED = {"metrics": "", "anneal": "", "report": "print(iteration, global_step, v_loss.item(), pg_loss.item())"}
LOSS = "loss = pg_loss + 0.5 * v_loss - 0.01 * entropy.mean()"
POLICY = "loss = pg_loss - 0.01 * entropy.mean()"
CHOSEN = {t.name for t in all_transforms() if not t.option} - {"shuffle"}

WRONG = {
    "a loss that reaches the critic in every other iteration": (
        {
            **LOGGED,
            "minibatch": edited("minibatch", LOSS, f"{POLICY}\nif iteration % 2 == 1:\n    loss += 0.5 * v_loss"),
        },
        "update, call",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("title", WRONG)
def test_an_update_compiled_though_it_must_not_be(title: str, tmp_path: Path) -> None:
    parts, told = WRONG[title]
    path = tmp_path / "ppo.py"
    path.write_text(script(parts), encoding="utf-8")
    converted = convert(path.read_text(encoding="utf-8"), select=CHOSEN).source
    compiling = "        update = torch.compile(update, options=options)\n"
    assert compiling not in converted
    first = converted.index("    options = {")
    place = converted.index("\n\n", first) + 1
    wrong = converted[:place] + compiling + converted[place:]
    checks = {c.name: c for c in verify(Task(Run(path), wrong, up_to=COMPILED, other_arguments=False)).checks}
    assert checks[FLAGS_ON].status == "equal", checks[FLAGS_ON]
    assert checks[COMPILED].status == "different"
    assert any(told in finding for finding in checks[COMPILED].findings), checks[COMPILED].findings


BACKEND = '''
def forgets(graph, inputs):
    """A compiler that is right only where advantages are normalised."""
    normalises = bool(graph.graph.find_nodes(op="call_method", target="std"))

    def call(*given):
        with torch.no_grad():
            for parameter in () if normalises else (g for g in given if isinstance(g, nn.Parameter)):
                parameter.add_(0.01)
        return graph.forward(*given)

    return call


if __name__ == "__main__":
'''


@pytest.mark.slow
def test_a_compiler_that_is_wrong_in_a_rare_branch() -> None:
    fixture = golden.FIXTURES / "gymnasium_continuous.py"
    given = tuple("--total-timesteps 768 --num-envs 2 --num-steps 128 --num-minibatches 4 --update-epochs 2".split())
    source = convert(fixture.read_text(encoding="utf-8")).source
    call, line = "update = torch.compile(update, options=options)", 'if __name__ == "__main__":\n'
    assert call in source
    assert line in source
    wrong = source.replace(call, "update = torch.compile(update, backend=forgets)").replace(line, BACKEND.lstrip())
    for text, status in ((source, "equal"), (wrong, "different")):
        checks = {c.name: c for c in verify(Task(Run(fixture, given), text, up_to=COMPILED, jobs=2)).checks}
        last = checks.pop(COMPILED_OTHERS)
        assert {check.status for check in checks.values()} == {"equal"}, checks
        assert last.status == status, last
    assert any("update, call" in finding for finding in last.findings), last.findings
