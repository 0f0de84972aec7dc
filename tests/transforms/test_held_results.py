"""A graph that an update returned inside a container would break it in two when it is compiled."""

from __future__ import annotations

import pytest
from scripts import PARTS, edited, script

from transformer import convert

OPTIMIZE = PARTS["optimize"]
SUM = "sums = [x.item() for x in {}]"


def converted(made: str, read: str, below: str = "") -> str:
    """update() of a script that makes a container above its step, and reads it below the minibatch's statements."""
    parts = {
        "metrics": "",
        "optimize": f"{made}\n{OPTIMIZE}\n{read}",
        "report": "print(iteration, global_step, sums)\n" + below,
    }
    conversion = convert(script(parts))
    assert conversion.converted, conversion.diagnostics
    text = conversion.source
    return text[text.index("def update(") : text.index("\n\n", text.index("return", text.index("def update(")))]


@pytest.mark.parametrize(
    ("made", "read", "expected"),
    [
        ("told = {'p': pg_loss, 'v': v_loss}", SUM.format("told.values()"), "{'p': pg_loss.detach(), 'v': v_loss.det"),
        (
            "told = {'p': pg_loss}",
            "sums = 0\nfor k, x in told.items():\n    sums += x.item()",
            "{'p': pg_loss.detach()}",
        ),
        ("told = [pg_loss, v_loss * 0.5]", SUM.format("told"), "[pg_loss.detach(), (v_loss * 0.5).detach()]"),
        ("told = (pg_loss, -v_loss)", "sums = told[0].item()", "(pg_loss.detach(), (-v_loss).detach())"),
        ("told = {}\ntold['p'] = pg_loss", "sums = told['p'].item()", "told['p'] = pg_loss.detach()"),
        ("told = []\ntold.append(pg_loss.mean())", SUM.format("told"), "told.append(pg_loss.mean().detach())"),
        ("told = {'p': pg_loss}", "sums = float(told['p'])", "{'p': pg_loss.detach()}"),
    ],
)
def test_what_is_put_into_a_container_is_detached(made: str, read: str, expected: str) -> None:
    assert expected in converted(made, read)


@pytest.mark.parametrize(
    ("made", "read", "below"),
    [
        ("told = {'p': pg_loss}", "sums = told['p'].requires_grad", ""),
        ("told = {'p': pg_loss}", "sums = 0", "print(told)"),
        ("told = {'p': pg_loss}", "sums = 0", "print(f\"{told['p']}\")"),
        ("told = {'p': pg_loss}\nloss = loss + told['p']", "sums = told['p'].item()", ""),
        ("told = [pg_loss]\nloss = sum(told) + loss", "sums = told[0].item()", ""),
        ("told = [pg_loss]", "sums = any(told[0] is x for x in told)", ""),
        ("with torch.no_grad():\n    told = {'p': pg_loss * 2}", "sums = told['p'].item()", ""),
        ("told = {'p': args.seed, 'q': pg_loss.item()}", "sums = told['p']", ""),
    ],
)
def test_what_shows_or_uses_the_graph_keeps_it(made: str, read: str, below: str) -> None:
    text = converted(made, read, below)
    assert "told" in text
    assert all(".detach()" not in line for line in text.splitlines() if "told" in line)


def test_the_parts_of_a_loss_that_a_function_returns() -> None:
    """The report reads all of them by their names."""
    functions = "def losses(policy, value):\n    return policy + 0.5 * value, {'policy': policy, 'value': value}\n\n\n"
    minibatch = edited(
        "minibatch", "loss = pg_loss + 0.5 * v_loss - 0.01 * entropy.mean()", "loss, told = losses(pg_loss, v_loss)"
    )
    read = "sums = {}\nfor name, x in told.items():\n    sums[name] = sums.get(name, 0.0) + x.item()"
    parts = {"functions": functions, "minibatch": minibatch, "optimize": f"{OPTIMIZE}\n{read}", "metrics": ""}
    source = convert(script({**parts, "report": "print(iteration, global_step, sums)"})).source
    assert ".detach(), 'value': " in source
