import re
from pathlib import Path

import pytest
from cases import NoOp, Parts, Rewrite, converted_by, turn
from forking import preload
from golden import FIXTURES
from judge import judge
from scripts import PARTS, edited, script
from tiers import slow_but_each

from transformer import Applied
from transformer.syntax.text import read

IMPORTS = {"third_party": "from tensordict import TensorDict"}
COLLECT = """
    transitions = []
    for step in range(0, args.num_steps):
        transition = {}
        transitions.append(transition)
        global_step += args.num_envs
        <store>
        <act>
        <record>
        <step>
"""
STACK = """
storage = TensorDict(
    {k: torch.stack([t[k] for t in transitions]) for k in transitions[0]}, batch_size=[args.num_steps, args.num_envs]
).to(device, torch.float32)
"""
STORES = {
    "rollout": COLLECT,
    "stack": STACK,
    "store": 'transition["obs"] = next_obs\ntransition["dones"] = next_done.flatten()',
    "act": edited("act", "values[step]", 'transition["values"]'),
    "record": 'transition["actions"] = action.flatten()\ntransition["logprobs"] = logprob.flatten()',
    "step": edited("step", "rewards[step]", 'transition["rewards"]'),
}


def entries(text: str, *names: str) -> str:
    """Uses of buffers, rewritten to uses of the TensorDict's entries."""
    for name in names:
        text = text.replace(f" {name}", f' storage["{name}"]').replace(f"({name})", f'(storage["{name}"])')
    return text


READS = {
    "advantages": entries(PARTS["advantages"], "rewards", "values"),
    "gae": entries(PARTS["gae"], "rewards", "values", "dones"),
    "flatten": entries(PARTS["flatten"], "obs", "actions", "logprobs"),
}
ALL = {**IMPORTS, "allocate": "", **STORES, **READS}
LONG = edited(
    "buffers",
    "actions = torch.zeros((args.num_steps, args.num_envs))",
    "actions = torch.zeros((args.num_steps, args.num_envs), dtype=torch.long)",
)

MIXED = {
    **ALL,
    "stack": STACK.replace("device, torch.float32", "device"),
    "record": """
        transition["actions"] = action.flatten().to(torch.long)
        transition["logprobs"] = logprob.flatten()
    """,
    "step": STORES["step"].replace("view(-1)", "view(-1).to(torch.float32)"),
}
COSTS = {"buffers": PARTS["buffers"] + "\ncosts = torch.empty(args.num_steps, args.num_envs, device=device)"}
CONTINUE = '\nif not done.any():\n    continue\nprint("an episode ends")'
REPORT = "\nprint(rewards[: step + 1].sum().item())"
READ_BACK = "\nprint(rewards[step].sum().item())"
ON_CPU = {
    part: PARTS[part].replace(".to(device)", "") for part in ("make_agent", "buffers", "begin", "step", "advantages")
}


def without_device(parts: Parts) -> Parts:
    return {
        name: text.replace(".to(device, torch", ".to(torch").replace(".to(device)", "") for name, text in parts.items()
    }


