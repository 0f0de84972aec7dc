import re

import pytest
from cases import NoOp, Rewrite, turn
from scripts import PARTS, edited, script

LOOP = """
    nextnonterminal = torch.cat([1.0 - dones[1:], (1.0 - next_done).expand_as(dones[:1])])
    nextvalues = torch.cat([values[1:], next_value.expand_as(values[:1])])
    delta = rewards + args.gamma * nextvalues * nextnonterminal - values
    discount = args.gamma * args.gae_lambda * nextnonterminal
    for t in reversed(range(args.num_steps)):
        advantages[t] = lastgaelam = delta[t] + discount[t] * lastgaelam
"""

RETURNS = """
    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        returns = torch.zeros_like(rewards).to(device)
        <gae>
        advantages = returns - values
"""
NEXT_RETURN = """
    for t in reversed(range(args.num_steps)):
        if t == args.num_steps - 1:
            nextnonterminal = 1.0 - next_done
            next_return = next_value  # bootstrap
        else:
            nextnonterminal = 1.0 - dones[t + 1]
            next_return = returns[t + 1]
        returns[t] = rewards[t] + args.gamma * nextnonterminal * next_return
"""

ALL_BUT_LAST = """
    t = args.num_steps - 1
    advantages[t] = rewards[t] + args.gamma * next_value
    for t in reversed(range(args.num_steps - 1)):
        alive = 1.0 - dones[t + 1]
        advantages[t] = rewards[t] + alive * advantages[t + 1] + (1 - args.gamma) * alive * values[t]
"""

