"""What training from stored steps may do that a conversion could lose: targets, buffers, schedules, resuming."""

from __future__ import annotations

from replay_script import changed, from_library, replay

LOSS = "loss = F.mse_loss(values, goal)"
SAVE = """\
if global_step == 50:
    file = io.BytesIO()
    torch.save([q_network.state_dict(), target_network.state_dict(), optimizer.state_dict()], file)
if global_step == 60:
    file.seek(0)
    saved = torch.load(file)
"""
FOLLOW = changed("follow", "zip", "zip")
"""The loop that moves the target network."""
TUNED = {
    "make": changed("make", "optimizer = ", "log_alpha = torch.zeros(1, requires_grad=True)\noptimizer = ")
    + "alpha = log_alpha.exp().item()\nalpha_optimizer = optim.SGD([log_alpha], lr=0.1)\n",
    "learn": changed("learn", LOSS, "loss = F.mse_loss(values, goal - alpha * values.detach())"),
    "follow": "alpha_loss = (log_alpha.exp() * (values.detach() - 0.5)).mean()\nalpha_optimizer.zero_grad()\n"
    "alpha_loss.backward()\nalpha_optimizer.step()\nalpha = log_alpha.exp().item()\nprint(alpha)",
}
"""A temperature that is tuned along."""


def make(new: str, old: str = "optimizer = ") -> dict[str, str]:
    """Networks and optimizer, with code put above the optimizer or in place of something."""
    return {"make": changed("make", old, f"{new}\n{old}" if old == "optimizer = " else new)}


def learn(new: str, old: str = LOSS) -> dict[str, str]:
    """The update with code put in place of something."""
    return {"learn": changed("learn", old, new)}


def after(what: str) -> dict[str, str]:
    """Statements that run in each learning step, after the update and the target network's."""
    return {"follow": FOLLOW + "\n" + what}


def tuned(part: str, old: str, new: str) -> dict[str, str]:
    """The temperature with something replaced."""
    assert TUNED[part].count(old) == 1, old
    return {**TUNED, part: TUNED[part].replace(old, new)}