REWRITES = [
    Rewrite("all buffers of one dtype", {}, ALL),
    Rewrite(
        "a buffer of another dtype",
        {"buffers": LONG, "minibatch": edited("minibatch", "b_actions.long()[mb_inds]", "b_actions[mb_inds]")},
        MIXED,
    ),
    Rewrite(
        "an extra buffer",
        {
            **COSTS,
            "step": PARTS["step"] + "\ncosts[step] = torch.tensor(np.abs(reward)).to(device)",
            "report": PARTS["report"] + "\nprint(costs.mean().item())",
        },
        {
            **ALL,
            "step": STORES["step"] + '\ntransition["costs"] = torch.tensor(np.abs(reward)).to(device).flatten()',
            "report": PARTS["report"] + '\nprint(storage["costs"].mean().item())',
        },
    ),
    Rewrite(
        "a continue below the stores", {"step": PARTS["step"] + CONTINUE}, {**ALL, "step": STORES["step"] + CONTINUE}
    ),
    Rewrite(
        "one buffer that is read in the rollout stays",
        {"step": PARTS["step"] + REPORT},
        {
            **ALL,
            "allocate": "\nrewards = torch.zeros((args.num_steps, args.num_envs)).to(device)",
            "step": PARTS["step"] + REPORT,
            "advantages": entries(PARTS["advantages"], "values"),
            "gae": entries(PARTS["gae"], "values", "dones"),
        },
        notes=("rewards stays a preallocated buffer: ",),
    ),
    Rewrite(
        "a tensor shaped like a buffer, above the rollout",
        {
            "buffers": PARTS["buffers"] + "\nadvantages = torch.zeros_like(rewards)",
            "advantages": PARTS["advantages"].replace("    advantages = torch.zeros_like(rewards).to(device)\n", ""),
        },
        {
            **ALL,
            "allocate": "\nadvantages = torch.zeros((args.num_steps, args.num_envs), device=device)",
            "advantages": READS["advantages"].replace(
                '    advantages = torch.zeros_like(storage["rewards"]).to(device)\n', ""
            ),
        },
    ),
    Rewrite(
        "a value given to a network unchanged is a tensor",
        {
            "functions": "def observe(x):\n    for _ in range(1):\n        return torch.Tensor(x)\n\n\n",
            "step": edited("step", "torch.Tensor(next_obs).to(device), ", "observe(next_obs), "),
        },
        {**ALL, "step": STORES["step"].replace("torch.Tensor(next_obs).to(device), ", "observe(next_obs), ")},
    ),
    Rewrite(
        "a value given to other code unchanged may be changed there",
        {"step": edited("step", "action.cpu().numpy()", "action")},
        {
            **ALL,
            "record": STORES["record"],
            "step": STORES["step"].replace("action.cpu().numpy()", "action"),
        },
    ),
    Rewrite(
        "a stored value is read in the same step",
        {"step": PARTS["step"] + READ_BACK},
        {
            **ALL,
            "step": STORES["step"].replace("view(-1)", "view(-1).to(torch.float32).clone()")
            + READ_BACK.replace("rewards[step]", 'transition["rewards"]'),
        },
    ),
    Rewrite(
        "unpacked into a buffer",
        {
            "act": edited("act", "action, logprob, _, value =", "action, logprobs[step], _, value ="),
            "record": "actions[step] = action",
        },
        {
            **ALL,
            "act": STORES["act"]
            .replace("action, logprob, _, value", "action, logprob, _, value")
            .replace("(next_obs)\n", '(next_obs)\n    transition["logprobs"] = logprob.flatten()\n'),
            "record": 'transition["actions"] = action.flatten()',
        },
    ),
    Rewrite(
        "names that are taken",
        {"setup": 'storage, transition = "cpu", "x"\ndevice = torch.device(storage)'},
        {
            name: text.replace("transition[", "transition_1[")
            .replace("transition =", "transition_1 =")
            .replace("transition)", "transition_1)")
            .replace("storage[", "storage_1[")
            .replace("storage =", "storage_1 =")
            for name, text in ALL.items()
        },
    ),
    Rewrite("no device", {**ON_CPU, "setup": ""}, without_device(ALL)),
]

NOT_A_LOOP = "the rollout is not a for loop over a step index"

