"""Randomly drawn scripts: each does one to three things that hold, change, move, print or look up a value.

It is no list of what was found. The axes are those of ways.py, values.py and reaches.py, and what goes together is
decided by what a value is; the rest is left to chance. A script whose original ends with an error says nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from reaches import PLACES
from scenarios import BASES, Scenario, filled
from values import NEED_ROWS, VALUES, Value
from ways import ALIASES, AROUND, CHANGES, HOLDS, LOOKUPS, MOVES, PRINTS, TENSORS, VIEWS, around, defined, put

NUMBERS = (
    ("global_step", "acted"),
    ("global_step", "reported"),
    ("step", "stepped"),
    ("start", "optimized"),
    ("epoch", "optimized"),
    ("args.clip_coef", "optimized"),
    ("optimizer.param_groups[0]['lr']", "heading"),
    ("clipfracs", "epoch_done"),
    ("clipfracs", "reported"),
    ("mb_inds", "optimized"),
    ("b_inds", "epoch_done"),
)
"""Other values that may be printed or looked up, with their places."""
READS = ("heading", "collected", "reported")
"""The places where the held value is read."""


@dataclass(frozen=True)
class Deed:
    """Statements to insert, by place in the script."""

    title: str
    parts: dict[str, str]


def drawn(number: int, seed: int) -> Iterator[Scenario]:
    """The first `number` scripts of a seed; a larger number adds scripts and changes none."""
    draws = random.Random(seed)
    seen = set[str]()
    while number > len(seen):
        deeds = [deed(draws) for _ in range(draws.choice((1, 1, 1, 2, 2, 3)))]
        dones = draws.random() < 0.2
        if dones:
            deeds.append(changing(draws, Value("torch.from_numpy(done)", "stepped")))
        inner = any("in the update" in d.title for d in deeds)
        base = draws.choice(BASES[:2] if inner else BASES) if draws.random() < 0.4 else BASES[0]
        parts: dict[str, str] = {}
        for one in deeds:
            for place, does in one.parts.items():
                parts[place] = "\n".join(filter(None, [parts.get(place), does]))
        used = defined(*parts.values())
        source = filled({**parts, "functions": used} if used.strip() else parts, base)
        if draws.random() < 0.3:
            source, said = over_the_same_array(draws, source)
            deeds.append(Deed(said, {}))
        if dones:
            source, said = dones_over_their_array(draws, source)
            deeds.append(Deed(said, {}))
        if source not in seen:
            seen.add(source)
            yield Scenario(f"{'; '.join(d.title for d in deeds)}; {base} ({seed}/{len(seen)})", source, kind(deeds))


def over_the_same_array(draws: random.Random, source: str) -> tuple[str, str]:
    """The script with an environment that returns the same array each time, from which tensors are made otherwise."""
    made = draws.choice(TENSORS)
    for view in draws.choices(KEEP_SHAPE, k=2):
        made = put(made, view)
    source, copies = re.subn(r"return self.state.copy\(\)", "return self.state", source)
    name = draws.choice(("seen", r"\1"))  # bind a new variable, or reuse the tensor's
    source = re.sub(r"((?:self\.)?next_obs)(?=, reward, done, info = )", name, source)
    source = re.sub(r"(?<=torch\.Tensor\()((?:self\.)?next_obs)(?=\))", name, source)
    pattern = r"torch\.Tensor\((envs\.reset\(\)|seen|(?:self\.)?next_obs)\)\.to\(([\w.]+)\)"
    source, tensors = re.subn(pattern, lambda m: put(m[1], made.replace("device", m[2])), source)
    assert (copies, tensors) == (2, 2)
    return source, f"observes the same array by {made}"


def dones_over_their_array(draws: random.Random, source: str) -> tuple[str, str]:
    """The script with an environment whose dones are numbers, and with a tensor over their array."""
    made = draws.choice([made for made in TENSORS if "row" not in made and "shape" not in made])
    source, numbers = re.subn(r"reward, done, \{\}", "reward, done.astype(np.float32), {}", source)
    pattern = r"torch\.Tensor\(done\)\.to\(([\w.]+)\)"
    source, tensors = re.subn(pattern, lambda m: put("done", made.replace("device", m[1])), source)
    assert (numbers, tensors) == (1, 1)
    return source, f"its dones are tensors over an array by {made}"


KEEP_SHAPE = (
    "X", "X.detach()", "X.data", "X[:]", "X[...]", "X.contiguous()", "X.to(device)", "X.float()", "X.cpu()",
    "X.to(torch.float32)", "X.type(torch.float32)", "X.view(-1, 2)", "X.clone()", "X + 0.0", "X.clamp(-5, 5)",
)  # fmt: skip
"""Ways to reach a tensor that keep its shape."""


def kind(deeds: list[Deed]) -> str:
    """The kinds of a script's deeds, for statistics."""
    return " and ".join(sorted({d.title.split()[0] for d in deeds}))


