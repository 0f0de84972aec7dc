"""An evaluation in the training loop steps an environment too: the rollout is the loop whose steps are learned from."""

import ast

import pytest
from golden import FIXTURES

from transformer import convert

SCRIPT = (FIXTURES / "evaluates_in_loop.py").read_text(encoding="utf-8")
CONDITION = "        if iteration % args.eval_freq == 1:\n"
BLOCK = SCRIPT[SCRIPT.index(CONDITION) : SCRIPT.index("        for step in range(args.num_steps):")]
ALWAYS = "".join(line[4:] if line.strip() else line for line in BLOCK.removeprefix(CONDITION).splitlines(keepends=True))
BELOW = '        print(f"iteration {iteration}: rewards'
SAME = [
    ("eval_obs, eval_reward, eval_terminated, eval_truncated, _", "following, reward, terminated, truncated, _"),
    ("eval_obs, _ =", "following, _ ="),
    ("torch.Tensor(eval_obs)", "torch.Tensor(following)"),
    ("float(eval_reward)", "float(reward)"),
]


def replaced(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "code",
    [
        SCRIPT,
        replaced(SCRIPT, (BLOCK, ALWAYS)),
        replaced(SCRIPT, (BLOCK, ""), (BELOW, BLOCK + BELOW)),
        replaced(SCRIPT, *SAME),
        replaced(
            SCRIPT, ("            for _ in range(args.eval_steps):\n", "            while eval_total > -200.0:\n")
        ),
    ],
    ids=["sometimes", "always", "below", "the same names", "until it ends"],
)
def test_the_rollout_is_learned_from(code: str) -> None:
    conversion = convert(code)
    functions = {f.name: f for f in ast.walk(ast.parse(conversion.source)) if isinstance(f, ast.FunctionDef)}
    assert {"policy", "rollout", "gae", "update", "one-graph"} <= {
        s.transform.name for s in conversion.steps if s.applied
    }
    assert " = env.step(" in ast.unparse(functions["rollout"])
    assert "eval_env" not in ast.unparse(functions["rollout"])