NOOPS = [
    NoOp(
        "lists",
        {
            "buffers": "",
            "store": "obs, dones = [*obs, next_obs], [*dones, next_done]",
            "act": edited("act", "values[step] = value.flatten()", "values += [value.flatten()]"),
            "record": "actions += [action]\nlogprobs += [logprob]",
            "step": edited("step", "rewards[step] = torch.tensor(reward).to(device).view(-1)", "rewards += [reward]"),
        },
        "the rollout writes no preallocated torch buffers at its step index",
        kind="not needed",
    ),
    NoOp(
        "numpy buffers",
        {"buffers": PARTS["buffers"].replace("torch.zeros", "np.zeros").replace(".to(device)", "")},
        "the rollout writes no preallocated torch buffers at its step index",
        kind="not needed",
    ),
    NoOp(
        "a break that ends the rollout",
        {"step": PARTS["step"] + "\nif done.all():\n    break"},
        "the break on line {line} may end the rollout before the buffers are full",
        at="break",
    ),
    NoOp(
        "an else block",
        {"collect": '<rollout>\nelse:\n    print("complete")'},
        "the rollout loop has an else block",
    ),
    NoOp(
        "a while loop",
        {
            "rollout": edited(
                "rollout",
                "for step in range(0, args.num_steps):",
                "step = -1\nwhile step < args.num_steps - 1:\n    step += 1",
            )
        },
        NOT_A_LOOP,
    ),
    NoOp(
        "a range that does not start at 0",
        {"rollout": edited("rollout", "range(0, args.num_steps)", "range(1, args.num_steps)")},
        "the rollout does not run over range(number of steps)",
    ),
    NoOp(
        "the rollout under a condition",
        {"collect": "if args.num_steps > 0:\n    <rollout>"},
        "the rollout loop is inside another statement",
    ),
    NoOp(
        "a rollout over nested loops",
        {
            "collect": "for half in range(0, args.num_steps, 4):\n    <rollout>",
            "rollout": edited("rollout", "range(0, args.num_steps)", "range(half, half + 4)"),
        },
        "the rollout does not run over range(number of steps)",
    ),
    NoOp(
        "buffers that are written under a condition",
        {
            "store": "if step >= 0:\n    <stores>",
            "stores": PARTS["store"],
            "act": "if step >= 0:\n    <acts>",
            "acts": PARTS["act"],
            "record": "if step >= 0:\n    <records>",
            "records": PARTS["record"],
            "step": edited("step", "rewards[step]", "rewards[step] = rewards[step]"),
        },
        "writes it only under a condition",
    ),
    NoOp(
        "values that may be numbers",
        {
            "store": "obs[step] = np.asarray(next_obs)\ndones[step] = next_done.tolist()",
            "act": edited("act", "value.flatten()", "float(value.sum())"),
            "record": "actions[step] = np.asarray(action)\nlogprobs[step] = logprob.tolist()",
            "step": edited("step", "torch.tensor(reward).to(device).view(-1)", "reward.item()"),
        },
        "the value written on line {line} is not known to be a tensor",
        at="float(value.sum())",
    ),
    NoOp(
        "written twice",
        {
            "record": PARTS["record"]
            + "\n"
            + "\n".join(f"{b}[step] = next_done" for b in ("obs", "dones", "actions", "logprobs", "values", "rewards"))
        },
        "it is written more than once per step",
    ),
    NoOp(
        "read by a function",
        {"closures": "def show():\n    print(obs, actions, logprobs, rewards, dones, values)\n\n"},
        "a function reads it on line {line}",
        at="print(obs, actions",
    ),
    NoOp(
        "read before the rollout",
        {"head": "print([b.sum().item() for b in (obs, actions, logprobs, rewards, dones, values)])"},
        "line {line} uses it before the rollout is complete",
        at="print([b.sum()",
    ),
    NoOp(
        "longer than the rollout",
        {"buffers": PARTS["buffers"].replace("args.num_steps", "args.num_steps + 1")},
        "its length is not the rollout's",
    ),
    NoOp(
        "read inside an f-string",
        {
            "report": """
                print(f"{obs.sum()} {actions.sum()} {logprobs.sum()}")
                print(f"{rewards.sum()} {dones.sum()} {values.sum()} {clipfracs}")
            """
        },
        "line {line} reads it inside an f-string",
        at='print(f"{obs',
    ),
    NoOp(
        "asked how often it was written",
        {"report": "print([b for b in (obs._version, actions._version, logprobs._version)])\n"
                   "print(rewards._version, dones._version, values._version)"},
        "reads its _version, which may identify its memory",
        at="print([b for b",
    ),
]  # fmt: skip


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("storage")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("storage")


@pytest.mark.parametrize(
    ("summed", "stored"), [("sum(1)", True), ("mean(dim=1)", True), ("sum(-1)", False), ("sum(0)", False)]
)
def test_a_sum_over_features_has_an_element_per_environment(summed: str, stored: bool) -> None:
    parts = {
        "buffers": PARTS["buffers"] + "\nnovelty = torch.zeros((args.num_steps, args.num_envs)).to(device)",
        "step": PARTS["step"] + f"\nnovelty[step] = (agent.get_value(next_obs) - 1).pow(2).{summed}.data",
        "report": "novelty /= 2.0\nprint(iteration, v_loss.item(), novelty.mean().item())",
    }
    after = turn("storage", script(parts)).after
    assert ('transition["novelty"] = ' in after) is stored
    assert ('storage["novelty"] /= 2.0' in after) is stored


