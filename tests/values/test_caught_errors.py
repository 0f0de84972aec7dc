"""Whether a script may catch the error by which distributions reject their arguments."""

from textwrap import indent

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


def tried(body: str, handler: str = "except ValueError:\n    print('again')") -> str:
    return f"try:\n{indent(body, '    ')}\n{handler}"


ACTING = {
    "a handler that breaks": {"rollout": tried(PARTS["rollout"], "except ValueError:\n    break")},
    "a handler that restores and acts again": {
        "copy": "\nimport copy\ngood = copy.deepcopy(agent.state_dict())",
        "act": tried(ROLLOUT, f"except ValueError:\n    agent.load_state_dict(good)\n{indent(ROLLOUT, '    ')}"),
    },
    "a handler around the update": {"learn": tried(MINIBATCH, "except Exception as error:\n    print(error)")},
    "a handler around the training": {
        "main": "def main():",
        "end": "\ntry:\n    main()\nexcept ValueError:\n    raise SystemExit(0)",
    },
    "a suppressed method of an object": {
        "stdlib": "import contextlib",
        "functions": "class Judge:\n    def evaluate(self, agent, x):\n        return agent.get_action_and_value(x)[0]",
        "report": "with contextlib.suppress(ValueError):\n    print(Judge().evaluate(agent, next_obs))",
    },
    "a function that calls what it is given": {
        "functions": "def safe(f, *given):\n" + indent(tried("return f(*given)"), "    "),
        "report": "safe(agent.get_action_and_value, next_obs)",
    },
    "a decorator that tries": {
        "functions": "def tries(f):\n    def inner(*given):\n        try:\n            return f(*given)\n"
        "        except Exception:\n            return None\n    return inner\n\n\n"
        "@tries\ndef judge(agent, x):\n    return agent.get_action_and_value(x)",
        "report": "judge(agent, next_obs)",
    },
    "a function in a dictionary": {
        "report": "JUDGES = {'one': lambda: agent.get_action_and_value(next_obs)}\n" + tried("JUDGES['one']()"),
    },
    "a generator that is advanced": {
        "functions": "def judged(agent, x):\n    while True:\n        yield agent.get_action_and_value(x)",
        "report": "judges = judged(agent, next_obs)\n" + tried("next(judges)"),
    },
    "a partial function": {
        "stdlib": "import functools",
        "report": "judge = functools.partial(agent.get_action_and_value, next_obs)\n" + tried("judge()"),
    },
    "a distribution under another name": {
        "functions": "KIND = Categorical\n\n\ndef judge(x):\n    return KIND(logits=x)",
        "report": tried("judge(agent.actor(next_obs))"),
    },
    "code of others that is given the network": {
        "third_party": "import judges",
        "report": tried("judges.judge(agent.get_action_and_value, next_obs)"),
    },
}
HARMLESS = {
    "logging": {
        "third_party": "import wandb",
        "report": tried("wandb.log({1: global_step})", "except Exception:\n    pass"),
    },
    "the environment": {"step": tried(PARTS["step"], "except ValueError:\n    raise")},
    "an alias of another function": {
        "functions": "def number(x):\n    return float(x)\n\n\nread = number",
        "report": tried("read('x')"),
    },
}


@pytest.mark.parametrize("way", ACTING)
def test_an_error_that_may_be_caught(way: str) -> None:
    assert CAUGHT in told(ACTING[way])


@pytest.mark.parametrize("way", HARMLESS)
def test_a_handler_around_other_code(way: str) -> None:
    assert CAUGHT not in told(HARMLESS[way])


SWITCH = "torch.distributions.Distribution.set_default_validate_args"
SWITCHES = {
    f"{SWITCH}(False)": (False, False),
    f"{SWITCH}(True)": (True, False),
    f"{SWITCH}(args.seed > 1)": (True, False),
    f"if args.seed > 1:\n    {SWITCH}(False)": (True, False),
    f"{SWITCH}(False)\n{SWITCH}(True)": (True, False),
    "torch.distributions.Distribution._validate_args = False": (True, False),
    "getattr(torch.distributions.Distribution, 'set_default_validate_args')(False)": (True, False),
    "print('checks')": (False, True),
}


@pytest.mark.parametrize("line", SWITCHES)
def test_a_script_that_turns_the_checks_off(line: str) -> None:
    decides, adds = SWITCHES[line]
    source = script({"setup": f"{line}\n{PARTS['setup']}"})
    after = converted_by(source, "policy", "one-graph", "compile").source
    assert (source.count("validate_args") == after.count("validate_args")) is not adds
    assert ("decides whether distributions check" in told({"setup": f"{line}\n{PARTS['setup']}"})) is decides
