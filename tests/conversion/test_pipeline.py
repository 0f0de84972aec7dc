"""The pipeline of transforms: their order, how some are selected, and what every conversion leaves unchanged."""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import golden
import pytest
from rich.console import Console
from scripts import PARTS, script
from tiers import slow_but_each

from transformer import Applied, Conversion, SelectionError, Skipped, convert
from transformer.commands.report import Result, print_report
from transformer.conversion import pipeline
from transformer.conversion.selection import chosen_names
from transformer.recognition.refusals import Unconvertible
from transformer.state import State
from transformer.syntax.diagnostics import Diagnostic
from transformer.transforms import FORMERLY, ORDER
from transformer.transforms.base import ALL, Rewrite, Transform

FIXTURES = pytest.mark.parametrize("fixture", sorted(golden.FIXTURES.glob("*.py")), ids=lambda p: p.stem)
BY_KIND = {kind: [t.info.name for t in ORDER if kind in t.kinds] for kind in ALL}
NAMES = BY_KIND["on-policy"]


@cache
def whole(distribute: bool = True) -> Conversion:
    everything = {"tune": True, "distribute": distribute, "workers": True, "checkpoint": True}
    return convert(script(), **everything, fuse_envs=True, precision=True)


def comments(source: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return Counter(t.string for t in tokens if t.type == tokenize.COMMENT)


@FIXTURES
def test_every_comment_is_kept(fixture: Path) -> None:
    original, *states = map(comments, golden.conversion_of(fixture).states)
    for state in states:
        assert not original - state


@FIXTURES
def test_states_follow_from_each_other(fixture: Path) -> None:
    conversion = golden.conversion_of(fixture)
    assert [s.transform.name for s in conversion.steps if s.transform.name != "one-file"] in BY_KIND.values()
    before = conversion.original
    for step in conversion.steps:
        assert step.before == before
        assert step.applied == (step.after != before)
        before = step.after
    assert before == conversion.source


def test_a_transform_leaves_the_state_that_it_gets_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def watched(transform: Transform) -> Transform:
        def apply(state: State) -> Rewrite:
            before = ast.dump(state.tree.root, include_attributes=True), deepcopy(state.history)
            try:
                return transform.apply(state)
            finally:
                assert (ast.dump(state.tree.root, include_attributes=True), state.history) == before
                seen.append(transform.info.name)

        return replace(transform, apply=apply)

    for order in ("GATHERING", "ORDER"):
        monkeypatch.setattr(pipeline, order, tuple(map(watched, getattr(pipeline, order))))
    assert convert(script()).converted
    assert set(seen) > {"flags", "tensor-lr", "storage", "rollout", "update", "one-graph", "compile"}


@pytest.mark.parametrize("name", ["inline", "storage"])
def test_an_error_in_a_transform_is_told_as_what_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(transform: Transform) -> Transform:
        def apply(state: State) -> Rewrite:
            raise KeyError("x")

        return replace(transform, apply=apply) if transform.info.name == name else transform

    for order in ("GATHERING", "ORDER"):
        monkeypatch.setattr(pipeline, order, tuple(map(failing, getattr(pipeline, order))))
    with pytest.raises(KeyError):
        convert(script())
    monkeypatch.setattr(pipeline, "TRACEBACKS", False)
    (found,) = convert(script()).diagnostics
    assert found.code == "LC007"
    assert re.fullmatch(rf"transform {name}: KeyError: 'x' \(test_pipeline\.py:\d+\)", found.message)
    monkeypatch.setattr(pipeline, "_run", lambda *args, **options: {}["x"])
    (found,) = convert(script()).diagnostics
    assert (found.code, found.message.partition(" (")[0]) == ("LC007", "KeyError: 'x'")


def test_errors_that_have_a_meaning_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "TRACEBACKS", False)
    raised: list[Exception] = []

    def failing(transform: Transform) -> Transform:
        def apply(state: State) -> Rewrite:
            raise raised[0]

        return replace(transform, apply=apply)

    refusal = Unconvertible(Diagnostic(3, 1, "LC005", "the loop is elsewhere"))
    for error, code in ((refusal, "LC005"), (RecursionError(), "LC008"), (SyntaxError("no Python"), "LC007")):
        raised[:] = [error]
        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "GATHERING", tuple(map(failing, pipeline.GATHERING)))
            (found,) = convert(script()).diagnostics
        assert found.code == code