def deed(draws: random.Random) -> Deed:
    """Draw one deed."""
    way = draws.choice((holding, holding, changing, changing, moving, printing, looking))
    return way(draws)


def value(draws: random.Random) -> Value:
    """A value that exists at a place in the script."""
    return draws.choice([v for v in VALUES if v.hole not in ("meddled",)])


def holding(draws: random.Random) -> Deed:
    """Hold a value, or something that shares its memory, and read it later."""
    one = value(draws)
    title, hold = draws.choice(list(HOLDS.items()))
    does, said = reached(draws, one, hold.does)
    read = draws.choice(READS)
    look = f"print(total({put(one.name, hold.held)}))"
    parts = {one.hole: does}
    parts[read] = "\n".join(filter(None, [parts.get(read), f"if iteration > 1:\n    {look}"]))
    return Deed(f"holds {said} by {title}, read at {read}", parts)


def changing(draws: random.Random, one: Value | None = None) -> Deed:
    """Change a value in place, through any of its names."""
    one = one or value(draws)
    ways = [k for k, v in CHANGES.items() if not (one.number and NEED_ROWS.search(v))]
    title = draws.choice(ways)
    does, said = reached(draws, one, CHANGES[title])
    return Deed(f"changes {said} by {title}", {one.hole: does})


def moving(draws: random.Random) -> Deed:
    """Store a value somewhere else."""
    one = value(draws)
    title = draws.choice(list(MOVES))
    head = draws.choice(list(AROUND))
    return Deed(f"moves {named(one)} by {title} {head}".rstrip(), {one.hole: around(head, put(one.name, MOVES[title]))})


def printing(draws: random.Random) -> Deed:
    """Print a value."""
    title = draws.choice(list(PRINTS))
    if draws.random() < 0.4:
        name, hole = draws.choice(NUMBERS)
        does = put(name, PRINTS[title])
        return Deed(f"prints {name} at {hole} by {title}", {hole: does})
    one = value(draws)
    does, said = reached(draws, one, PRINTS[title])
    return Deed(f"prints {said} by {title}", {one.hole: does})


def looking(draws: random.Random) -> Deed:
    """Look a variable up by a name given as text."""
    name, hole = draws.choice([(v.name, v.hole) for v in VALUES] + [n for n in NUMBERS if n[0].isidentifier()])
    title = draws.choice(list(LOOKUPS))
    return Deed(f"looks {name} up at {hole} by {title}", {hole: f"print({put(name, LOOKUPS[title])})"})


def reached(draws: random.Random, one: Value, does: str) -> tuple[str, str]:
    """Statements on a value through an alias or a view, with a description of how."""
    alias = draws.choice(list(ALIASES)) if draws.random() < 0.5 else "itself"
    view = draws.choice(list(VIEWS)) if draws.random() < 0.4 and not one.number and not one.array else "itself"
    head = draws.choice(list(AROUND)) if draws.random() < 0.3 else ""
    before, name = ALIASES[alias]
    name = put(name, VIEWS[view])
    if '"' in name and re.search(r"""['"].*X.*['"]""", does):
        return around(head, put(one.name, does)), named(one)  # Python before 3.12 has no quotes in f-strings
    if view != "itself" and " = X" in does:
        view, name = "itself", ALIASES[alias][1]  # an expression is no target
    text = "\n".join(filter(None, [before, put(name, does)]))
    said = [named(one), *([f"by {alias}"] if alias != "itself" else []), *([view] if view != "itself" else []), head]
    return around(head, put(one.name, text)), " ".join(filter(None, said))


def named(one: Value) -> str:
    """A value's name and place."""
    (place,) = (p.title for p in PLACES if p.hole == one.hole)
    return f"{one.name} ({'in the update, ' if one.inner else ''}{place})"
