"""Wrong conversions that compute otherwise only where they are compiled: the check of compiled functions tells them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import edited, script

from transformer import all_transforms, convert
from transformer.verify.names import COMPILED, FLAGS_ON
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
def test_what_is_compiled_though_it_must_not_be(title: str, tmp_path: Path) -> None:
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