def kind_of(transform: str, **parts: str) -> tuple[str, str]:
    """The reason and the kind of a transform's skip."""
    outcomes = {s.transform.name: s.outcome for s in golden.converted(script(parts), tune=True).steps}
    outcome = outcomes[transform]
    assert isinstance(outcome, Skipped)
    return outcome.reason, outcome.kind


def test_a_transform_is_held_back_where_one_that_it_needs_is() -> None:
    other = "agent.get_action_and_value = agent.get_action_and_value"
    assert kind_of("policy", before_loop=other)[1] == "left as it was"
    why = kind_of("policy", before_loop=other)[0]
    assert kind_of("evaluate-once", before_loop=other) == (
        f"needs policy, which did not apply: {why}",
        "left as it was",
    )


def test_what_builds_on_another_has_no_reason_of_its_own_in_the_report() -> None:
    other = "agent.get_action_and_value = agent.get_action_and_value"
    result = Result("ppo.py", convert(script({"before_loop": other})))
    short, full = io.StringIO(), io.StringIO()
    for file, verbose in ((short, False), (full, True)):
        print_report(Console(file=file, width=200), [result], verbose=verbose)
    assert "needs policy" not in short.getvalue()
    assert "not needed here, 1 builds on one that was left out; -v says why" in short.getvalue()
    assert "evaluate-once" in full.getvalue() and "needs policy, which did not apply" in full.getvalue()


def test_a_line_that_a_transform_changed_is_named_by_its_number_in_the_script() -> None:
    """dissolve changes the line that calls the policy for a second time before evaluate-once names it."""
    conversion = golden.conversion_of(golden.FIXTURES / "in_methods.py")
    outcome = next(s.outcome for s in conversion.steps if s.transform.name == "evaluate-once")
    (line,) = (n for n, text in enumerate(conversion.original.splitlines(), 1) if "following = self" in text)
    assert isinstance(outcome, Skipped)
    assert outcome.reason.startswith(f"line {line} calls the policy"), outcome.reason


def test_a_flag_that_nothing_would_read_is_left_out() -> None:
    conversion = golden.conversion_of(golden.FIXTURES / "plain_prints.py")
    outcome = next(s.outcome for s in conversion.steps if s.transform.name == "cudagraphs")
    assert isinstance(outcome, Skipped)
    assert outcome.reason == "the script names no device but the CPU"
    assert "cudagraphs" not in conversion.source
    assert conversion.options == (("compile", "--compile"),)


def never_compiled(fixture: str) -> str:
    """A fixture that replaces a method of its network in its training loop."""
    source = (golden.FIXTURES / fixture).read_text(encoding="utf-8")
    return re.sub(
        r"^( +)(.*)optimizer\.step\(\)", r"\1Agent.get_value = Agent.get_value\n\g<0>", source, count=1, flags=re.M
    )


@pytest.mark.parametrize(
    "fixture", slow_but_each(3, ["gym_classic_discrete.py", "envpool_cnn.py", "param_groups_adamw.py"])
)
def test_no_flag_is_added_where_nothing_is_compiled(fixture: str) -> None:
    source = never_compiled(fixture)
    conversion = convert(source)
    applied = {s.transform.name for s in conversion.steps if s.applied}
    assert conversion.converted and {"rollout", "update"} <= applied
    assert conversion.options == () and not any(s.transform.prepares for s in conversion.steps if s.applied)
    assert "compile" not in conversion.source
    (headline,) = (text for text in conversion.headlines if text.startswith("nothing is compiled: "))
    assert "replaces get_value()" in headline
    outcomes = {s.transform.name: s.outcome for s in conversion.steps}
    assert outcomes["flags"] == Skipped("nothing of the script is compiled", "not needed")
    as_selected = convert(source, select=[s.transform.name for s in conversion.steps if s.transform.option == ""])
    assert "--compile" in dict(as_selected.options).values(), "what is asked for by name is done"


