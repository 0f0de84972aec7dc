"""A process that trains several times: code compiled for one network is not used, without guards, for another."""

from pathlib import Path

import pytest
from cases import converted_by
from forking import python_forked
from golden import FIXTURES
from scripts import script

from transformer import convert

HEAD = "def train(args):"
CALL = "train(parse_args())"
ONCE = {
    "a call": CALL,
    "a call under a condition": f'if __name__ == "__main__":\n    {CALL}',
    "a call of a call": f"def main():\n    {CALL}\n\n\nmain()",
    "a call that may fail": f"try:\n    {CALL}\nfinally:\n    print('end')",
    "a call in a context": f"with torch.device('cpu'):\n    {CALL}",
    "a method": f"class Runner:\n    def run(self):\n        {CALL}\n\n\nRunner().run()",
}
AGAIN = {
    "two calls": f"{CALL}\n{CALL}",
    "a loop": f"for seed in range(3):\n    {CALL}",
    "a loop that may end": f"while True:\n    {CALL}\n    break",
    "a list": f"[{CALL} for seed in range(3)]",
    "a generator": f"list({CALL} for seed in range(3))",
    "a lambda": f"run = lambda: {CALL}\nrun()\nrun()",
    "another name": f"again = train\n{CALL}\nagain(parse_args())",
    "handed on": "import helpers\n\nhelpers.launch(train)",
    "by its name": "globals()['train'](parse_args())",
    "a function that is called twice": f"def main():\n    {CALL}\n\n\nmain()\nmain()",
    "a function in a loop": f"def main():\n    {CALL}\n\n\nfor seed in range(2):\n    main()",
    "a method that is called twice": (
        f"class Runner:\n    def run(self):\n        {CALL}\n\n\nRunner().run()\nRunner().run()"
    ),
    "itself": f"def main(left):\n    {CALL}\n    if left:\n        main(left - 1)\n\n\nmain(2)",
    "one another": (
        f"def main(left):\n    {CALL}\n    if left:\n        other(left - 1)\n\n\n"
        "def other(left):\n    main(left)\n\n\nmain(2)"
    ),
}


def guarded(calls: str, head: str = HEAD) -> bool:
    """Whether the compiled policy keeps the guards on what it reads."""
    source = script({"main": head, "parse": "", "end": calls})
    conversion = converted_by(source, "policy", "compile")
    assert "policy = torch.compile(" in conversion.source, conversion.diagnostics
    return "guard_filter_fn" not in conversion.source


@pytest.mark.parametrize("calls", ONCE.values(), ids=ONCE)
def test_a_process_that_trains_once(calls: str) -> None:
    assert not guarded(calls)


@pytest.mark.parametrize("calls", AGAIN.values(), ids=AGAIN)
def test_a_process_that_may_train_again(calls: str) -> None:
    assert guarded(calls)


@pytest.mark.parametrize("decorator", ["@hydra.main()", "@repeated", "@functools.cache"])
def test_a_decorator_may_call_it_again(decorator: str) -> None:
    assert guarded(CALL, head=f"{decorator}\n{HEAD}")


NESTED = """\
import functools, runpy, sys
import torch

def compile(function, **options):
    assert not hasattr(function, "compiled"), "compiled around what was compiled before"
    @functools.wraps(function)
    def called(*args, **kwargs):
        return function(*args, **kwargs)
    called.compiled = True
    return called

torch.compile = compile
script, sys.argv = sys.argv[1], sys.argv[1:]
runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.parametrize("times", [1, 2])
def test_a_method_of_a_class_is_not_compiled_around_itself(times: int, tmp_path: Path) -> None:
    fixture = (FIXTURES / "acts_and_learns.py").read_text()
    source = fixture.replace('if __name__ == "__main__":', "def main():") + "\n\nmain()\n" * times
    conversion = convert(source)
    assert "Agent.decide = torch.compile(" in conversion.source, conversion.diagnostics
    assert ("inspect.unwrap(Agent.decide)" in conversion.source) == (times > 1)
    (tmp_path / "nested.py").write_text(NESTED)
    (tmp_path / "script.py").write_text(conversion.source)
    args = ["--total-timesteps", "80", "--learning-starts", "70", "--compile"]
    done = python_forked(tmp_path / "nested.py", "script.py", *args)
    assert not done.returncode, done.stderr[-2000:]
