from dataclasses import replace

import pytest
from cases import NoOp, Rewrite, turn
from scripts import PARTS, edited, script

from transformer import Applied

LOOP = "for mb_inds in torch.randperm(args.batch_size, device=device).split(args.minibatch_size):"
AFTER = f"""
    clipfracs = []
    for epoch in range(args.update_epochs):
        {LOOP}
            <learn>
"""

DICT = "\nb_parts = {}\nb_parts['now'] = b_obs\nfor key in ('later',):\n    b_parts[key] = torch.zeros_like(b_obs)\n"

REWRITES = [
    Rewrite("an index array, shuffled in place", {}, {"minibatches": AFTER}),
    *(
        Rewrite(
            f"made a tensor of by {how}",
            {"minibatches": edited("minibatches", "mb_inds = b_inds[start:end]", cut)},
            {"minibatches": AFTER},
        )
        for how, cut in (
            ("as_tensor", "mb_inds = torch.as_tensor(b_inds[start:end], device=device)"),
            ("from_numpy", "mb_inds = torch.from_numpy(b_inds[start:end]).to(device)"),
            ("tensor, on the host", "mb_inds = torch.tensor(b_inds[start:end], dtype=torch.long)"),
            ("LongTensor", "part = b_inds[start:end]\nmb_inds = torch.LongTensor(part).to(device)"),
            ("its own name", "mb_inds = b_inds[start:end]\nmb_inds = torch.as_tensor(mb_inds, torch.int64, device)"),
        )
    ),
    Rewrite(
        "used as the tensor that it was",
        {
            "minibatches": edited("minibatches", "mb_inds = b", "mb_inds = torch.as_tensor(b").replace(
                "[start:end]", "[start:end], device=device)"
            ),
            "metrics": PARTS["metrics"] + "\nprint(mb_inds.sum())",
        },
        {"minibatches": AFTER},
    ),
    Rewrite(
        "cut off at the end",
        {
            "minibatches": edited(
                "minibatches",
                "end = start + args.minibatch_size",
                "end = min(start + args.minibatch_size, args.batch_size)",
            )
        },
        {"minibatches": AFTER},
    ),
    *(
        Rewrite(
            f"observations in a dict, {how}",
            {"flatten": PARTS["flatten"] + filled, "metrics": PARTS["metrics"] + "\n" + cut},
            {"minibatches": AFTER},
        )
        for how, filled, cut in (
            ("filled by key", DICT, "mb_obs = {}\nfor key in b_parts.keys():\n    mb_obs[key] = b_parts[key][mb_inds]"),
            ("of a comprehension", DICT, "mb_obs = {key: part[mb_inds] for key, part in b_parts.items()}"),
            ("by its items", DICT, "mb_obs = {}\nfor key, part in b_parts.items():\n    mb_obs[key] = part[mb_inds]"),
        )
    ),
    Rewrite(
        "one of several results of a function",
        {
            "functions": "\ndef clipped(x, cap):\n    if cap is None:\n        return x, 0\n"
            "    return torch.clamp(x, max=cap), cap\n\n",
            "flatten": PARTS["flatten"]
            + "\nb_advantages, cap = clipped(b_advantages, None)\nb_advantages, cap = clipped(b_advantages, 9.0)\n",
        },
        {"minibatches": AFTER},
    ),
    Rewrite(
        "sliced in one line",
        {
            "minibatches": """
                clipfracs = []
                b_inds = np.arange(args.batch_size)
                for epoch in range(args.update_epochs):
                    np.random.shuffle(b_inds)
                    for start in range(0, args.batch_size, args.minibatch_size):
                        mb_inds = b_inds[start : start + args.minibatch_size]
                        <learn>
            """
        },
        {"minibatches": AFTER},
    ),
    Rewrite(
        "a permutation per epoch",
        {
            "minibatches": """
                clipfracs = []
                for epoch in range(args.update_epochs):
                    b_inds = np.random.permutation(args.batch_size)
                    for start in range(0, args.batch_size, args.minibatch_size):
                        end = start + args.minibatch_size
                        mb_inds = b_inds[start:end]
                        <learn>
            """
        },
        {"minibatches": AFTER},
    ),
    Rewrite(
        "other names, up to the array's length",
        {
            "minibatches": """
                clipfracs = []
                order = numpy.arange(args.batch_size)
                for sweep in range(args.update_epochs):
                    numpy.random.shuffle(order)
                    for begin in range(0, len(order), args.minibatch_size):
                        stop = args.minibatch_size + begin
                        mb_inds = order[begin:stop]
                        <learn>
            """,
            "stdlib": "import numpy",
        },
        {"minibatches": AFTER.replace("epoch in", "sweep in")},
    ),
    Rewrite(
        "drawn by torch, cut by hand",
        {
            "minibatches": """
                clipfracs = []
                for epoch in range(args.update_epochs):
                    b_inds = torch.randperm(args.batch_size).to(device)
                    print(b_inds[0])
                    for start in range(0, args.batch_size, args.minibatch_size):
                        end = start + args.minibatch_size
                        mb_inds = b_inds[start:end]
                        print(mb_inds.sum())
                        <learn>
            """
        },
        {
            "minibatches": """
                clipfracs = []
                for epoch in range(args.update_epochs):
                    b_inds = torch.randperm(args.batch_size).to(device)
                    print(b_inds[0])
                    for mb_inds in b_inds.split(args.minibatch_size):
                        print(mb_inds.sum())
                        <learn>
            """
        },
        notes=("b_inds is already drawn by torch.randperm",),
    ),
    Rewrite(
        "no device",
        {
            **{
                part: PARTS[part].replace(".to(device)", "")
                for part in ("make_agent", "buffers", "begin", "step", "advantages")
            },
            "setup": "",
        },
        {"minibatches": AFTER.replace(", device=device", "")},
    ),
    Rewrite(
        "the index array made once before training",
        {
            "before_loop": "b_inds = np.arange(args.batch_size)",
            "minibatches": edited("minibatches", "b_inds = np.arange(args.batch_size)\n", ""),
        },
        {"before_loop": "", "minibatches": AFTER},
    ),
    Rewrite(
        "the indices are counted",
        {"metrics": PARTS["metrics"] + "\nprint(len(mb_inds))"},
        {"minibatches": AFTER},
    ),
]