REWRITES = [
    Rewrite("the branch and the sum", {}, {"gae": LOOP}),
    Rewrite(
        "all steps but the last",
        {"gae": ALL_BUT_LAST},
        {
            "gae": """
                t = args.num_steps - 1
                advantages[t] = rewards[t] + args.gamma * next_value
                alive = 1.0 - dones[1:]
                delta = (1 - args.gamma) * alive * values[:-1]
                for t in reversed(range(args.num_steps - 1)):
                    advantages[t] = rewards[t] + alive[t] * advantages[t + 1] + delta[t]
            """
        },
    ),
    Rewrite(
        "counting down by hand, the branch the other way round",
        {
            "gae": """
                for t in range(args.num_steps - 1, -1, -1):
                    if t != args.num_steps - 1:
                        alive, following = 1.0 - dones[t + 1], values[t + 1]
                    else:
                        alive, following = 1.0 - next_done, next_value
                    delta = rewards[t] + args.gamma * following * alive - values[t]
                    lastgaelam = delta + args.gamma * args.gae_lambda * alive * lastgaelam
                    advantages[t] = lastgaelam
            """
        },
        {
            "gae": """
                alive = torch.cat([1.0 - dones[1:], (1.0 - next_done).expand_as(dones[:1])])
                following = torch.cat([values[1:], next_value.expand_as(values[:1])])
                delta = rewards + args.gamma * following * alive - values
                discount = args.gamma * args.gae_lambda * alive
                for t in range(args.num_steps - 1, -1, -1):
                    lastgaelam = delta[t] + discount[t] * lastgaelam
                    advantages[t] = lastgaelam
            """
        },
    ),
    Rewrite(
        "delta is not named",
        {
            "gae": """
                for t in reversed(range(0, args.num_steps)):
                    if t < args.num_steps - 1:
                        alive = 1.0 - dones[t + 1]
                        following = values[t + 1]
                    else:
                        alive = 1.0 - next_done
                        following = next_value
                    lastgaelam = rewards[t] + args.gamma * following * alive - values[t] + 0.9 * alive * lastgaelam
                    advantages[t] = lastgaelam
            """
        },
        {
            "gae": """
                alive = torch.cat([1.0 - dones[1:], (1.0 - next_done).expand_as(dones[:1])])
                following = torch.cat([values[1:], next_value.expand_as(values[:1])])
                delta = rewards + args.gamma * following * alive - values
                discount = 0.9 * alive
                for t in reversed(range(0, args.num_steps)):
                    lastgaelam = delta[t] + discount[t] * lastgaelam
                    advantages[t] = lastgaelam
            """
        },
    ),
    Rewrite(
        "no branch, the next step's values one ahead",
        {
            "gae": """
                ahead = torch.cat([values[1:], next_value])
                alive = 1.0 - torch.cat([dones[1:], next_done.unsqueeze(0)])
                for t in reversed(range(args.num_steps)):
                    delta = rewards[t] + args.gamma * ahead[t] * alive[t] - values[t]
                    advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * alive[t] * lastgaelam
            """
        },
        {
            "gae": """
                ahead = torch.cat([values[1:], next_value])
                alive = 1.0 - torch.cat([dones[1:], next_done.unsqueeze(0)])
                delta = rewards + args.gamma * ahead * alive - values
                discount = args.gamma * args.gae_lambda * alive
                for t in reversed(range(args.num_steps)):
                    advantages[t] = lastgaelam = delta[t] + discount[t] * lastgaelam
            """
        },
    ),
    Rewrite(
        "more values than steps",
        {
            "buffers": edited(
                "buffers", "values = torch.zeros((args.num_steps,", "values = torch.zeros((args.num_steps + 1,"
            ),
            "advantages": edited("advantages", "<gae>", "values[args.num_steps] = next_value\n<gae>").replace(
                "+ values", "+ values[:-1]"
            ),
            "gae": """
                for t in reversed(range(args.num_steps)):
                    alive = 1.0 - dones[t]
                    delta = rewards[t] + args.gamma * values[t + 1] * alive - values[t]
                    advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * alive * lastgaelam
            """,
        },
        {
            "gae": """
                alive = 1.0 - dones
                delta = rewards + args.gamma * values[1:] * alive - values[:-1]
                discount = args.gamma * args.gae_lambda * alive
                for t in reversed(range(args.num_steps)):
                    advantages[t] = lastgaelam = delta[t] + discount[t] * lastgaelam
            """
        },
    ),
    Rewrite(
        "one row more, appended",
        {
            "gae": """
                every = torch.cat([values, next_value])
                flags = torch.cat([dones, next_done.unsqueeze(0)])
                for t in reversed(range(args.num_steps)):
                    alive = 1.0 - flags[t + 1]
                    delta = rewards[t] + args.gamma * every[t + 1] * alive - every[t]
                    advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * alive * lastgaelam
            """,
        },
        {
            "gae": """
                every = torch.cat([values, next_value])
                flags = torch.cat([dones, next_done.unsqueeze(0)])
                alive = 1.0 - flags[1:]
                delta = rewards + args.gamma * every[1:] * alive - every[:-1]
                discount = args.gamma * args.gae_lambda * alive
                for t in reversed(range(args.num_steps)):
                    advantages[t] = lastgaelam = delta[t] + discount[t] * lastgaelam
            """
        },
    ),
    Rewrite(
        "choices in expressions",
        {
            "gae": """
                for t in reversed(range(args.num_steps)):
                    alive = 1.0 - (dones[t + 1] if t + 1 < args.num_steps else next_done)
                    following = next_value if t == args.num_steps - 1 else values[t + 1]
                    delta = rewards[t] + args.gamma * following * alive - values[t]
                    advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * alive * lastgaelam
            """
        },
        {
            "gae": """
                alive = 1.0 - torch.cat([dones[1:], next_done.expand_as(dones[:1])])
                following = torch.cat([values[1:], next_value.expand_as(values[:1])])
                delta = rewards + args.gamma * following * alive - values
                discount = args.gamma * args.gae_lambda * alive
                for t in reversed(range(args.num_steps)):
                    advantages[t] = lastgaelam = delta[t] + discount[t] * lastgaelam
            """
        },
    ),
    Rewrite(
        "the recurrence goes through the buffer itself",
        {"advantages": RETURNS, "gae": NEXT_RETURN},
        {
            "gae": """
                nextnonterminal = torch.cat([1.0 - dones[1:], (1.0 - next_done).expand_as(dones[:1])])
                discount = args.gamma * nextnonterminal
                for t in reversed(range(args.num_steps)):
                    if t == args.num_steps - 1:
                        next_return = next_value  # bootstrap
                    else:
                        next_return = returns[t + 1]
                    returns[t] = rewards[t] + discount[t] * next_return
            """
        },
    ),
    Rewrite(
        "the recurrence and another choice in one statement",
        {
            "advantages": RETURNS,
            "gae": """
                for t in reversed(range(args.num_steps)):
                    if t == args.num_steps - 1:
                        nextnonterminal, next_return = 1.0 - next_done, next_value
                    else:
                        nextnonterminal, next_return = 1.0 - dones[t + 1], returns[t + 1]
                    returns[t] = rewards[t] + args.gamma * nextnonterminal * next_return
            """,
        },
        {
            "gae": """
                nextnonterminal = torch.cat([1.0 - dones[1:], (1.0 - next_done).expand_as(dones[:1])])
                discount = args.gamma * nextnonterminal
                for t in reversed(range(args.num_steps)):
                    if t == args.num_steps - 1:
                        next_return = next_value
                    else:
                        next_return = returns[t + 1]
                    returns[t] = rewards[t] + discount[t] * next_return
            """
        },
    ),
]

