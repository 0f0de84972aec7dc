"""The hostile scripts: what is done, crossed with how it is reached, in what form, where and when.

Each effect is met with each path, form and place equally often, as far as they go together; so every pair of an effect
and a place, say, comes up in one script or the other. The list is the same at every call.
"""

from __future__ import annotations

import hashlib
import random
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import stored
from effects import NETWORK, OPTIMIZER, Effect
from loops import LOOPS
from reaches import FORMS, IMPORTS, PATHS, PLACES, WHENS, Form, Path, Place, with_holes
from scripts import PARTS, script
from signatures import SIGNATURES, TWISTS, Signature
from values import ARRAY_CHANGES, CHANGES, KEEPER, KEEPS, NEED_ROWS, READS, VALUES, WHOLE_CHANGES, Value

T = TypeVar("T")

PER_EFFECT = 2
"""The number of scripts per effect on a network or an optimizer."""
BASES = ("at the top", "in main()", "in functions", "in an object")
"""The contexts in which the training code may stand."""


@dataclass(frozen=True)
class Scenario:
    """A hostile script."""

    title: str
    source: str
    family: str = ""
    """The family of scenarios that it belongs to."""

    @property
    def key(self) -> str:
        """A short name derived from a digest of the text."""
        return hashlib.blake2b(self.source.encode(), digest_size=4).hexdigest()

    def __str__(self) -> str:
        return self.title


class Turns:
    """Chooses the option used least so far; a seeded draw breaks ties."""

    def __init__(self, seed: int) -> None:
        self._draws = random.Random(seed)
        self._used: Counter[tuple[str, str]] = Counter()

    def choose(self, kind: str, options: Sequence[T], *partners: str) -> T:
        """Choose the option least often combined with these partners; among equals, the one least used overall."""

        def often(option: T) -> tuple[int, int, float]:
            name = getattr(option, "title", str(option))
            met = sum(self._used[f"{kind}:{name}", partner] for partner in partners)
            return met, self._used[f"{kind}:{name}", ""], self._draws.random()

        chosen = min(options, key=often)
        for partner in ("", *partners):
            self._used[f"{kind}:{getattr(chosen, 'title', str(chosen))}", partner] += 1
        return chosen


def agent(effect: Effect, path: Path) -> str:
    """The network that an effect needs, reached by a path, with spots in its methods."""
    given = [*(["critic", "actor"] if path.parts else []), *filter(None, [effect.given.partition("=")[0]])]
    methods = effect.parts.get("methods", "")
    return AGENT.format(
        given="".join(f", {name}" for name in given),
        critic="critic" if path.parts else CRITIC,
        actor="actor" if path.parts else actor(effect),
        init="\n".join(filter(None, [effect.init, path.init])).replace("\n", "\n        "),
        value=effect.value,
        logits=effect.logits,
        methods=methods and "\n\n    " + methods.replace("\n", "\n    "),
    )


AGENT = """
class Agent(nn.Module):
    def __init__(self{given}):
        super().__init__()
        self.critic = {critic}
        self.actor = {actor}
        {init}
        <constructed>

    def get_value(self, x):
        <valuing>
        return {value}

    def get_action_and_value(self, x, action=None):
        <acting>
        probs = Categorical(logits={logits})
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), {value}{methods}
"""
CRITIC = "nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))"


def actor(effect: Effect) -> str:
    """The actor that an effect needs."""
    return f"nn.Sequential(nn.Linear(2, 8), {effect.layer}{', ' if effect.layer else ''}nn.Tanh(), nn.Linear(8, 2))"


def build(effect: Effect, path: Path, form: Form | None, place: Place, when: str, base: str) -> str:
    """The text of one script."""
    definitions, before, does = form.write(reached(effect.does, INSIDE)) if form else ("", "", effect.does)
    does = reached(does, SELF if place.inside else INSIDE if place.title == "environment" else at(path))
    if when:
        does = f"{when}\n{textwrap.indent(does, '    ')}"
    parts = with_holes({k: v for k, v in effect.parts.items() if k != "methods"})
    parts["agent"] = agent(effect, path).replace("        \n", "")
    parts["functions"] = effect.functions + path.functions + definitions
    imports = [effect.imports, path.imports, IMPORTS.get(form.title, "") if form else ""]
    parts["stdlib"] = "\n".join(sorted({i for i in imports if i}))
    given = [*(["*parts"] if path.parts else []), *filter(None, [effect.given])]
    parts["make_agent"] = PARTS["make_agent"].replace("Agent()", f"Agent({', '.join(given)})")
    if path.parts:
        parts["make_agent"] = f"parts = [{CRITIC}]\nparts.append({actor(effect)})\n" + parts["make_agent"]
    setup = [parts.get("copy", ""), path.setup, reached(before, at(path))]
    parts["copy"] = "\n".join(filter(None, setup))
    if place.title == "environment":
        parts["functions"] += meddling(does)
        parts["begin"] = f"envs = Meddling(envs, {path.net}, {path.opt})\n" + PARTS["begin"]
    else:
        parts[place.hole] = does
    return based(parts, base)