SAMPLED = """
    clipfracs = []
    for epoch in range(args.update_epochs):
        order = SubsetRandomSampler(range(args.batch_size))
        for mb_inds in BatchSampler(order, args.minibatch_size, False):
            <learn>
"""
SAMPLERS = {"third_party": "from torch.utils.data import BatchSampler, SubsetRandomSampler"}
REWRITES += [
    Rewrite("a sampler", {**SAMPLERS, "minibatches": SAMPLED}, {"minibatches": AFTER}),
    Rewrite(
        "a sampler that drops the last minibatch",
        {
            **SAMPLERS,
            "minibatches": SAMPLED.replace("        order = SubsetRandomSampler(range(args.batch_size))\n", "")
            .replace("order", "SubsetRandomSampler(range(args.batch_size))")
            .replace("args.minibatch_size, False", "batch_size=args.minibatch_size, drop_last=True"),
        },
        {
            "minibatches": """
                clipfracs = []
                for epoch in range(args.update_epochs):
                    b_inds = torch.randperm(args.batch_size, device=device)
                    for mb_inds in b_inds[: CUT].split(args.minibatch_size):
                        <learn>
            """.replace("CUT", "args.batch_size // args.minibatch_size * args.minibatch_size")
        },
    ),
]

BY_ENVIRONMENT = """
    envinds = np.arange(args.num_envs)
    flatinds = np.arange(args.batch_size).reshape(args.num_steps, args.num_envs)
    start_obs = (next_obs, next_done)
    clipfracs = []
    for epoch in range(args.update_epochs):
        np.random.shuffle(envinds)
        for start in range(0, args.num_envs, 1):
            end = start + 1
            mbenvinds = envinds[start:end]
            mb_inds = flatinds[:, mbenvinds].ravel()
            print(start_obs[0][mbenvinds].sum(), dones[:, mbenvinds].sum())
            <learn>
"""

REWRITES += [
    Rewrite(
        "minibatches of whole environments",
        {"minibatches": BY_ENVIRONMENT},
        {
            "minibatches": """
                flatinds = torch.arange(args.batch_size, device=device).reshape(args.num_steps, args.num_envs)
                start_obs = (next_obs, next_done)
                clipfracs = []
                for epoch in range(args.update_epochs):
                    for mbenvinds in torch.randperm(args.num_envs, device=device).split(1):
                        mb_inds = flatinds[:, mbenvinds].ravel()
                        print(start_obs[0][mbenvinds].sum(), dones[:, mbenvinds].sum())
                        <learn>
            """
        },
    )
]

