import pytest
from cases import NoOp, turn
from scripts import PARTS, edited, script

from transformer import Applied

BEFORE = """\
        transitions = []
        next_done = next_done.cpu().numpy()
        for step in range(0, args.num_steps):
"""
RECORDED = '            transition["dones"] = torch.as_tensor(next_done.ravel())\n'
REWARDS = '            transition["rewards"] = torch.as_tensor(np.array(reward).ravel())\n'
MADE = "            next_obs, next_done = torch.Tensor(next_obs).to(device), np.array(done)\n"
AFTER = """\
        next_done = torch.Tensor(next_done).to(device)
        storage = TensorDict(
            {k: torch.stack([t[k] for t in transitions]) for k in transitions[0]}, batch_size=[args.num_steps, args.num_envs]
        ).to(device, torch.float32)
"""  # noqa: E501


def applied(parts: dict[str, str], *also: str) -> str:
    step = turn("host-arrays", script(parts), also)
    assert isinstance(step.outcome, Applied), step.outcome
    return step.after


def test_rewards_and_dones() -> None:
    after = applied({})
    for piece in (BEFORE, RECORDED, REWARDS, MADE):
        assert piece in after
    assert AFTER in after
    ends = after.index("        next_done = torch.Tensor(next_done)"), after.index("        storage = TensorDict(")
    assert ends[0] < ends[1], "the last dones are a tensor before anything else reads them"


def test_dones_that_another_name_changes_are_copied() -> None:
    begin = edited("begin", "next_done = ", "first = ") + "\nnext_done = first"
    changing = applied({"begin": begin, "step": f"{PARTS['step']}\nfirst.add_(1)"})
    assert BEFORE.replace(".numpy()", ".numpy().copy()") in changing
    assert BEFORE in applied({"begin": begin})


SHARED = """
next_obs, reward, done, info = envs.step(action.cpu().numpy())
done = done.astype(np.float32)
rewards[step] = torch.tensor(reward).to(device).view(-1)
next_obs, next_done = torch.Tensor(next_obs).to(device), torch.from_numpy(done).to(device)
"""
SOFTEN = "def soften(d):\n    d[:] = 0\n\n\nclass Softener:\n    def apply(self, d):\n        d.fill(0)\n\n\n"


@pytest.mark.parametrize(
    ("changing", "kept"),
    [
        ("print(done.sum())", True),
        ("other = done * 2\nother[0] = 1", True),
        ("done[:] = 0", False),
        ("soften(done)", False),
        ("Softener().apply(done)", False),
        ("done.fill(0)", False),
        ("done.sort()", False),
        ("np.put(done, [0], [0.0])", False),
        ("np.multiply(done, 0, done)", False),
        ("for d in (done,):\n    d *= 0", False),
        ("[d.fill(0) for d in [done]]", False),
    ],
)
def test_dones_whose_array_changes_later_are_not_copied(changing: str, kept: bool) -> None:
    step = turn("host-arrays", script({"functions": SOFTEN, "step": f"{SHARED}{changing}"}))
    assert ("np.array(done)" in step.after) is kept


@pytest.mark.parametrize("first", ["mean = 1.0", "mean = np.ones(args.num_envs)"])
def test_rewards_scaled_by_a_value_carried_between_steps(first: str) -> None:
    at = PARTS["step"].index("rewards[step]")
    mean = "mean = 0.9 * mean + 0.1 * np.abs(reward).mean()\nreward = reward / mean\n"
    step = turn(
        "host-arrays",
        script({"begin": f"{PARTS['begin']}\n{first}", "step": PARTS["step"][:at] + mean + PARTS["step"][at:]}),
    )
    assert isinstance(step.outcome, Applied), step.outcome
    assert REWARDS not in step.after, "what mean was before the first step is not known to be the host's"


@pytest.mark.parametrize(("dtype", "cast"), [("long", "float32"), ("float64", "float32"), ("float32", None)])
def test_buffers_of_several_dtypes_are_cast_one_by_one(dtype: str, cast: str | None) -> None:
    made = "actions = torch.zeros((args.num_steps, args.num_envs)"
    after = applied({"buffers": edited("buffers", made, f"{made}, dtype=torch.{dtype}")})
    for piece in (RECORDED, REWARDS):
        assert (piece.replace("())\n", f"(), dtype=torch.{cast})\n") if cast else piece) in after


def test_dones_of_which_only_the_truth_is_tested() -> None:
    step = PARTS["step"] + "\nfor i, d in enumerate(next_done):\n"
    after = applied({"step": step + "    if d:\n        print(i)\n"}, "transfers")
    assert BEFORE in after
    assert "enumerate(next_done.tolist())" in after


@pytest.mark.parametrize(
    "read",
    [
        "print(next_done)",
        "episodes = next_done.sum()",
        "for i, d in enumerate(next_done):\n    print(i, d)",
        "next_done[0] = 0.0",
        "next_done += 0",
        "if step == 3:\n    next_done = torch.zeros(args.num_envs)",
    ],
)
def test_dones_that_are_read_in_the_rollout_stay_tensors(read: str) -> None:
    after = applied({"step": PARTS["step"] + f"\n{read}\n"})
    assert REWARDS in after
    assert BEFORE not in after
    assert "np.array(done)" not in after


def test_dones_that_the_network_sees_stay_tensors() -> None:
    act = edited(
        "act", "agent.get_action_and_value(next_obs)", "agent.get_action_and_value(next_obs * next_done[:, None])"
    )
    after = applied({"act": act})
    assert REWARDS in after
    assert BEFORE not in after


def test_dones_that_a_function_reads_stay_tensors() -> None:
    after = applied(
        {"closures": "def finished():\n    return next_done.sum()", "report": "print(finished(), clipfracs)"}
    )
    assert BEFORE not in after


def test_rewards_used_in_arithmetic_stay_tensors() -> None:
    after = applied(
        {
            "step": edited(
                "step", "torch.tensor(reward).to(device).view(-1)", "torch.tensor(reward).to(device).view(-1) * 2"
            )
        }
    )
    assert REWARDS not in after
    assert BEFORE in after


NOTHING = "no recorded value is known to be an array that no network sees"
NOOPS = [
    NoOp(
        "values of unknown origin",
        {
            "step": """
                next_obs, reward, done, info = envs.step(action.cpu().numpy())
                bonus = agent.actor[0].weight.sum() + torch.tensor(reward)
                rewards[step] = bonus
                next_obs, next_done = torch.Tensor(next_obs).to(device), bonus > 0
            """
        },
        NOTHING,
        kind="not needed",
    ),
]


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("host-arrays")


def test_a_class_that_keeps_the_flags_sees_a_tensor() -> None:
    step = turn(
        "host-arrays", script({"store": f"{PARTS['store']}\nclass Box:\n    x = next_done\nprint(Box.x.is_leaf)"})
    )
    assert "next_done = next_done.cpu().numpy()" not in step.after