Expressions = dict[str, str]
"""The expression for each of NET, ACTOR, CRITIC and OPT."""
INSIDE = {"NET": "net", "ACTOR": "net.actor", "CRITIC": "net.critic", "OPT": "opt"}
SELF = {"NET": "self", "ACTOR": "self.actor", "CRITIC": "self.critic", "OPT": "None"}


def at(path: Path) -> Expressions:
    """The expressions for NET, OPT, ACTOR and CRITIC along a path."""
    parts = {"ACTOR": path.actor or f"{path.net}.actor", "CRITIC": path.critic or f"{path.net}.critic"}
    return {"NET": path.net, "OPT": path.opt, **parts}


def reached(text: str, expressions: Expressions) -> str:
    """The statement with NET, ACTOR, CRITIC and OPT replaced by expressions."""
    return re.sub(r"\b(NET|ACTOR|CRITIC|OPT)\b", lambda m: expressions[m[0]], text)


def meddling(does: str) -> str:
    """An environment that does something in each of its steps."""
    return (
        "class Meddling:\n    def __init__(self, envs, net, opt):\n"
        "        self.envs, self.net, self.opt = envs, net, opt\n\n"
        "    def reset(self):\n        return self.envs.reset()\n\n    def step(self, action):\n"
        "        net, opt = self.net, self.opt\n"
        + textwrap.indent(does, "        ")
        + "\n        return self.envs.step(action)\n\n\n"
    )


COLLECT = """
def collect(envs, agent, optimizer, obs, actions, logprobs, rewards, dones, values, next_obs, next_done, global_step):
    <rollout>
    return next_obs, next_done, global_step


def train(agent, optimizer, obs, actions, logprobs, advantages, returns):
    <batch>
    <epochs>
    return v_loss, clipfracs


"""


def based(parts: dict[str, str], base: str) -> str:
    """The script with its training in one of the BASES."""
    parts = dict(parts)
    if base == "in main()":
        parts |= {"main": "def main():", "end": 'if __name__ == "__main__":\n    main()'}
        parts["report"] = parts.get("report", PARTS["report"]) + "\n\n"
    elif base == "in functions":
        parts["functions"] = parts.get("functions", "") + COLLECT
        given = "obs, actions, logprobs, rewards, dones, values, next_obs, next_done, global_step"
        parts["collect"] = f"next_obs, next_done, global_step = collect(\n    envs, agent, optimizer, {given}\n)"
        parts["batch"] = parts.pop("flatten", PARTS["flatten"])
        parts["epochs"] = parts.pop("minibatches", PARTS["minibatches"])
        parts["flatten"] = ""
        parts["minibatches"] = (
            "v_loss, clipfracs = train(agent, optimizer, obs, actions, logprobs, advantages, returns)"
        )
    text = re.sub(r"\n{4,}", "\n\n\n", script(parts))
    return of_an_object(text) if base == "in an object" else text


KEPT = "agent|optimizer|next_obs|next_done|global_step"


def of_an_object(text: str) -> str:
    """A script whose training is a method, and whose networks and counters are attributes."""
    above, main, body = text.partition('if __name__ == "__main__":\n')
    assert main
    body = re.sub(rf"""(?<![\w."'])({KEPT})(?![\w"']|=[^=])""", r"self.\1", body)
    return (
        f"{above}class Trainer:\n    def run(self):\n{textwrap.indent(body.rstrip(), '    ')}\n\n\n"
        'if __name__ == "__main__":\n    Trainer().run()\n'
    )


