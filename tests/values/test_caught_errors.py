"""Whether a script may catch the error by which distributions reject their arguments."""

import pytest
from cases import converted_by
from scripts import PARTS, script

from transformer.conversion.result import Applied

ROLLOUT, MINIBATCH = PARTS["act"], PARTS["minibatch"]


def told(parts: dict[str, str]) -> str:
    """What is said of distributions with a flag on."""
    (step,) = [
        s for s in converted_by(script(parts), "policy", "one-graph", "compile").steps if s.transform.name == "compile"
    ]
    assert isinstance(step.outcome, Applied), step.outcome
    return " ".join(step.outcome.notes)


def around(body: str, handler: str) -> str:
    return f"def check(x):\n    try:\n        {body}\n    {handler}\n        return None"


CAUGHT = "may catch the error by which distributions reject arguments"
MAKES = "return Categorical(logits=agent.actor(x)).sample()"
HANDLERS = {
    "except ValueError:": True,
    "except Exception:": True,
    "except:": True,
    "except (KeyError, ValueError):": True,
    "except ERRORS:": True,
    "except BaseException:": True,
    "except KeyError:": False,
    "except (KeyboardInterrupt, OSError):": False,
    "except Stopped:": False,
    "except json.JSONDecodeError:": False,
}


@pytest.mark.parametrize("handler, caught", HANDLERS.items(), ids=[*HANDLERS])
def test_what_a_handler_catches(handler: str, caught: bool) -> None:
    functions = f"ERRORS = KeyError, ValueError\n\n\nclass Stopped(Exception):\n    pass\n\n\n{around(MAKES, handler)}"
    found = told({"functions": functions, "stdlib": "import json", "report": "print(check(next_obs[:1]) is None)"})
    assert (CAUGHT in found) == caught


BODIES = {
    "agent.get_action_and_value(x)": True,
    "helper(x)": True,
    "print(x)": False,
    "import wandb": False,
    "float('x')": False,
}


@pytest.mark.parametrize("body, caught", BODIES.items(), ids=[*BODIES])
def test_what_is_tried(body: str, caught: bool) -> None:
    functions = f"def helper(x):\n    return Categorical(logits=x)\n\n\n{around(body, 'except ValueError:')}"
    assert (CAUGHT in told({"functions": functions, "report": "check(next_obs[:1])"})) == caught


@pytest.mark.parametrize(
    "manager, caught",
    [("contextlib.suppress(ValueError)", True), ("torch.no_grad()", False), ("open('x', 'w')", False)],
)
def test_a_block_that_suppresses_errors(manager: str, caught: bool) -> None:
    functions = f"def check(x):\n    with {manager}:\n        {MAKES}"
    found = told({"functions": functions, "stdlib": "import contextlib", "report": "check(next_obs[:1])"})
    assert (CAUGHT in found) == caught
