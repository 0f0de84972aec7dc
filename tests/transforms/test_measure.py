import pytest
from cases import ADDED, NoOp, Rewrite
from scripts import PARTS, edited

BURNIN = """\
parser.add_argument("--measure-burnin", type=int, default=3, help="iterations before the speed is measured")
"""
IMPORTS = {"stdlib": "import time", "third_party": "import tqdm"}


def bar(steps: str, first: str, counter: str = "global_step", iteration: str = "iteration") -> dict[str, str]:
    """What a training loop over range(steps) becomes."""
    return {
        **IMPORTS,
        "before_loop": f"pbar = tqdm.tqdm(range({steps}))",
        "loop": f"for {iteration} in pbar:",
        "head": f"""
            if {iteration} == {first}:
                burnin_step, burnin_time = {counter}, time.perf_counter()
            elif {iteration} > {first}:
                speed = ({counter} - burnin_step) / (time.perf_counter() - burnin_time)
                pbar.set_description(f"{{speed:.0f}} steps/s")
        """,
    }


FROM_ONE = bar("1, args.num_iterations + 1", "args.measure_burnin + 1")
FROM_ZERO = {
    "loop": "for update in range(args.num_iterations):",
    "anneal": "print(update)",
    "report": "print(clipfracs)",
}

REWRITES = [
    Rewrite("iterations from one", {}, FROM_ONE),
    Rewrite("updates from zero", FROM_ZERO, bar("args.num_iterations", "args.measure_burnin", iteration="update")),
    Rewrite(
        "iterations from where a run left off",
        {"begin": PARTS["begin"] + "\nfirst = 1", "loop": "for iteration in range(first, args.num_iterations + 1):"},
        bar("first, args.num_iterations + 1", "args.measure_burnin + first"),
    ),
    Rewrite(
        "a counter of another name, below other sums",
        {
            "begin": PARTS["begin"].replace("global_step", "frames") + "\nlengths = np.zeros(args.num_envs)",
            "rollout": edited("rollout", "global_step += args.num_envs", "lengths += 1\nframes += args.num_envs"),
            "report": PARTS["report"].replace("global_step", "frames"),
        },
        bar("1, args.num_iterations + 1", "args.measure_burnin + 1", counter="frames"),
    ),
    Rewrite(
        "names that are taken",
        {"setup": 'pbar, speed = "cpu", 3\ndevice = torch.device(pbar)'},
        {name: text.replace("pbar", "pbar_1").replace("speed", "speed_1") for name, text in FROM_ONE.items()},
    ),
    Rewrite(
        "after the rollout was extracted",
        {},
        {
            **FROM_ONE,
            "functions": '''
        def rollout(global_step, next_obs, next_done):
            """Step the environments num_steps times with the present policy."""
            <rollout>
            return global_step, next_obs, next_done


    ''',
            "collect": "global_step, next_obs, next_done = rollout(global_step, next_obs, next_done)",
        },
        also=("rollout",),
    ),
]

BAR = "the script has a progress bar of its own"
NO_COUNTER = "no counter of environment steps that begins at 0 was found in the rollout"
OTHER = "the name time or tqdm has another meaning"
UNCOUNTED = {
    "rollout": edited("rollout", "\n    global_step += args.num_envs", ""),
    "report": "print(iteration, clipfracs)",
}

NOOPS = [
    NoOp(
        "a bar of tqdm",
        {"third_party": "from tqdm import trange", "loop": "for iteration in trange(1, args.num_iterations + 1):"},
        BAR,
        kind="not needed",
    ),
    NoOp(
        "a bar of tqdm, imported whole",
        {"third_party": "import tqdm", "loop": "for iteration in tqdm.trange(1, args.num_iterations + 1):"},
        BAR,
        kind="not needed",
    ),
    NoOp(
        "a while loop",
        {
            "begin": PARTS["begin"] + "\niteration = 0",
            "loop": "while iteration < args.num_iterations:",
            "head": "iteration += 1",
        },
        "the training loop is not a for loop over iterations",
    ),
    NoOp(
        "two loop variables",
        {"loop": "for iteration, seed in enumerate(range(args.num_iterations), 1):"},
        "the training loop is not a for loop over iterations",
    ),
    NoOp(
        "a schedule",
        {"loop": "for iteration in [1, 2, 3]:"},
        "the training loop does not run over a range of iterations",
    ),
    NoOp(
        "every second iteration",
        {"loop": "for iteration in range(1, args.num_iterations, 2):"},
        "the training loop does not run over a range of iterations",
    ),
    NoOp("no counter", UNCOUNTED, NO_COUNTER),
    NoOp(
        "a sum that does not count steps",
        {
            "rollout": edited("rollout", "global_step += args.num_envs", "lengths += 1"),
            "begin": PARTS["begin"] + "\nlengths = np.zeros(args.num_envs)",
            "report": "print(lengths)",
        },
        NO_COUNTER,
    ),
    NoOp(
        "a counter that each iteration begins anew",
        {
            "rollout": edited("rollout", "global_step += args.num_envs", "frames += args.num_envs"),
            "head": "frames = 0",
            "report": "print(frames)",
        },
        NO_COUNTER,
    ),
    *(
        NoOp(
            title,
            {
                "begin": PARTS["begin"] + "\ntotal = 0",
                "rollout": edited("rollout", "global_step += args.num_envs", "<act>"),
                "act": PARTS["act"] + f"\ntotal += {summand}",
                "report": "print(total)",
            },
            NO_COUNTER,
        )
        for title, summand in (
            ("a sum of arrays", "value.flatten().cpu().numpy()"),
            ("a sum of one array", "next_done"),
            ("a sum of entries", "values[step]"),
        )
    ),
    NoOp("time is a function", {"stdlib": "from time import time"}, OTHER),
    NoOp("time is a variable", {"setup": 'time = "cpu"\ndevice = torch.device(time)'}, OTHER),
    NoOp("tqdm is a variable", {"setup": 'tqdm = "cpu"\ndevice = torch.device(tqdm)'}, OTHER),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("measure", {"flags": ADDED + BURNIN})


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("measure")
