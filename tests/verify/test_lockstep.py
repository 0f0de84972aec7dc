"""Compiled functions that are wrong in the ways CUDA graphs can be are told from right ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from transformer.verify.call_error import CallError
from transformer.verify.checks import lockstep_check, never_called
from transformer.verify.harness import tensors
from transformer.verify.harness.attributes import Attributes
from transformer.verify.harness.instrument import HOOKS_NAME, compile_with_hooks
from transformer.verify.harness.job import Job
from transformer.verify.harness.journal import Journal
from transformer.verify.harness.lockstep import Lockstep as Mode
from transformer.verify.harness.state import State
from transformer.verify.lockstep import Compilation, Function, Lockstep, load_lockstep, run_in_lockstep
from transformer.verify.run import Run

WARMUP = 4
CALLS = 12


class Graph:
    """A CUDA graph seen from outside: after the warm-up, every call reads and writes the same memory."""

    def __init__(
        self, function: Callable[..., Any], *, copies_inputs: bool = True, clones_outputs: bool = True
    ) -> None:
        self.function = function
        self.copies_inputs = copies_inputs
        self.clones_outputs = clones_outputs
        self.calls = 0

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.calls += 1
        if self.calls < WARMUP:
            return self.function(*inputs)  # type: ignore[no-any-return]
        if self.calls == WARMUP:
            self.inputs = [i.clone() for i in inputs]
            self.outputs = self.function(*self.inputs)
        else:
            if self.copies_inputs:
                for mine, given in zip(self.inputs, inputs, strict=True):
                    mine.copy_(given)
            for mine, made in zip(self.outputs, self.function(*self.inputs), strict=True):
                mine.copy_(made)
        return tuple(o.clone() if self.clones_outputs else o for o in self.outputs)


class Training:
    """A small network with a policy and an update."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Linear(3, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=torch.tensor(1e-2))

    def policy(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            mean = self.net(obs)
            return torch.normal(mean, 0.5), mean

    def greedy_noise(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The same noise at each call: a graph that does not advance its generator."""
        with torch.no_grad():
            mean = self.net(obs)
            return mean + torch.tensor([0.3, -0.2]), mean

    def update(self, obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        loss = (self.net(obs) - obs[:, :2]).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return (loss.detach(),)


def run(
    folder: Path,
    function: Callable[..., Any],
    make_fast: Callable[[Any], Any],
    use: Callable[[int, Any], None] = lambda call, result: None,
) -> Lockstep:
    """Call a checked function with new inputs each time; `use` gets each result."""
    folder.mkdir(exist_ok=True)
    journal = Journal(folder, 0)
    mode = Mode(Job("lockstep", "", [], str(folder), every=5), journal)
    checked = mode.check("f", function, make_fast, WARMUP)
    inputs = torch.Generator().manual_seed(1)
    for call in range(1, CALLS + 1):
        use(call, checked(torch.randn(4, 3, generator=inputs)))
    mode.finish()
    journal.close(seconds=0.0)
    return load_lockstep(folder / "journal.json")


def wrong(lockstep: Lockstep) -> list[str]:
    check = lockstep_check("cuda-graphs", lockstep)
    assert check.status == ("different" if check.findings else "equal")
    return list(check.findings)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    made = Training()
    # gc would find millions of objects in a test process
    monkeypatch.setattr(tensors, "objects", lambda: [*made.net.modules(), made.optimizer])
    return made


def test_right_graphs_are_equal(training: Training, tmp_path: Path) -> None:
    held: list[Any] = []
    policy = run(tmp_path, training.policy, Graph, lambda _, result: held.append(result))
    assert wrong(policy) == []
    assert sorted({e.call for e in policy.errors}) == [1, 2, 4, 5, 6, 10]
    assert {(e.call, e.replay) for e in policy.errors} >= {(4, False), (5, True)}
    update = run(tmp_path, training.update, Graph)
    assert wrong(update) == []
    assert {e.kind for e in update.errors} == {"output", "parameter change", "optimizer state"}


@pytest.mark.parametrize(
    "make",
    [
        lambda mean: mean.numpy(),
        lambda mean: mean.numpy()[0],
        lambda mean: (mean.numpy().astype(float).tolist(), 3),
        lambda mean: mean[0, 0].item(),
        lambda mean: {"action": mean.numpy().argmax(-1)},
        lambda mean: bool(mean[0, 0] > 0),
        lambda mean: torch.distributions.Normal(mean, 1.0),
        lambda mean: torch.distributions.Independent(torch.distributions.Normal(mean, 1.0), 1),
        lambda mean: (torch.distributions.Categorical(logits=mean), 3),
    ],
    ids="an array,a row,lists,a number,whole numbers,a truth value,a distribution,one of rows,one of choices".split(
        ","
    ),
)
def test_arrays_and_numbers_are_compared(training: Training, tmp_path: Path, make: Callable[..., Any]) -> None:
    def act(obs: torch.Tensor) -> Any:
        with torch.no_grad():
            return make(training.net(obs))

    def wrong_one(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda obs: function(-obs - 1)

    assert wrong(run(tmp_path / "right", act, lambda function: function)) == []
    assert wrong(run(tmp_path / "wrong", act, wrong_one))


def test_a_function_without_effects_is_not_called_equal(training: Training, tmp_path: Path) -> None:
    lockstep = run(tmp_path, lambda obs: str(training.net(obs)), lambda function: lambda obs: "something else")
    check = lockstep_check("compiled", lockstep)
    assert (check.status, check.reason[:21]) == ("not run", "not compared: f() cha")


def test_nothing_is_compared_while_a_graph_is_captured(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A captured function calls a compiled policy; a comparison there would wait for the device."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert run(tmp_path, training.policy, Graph).errors == ()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert run(tmp_path, training.policy, Graph).errors != ()


def test_the_comparison_changes_nothing(tmp_path: Path) -> None:
    checked, plain = Training(), Training()
    results: list[torch.Tensor] = []
    run(tmp_path, checked.update, lambda f: f, lambda _, result: results.append(result[0]))
    inputs = torch.Generator().manual_seed(1)
    assert results == [plain.update(torch.randn(4, 3, generator=inputs))[0] for _ in range(CALLS)]
    for a, b in zip(checked.net.parameters(), plain.net.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_compiled_function_leaves_its_random_state(training: Training, tmp_path: Path) -> None:
    plain = Training()
    actions: list[torch.Tensor] = []
    torch.manual_seed(3)
    run(tmp_path, training.policy, lambda f: f, lambda _, result: actions.append(result[0]))
    torch.manual_seed(3)
    inputs = torch.Generator().manual_seed(1)
    expected = [plain.policy(torch.randn(4, 3, generator=inputs))[0] for _ in range(CALLS)]
    assert all(torch.equal(a, b) for a, b in zip(actions, expected, strict=True))


def test_stale_inputs(training: Training, tmp_path: Path) -> None:
    for function in (training.policy, training.update):
        first = wrong(run(tmp_path, function, lambda f: Graph(f, copies_inputs=False)))[0]
        assert "f, call 5 (after its warm-up): output" in first


def test_stale_parameters(training: Training, tmp_path: Path) -> None:
    """The graph reads a copy of the parameters made at its capture."""

    def captured(policy: Callable[..., Any]) -> Callable[..., Any]:
        copy = Training()
        return Graph(copy.policy)

    def train(call: int, result: Any) -> None:
        if call == WARMUP + 1:
            training.update(torch.ones(4, 3))

    assert "f, call 6 (after its warm-up): output" in wrong(run(tmp_path, training.policy, captured, train))[0]


def test_an_output_overwritten_by_the_next_replay(training: Training, tmp_path: Path) -> None:
    storage: list[torch.Tensor] = []
    lockstep = run(
        tmp_path,
        training.policy,
        lambda f: Graph(f, clones_outputs=False),
        lambda _, result: storage.append(result[1].flatten()),
    )
    assert wrong(lockstep)[0] == (
        "f, call 6: an output of call 4, which the script still holds, was overwritten by call 5"
    )


def test_an_overwritten_output_that_nobody_holds_is_right(training: Training, tmp_path: Path) -> None:
    copies: list[torch.Tensor] = []
    use = lambda _, result: copies.append(result[1].clone())  # noqa: E731
    assert wrong(run(tmp_path, training.policy, lambda f: Graph(f, clones_outputs=False), use)) == []


def test_an_output_that_the_script_writes_to_is_right(training: Training, tmp_path: Path) -> None:
    kept: list[torch.Tensor] = []
    assert wrong(run(tmp_path, training.policy, Graph, lambda _, result: kept.append(result[1].mul_(2)))) == []


def test_a_spread_that_collapsed(training: Training, tmp_path: Path) -> None:
    findings = wrong(run(tmp_path, training.policy, lambda f: training.greedy_noise))
    assert any("output[0] hardly varies over 64 calls" in finding for finding in findings)


def test_discrete_actions_that_no_longer_vary(training: Training, tmp_path: Path) -> None:
    def sample(obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (torch.distributions.Categorical(logits=torch.zeros(4, 2)).sample(),)

    findings = wrong(run(tmp_path, sample, lambda f: lambda obs: (torch.zeros(4, dtype=torch.int64),)))
    assert any("hardly varies" in finding for finding in findings)


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        ("self.optimizer.param_groups[0]['lr'] *= 1.01", "parameter change"),
        ("obs = obs * 1.001", "optimizer state"),
        ("self.optimizer.state.clear()", "parameter change"),
    ],
)
def test_an_update_that_does_something_else(training: Training, tmp_path: Path, mistake: str, kind: str) -> None:
    def mistaken(obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        names = {"self": training, "obs": obs}
        rate = training.optimizer.param_groups[0]["lr"].clone()
        exec(mistake, names)
        result = training.update(names["obs"])  # type: ignore[arg-type]
        training.optimizer.param_groups[0]["lr"].copy_(rate)
        return result

    findings = wrong(run(tmp_path, training.update, lambda f: mistaken))
    assert any(kind in finding for finding in findings)


def test_an_update_that_sets_the_learning_rate(training: Training, tmp_path: Path) -> None:
    rate = training.optimizer.param_groups[0]["lr"]
    begin = rate.item()

    def adapt(obs: torch.Tensor) -> torch.Tensor:
        result = training.update(obs)
        rate.mul_(0.5)
        return result

    lockstep = run(tmp_path, adapt, lambda f: f)
    assert wrong(lockstep) == []
    assert any(e.name.endswith("lr") for e in lockstep.errors)
    assert rate.item() == pytest.approx(begin * 0.5**CALLS)


def test_a_learning_rate_that_is_lost(training: Training, tmp_path: Path) -> None:
    def adapt(obs: torch.Tensor) -> torch.Tensor:
        result = training.update(obs)
        training.optimizer.param_groups[0]["lr"].mul_(0.5)
        return result

    findings = wrong(run(tmp_path, adapt, lambda f: training.update))
    assert any("optimizer 1, group 1: lr" in finding for finding in findings)


@pytest.mark.parametrize(
    ("calls", "reason", "advice"),
    [
        (3, "called too rarely, only while warming up: policy() (3 calls)", "more --iterations are needed"),
        (
            0,
            "compiled or captured, but not called with these flags in 2 iterations: policy()",
            "only what is called with the flags",
        ),
    ],
)
def test_a_function_never_called_after_its_warm_up_is_not_called_equal(
    training: Training, tmp_path: Path, calls: int, reason: str, advice: str
) -> None:
    lockstep = run(tmp_path, training.policy, lambda f: f)
    others = (Function("gae", 5, 3),) if calls else ()
    early = Lockstep((Function("policy", calls, 0), *others), lockstep.errors, (), 2, 0.0)
    check = lockstep_check("cuda-graphs", early)
    assert (check.status, check.reason.split(";")[0]) == ("not run", reason)
    assert advice in check.reason
    assert ("called too rarely" in check.reason) == bool(calls)


def test_a_function_that_no_argument_compiles_is_reported(training: Training, tmp_path: Path) -> None:
    errors = tuple(replace(e, function="policy") for e in run(tmp_path, training.policy, lambda f: f).errors)
    policy, uncalled = Function("policy", 5, 3), Function("update_alpha", 0, 0)
    check = lockstep_check("compiled", Lockstep((policy, uncalled), errors, (), 2, 0.0))
    assert check.status == "equal"
    assert never_called([check]) == ["update_alpha"]
    called = lockstep_check("compiled", Lockstep((Function("update_alpha", 4, 2),), errors, (), 2, 0.0))
    assert never_called([check, called]) == []


def test_calls_of_a_function_that_is_compiled_again_count_together(training: Training, tmp_path: Path) -> None:
    """As by a method that trains for one episode, and is called for each; not so of another function of this name."""
    journal = Journal(tmp_path, 0)
    mode = Mode(Job("lockstep", "", [], str(tmp_path)), journal)
    for episode in range(4):

        def update(obs: torch.Tensor) -> torch.Tensor:
            return obs + 1

        checked = mode.check("update", update, lambda f: f, 1)
        for _ in range(episode):
            checked(torch.ones(2))
    mode.check("update", training.update, lambda f: f, 1)
    mode.finish()
    journal.close(seconds=0.0)
    functions = load_lockstep(tmp_path / "journal.json").functions
    assert functions == (Function("update", 6, 5), Function("update", 0, 0))


def test_both_kinds_of_unchecked_functions_are_reported() -> None:
    idle = (Function("policy", 0, 0), Function("update", 2, 0))
    reason = lockstep_check("cuda-graphs", Lockstep(idle, (), (), 1, 0.0)).reason
    assert reason.index("policy()") < reason.index(". called too rarely") < reason.index("update() (2 calls)")


def test_where_nothing_was_compiled_nothing_is_judged() -> None:
    assert lockstep_check("compiled", Lockstep((), (), (), 1, 0.0)).status == "not run"


@pytest.mark.parametrize("updating", ["update", "policy"])
def test_iterations_are_counted_after_early_steps(training: Training, tmp_path: Path, updating: str) -> None:
    """Scripts that normalize observations step first: calls of the update count, or else the rarest calls."""
    journal = Journal(tmp_path, 0)
    mode = Mode(Job("lockstep", "", [], str(tmp_path), every=5), journal)
    policy, rare = (mode.check(f, getattr(training, f), lambda f: f, 1) for f in ("policy", updating))
    journal.note_env_step()
    for _ in range(4):
        for _ in range(5):
            policy(torch.zeros(4, 3))
            journal.note_env_step()
        rare(torch.zeros(4, 3))
    journal.close(seconds=0.0)
    assert journal.iterations == (4 if updating == "update" else 3)


def test_each_iterations_first_call_is_compared(training: Training, tmp_path: Path) -> None:
    """A branch on the iteration may first be taken after a function's last regular check."""
    third = False

    def later(obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return training.update(obs * 1.01 if third else obs)

    journal = Journal(tmp_path, 0)
    mode = Mode(Job("lockstep", "", [], str(tmp_path), every=1000), journal)
    policy, update = (
        mode.check("policy", training.policy, lambda f: f, 1),
        mode.check("update", training.update, lambda f: later, 1),
    )
    for iteration in range(4):
        third = iteration == 2
        for _ in range(4):
            policy(torch.zeros(4, 3))
            journal.note_env_step()
        for _ in range(4):
            update(torch.randn(4, 3))
    mode.finish()
    journal.close(seconds=0.0)
    lockstep = load_lockstep(tmp_path / "journal.json")
    assert any(finding.startswith("update, call 9 ") for finding in wrong(lockstep))


FINE = (CallError("update", 1, False, "output", "output", "float32", 1, 0.0, 0.0),)


def again(*iterations: int, guard: str = "0/0: L['g']['betas'][0] == 0.9") -> tuple[Compilation, ...]:
    """The first compilation of update(), and one in each of these iterations, where a guard failed."""
    first = Compilation("update", 1, 0, "")
    return first, *(Compilation("update", 1 + 4 * i, i, f"{guard}{i}") for i in iterations)


@pytest.mark.parametrize(
    ("compilations", "told"),
    [
        (again(1, 2), True),
        (again(0, 1, 2), True),
        (again(1), False),
        (again(2), False),  # a branch is taken for the first time
        (again(0, 1), False),  # and not again
        ((*again(1), *again(2, guard="0/0: tensor 'L['mb']' size mismatch at index 0. expected 4")), False),
    ],
)
def test_recompiling_until_the_end_is_a_finding(compilations: tuple[Compilation, ...], told: bool) -> None:
    calls = (Function("update", 12, 11),)
    lockstep = Lockstep(calls, FINE, (), 3, 0.0, compilations)
    found = wrong(lockstep)
    assert bool(found) == told
    assert all("update() is still being compiled at the end of the run" in f and "betas" in f for f in found)


def test_a_function_that_torch_gave_up_on_is_a_finding() -> None:
    lockstep = Lockstep((Function("update", 99, 98),), FINE, (), 90, 0.0, again(*range(1, 8)))
    (found,) = wrong(lockstep)
    assert "update() was compiled 8 times, until torch.compile gave up on it" in found
    assert not wrong(Lockstep((Function("update", 99, 98),), FINE, (), 90, 0.0, again(*range(1, 7))))


def test_compilations_are_counted_with_the_guard_that_failed(tmp_path: Path) -> None:
    group = {"betas": (0.5, 0.9)}

    def scaled(obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (obs * group["betas"][0],)

    def use(call: int, result: Any) -> None:
        group["betas"] = (0.5 + 0.1 * call,) * (2 + call)

    options: dict[str, Any] = {"backend": "eager", "dynamic": False}
    lockstep = run(tmp_path, scaled, lambda f: torch.compile(f, **options), use)
    first, second, *_ = lockstep.compilations
    assert (first.call, first.reason) == (1, "")
    assert second.call == 2
    assert "betas" in second.reason


def test_a_break_of_a_graph_is_told_with_its_line(tmp_path: Path) -> None:
    def scaled(obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        twice = obs * 2
        torch._dynamo.graph_break()
        return (twice + 1,)

    broken = run(tmp_path, scaled, lambda f: torch.compile(f, backend="eager", dynamic=False))
    (note,) = lockstep_check("compiled", broken).notes
    line = scaled.__code__.co_firstlineno + 2
    assert note.startswith(f"f() is compiled in 2 pieces, which is slower: its graph breaks on line {line};")


@pytest.mark.slow
def test_a_whole_graph_has_no_such_note(tmp_path: Path) -> None:
    whole = run(tmp_path, lambda obs: (obs * 2,), lambda f: torch.compile(f, backend="eager", dynamic=False))
    assert lockstep_check("compiled", whole).notes == ()


def test_state_has_each_parameter_once(training: Training) -> None:
    names = [name for name, t in State().tensors.items() if t is training.net.weight]
    assert len(names) == 1


STEPS = """
import torch

def evaluate(obs, action=None):
    return obs.sum(-1) + action, {centre}

steps = [{{"obs": torch.full((2, 3), float(i)), "action": torch.zeros(2)}} for i in range(4)]
for _ in range(2):
    total, centred = evaluate(torch.cat([s["obs"] for s in steps]), action=torch.cat([s["action"] for s in steps]))
    assert total.tolist() == [0, 0, 3, 3, 6, 6, 9, 9]
other = evaluate(torch.cat([s["obs"] for s in steps]), action=torch.cat([o["action"] for o in steps[:4]]))
"""


@pytest.mark.parametrize(("centre", "mixed"), [("obs * 2", False), ("obs - obs.mean(0)", True)])
def test_rows_of_all_steps_are_compared_with_those_of_single_steps(centre: str, mixed: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(STEPS.format(centre=centre))
    journal = Journal(tmp_path, 0)
    mode = Mode(Job("lockstep", "", [], str(tmp_path), every=5), journal)
    exec(compile_with_hooks(script, mode.hooks), {HOOKS_NAME: mode.hooks})
    mode.finish()
    journal.close(seconds=0.0)
    lockstep = load_lockstep(tmp_path / "journal.json")
    assert [(f.name, f.calls) for f in lockstep.functions] == [("evaluate of all steps", 2)]
    assert len(lockstep.errors) == 2 * 2, "two calls, two results"
    assert {e.values for e in lockstep.errors} == {2 * 2, 2 * 6}, "of the first and the last step"
    found = wrong(lockstep)
    assert bool(found) == mixed
    assert all("output[1]" in f for f in found)


def test_a_networks_python_state_is_restored(training: Training, tmp_path: Path) -> None:
    """The network lists its outputs: the eager function must not find those of the compiled one."""

    class Keeping(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 2)
            self.outputs: list[torch.Tensor] = []
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.outputs.append(super().forward(x))
            self.latest = self.outputs[-1].detach()
            return self.outputs[0]

    net = training.net = Keeping()
    training.optimizer.param_groups[0]["params"] = list(net.parameters())
    lengths = []

    def use(call: int, result: Any) -> None:
        lengths.append(len(net.outputs))
        net.outputs.clear()
        del net.latest

    assert wrong(run(tmp_path, training.update, lambda f: f, use)) == []
    assert lengths == [1] * CALLS
    assert net.calls == CALLS


def test_attributes_and_their_contents_are_restored() -> None:
    module = nn.Module()
    module.items, module.names, module.count, module.gone = [1], {"a": 1}, 1, None  # type: ignore[assignment]
    before = Attributes([module])
    kept = module.items
    module.items.append(2)  # type: ignore[operator]
    module.items, module.names["b"], module.count, module.new = [3], 2, 2, nn.Linear(1, 1)  # type: ignore[index,assignment,operator]
    del module.gone
    before.restore()
    assert module.items is kept
    assert (module.items, module.names, module.count, module.gone) == ([1], {"a": 1}, 1, None)
    assert "new" in module._modules, "what torch keeps is not looked at"


@pytest.mark.parametrize(("noise", "equal"), [(1e-6, True), (1e-3, False)])
def test_gradients_that_are_only_rounding_do_not_count(
    training: Training, tmp_path: Path, noise: float, equal: bool
) -> None:
    """Adam's steps are whole even for gradients that cancel, as those of a tiny input do."""

    def seeing(share: float) -> Callable[..., Any]:
        return lambda obs: training.update(torch.cat([obs[:, :2], obs[:, 2:] * share], 1))

    assert (wrong(run(tmp_path, seeing(noise), lambda f: seeing(-noise))) == []) == equal


def test_changes_of_parameters_without_gradients_count(training: Training, tmp_path: Path) -> None:
    """Adam takes no step for zero gradients: any change there is no rounding."""

    def update(obs: torch.Tensor, kept: float = 1.0) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            training.net.weight[:, 2:] *= kept
        return training.update(obs * torch.tensor([1.0, 1.0, 0.0]))

    assert wrong(run(tmp_path / "same", update, lambda f: lambda obs: update(obs))) == []
    assert wrong(run(tmp_path / "other", update, lambda f: lambda obs: update(obs, 0.9))) != []


@pytest.mark.parametrize("value", [float("nan"), 1.0])
def test_more_than_a_step_is_not_rounding(training: Training, tmp_path: Path, value: float) -> None:
    def update(obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return training.update(torch.cat([obs[:, :2], obs[:, 2:] * 1e-6], 1))

    def spoiling(obs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = update(obs)
        with torch.no_grad():
            training.net.weight[:, 2] += value
        return result

    assert wrong(run(tmp_path, update, lambda f: spoiling))


def test_counters_in_an_optimizers_settings_are_restored(training: Training) -> None:
    (group,) = training.optimizer.param_groups
    group["steps"] = 1
    found = State()
    before = found.take()
    group["steps"] = 2
    rewound = found.rewind(before)
    assert group["steps"] == 1
    group["steps"] = 7
    rewound.undo()
    assert group["steps"] == 2


def test_networks_made_between_calls_are_restored(training: Training, tmp_path: Path) -> None:
    """An inner network that is trained for one iteration and thrown away."""

    def use(call: int, result: Any) -> None:
        training.__init__()  # type: ignore[misc]

    lockstep = run(tmp_path, training.update, lambda f: f, use)
    assert wrong(lockstep) == []
    assert {e.kind for e in lockstep.errors} == {"output", "parameter change", "optimizer state"}


ENDLESS = """
import torch

class Env:
    def step(self, action):
        return action

net, env = torch.nn.Linear(1, 1), Env()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
act = torch.compile(net)
while True:
    for _ in range(3):
        obs = env.step(act(torch.ones(1)))
    optimizer.zero_grad()
    net(obs.detach()).sum().backward()
    optimizer.step()
"""


def test_an_update_that_is_not_compiled_ends_an_iteration(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    lockstep = run_in_lockstep(Run(script, timeout=60), iterations=2, uncompiled=True)
    assert lockstep.iterations == 2
    assert [(f.name, f.calls) for f in lockstep.functions] == [("act", 7)]