def goes(effect: Effect, path: Path, form: Form | None, place: Place, when: str, base: str) -> bool:
    """Whether these can be combined."""
    title, names = place.title, named(effect.does)
    prepared = form is not None and prepares(form)
    in_loop = title != "before the loop" and title != "environment" and not place.inside
    if effect.only and not re.search(effect.only, title):
        return False
    if path.title != PATHS[0].title and not (reaching(path) & names):
        return False  # the path would only be another spelling of the network's name
    if form is not None and names & {"ACTOR", "CRITIC"} and (path.actor or path.parts):
        return False  # the form would reach the parts through the network, not along the path
    if place.inside and ("OPT" in names or path is not PATHS[0] or prepared or base == "in an object"):
        return False
    if title == "environment" and (prepared or path.actor):
        return False
    if form is not None and form.title in ("a property", "an operator"):  # these bind names
        if not in_loop or base == "in functions":
            return False
    if path.title == "by a name of the module" and base in ("in main()", "in an object"):
        return False
    if when and (not in_loop or base != "at the top"):
        return False
    return not (path.parts and effect.given)


@cache
def named(code: str) -> frozenset[str]:
    """The placeholders that an effect's code uses."""
    return frozenset(re.findall(r"\b(?:NET|ACTOR|CRITIC|OPT)\b", code))


@cache
def prepares(form: Form) -> bool:
    """Whether a form needs statements above the place."""
    return bool(form.write("pass")[1])


@cache
def reaching(path: Path) -> set[str]:
    """The placeholders that a path reaches in an unusual way."""
    usual = at(PATHS[0])
    found = {name for name, expression in at(path).items() if expression != usual[name]}
    return found | ({"NET", "ACTOR", "CRITIC"} if path.init else set())


def crossed(effects: Sequence[Effect], seed: int, number: int = PER_EFFECT) -> Iterator[Scenario]:
    """Scripts for each effect."""
    turns = Turns(seed)
    forms: list[Form | None] = [None, *FORMS]
    for effect in effects:
        done = set()
        for _ in range(number):
            places = [p for p in PLACES if any(goes(effect, a, f, p, "", BASES[0]) for a in PATHS for f in forms)]
            place = turns.choose("place", places, effect.title)
            bases = [b for b in BASES if any(goes(effect, a, f, place, "", b) for a in PATHS for f in forms)]
            base = turns.choose("base", [bases[0], bases[0], *bases], effect.title)
            pairs = [(a, f) for a in PATHS for f in forms if goes(effect, a, f, place, "", base)]
            path = turns.choose("path", list(dict.fromkeys(a for a, _ in pairs)), effect.title, place.title)
            some = [f for a, f in pairs if a is path]
            form = turns.choose("form", some, effect.title, place.title)
            when = turns.choose("when", [w for w in WHENS if goes(effect, path, form, place, w, base)], place.title)
            key = (place.title, path.title, form.title if form else "", when, base)
            if key in done:
                continue
            done.add(key)
            said = [effect.title, path.title, f"in {form.title}" if form else "", place.title, when.strip(":"), base]
            yield Scenario("; ".join(filter(None, said)), build(effect, path, form, place, when, base))


def about_values(seed: int, number: int = 1) -> Iterator[Scenario]:
    """Scripts that change a value in place, and scripts that keep one."""
    turns = Turns(seed)
    for value in VALUES:
        bases = [BASES[0], BASES[0], *BASES] if goes_elsewhere(value) else [BASES[0]]
        name = f"{value.name}, {value.hole}"
        ways = ARRAY_CHANGES if value.array else CHANGES
        ways = {k: v for k, v in WHOLE_CHANGES.items() if not value.array or "*" not in v} if value.whole else ways
        ways = {k: v for k, v in ways.items() if not (value.number and NEED_ROWS.search(v))}
        for _ in range(number):
            way, base = turns.choose("change", list(ways), name), turns.choose("base", bases, name)
            does = ways[way]
            if value.graph:
                does = f"with torch.no_grad():\n{textwrap.indent(does, '    ')}"
            binds = way == "a rebinding" or ("=" in does.replace("==", "") and "X *= " in does)
            form = turns.choose("form", ["", *([] if binds else ["a function", "a method"])], name)
            parts, call = in_function(does, form)
            yield valued(value, f"changed by {way}", base, form, {**parts, value.hole: call.replace("X", value.name)})
        for _ in range(number):
            keeps = [k for k in KEEPS if not (value.array and "detach" in KEEPS[k][0])]
            keeps = [k for k in keeps if not (value.number and NEED_ROWS.search(KEEPS[k][0]))]
            way, base = turns.choose("keep", keeps, name), turns.choose("base", bases, name)
            reads = [r for r in READS if not ("changed" in r and "loss" in name)]
            read = turns.choose("read", reads, name)
            store, things = KEEPS[way]
            if "+=" in store:
                base = BASES[0]  # elsewhere, += would make the name local to a function
            hole, look = READS[read]
            holes = {value.hole: store.replace("X", value.name)}
            holes[hole] = "\n".join(filter(None, [holes.get(hole, ""), look.replace("READ", things)]))
            yield valued(value, f"kept {way}, {read}", base, "", {"functions": KEEPER, **holes})