SHUFFLE = "np.random.shuffle(b_inds)"
STARTS = "range(0, args.batch_size, args.minibatch_size)"
NOT_ABOVE = "no numpy shuffle of b_inds was found just above the minibatch loop"


def minibatches(old: str, new: str) -> dict[str, str]:
    return {"minibatches": edited("minibatches", old, new)}


def by_environment(old: str, new: str) -> str:
    assert BY_ENVIRONMENT.count(old) == 1
    return BY_ENVIRONMENT.replace(old, new)


NOOPS = [
    *(
        NoOp(
            f"the function that shuffles is the script's own: {replaced}",
            {"functions": f"def counted(x):\n    x.sort()\n\n\n{replaced}\n\n\n"},
            "no numpy shuffle of b_inds was found just above the minibatch loop",
        )
        for replaced in ("np.random.shuffle = counted", "setattr(np.random, 'shuffle', counted)")
    ),
    NoOp(
        "a generator of minibatches",
        {
            "functions": "def parts(n, size):\n    order = np.random.permutation(n)\n"
            "    for low in range(0, n, size):\n        yield order[low : low + size]\n\n\n",
            "minibatches": "clipfracs = []\nfor epoch in range(args.update_epochs):\n"
            "    for mb_inds in parts(args.batch_size, args.minibatch_size):\n        <learn>",
        },
        "gets its minibatches from parts(), a generator",
    ),
    NoOp(
        "a sampler that draws a seed",
        {
            "third_party": "from torch.utils.data import BatchSampler, RandomSampler",
            "minibatches": SAMPLED.replace("SubsetRandom", "Random"),
        },
        "the minibatches' indices come from another sampler than SubsetRandomSampler(range(batch size))",
    ),
    NoOp(
        "a sampler of some steps",
        {**SAMPLERS, "minibatches": SAMPLED.replace("range(args.batch_size)", "range(1, args.batch_size)")},
        "the minibatches' indices come from another sampler than SubsetRandomSampler(range(batch size))",
    ),
    NoOp(
        "a sampler whose length is asked for",
        {**SAMPLERS, "minibatches": SAMPLED, "report": PARTS["report"] + "\nprint(len(order))"},
        "order is used for more than minibatches",
    ),
    NoOp(
        "a sampler of another number of steps",
        {
            **SAMPLERS,
            "begin": PARTS["begin"]
            + "\nn = args.batch_size - 4\norder = SubsetRandomSampler(range(n))\nn = args.batch_size",
            "minibatches": SAMPLED.replace("        order = SubsetRandomSampler(range(args.batch_size))\n", ""),
        },
        "n may change between",
    ),
    NoOp(
        "sampled lists that are printed",
        {**SAMPLERS, "minibatches": SAMPLED, "metrics": PARTS["metrics"] + "\nprint(mb_inds)"},
        "line {line} uses mb_inds for more than indexing a tensor",
        at="print(mb_inds)",
    ),
    *(
        NoOp(
            f"made a tensor of by {how}",
            {
                **minibatches("mb_inds = b_inds[start:end]", f"mb_inds = {cut}"),
                "metrics": PARTS["metrics"] + "\nprint(mb_inds)",
            },
            "uses mb_inds for more than indexing a tensor" if how == "LongTensor" else "does not begin by slicing",
        )
        for how, cut in (
            ("LongTensor", "torch.LongTensor(b_inds[start:end])"),
            ("another type", "torch.as_tensor(b_inds[start:end], dtype=torch.int32)"),
            ("another device", "torch.as_tensor(b_inds[start:end], device='meta')"),
            ("another function", "torch.flip(torch.as_tensor(b_inds[start:end]), (0,))"),
        )
    ),
    *(
        NoOp(
            f"observations in a dict {how}",
            {
                "flatten": PARTS["flatten"] + DICT + more,
                "metrics": PARTS["metrics"] + "\nmb_obs = {key: part[mb_inds] for key, part in b_parts.items()}",
            },
            "line {line} uses mb_inds for more than indexing a tensor",
            at="part[mb_inds]",
        )
        for how, more in (
            ("with a numpy array", "b_parts['steps'] = np.arange(args.batch_size)"),
            ("under another name", "parts = b_parts\nparts['steps'] = np.arange(args.batch_size)"),
            ("that is updated", "b_parts.update(steps=np.arange(args.batch_size))"),
            ("that is given away", "__import__('elsewhere').keep(b_parts)"),
        )
    ),
    NoOp(
        "the other of several results of a function",
        {
            "functions": "\ndef clipped(x, cap):\n    return torch.clamp(x, max=cap), cap\n\n",
            "flatten": PARTS["flatten"] + "\ncap, b_advantages = clipped(b_advantages, 9.0)\n",
        },
        "line {line} uses mb_inds for more than indexing a tensor",
        at="b_advantages[mb_inds]",
    ),
    NoOp(
        "torch already",
        {"minibatches": AFTER},
        "the minibatches are already drawn by torch.randperm",
        kind="not needed",
    ),
    NoOp(
        "torch already, under a name, on a device",
        {
            "minibatches": AFTER.replace(
                "for mb_inds in torch.randperm(args.batch_size, device=device).split(",
                "order = torch.randperm(args.batch_size).to(device)\n    for mb_inds in order.split(",
            )
        },
        "the minibatches are already drawn by torch.randperm, as order",
        kind="not needed",
    ),
    NoOp(
        "a generator",
        minibatches(SHUFFLE, "rng.shuffle(b_inds)") | {"begin": PARTS["begin"] + "\nrng = np.random.default_rng(1)"},
        NOT_ABOVE,
    ),
    NoOp("Python's shuffle", minibatches(SHUFFLE, "random.shuffle(b_inds)") | {"stdlib": "import random"}, NOT_ABOVE),
    NoOp("no shuffle", minibatches(SHUFFLE, "print(epoch)"), NOT_ABOVE),
    NoOp(
        "shuffled once for all epochs",
        {
            "minibatches": PARTS["minibatches"]
            .replace("    " + SHUFFLE + "\n", "")
            .replace("clipfracs = []", "clipfracs = []\n" + SHUFFLE)
        },
        NOT_ABOVE,
    ),
    NoOp("shuffled in some epochs", minibatches(SHUFFLE, "if epoch > 0:\n    " + SHUFFLE), NOT_ABOVE),
    NoOp(
        "indices that are not all",
        minibatches("np.arange(args.batch_size)", "np.arange(1, args.batch_size)"),
        "b_inds is not numpy.arange(batch size)",
    ),
    NoOp(
        "indices bound twice",
        minibatches("clipfracs = []", "clipfracs = []\nb_inds = b_inds + 0"),
        "b_inds is assigned 2 times",
    ),
    NoOp(
        "indices drawn with replacement",
        minibatches(SHUFFLE, "b_inds = np.random.choice(args.batch_size, args.batch_size)"),
        "b_inds is assigned 2 times",
    ),
    NoOp(
        "the last minibatch left out",
        minibatches(STARTS, "range(0, args.batch_size - args.minibatch_size, args.minibatch_size)"),
        "but args.batch_size indices are shuffled",
    ),
    NoOp(
        "the first minibatch left out",
        minibatches(STARTS, "range(args.minibatch_size, args.batch_size, args.minibatch_size)"),
        "does not start at 0",
    ),
    NoOp(
        "overlapping minibatches",
        minibatches("end = start + args.minibatch_size", "end = start + 2 * args.minibatch_size"),
        "does not begin by slicing an index array",
    ),
    NoOp(
        "every second index",
        minibatches("b_inds[start:end]", "b_inds[start:end:2]"),
        "does not begin by slicing an index array",
    ),
    NoOp(
        "the start is logged",
        {"metrics": PARTS["metrics"] + "\nprint(start)"},
        "line {line} also uses start",
        at="print(start)",
    ),
    NoOp(
        "the end is logged",
        {"metrics": PARTS["metrics"] + "\nprint(end)"},
        "line {line} also uses end",
        at="print(end)",
    ),
    NoOp(
        "the order is logged",
        {"report": PARTS["report"] + "\nprint(b_inds[:3])"},
        "line {line} also uses b_inds",
        at="print(b_inds[:3])",
    ),
    NoOp(
        "the indices index numpy",
        {"metrics": PARTS["metrics"] + "\nseen = np.zeros(args.batch_size)\nseen[mb_inds] = 1"},
        "line {line} uses mb_inds for more than indexing a tensor",
        at="seen[mb_inds] = 1",
    ),
    NoOp(
        "a while loop",
        {
            "minibatches": """
        b_inds = np.arange(args.batch_size)
        clipfracs = []
        for epoch in range(args.update_epochs):
            np.random.shuffle(b_inds)
            start = 0
            while start < args.batch_size:
                mb_inds = b_inds[start : start + args.minibatch_size]
                start += args.minibatch_size
                <learn>
    """
        },
        "the minibatch loop is not a for loop over slice starts",
    ),
    *(
        NoOp(title, {"minibatches": by_environment(old, new)}, "uses mbenvinds for more than indexing a tensor")
        for title, old, new in (
            ("a grid that is looked at elsewhere", "clipfracs = []", "clipfracs = [flatinds.max()]"),
            ("a grid that is not of all indices", "np.arange(args.batch_size)", "np.arange(1, args.batch_size + 1)"),
            ("a grid of floats", "np.arange(args.batch_size)", "np.arange(args.batch_size, dtype=np.float32)"),
            ("a grid of coordinates", "np.arange(args.batch_size).reshape", "np.zeros(args.batch_size).reshape"),
            ("columns left in numpy", "].ravel()", "].ravel().tolist()"),
            ("a state that may be an array", "(next_obs, next_done)", "(envs.reset(), next_done)"),
            ("columns by name", "start_obs = (next_obs, next_done)", 'start_obs = {0: "", 1: ""}'),
        )
    ),
    NoOp(
        "columns that index numpy",
        {"minibatches": BY_ENVIRONMENT, "metrics": PARTS["metrics"] + "\nenvs.age[mb_inds]"},
        "uses mbenvinds for more than indexing a tensor",
    ),
]