def test_flags_stay_where_another_option_needs_them() -> None:
    conversion = convert(never_compiled("gym_classic_discrete.py"), measure=True)
    assert {s.transform.name for s in conversion.steps if s.applied} >= {"flags", "measure"}


def test_a_transform_is_not_needed_where_the_one_that_it_needs_is_not() -> None:
    arrays = PARTS["buffers"].replace("torch.zeros", "np.zeros").replace(".to(device)", "")
    assert kind_of("storage", buffers=arrays)[1] == "not needed"
    why = kind_of("storage", buffers=arrays)[0]
    assert kind_of("host-arrays", buffers=arrays) == (f"needs storage, which did not apply: {why}", "not needed")


@pytest.mark.parametrize("count", slow_but_each(12, range(1, len(NAMES))))
def test_every_prefix_of_the_order_can_be_chosen(count: int) -> None:
    prefix = convert(script(), select=NAMES[:count])
    # compile inspects the parameters only if distribute was not selected
    assert prefix.source == whole("distribute" in NAMES[:count]).steps[count - 1].after
    rest = [s.outcome for s in prefix.steps[count:]]
    assert all(isinstance(o, Skipped) and not o.chosen for o in rest)


@pytest.mark.parametrize("name", slow_but_each(8, NAMES))
def test_each_transform_can_be_left_out_with_those_that_need_it(name: str) -> None:
    unwanted = {name}
    for transform in ORDER:
        if unwanted & set(transform.info.needs):
            unwanted.add(transform.info.name)
    conversion = convert(script(), ignore=unwanted)
    assert {s.transform.name for s in conversion.steps if not s.applied} >= unwanted
    assert conversion.converted
    compile(conversion.source, "script", "exec")


def test_what_a_chosen_transform_needs_must_be_chosen() -> None:
    with pytest.raises(SelectionError, match="measure needs flags: add --select flags"):
        convert(script(), select=["measure"])
    with pytest.raises(SelectionError, match="needs flags: drop --ignore flags"):
        convert(script(), ignore=["flags"])
    with pytest.raises(SelectionError, match="no transform named 'mesure'; did you mean 'measure'"):
        convert(script(), select=["mesure"])


def test_names_that_transforms_once_had() -> None:
    assert not set(FORMERLY) & {t.info.name for t in ORDER}
    for name, heir in FORMERLY.items():
        chosen = chosen_names(None, [name])
        assert chosen == chosen_names(None, [heir] if heir else []), name
        if heir is None:
            with pytest.raises(SelectionError, match=f"'{name}' was removed"):
                convert(script(), select=[name])


def test_order_agrees_with_what_transforms_need() -> None:
    for kind, names in BY_KIND.items():
        for transform in (t for t in ORDER if kind in t.kinds):
            assert set(transform.info.needs) <= set(names[: names.index(transform.info.name)])


@pytest.mark.slow
def test_result_does_not_depend_on_the_hash_seed() -> None:
    code = "import sys; from transformer import convert; sys.stdout.write(convert(sys.stdin.read()).source)"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            input=(golden.FIXTURES / "renamed.py").read_bytes(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] == golden.convert_fixture(golden.FIXTURES / "renamed.py").encode()


def test_lines_outside_the_training_loop_stay_byte_for_byte() -> None:
    odd = "TABLE = {  'a' :1,\n   'b':2 }   # odd,  but ours\nx=  [ 1,2 ,\n 3]\n\n\n"
    assert odd in convert(script({"functions": odd})).source


def eager_update() -> Conversion:
    """A conversion whose update reads a list of numbers, and stays eager."""
    return convert(script({"optimize": "loss = loss + 0 * sum(ratio.tolist())\n" + PARTS["optimize"]}))


def test_no_rate_becomes_a_tensor_for_an_update_that_stays_eager() -> None:
    conversion = eager_update()
    outcomes = {s.transform.name: s.outcome for s in conversion.steps}
    assert isinstance(outcomes["compile"], Applied) and not outcomes["compile"].recommended
    assert isinstance(outcomes["tensor-lr"], Skipped) and outcomes["tensor-lr"].kind == "not needed"
    assert "torch.tensor(" not in conversion.source and "capturable" not in conversion.source
    assert "torch.compile(" in conversion.source