def goes_elsewhere(value: Value) -> bool:
    """Whether the place of a value can be in a function."""
    return not value.inner and value.hole != "acted"


def in_function(does: str, form: str) -> tuple[dict[str, str], str]:
    """The definitions of a form, and the statements at the place."""
    body = textwrap.indent(re.sub(r"\bX\b", "x", does), "    ")
    if form == "a function":
        return {"functions": f"def meddle(x):\n{body}\n\n\n"}, "meddle(X)"
    if form == "a method":
        return {"functions": f"class Meddler:\n    def meddle(self, x):\n{textwrap.indent(body, '    ')}\n\n\n"}, (
            "Meddler().meddle(X)"
        )
    return {}, does


def valued(value: Value, does: str, base: str, form: str, parts: dict[str, str]) -> Scenario:
    """A script with parts of its own in the holes."""
    said = [f"{value.name} at {value.hole}", does, f"in {form}" if form else "", base]
    return Scenario("; ".join(filter(None, said)), filled(parts, base))


def filled(parts: dict[str, str], base: str = BASES[0]) -> str:
    """The text of a script with its training in one of the BASES, where parts may stand in the holes."""
    holes = {name: text for name, text in parts.items() if name in {p.hole for p in PLACES}}
    return based({**with_holes({k: v for k, v in parts.items() if k not in holes}), "agent": PLAIN, **holes}, base)


PLAIN = agent(Effect("", ""), PATHS[0]).replace("        \n", "")


def about_signatures(seed: int) -> Iterator[Scenario]:
    """Scripts with networks of odd signatures, without and with something that changes them."""
    turns = Turns(seed)
    for signature in SIGNATURES:
        for twist in ["", turns.choose("twist", list(TWISTS)[1:])]:
            base = turns.choose("base", [BASES[0], *BASES[:2]]) if not twist else BASES[0]
            parts = dict(signature.parts)
            hole, does = TWISTS[twist]
            if twist:
                parts[hole] = does
            yield Scenario("; ".join(filter(None, [signature.title, twist, base])), answered(signature, parts, base))


def answered(signature: Signature, parts: dict[str, str], base: str) -> str:
    """The script with a signature's edits."""
    text = filled(parts)
    for old, new in signature.edits.items():
        assert old in text, f"{signature.title}: {old!r} is gone"
        text = text.replace(old, new)
    if base == BASES[1]:
        body = text.partition('if __name__ == "__main__":\n')
        text = f"{body[0]}def main():\n{body[2]}\n\n" + 'if __name__ == "__main__":\n    main()\n'
    return text


def about_loops() -> Iterator[Scenario]:
    """Scripts with odd loops."""
    for number, (title, parts) in enumerate(LOOPS.items()):
        only_at_top = any(word in str(parts) for word in ("global ", "globals", "eval(", "exec("))
        base = BASES[0] if number % 3 or only_at_top else BASES[1]
        yield Scenario(f"{title}; {base}", filled(parts, base))


def about_stored() -> Iterator[Scenario]:
    """Scripts that learn from stored steps."""
    for title, source in stored.sources().items():
        yield Scenario(f"stored steps: {title}", source)


FAMILIES: dict[str, Callable[[], Iterator[Scenario]]] = {
    "what is done to networks": lambda: crossed(NETWORK, 1),
    "what is done to optimizers": lambda: crossed(OPTIMIZER, 2),
    "values that are changed or kept": lambda: about_values(3),
    "odd signatures": lambda: about_signatures(4),
    "odd loops": about_loops,
    "stored steps": about_stored,
}


def scenarios() -> list[Scenario]:
    """All scenarios; each has a different title and text."""
    found = [replace(s, family=family) for family, make in FAMILIES.items() for s in make()]
    return list({s.source: s for s in found}.values())