PARTS = {
    "the target is the network": make("target_network = q_network", "target_network = QNetwork().to(device)"),
    "the target shares a layer": make("target_network.net[0] = q_network.net[0]"),
    "the target shares memory": make("target_network.net[0].weight.data = q_network.net[0].weight.data"),
    "the target is a shallow copy": make("target_network = copy.copy(q_network)"),
    "the target is a copy made in the loop": after("target_network = copy.deepcopy(q_network)"),
    "the target gets another layer": after("if global_step == 50:\n    target_network.net[2] = nn.Linear(8, 2)"),
    "the target gets other memory": after(
        "for p in target_network.parameters():\n    p.data = p.data.clone()\nprint(p.sum().item())"
    ),
    "the target gets the network's tensors": {
        "follow": "if global_step % 7 == 0:\n    target_network.load_state_dict(q_network.state_dict(), assign=True)"
    },
    "the target follows itself": {"follow": FOLLOW.replace("zip(q_network", "zip(target_network")},
    "the network follows the target": {
        "follow": FOLLOW.replace(
            "param, target_param in zip(q_network.parameters(), target_network.parameters())",
            "param, target_param in zip(target_network.parameters(), q_network.parameters())",
        )
    },
    "the target is moved twice": after(FOLLOW.replace("0.5", "0.5")),
    "a target follows a target": {
        **make("third = QNetwork()\nthird.load_state_dict(q_network.state_dict())"),
        **after(
            FOLLOW.replace("zip(q_network", "zip(target_network").replace(
                "target_network.parameters()):", "third.parameters()):"
            )
            + "\nprint(next(third.parameters()).sum().item())"
        ),
    },
    "the rate grows": after("args.tau *= 1.02"),
    "the rate is a tensor": {**make("rate = torch.tensor(0.05)"), "follow": FOLLOW.replace("args.tau", "rate")},
    "the target is moved by lerp_()": {
        "follow": "with torch.no_grad():\n    for p, t in zip(q_network.parameters(), target_network.parameters()):\n"
        "        t.lerp_(p, args.tau)"
    },
    "the last parameter is read after the loop": after("print(target_param.sum().item())"),
    "the target is moved in the middle of an update": {
        **learn(LOSS + "\n" + FOLLOW),
        "follow": "pass",
    },
    "the target is frozen": make("for p in target_network.parameters():\n    p.requires_grad_(False)"),
    "a layer is frozen later": after("if global_step == 45:\n    q_network.net[0].weight.requires_grad_(False)"),
    "a parameter is set by hand": after("q_network.net[2].bias.data = q_network.net[2].bias.data * 0.9"),
    "a parameter is replaced": after("if global_step == 45:\n    q_network.net[2].bias = nn.Parameter(torch.ones(2))"),
    "two names for a buffer": {**make("memory = rb"), "sample": changed("sample", "rb.sample", "memory.sample")},
    "agents share a buffer": {
        "make": changed(
            "make",
            "optimizer = ",
            "other = QNetwork()\nother_optimizer = optim.SGD(other.parameters(), lr=0.1)\noptimizer = ",
        ),
        **after(
            "a, b, c, d, e = rb.sample(4)\nother_loss = (other(a) - q_network(b).detach()).pow(2).mean()\n"
            "other_optimizer.zero_grad()\nother_loss.backward()\nother_optimizer.step()\nprint(other_loss.item())"
        ),
    },
    "a second sample": after("print(sum(x.sum().item() for x in rb.sample(3)))"),
    "a second sample in the update": learn(
        "c_obs, *_ = rb.sample(args.batch_size)\nloss = F.mse_loss(values, goal) + q_network(c_obs).mean()"
    ),
    "a sample that is used in the next step": {
        **make("waiting = None"),
        "sample": "drawn = rb.sample(args.batch_size)\nif waiting is None:\n    waiting = drawn\n"
        "(b_obs, b_next_obs, b_actions, b_rewards, b_dones), waiting = waiting, drawn",
    },
    "a sample is changed in place": learn("goal.mul_(0.5)\n" + LOSS),
    "a sample is changed in place after the update": after("b_obs.add_(1)\nprint(b_obs.sum().item())"),
    "a sample is kept": {**make("KEPT = []"), **after("KEPT.append(b_obs)\nprint(sum(x.sum().item() for x in KEPT))")},
    "rows of the buffer are written": after("rb.rows[0][3][:] = loss.item()"),
    "rows of the buffer are forgotten": after("if global_step % 20 == 0:\n    rb.rows = rb.rows[10:]"),
    "rows share the observations' memory": {
        **make("keep = rb.rows.append"),
        **after("keep([next_obs.ravel(), next_obs.ravel(), *rb.rows[-1][2:]])"),
    },
    "the buffer is copied": after("if global_step == 40:\n    rb = copy.deepcopy(rb)"),
    "priorities are written back": {
        **make("weights = np.ones(200)"),
        **after("weights[: len(b_obs)] = (values - goal).abs().detach().numpy()\nprint(weights.sum())"),
    },
    "generators are seeded in each step": after("np.random.seed(global_step)\ntorch.manual_seed(global_step)"),
    "the rate of learning falls": after("optimizer.param_groups[0]['lr'] = 0.01 * (1 - global_step / 80)"),
    "the rate of learning is scheduled": {
        "make": changed("make", "lr=1e-2)", "lr=1e-2)\nscheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.97)"),
        **after("scheduler.step()"),
    },
    "an option changes": after("args.gamma *= 0.99"),
    "an option is set by its text": after("setattr(args, 'gamma', 0.5 + global_step / 200)"),
    "batches grow": {"sample": changed("sample", "args.batch_size", "4 + global_step % 5")},
    "batches grow by an option": after("args.batch_size += 1"),
    "the loss decides on the next sample": {
        **make("count = args.batch_size"),
        "sample": changed("sample", "args.batch_size", "count"),
        **after("count = 4 if loss.item() > 0.5 else 8"),
    },
    "two updates in a step": {
        "sample": "for _ in range(2):\n    pass\n" + changed("sample", "rb", "rb"),
        **after(
            "for turn in range(2):\n    extra = q_network(b_obs).pow(2).mean() * turn\n    optimizer.zero_grad()\n"
            "    extra.backward()\n    optimizer.step()\nprint(extra.item())"
        ),
    },
    "an update that may end early": after(
        "for turn in range(3):\n    extra = q_network(b_obs).pow(2).mean()\n    if extra < 0.1:\n        break\n"
        "    optimizer.zero_grad()\n    extra.backward()\n    optimizer.step()\nprint(turn)"
    ),
    "gradients of two steps are summed": learn(
        "if global_step % 2:\n    optimizer.zero_grad()", "optimizer.zero_grad()"
    ),
    "gradients of two losses are summed": learn(
        "loss.backward(retain_graph=True)\nvalues.mean().backward()", "loss.backward()"
    ),
    "a step is taken twice": learn("optimizer.step()\noptimizer.step()", "optimizer.step()"),
    "gradients are read after the step": after("print(q_network.net[0].weight.grad.sum().item())"),
    "gradients are changed": learn(
        "loss.backward()\nfor p in q_network.parameters():\n    p.grad.mul_(0.5)", "loss.backward()"
    ),
    "gradients are clipped": learn(
        "loss.backward()\nnn.utils.clip_grad_norm_(q_network.parameters(), 0.1)", "loss.backward()"
    ),
    "gradients of the target are computed": learn("loss = F.mse_loss(values, goal) + target_network(b_obs).mean()"),
    "a hook changes gradients": make("q_network.net[0].weight.register_hook(lambda g: g * 0.5)"),
    "a hook sees the network's calls": make(
        "COUNT = []\nq_network.register_forward_hook(lambda *_: COUNT.append(1) or print(len(COUNT)))"
    ),
    "a run is resumed": after(
        SAVE + "    q_network.load_state_dict(saved[0])\n    target_network.load_state_dict(saved[1])\n"
        "    optimizer.load_state_dict(saved[2])"
    ),
    "a run is resumed with another optimizer": after(
        SAVE + "    optimizer = optim.Adam(q_network.parameters(), lr=1e-3)\n    optimizer.load_state_dict(saved[2])"
    ),
    "a run is resumed with another network": after(
        SAVE + "    q_network = QNetwork()\n    q_network.load_state_dict(saved[0])\n"
        "    optimizer = optim.Adam(q_network.parameters(), lr=1e-2)"
    ),
    "a run is resumed above the loop": make(
        "target_network.load_state_dict({k: v * 0.5 for k, v in q_network.state_dict().items()})"
    ),
    "the loss leads to the next action": {
        **make("loss = torch.zeros(())"),
        "act": "actions = np.array([1 if loss.item() > 0.3 else -1])",
    },
    "values are kept with their graphs": {
        **make("PAST = [0]"),
        **learn("loss = F.mse_loss(values, goal) + 0 * sum(PAST)\nPAST[:] = [values.mean().detach()]"),
    },
    "an action is decided twice": {
        "act": changed(
            "act", "actions = 2", "again = q_network(torch.Tensor(obs))\nprint(again.sum().item())\n    actions = 2"
        ).replace("\nprint", "\n    print")
    },
    "an action's values are trained": {
        "act": "q_values = q_network(torch.Tensor(obs))\nactions = 2 * q_values.argmax(1).numpy() - 1",
        **learn("loss = F.mse_loss(values, goal) + q_values.mean()"),
    },
    "closures see the loop's names": {
        **make("LATER = []"),
        **after("LATER.append(lambda: global_step + float(loss))\nprint(sum(f() for f in LATER))"),
    },
    "the loop ends early": after("if loss.item() < 0.02:\n    break"),
    "the loop goes on before it learns": {
        "sample": "if global_step % 3 == 0:\n    continue\n" + changed("sample", "rb", "rb")
    },
    "names of the loop are asked for": after("print('loss' in locals(), len(dir()) > 3)"),
    "a name of the loop is asked for": after("print('loss' in locals(), 'values' in vars(), 'obs' not in locals())"),
    "a name of the loop is asked for before it is bound": {
        "act": changed("act", "if random", "print('loss' in locals())\nif random")
    },
    "a name that nothing else reads is asked for": after(
        "extra = loss.item()\nprint('goal' in locals(), 'best' in locals())"
    ),
    "a loop's name is asked for": after("print('target_param' in locals(), 'param' in locals())"),
    "a name that only a conversion would bind is asked for": after("policy = 1\nprint('policy' in locals())"),
    "a name is asked for in an update": learn("print('loss' in locals())\n" + LOSS),
    "a temperature": TUNED,
    "a temperature decides": tuned("follow", "print(alpha)", "if alpha > 0.9:\n    print(alpha)"),
    "a temperature is kept": {
        **tuned("follow", "print(alpha)", "KEPT.append(alpha)\nprint(sum(KEPT))"),
        "make": TUNED["make"] + "KEPT = []\n",
    },
    "a temperature is a key": tuned("follow", "print(alpha)", "print({alpha: 1}, alpha == log_alpha.exp().item())"),
    "a temperature is what it was": {
        **tuned("follow", "alpha = log", "before = alpha\nalpha = log"),
        "log": "print(alpha)",
    },
    "a temperature in other precision": tuned(
        "learn", "alpha * values.detach()", "(alpha * values.detach().double()).float()"
    ),
    "a temperature in whole numbers": tuned(
        "learn", "alpha * values.detach()", "alpha * (b_actions > 0).long().flatten()"
    ),
}
"""Parts that replace those of `replay_script.py`."""