BY_TORCH = {"drawn by torch, cut by hand", "a sampler", "a sampler that drops the last minibatch"}
"""The scripts whose order of minibatches does not change."""


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    another_order = rewrite if rewrite.title in BY_TORCH else replace(rewrite, notes=("--ignore shuffle",))
    another_order.check("shuffle")


RESEED = "def reseed(n):\n    np.random.seed(n)\n\n\n"
EPOCH = edited("minibatches", "np.random.shuffle", "<seeded>\nnp.random.shuffle")
STATE = "line {line} sets a random state, which may determine the permutations"
NOOPS += [
    NoOp(f"seeded in each epoch, {title}", {"minibatches": EPOCH, "seeded": seeded, **parts}, STATE, at=at)
    for title, seeded, parts, at in (
        ("by numpy", "np.random.seed(args.seed + epoch)", {}, "seed(args.seed + epoch)"),
        (
            "by torch",
            "torch.manual_seed(args.seed)",
            {"setup": PARTS["setup"] + "\nepochs = 0"},
            "            torch.manual",
        ),
        (
            "by a state",
            "np.random.set_state(before)",
            {"begin": PARTS["begin"] + "\nbefore = np.random.get_state()"},
            "set_st",
        ),
        ("by a function", "reseed(epoch)", {"functions": RESEED}, "np.random.seed(n)"),
        ("by a kept function", "again(epoch)", {"before_loop": "again = np.random.seed"}, "again = "),
        ("by a lambda", "again()", {"before_loop": "again = lambda: np.random.seed(1)"}, "again = "),
        ("by another package", "lib.seed_everything(1)", {"third_party": "import lib"}, "lib.seed"),
        ("by an imported function", "seed(1)", {"third_party": "from numpy.random import seed"}, "            seed(1)"),
    )
] + [
    NoOp(
        "seeded in each iteration by a method",
        {
            "functions": "class Seeds:\n    def __call__(self, n):\n        np.random.seed(n)\n\n\n",
            "before_loop": "again = Seeds()",
            "head": "again(iteration)",
        },
        STATE,
        at="np.random.seed(n)",
    ),
]


def test_seeds_and_draws_elsewhere() -> None:
    parts = {
        "functions": RESEED,
        "before_loop": "reseed(3)\nrng = np.random.default_rng(1)",
        "head": "print(np.random.rand(), rng.random(), torch.initial_seed())",
        "end": "    torch.manual_seed(2)",
    }
    assert turn("shuffle", script(parts)).applied


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("shuffle")


def test_a_comprehension_has_variables_of_its_own() -> None:
    """`storage` emits a comprehension over `k`, and the minibatches' index may be named `k` too."""
    minibatches = PARTS["minibatches"].replace("start", "k")
    assert "for k in range(0, args.batch_size, args.minibatch_size)" in minibatches
    step = turn("shuffle", script({"minibatches": minibatches}), ("storage",))
    assert isinstance(step.outcome, Applied), step.outcome