HELPER = """
    def estimate(rewards, values, dones, last_value, last_done, n, gamma, lam=0.95):
        gains = torch.zeros_like(rewards)
        carry = 0
        <inside>
        return gains, gains + values


"""
INSIDE = """
    for t in reversed(range(n)):
        alive = 1.0 - (last_done if t == n - 1 else dones[t + 1])
        following = last_value if t == n - 1 else values[t + 1]
        delta = rewards[t] + gamma * following * alive - values[t]
        gains[t] = carry = delta + gamma * lam * alive * carry
"""
HOISTED_INSIDE = """
    alive = 1.0 - torch.cat([dones[1:], last_done.expand_as(dones[:1])])
    following = torch.cat([values[1:], last_value.expand_as(values[:1])])
    delta = rewards + gamma * following * alive - values
    discount = gamma * lam * alive
    for t in reversed(range(n)):
        gains[t] = carry = delta[t] + discount[t] * carry
"""
CALLED = """
    with torch.no_grad():
        last = agent.get_value(next_obs).reshape(1, -1)
        advantages, returns = estimate(rewards, values, dones, last, next_done, args.num_steps, args.gamma)
"""
HELPED = {"functions": HELPER, "inside": INSIDE, "advantages": CALLED}
GLOBAL = """
    def estimate(last):
        gains = torch.zeros_like(rewards)
        carry = 0
        for t in reversed(range(len(rewards))):
            following = last if t + 1 == len(rewards) else values[t + 1]
            delta = rewards[t] + args.gamma * following * (1.0 - dones[t]) - values[t]
            gains[t] = carry = delta + args.gamma * args.gae_lambda * (1.0 - dones[t]) * carry
        return gains


"""

REWRITES += [
    Rewrite(
        "rewards scaled in place", {"advantages": edited("advantages", "<gae>", "rewards *= 0.5\n<gae>")}, {"gae": LOOP}
    ),
    Rewrite(
        "mixed precision in the update",
        {"learn": "with torch.autocast(device.type, dtype=torch.bfloat16):\n    <minibatch>"},
        {"gae": LOOP},
    ),
    Rewrite("in a function of the file", HELPED, {"inside": HOISTED_INSIDE}),
    Rewrite(
        "in a function that reads the script's own names",
        {
            "functions": GLOBAL,
            "advantages": edited("advantages", "<gae>", "advantages = estimate(next_value)"),
        },
        {
            "functions": """
                def estimate(last):
                    gains = torch.zeros_like(rewards)
                    carry = 0
                    following = torch.cat([values[1:], last.expand_as(values[:1])])
                    delta = rewards + args.gamma * following * (1.0 - dones) - values
                    discount = args.gamma * args.gae_lambda * (1.0 - dones)
                    for t in reversed(range(len(rewards))):
                        gains[t] = carry = delta[t] + discount[t] * carry
                    return gains


            """
        },
    ),
]