RING = "rb = ReplayBuffer(50, space, SimpleNamespace(dtype=np.int64), device)"
LIBRARY = {
    "a buffer of a library": {},
    "timeouts are handled": {RING: RING.replace("device)", "device, handle_timeout_termination=True)")},
    "observations are stored once": {
        RING: RING.replace("device)", "device, optimize_memory_usage=True, handle_timeout_termination=False)")
    },
    "its rows are written": {"obs = next_obs\n": "obs = next_obs\n        rb.rewards[0] *= 0.5\n"},
    "its place is set": {"obs = next_obs\n": "obs = next_obs\n        rb.pos = 5 + rb.pos % 30\n"},
    "its samples are changed": {"best = ": "b_rewards.mul_(0.5)\n                best = "},
    "it has two names": {RING: RING + "\n    memory = rb", "rb.sample": "memory.sample"},
    "it is sampled twice": {"best = ": "print(rb.sample(3).rewards.sum().item())\n                best = "},
    "there are two": {
        RING: RING + "\n    " + RING.replace("rb", "other", 1),
        "obs = next_obs\n": "other.add(next_obs, obs, actions, rewards, dones, infos)\n        obs = next_obs\n",
        "best = ": "print(other.sample(3).rewards.sum().item())\n                best = ",
    },
    "it is pickled": {
        "obs = next_obs\n": "obs = next_obs\n        rb = pickle.loads(pickle.dumps(rb))\n",
        "import copy\n": "import copy\nimport pickle\n",
    },
    "it is another's class": {
        "class QNetwork": "class ReplayBuffer(ReplayBuffer):\n    def sample(self, count):\n"
        "        return [x * 0.5 if x.is_floating_point() else x for x in super().sample(count)]\n\n\nclass QNetwork"
    },
    "its device is told": {"obs = next_obs\n": "obs = next_obs\n        print(rb.device)\n"},
}
"""For a buffer of a library: pieces of text, and their replacements."""


def sources() -> dict[str, str]:
    """The scripts by their titles."""
    found = {
        title: replay(**parts).replace("import argparse\n", "import argparse\nimport io\n")
        for title, parts in PARTS.items()
    }
    for title, edits in LIBRARY.items():
        text = from_library()
        for old, new in edits.items():
            assert text.count(old) == 1, (title, old)
            text = text.replace(old, new)
        found[f"a replay buffer: {title}"] = text
    return found