FILTER = """class Discounted:
    def __init__(self):
        self.sums, self.seen = None, []

    def update(self, x):
{body}
        return self.sums


"""
SUMMED = "sums = np.array([discounted.update(row) for row in rewards.cpu().numpy()])\nprint(sums.var())\n"
KEEPS = {
    "a view that is written to": "        if self.sums is None:\n            self.sums = x\n        self.sums[:] = x",
    "a view that is added to": "        if self.sums is None:\n            self.sums = x\n        self.sums += x",
    "the last view": "        self.sums = x",
    "a view of the view": "        y = x[:2]\n        self.sums = y",
    "all views": "        self.seen.append(x)",
}
KEEPS_NOTHING = {
    "the first view, until the second": "        if self.sums is None:\n            self.sums = x\n        else:\n"
    "            self.sums = self.sums * 0.9 + x",
    "a copy": "        self.sums = x.copy()",
    "a sum": "        self.sums = x + 1",
}


def _summing(body: str) -> str:
    parts = {
        "functions": FILTER.format(body=body),
        "before_loop": "discounted = Discounted()",
        "advantages": SUMMED + PARTS["advantages"],
    }
    return turn("storage", script(parts)).after


@pytest.mark.parametrize("body", KEEPS.values(), ids=KEEPS)
def test_a_buffer_whose_memory_an_object_keeps_stays(body: str) -> None:
    # The next rollout is written into the memory that the object holds
    after = _summing(body)
    assert "rewards[step] = " in after and 'transition["obs"]' in after


@pytest.mark.parametrize("body", KEEPS_NOTHING.values(), ids=KEEPS_NOTHING)
def test_an_object_that_keeps_nothing_of_a_buffer(body: str) -> None:
    assert 'transition["rewards"]' in _summing(body)


def test_an_object_of_another_file_may_keep_what_it_is_given() -> None:
    parts = {"third_party": "from replay import Replay", "before_loop": "replay = Replay()"}
    after = turn("storage", script({**parts, "report": PARTS["report"] + "\nreplay.add(rewards)"})).after
    assert "rewards[step] = " in after and 'transition["obs"]' in after
    after = turn("storage", script({**parts, "report": PARTS["report"] + "\nreplay.add(rewards.mean())"})).after
    assert 'transition["rewards"]' in after


@pytest.mark.parametrize(
    ("drawn", "kept"),
    [
        ("dist.sample()", False),
        ("dist.sample((1,))", True),
        ("Normal(log_std, 1.0).sample()", True),
        ("Normal(actor(x), 1.0).rsample()", False),
    ],
)
def test_draws_have_as_many_rows_as_their_parameters(drawn: str, kept: bool) -> None:
    source = read(FIXTURES / "written_out.py").content.replace("action = dist.sample()", f"action = {drawn}")
    assert drawn in source
    assert ("actions[step] = action" in turn("storage", source).after) == kept


HELD = {
    "a second name": ("row = rewards[step]\nlast = row", "print(last.sum())"),
    "a view": ("row = rewards[step]\nlast = row.view(-1)", "print(last.sum())"),
    "an array": ("row = rewards[step]\nlast = row.numpy()", "print(last.sum())"),
    "a list": ("row = rewards[step]\nlast = [row]", "print(last[0].sum())"),
    "a dict": ("last = {'row': rewards[step]}", "print(last['row'].sum())"),
    "an unpacked pair": ("last, number = rewards[step], 1", "print(last.sum())"),
    "one of two": ("row = rewards[step]\nlast = row if step else row", "print(last.sum())"),
    "a method": ("row = rewards[step]\nlast = row.sum", "print(last())"),
}


@pytest.mark.parametrize("held", slow_but_each(3, HELD))
def test_a_row_that_is_held_after_the_rollout_keeps_its_buffer(held: str, tmp_path: Path) -> None:
    """A view of the buffer, held after the rollout, must show later changes of the buffer."""
    preload()
    holds, reads = HELD[held]
    later = {"step": f"{PARTS['step']}\n{holds}", "stack": f"rewards.mul_(2)\n{reads}"}
    outcome = judge(tmp_path / "ppo.py", script(later))
    assert outcome.kind == "equal", (outcome.kind, *outcome.said)
    assert "storage" in outcome.applied, "the other buffers are stacked all the same"


def test_a_row_that_only_a_step_reads_is_stacked() -> None:
    step = turn("storage", script({"step": f"{PARTS['step']}\nrow = rewards[step]\nlast = row\nprint(last.sum())"}))
    assert isinstance(step.outcome, Applied)
    assert "rewards = torch.zeros" not in step.after