RECURRENCE = "advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam"
CARRIED = RECURRENCE.replace("advantages[t] = ", "") + "\n"
SEES_A_SHAPE = {
    "lastgaelam[0]": f"{CARRIED}advantages[t] = lastgaelam[0]",
    "lastgaelam.select(0, 0)": f"{CARRIED}advantages[t] = lastgaelam.select(0, 0)",
    "lastgaelam.t()": f"{CARRIED}advantages[t] = lastgaelam.t()",
    "lastgaelam.view(-1, 1)": f"{CARRIED}advantages[t] = lastgaelam.view(-1, 1)",
    "lastgaelam += delta": "lastgaelam = lastgaelam * 0.9\nlastgaelam += delta\nadvantages[t] = lastgaelam",
    "advantages[t] += lastgaelam": f"{CARRIED}advantages[t] += lastgaelam",
    "(delta, lastgaelam)": f"{CARRIED}both = (delta, lastgaelam)\nadvantages[t] = lastgaelam",
    "(row,) = lastgaelam": f"{CARRIED}(row,) = lastgaelam\nadvantages[t] = row",
    "row, *_ = lastgaelam * 1": f"{CARRIED}row, *_ = lastgaelam * 1\nadvantages[t] = row",
    "lastgaelam[0, :]": f"{CARRIED}advantages[t] = lastgaelam[0, :]",
    "[x for x in lastgaelam]": f"{CARRIED}rows = [x for x in lastgaelam]\nadvantages[t] = lastgaelam",
    "kept[t]": f"kept = [0] * args.num_steps\n{CARRIED}kept[t] = lastgaelam\nadvantages[t] = lastgaelam",
}
"""What is computed in a turn has the shape `(1, n)` of the value after the last step, and later that of a row."""
SEES_NONE = (
    "lastgaelam",
    "lastgaelam.flatten()",
    "lastgaelam.view(-1)",
    "lastgaelam.squeeze(0)",
    "lastgaelam.detach()",
)


@pytest.mark.parametrize("stored", SEES_NONE)
def test_what_is_stored_in_a_row_has_its_shape(stored: str) -> None:
    parts = {"gae": edited("gae", RECURRENCE, f"{CARRIED}advantages[t] = {stored}")}
    assert turn("gae-hoist", script(parts)).applied


