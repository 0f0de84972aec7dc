"""Training in several processes: what each one gets, what they decide together, and what stays as it is."""

from __future__ import annotations

import pytest
from cases import NoOp, converted_by
from golden import converted
from scripts import PARTS, edited, script

from transformer import Skipped, convert

LOGGED = {
    "third_party": "from torch.utils.tensorboard import SummaryWriter",
    "before_loop": 'writer = SummaryWriter("runs")',
    "report": """
        writer.add_scalar("loss", loss.item(), global_step)
        writer.add_scalar("rate", optimizer.param_groups[0]["lr"], global_step)
        print(loss.item())
    """,
}


def lines_of(parts: dict[str, str], **options: object) -> list[str]:
    """The lines of a script after distribute, without indentation."""
    conversion = convert(script(parts), select=["distribute"], **options)  # type: ignore[arg-type]
    (step,) = (s for s in conversion.steps if s.transform.name == "distribute")
    assert step.applied, step.outcome
    return [line.strip() for line in conversion.source.splitlines()]


def test_each_process_has_its_share() -> None:
    lines = lines_of({})
    assert "envs = Envs(args.num_envs // world_size)" in lines
    assert "obs = torch.zeros((args.num_steps, args.num_envs // world_size, 2)).to(device)" in lines
    assert "next_done = torch.zeros(args.num_envs // world_size).to(device)" in lines
    assert "args.batch_size = args.num_envs * args.num_steps" in lines, "a total"
    assert "global_step += args.num_envs" in lines, "the steps of all"
    assert "if args.num_envs % world_size or args.minibatch_size % world_size:" in lines


def test_gradients_are_averaged_between_backward_and_clipping() -> None:
    lines = lines_of({})
    place = lines.index("average_gradients(optimizer)")
    assert lines[place - 1] == "loss.backward()"
    assert lines[place + 1].startswith("nn.utils.clip_grad_norm_(")


def test_minibatches_are_shared() -> None:
    lines = lines_of({})
    assert any("range(0, args.batch_size // world_size, args.minibatch_size // world_size)" in line for line in lines)


def test_random_numbers_of_their_own() -> None:
    lines = lines_of({})
    place = lines.index("if rank > 0:", lines.index("torch.distributed.broadcast(tensor, src=0)"))
    assert lines[place + 1 : place + 3] == ["torch.manual_seed(args.seed + rank)", "np.random.seed(args.seed + rank)"]


def test_rank_zero_logs_the_mean_of_all() -> None:
    lines = lines_of(LOGGED)
    assert 'writer = SummaryWriter("runs") if rank == 0 else Silent()' in lines
    assert 'writer.add_scalar("loss", rank_mean(loss.item()), global_step)' in lines
    assert 'writer.add_scalar("rate", optimizer.param_groups[0]["lr"], global_step)' in lines, "the same in all"


def test_limits_are_compared_with_the_mean_of_all() -> None:
    stop = "for start in"
    parts = {"minibatches": PARTS["minibatches"] + "\n    if args.gamma > 0 and loss > args.clip_coef:\n        break"}
    assert stop in script(parts)
    assert "if args.gamma > 0 and rank_mean(loss) > args.clip_coef:" in lines_of(parts)


def test_one_process_shows_the_speed() -> None:
    source = converted_by(script(), "distribute", "measure").source
    assert "tqdm.tqdm(range(1, args.num_iterations + 1), disable=rank > 0)" in source


def test_a_list_in_the_rollout_covers_the_processs_environments() -> None:
    lines = lines_of({"step": PARTS["step"] + "\nprint(sum(reward[i] for i in range(args.num_envs)))"})
    assert "print(sum(reward[i] for i in range(args.num_envs // world_size)))" in lines


def test_a_result_is_left_alone() -> None:
    once = convert(script({}), select=["distribute"])
    assert once.source != script({})
    again = convert(once.source, select=["distribute"])
    (step,) = (s for s in again.steps if s.transform.name == "distribute")
    assert isinstance(step.outcome, Skipped)
    assert "talks to other processes itself" in step.outcome.reason


def test_only_on_request() -> None:
    assert "torch.distributed" not in converted(script()).source


NOOPS = [
    NoOp(
        "it talks itself",
        {"third_party": "import torch.distributed as dist", "head": "dist.is_initialized()"},
        "talks to other processes itself",
        kind="not needed",
    ),
    NoOp(
        "statistics of each process",
        {"agent": edited("agent", "nn.Tanh(), nn.Linear(8, 1)", "nn.BatchNorm1d(8), nn.Linear(8, 1)")},
        "BatchNorm1d would learn from only one process's steps",
    ),
    NoOp(
        "a condition that is no comparison",
        {"report": "if loss.isnan():\n    break"},
        "line {line}: loss.isnan() may hold in only one process",
        at="loss.isnan()",
    ),
    NoOp(
        "a rate that depends on the loss",
        {"report": 'optimizer.param_groups[0]["lr"] = 1e-3 / (1 + loss.item())'},
        "line {line}: optimizer.param_groups[0]['lr'] may get a different value in each process",
        at="1e-3 / (1",
    ),
    NoOp(
        "a size whose use is not known",
        {"report": "print(sum(range(3)) / len([args.num_envs]))\nshare = loss.item() + pow(args.num_envs, 2)"},
        "line {line}: it is not known whether args.num_envs counts for one process or for all",
        at="pow(args.num_envs",
    ),
    NoOp(
        "a file that is opened and kept",
        {"report": 'kept = open("kept", "w")'},
        "line {line}: the file belongs to only one process, but more than a call depends on it",
        at="kept = open",
    ),
    NoOp(
        "a seed of something else",
        {"before_loop": "noise = np.random.default_rng(args.seed)"},
        "line {line}: it is not known what args.seed seeds",
        at="default_rng",
    ),
]


@pytest.mark.parametrize("case", NOOPS, ids=str)
def test_left_alone(case: NoOp) -> None:
    case.check("distribute")