@pytest.mark.parametrize(
    ("old", "new", "copied"),
    [
        ("return self.state.copy(), reward", "return self.state, reward", "next_obs"),
        ("self.age += 1", "self.age += 1\n        action[:] = 0", "action.flatten()"),
        ("self.age += 1", "self.age += 1\n        self.last = action", ""),
    ],
)
def test_an_array_that_the_environment_rewrites_is_copied(old: str, new: str, copied: str) -> None:
    step = turn("storage", script().replace(old, new))
    copies = {line.partition(" = ")[2].removesuffix(".clone()") for line in step.after.splitlines() if "clone" in line}
    assert isinstance(step.outcome, Applied)
    assert copies == {copied} - {""}


MAKES = "        value = self.critic(x).view(-1)\n"
HOLDS = "PAST = []\n\n\ndef keep(x):\n    PAST.append(x)\n\n\n"


@pytest.mark.parametrize(
    ("held", "changing", "copied"),
    [
        ("", "", False),
        ("keep(value.mean())", "PAST[-1].mul_(0)", False),
        ("keep(value)", "print(PAST[-1])", False),
        ("keep(value)", "PAST[-1].mul_(0)", True),
        ("global last\n        last = value", "last.mul_(0)", True),
        ("setattr(self, 'last', value)", "agent.last.mul_(0)", True),
        ("self.last = {'v': value}", "agent.last['v'].mul_(0)", True),
        ("self.last, self.other = value, 1", "agent.last.mul_(0)", True),
        ("[keep(v) for v in (value,)]", "PAST[-1].mul_(0)", True),
        ("self.last = lambda v=value: v", "agent.last().mul_(0)", True),
        ("PAST.append(value.view(1, -1))", "PAST[-1].mul_(0)", True),
    ],
)
def test_a_result_that_is_changed_after_it_was_unpacked_into_a_row(held: str, changing: str, copied: bool) -> None:
    """The buffer's row is a copy. If the network keeps the result, the stack must be made of a copy too."""
    above, _, _ = PARTS["agent"].rpartition("        return action")
    returned = "        return action, probs.log_prob(action), probs.entropy(), value\n"
    unpacked = "actions[step], logprobs[step], _, values[step] = agent.get_action_and_value(next_obs)"
    parts = {
        "functions": HOLDS,
        "agent": f"{above}{MAKES}        {held}\n{returned}",
        "act": f"with torch.no_grad():\n    {unpacked}\naction = actions[step]",
        "record": changing,
    }
    step = turn("storage", script(parts))
    assert step.applied, step.outcome
    assert ('transition["values"] = value_1.flatten().clone()' in step.after) is copied


ACTED = "action, logprob, _, value = agent.get_action_and_value(next_obs)"
PICK = "\n\n    def pick(self, x):\n        return Categorical(logits=self.actor(x)).sample()"
PICKED = "action = agent.pick(next_obs)\n_, logprob, _, value = agent.get_action_and_value(next_obs, action)"


@pytest.mark.parametrize("act", [ACTED, PICKED])
def test_an_action_that_is_read_back_has_the_dtype_of_its_buffer(act: str) -> None:
    """It is drawn as an integer, and the buffer holds floats."""
    parts = {
        "agent": PARTS["agent"] + PICK,
        "act": edited("act", ACTED, act),
        "record": PARTS["record"] + "\nseen = actions[step] * 31",
    }
    after = converted_by(script(parts), "storage").source
    assert 'transition["actions"] = action.flatten().to(torch.float32).clone()' in after


def test_a_buffer_that_is_read_below_the_training_loop_stays() -> None:
    """With no iterations, the script reads the zeros that it allocated."""
    step = turn("storage", script({"end": "print(rewards.sum())"}))
    assert isinstance(step.outcome, Applied)
    line = step.before[: step.before.index("print(rewards.sum())")].count("\n") + 1
    assert f"line {line} reads it below the training loop" in "".join(step.outcome.left)
    assert "rewards[step] = " in step.after


@pytest.mark.parametrize("by_front", [True, False])
def test_a_sum_over_the_last_dimension_may_be_over_the_only_one(by_front: bool) -> None:
    summed = f"values[step] = value.sum({1 if by_front else -1})"
    step = turn("storage", script({"act": edited("act", "values[step] = value.flatten()", summed)}))
    assert isinstance(step.outcome, Applied)
    why = "is not known to have one element per environment: count dimensions from the front, .sum(1)"
    told = [note for note in step.outcome.left if re.search(r"value\.sum\(-1\) on line \d+, ", note)]
    assert [(note.partition(" ")[0], note.endswith(why)) for note in told] == ([] if by_front else [("values", True)])