NOOPS = [
    *(
        NoOp(
            f"a shape that is seen: {seen}",
            {"gae": edited("gae", RECURRENCE, statements)},
            f"line {{line}}: {seen} may depend on the shape of what follows the last step",
            at=seen,
        )
        for seen, statements in SEES_A_SHAPE.items()
    ),
    NoOp(
        "the branch depends on its earlier choices",
        {"gae": edited("gae", "nextvalues = values[t + 1]", "nextvalues = values[t + 1] * nextnonterminal")},
        "the branch chooses nextvalues by nextnonterminal, which it also chooses",
    ),
    NoOp(
        "a function that is called twice",
        {
            **HELPED,
            "report": PARTS["report"] + "\n" + CALLED.strip("\n").replace("    ", "", 1).replace("\n    ", "\n"),
        },
        "the loop on line {line} is not known to go over the rollout's steps",
        at="for t in reversed",
    ),
    NoOp(
        "a function of another number of steps",
        {**HELPED, "advantages": CALLED.replace("args.num_steps", "args.num_steps - 2")},
        "dones is not known to have n rows",
    ),
    NoOp(
        "a function that is given a list",
        {**HELPED, "advantages": CALLED.replace("(rewards, values, dones", "(rewards, list(values), list(dones)")},
        "which is not known to be made by torch with a shape",
    ),
    NoOp(
        "a function that is given another dtype",
        {**HELPED, "advantages": CALLED.replace("next_done,", "next_done.double(),")},
        "last_done is not known to be float32",
    ),
    NoOp(
        "mixed precision in the network",
        {"advantages": edited("advantages", "torch.no_grad():", 'torch.no_grad(), torch.autocast("cpu"):')},
        "next_value is not known to be float32",
    ),
    NoOp(
        "mixed precision under another name",
        {
            "third_party": "from torch import autocast",
            "agent": PARTS["agent"].replace(
                "        return self.critic(x)\n", '        with autocast("cpu"):\n            return self.critic(x)\n'
            ),
        },
        "is not known to be float32",
    ),
    NoOp(
        "a function that is called in another precision",
        {
            "functions": HELPER.replace("last_value, last_done", "obs, last_done"),
            "inside": "last_value = agent.get_value(obs)\n" + INSIDE.replace("\n    ", "\n").strip(),
            "advantages": """
                with torch.no_grad(), torch.autocast("cpu"):
                    advantages, returns = estimate(
                        rewards, values, dones, next_obs, next_done.double(), args.num_steps, args.gamma
                    )
            """,
        },
        "is not known to be float32",
    ),
    NoOp(
        "the next row under a condition",
        {
            "gae": """
                for t in reversed(range(args.num_steps)):
                    ahead = rewards[t] * values[t + 1] if t < args.num_steps - 2 else 0.0
                    lastgaelam = ahead + 0.9 * lastgaelam
                    advantages[t] = lastgaelam
            """
        },
        "values[t + 1] is not known to be a row of a buffer for each step",
    ),
    NoOp(
        "the last of fewer steps",
        {"gae": edited("gae", "t == args.num_steps - 1", "t + 1 == args.num_steps - 1")},
        "does not test for the last step",
    ),
    NoOp(
        "no loop",
        {"gae": "advantages = rewards - values"},
        "no `for t in reversed(range(n))` over the rollout's steps was found",
        kind="not needed",
    ),
    NoOp(
        "forwards",
        {"gae": PARTS["gae"].replace("reversed(range(args.num_steps))", "range(args.num_steps)")},
        "no `for t in reversed(range(n))` over the rollout's steps was found",
        kind="not needed",
    ),
    NoOp(
        "every second step",
        {"gae": PARTS["gae"].replace("reversed(range(args.num_steps))", "range(args.num_steps - 1, -1, -2)")},
        "no `for t in reversed(range(n))` over the rollout's steps was found",
        kind="not needed",
    ),
    *(
        NoOp(
            f"with numbers of {kind}",
            {
                "gae": f"""
                    paid, gains = {made}
                    last = 0.0
                    for t in reversed(range(args.num_steps)):
                        last = paid[t] + 0.9 * last
                        gains[t] = last
                    advantages[:] = torch.as_tensor(gains)
                """,
            },
            "computed with numbers of numpy or Python",
            kind="not needed",
        )
        for kind, made in (
            ("numpy", "np.array(rewards), np.zeros((args.num_steps, args.num_envs))"),
            ("Python", "rewards.mean(1).tolist(), [0.0] * args.num_steps"),
        )
    ),
    NoOp(
        "a branch on something else",
        {"gae": edited("gae", "t == args.num_steps - 1", "t == args.num_steps - 2")},
        "does not test for the last step",
    ),
    NoOp(
        "a branch that does more",
        {"gae": edited("gae", "nextvalues = next_value", "nextvalues = next_value\nprint(t)")},
        "line {line}: the branch does more than choose values",
        at="print(t)",
    ),
    NoOp(
        "sides that set different names",
        {"gae": edited("gae", "nextvalues = next_value", "nextvalues = next_value\nlast = t")},
        "the sides of its branch set different names",
    ),
    NoOp(
        "a branch in the middle",
        {"gae": edited("gae", "    delta =", "    delta = 0.0\n    if t > 0:\n        delta =")},
        "its branch is not a single one at the top",
    ),
    NoOp(
        "a loop inside",
        {"gae": edited("gae", "    delta =", "    for env in range(args.num_envs):\n        print(env)\n    delta =")},
        "line {line} has a for statement",
        at="for env",
    ),
    NoOp(
        "the last iteration's value is read after it",
        {"report": PARTS["report"] + "\nprint(delta)"},
        "delta of its last iteration is read after it",
    ),
    *(
        NoOp(f"buffers that are longer than the rollout: {how}", parts, f"line {{line}} sets {sets}", at=at)
        for how, parts, sets, at in (
            ("at once", {"before_loop": "args.num_steps -= 2"}, "args.num_steps", "args.num_steps -="),
            (
                "in a helper",
                {"functions": "def shorten(options):\n    options.num_steps = 6", "before_loop": "shorten(args)"},
                "options.num_steps",
                "options.num_steps =",
            ),
            (
                "in a method",
                {
                    "functions": "class Options:\n    def __init__(self, number):\n        self.num_steps = number\n\n"
                    "    def halve(self):\n        self.num_steps //= 2",
                    "parse": "args = parse_args()\noptions = Options(args.num_steps)",
                    "buffers": PARTS["buffers"].replace("args.num_steps", "options.num_steps"),
                    "rollout": PARTS["rollout"].replace("args.num_steps", "options.num_steps"),
                    "gae": PARTS["gae"].replace("args.num_steps", "options.num_steps"),
                    "before_loop": "options.halve()",
                },
                "self.num_steps",
                "self.num_steps //=",
            ),
        )
    ),
    NoOp(
        "fewer steps than the buffers have",
        {
            "advantages": edited("advantages", "<gae>", "horizon = args.num_steps - 2\n<gae>"),
            "gae": PARTS["gae"].replace("args.num_steps", "horizon"),
        },
        "horizon",
    ),
]


LINE = {
    "options": edited("options", '"--num-envs", type=int, default=2', '"--num-envs", type=int, default=1'),
    "buffers": PARTS["buffers"].replace(", args.num_envs)", ",)").replace(", args.num_envs", ""),
}
"""One environment, and one-dimensional buffers."""
CARRY = "advantages[t] = lastgaelam = delta + settings.gamma * args.gae_lambda * nextnonterminal[t] * lastgaelam"
COMPUTED = """
    class Settings:
        def __getattr__(self, name):
            self.__dict__["reads"] = self.__dict__.get("reads", 0) + 1
            return 0.9 + 0.001 * self.__dict__["reads"]


    settings = Settings()


"""

REWRITES += [
    Rewrite(
        "a value of any shape, for one environment",
        LINE,
        {"gae": re.sub(r"expand_as\(\w+\[:1\]\)", "reshape(1)", LOOP)},
    ),
    Rewrite(
        "an attribute that is computed at each read",
        {"functions": COMPUTED, "gae": PARTS["gae"].replace("args.gamma", "settings.gamma")},
        {
            "gae": """
                nextnonterminal = torch.cat([1.0 - dones[1:], (1.0 - next_done).expand_as(dones[:1])])
                nextvalues = torch.cat([values[1:], next_value.expand_as(values[:1])])
                for t in reversed(range(args.num_steps)):
                    delta = rewards[t] + settings.gamma * nextvalues[t] * nextnonterminal[t] - values[t]
                    <carry>
            """.replace("<carry>", CARRY)
        },
    ),
]
NOOPS += [
    *(
        NoOp(f"read elsewhere: {code}", {"before_loop": code}, "line {line} uses delta in a function", at="delta.sum")
        for code in (
            "seen = lambda: delta.sum()",
            "def seen():\n    return delta.sum()",
            "seen = (delta.sum() for _ in args)",
        )
    ),
    NoOp(
        "the carried value is read after the loop",
        {"advantages": edited("advantages", "<gae>", "<gae>\nprint(lastgaelam.shape)")},
        "lastgaelam of its last iteration is read after it",
    ),
    NoOp(
        "the shape of a step's result",
        {"gae": edited("gae", "lastgaelam = delta +", "lastgaelam = delta * delta.ndim +")},
        "delta.ndim may have another value",
    ),
    NoOp(
        "the number of a step's dimensions",
        {"gae": edited("gae", "lastgaelam = delta +", "lastgaelam = delta * delta.dim() +")},
        "delta.dim() may be",
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("gae-hoist")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("gae-hoist")


@pytest.mark.parametrize(
    ("changing", "hoisted"),
    [
        ("d = [rewards * 1]\n    d[0] *= 2", True),
        ("d = [rewards]\n    d[0] *= 2", False),
        ("d = {'r': rewards}\n    d['r'][t] = 0", False),
        ("d = (values, rewards)\n    d[1][t - 1] += 1", False),
        ("d = rewards if t else values\n    d[0] = 0", False),
    ],
)
def test_rows_changed_by_another_name(changing: str, hoisted: bool) -> None:
    step = turn("gae-hoist", script({"gae": f"{PARTS['gae'].rstrip()}\n    {changing}"}))
    assert ("= rewards +" in step.after) is hoisted
