import ast
import random
import re
import textwrap
from pathlib import Path

import pytest
from cases import NoOp, Rewrite
from programs import Program, printed, programs
from scripts import PARTS, script

from transformer import convert
from transformer.state import State
from transformer.syntax.tree import Tree
from transformer.transforms.gathering.inline import ALREADY, inlined
from transformer.transforms.gathering.inlining import NotInlined
from transformer.transforms.gathering.only_calls import only_calls

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


def rewritten(program: Program) -> str:
    """The program with f's statements in place of the call."""
    state = State.first(Tree(program.code), 100)
    (only,) = [c for f, c in only_calls(state.roles).items() if f.name == "f"]
    return inlined(state, only).tree.code


@pytest.mark.parametrize("program", programs("inline_same.txt"), ids=str)
def test_the_same_happens(program: Program) -> None:
    code = rewritten(program)
    assert "def f(" not in code
    assert printed(code) == printed(program.code)
    assert program.expected in code.splitlines() or not program.expected, code


@pytest.mark.parametrize("program", programs("inline_stays.txt"), ids=str)
def test_a_function_that_cannot_be_inlined_stays(program: Program) -> None:
    with pytest.raises(NotInlined) as refused:
        _ = rewritten(program)
    assert program.expected
    assert program.expected in str(refused.value)


@pytest.mark.parametrize("program", programs("inline_used_otherwise.txt"), ids=str)
def test_other_uses_are_seen(program: Program) -> None:
    functions = only_calls(State.first(Tree(program.code), 100).roles)
    assert "f" not in {f.name for f in functions}


def test_names_are_told_from_attributes_in_every_result() -> None:
    """Results are parsed one by one: facts about a node of one must not be used for a node of the next."""
    many = range(40)
    results = ", ".join(f"net.a{i}(x.b{i}, y=x.c{i})" for i in many)
    targets = ", ".join(f"t{i}" for i in many)
    code = rewritten(Program("", f"def f(net, x):\n    return {results}\n\n\n{targets} = f(agent, obs)\n", ""))
    assert code.split(" = ")[-1].strip() == re.sub(r"\bx\.", "obs.", results.replace("net.", "agent."))


@pytest.mark.parametrize(
    ("long", "moved"),
    [
        ("total=x*2+{}", ["total=x*2+{}"]),
        ("total = names['first']*2 + {}", ["total = names['first']*2 + {}"]),
        ("total = x['a'] + {}", ["total = (", "    x['a'] + {}", ")"]),
        ('total = x["a"] + {}', ["total = (", '    x["a"] + {}', ")"]),
    ],
    ids=["no spaces", "some spaces", "formatted but for its quotes", "formatted"],
)
def test_a_line_that_gets_too_long_is_broken_only_if_a_formatter_wrote_it(long: str, moved: list[str]) -> None:
    rest = "y" * (94 - len(long))
    head = "def f(x, names):\n    for i in range(3):\n        "
    code = rewritten(Program("", f"{head}{long.format(rest)}\n\n\nif 1:\n    if 2:\n        f(x, names)\n", ""))
    assert code.split("range(3):\n")[1] == textwrap.indent("\n".join(moved).format(rest) + "\n", " " * 12)


HEADED = """\
import math


{above}def f(a):
    print(a)
    # inside
    return a + 1


def g():
    return 1


if g():
    y = f(2)
"""


def test_the_comments_above_a_function_go_with_its_statements() -> None:
    code = rewritten(Program("", HEADED.format(above="# about f\n# more\n"), ""))
    body = "    # about f\n    # more\n    print(2)\n    # inside\n    y = 2 + 1\n"
    assert code == f"import math\n\n\ndef g():\n    return 1\n\n\nif g():\n{body}"


def test_a_comment_that_may_be_about_other_functions_too_stays() -> None:
    code = rewritten(Program("", HEADED.format(above="# Helpers\n\n# about f\n"), ""))
    assert "\n\n# Helpers\n\n# about f\n\n\ndef g" in code and code.count("about f") == 1


def test_a_comment_left_of_its_block_gets_in_line() -> None:
    body = "    print(a)\n  # between\n#   at the margin\n    return a + 1\n"
    code = rewritten(Program("", f"def f(a):\n{body}\n\nif 1:\n    if 1:\n        y = f(2)\n", ""))
    assert "        # between\n#   at the margin\n        y = 2 + 1\n" in code


COLLECT = """
def collect(agent, next_obs, next_done, global_step):
    <rollout>
    return next_obs, next_done, global_step
"""
CALL = "next_obs, next_done, global_step = collect(agent, next_obs, next_done, global_step)"
UPDATE = """
def train(agent, optimizer, epochs):
    <epochs>
    return v_loss, clipfracs
"""
EPOCHS = PARTS["minibatches"]

REWRITES = [
    Rewrite("the rollout", {"functions": COLLECT, "collect": CALL}, {"functions": "", "collect": "<rollout>"}),
    Rewrite(
        "the update",
        {
            "functions": UPDATE,
            "epochs": EPOCHS.replace("args.update_epochs", "epochs"),
            "minibatches": "v_loss, clipfracs = train(agent, optimizer, args.update_epochs)",
        },
        {"functions": "", "minibatches": EPOCHS},
    ),
    Rewrite(
        "the update, in a method",
        {
            "agent": PARTS["agent"]
            + "\n\n    "
            + textwrap.indent(UPDATE.strip("\n"), "    ").strip().replace("agent", "self"),
            "epochs": EPOCHS.replace("args.update_epochs", "epochs"),
            "learn": PARTS["learn"],
            "minibatches": "v_loss, clipfracs = agent.train(optimizer, args.update_epochs)",
            "before_loop": "",
        },
        {"agent": PARTS["agent"], "minibatches": EPOCHS},
    ),
]


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrites(rewrite: Rewrite) -> None:
    rewrite.check("inline")


def test_one_loop_needs_nothing() -> None:
    NoOp("one loop", {}, ALREADY, kind="not needed").check("inline")


def test_the_reason_is_told() -> None:
    early = COLLECT.replace("    return", "    if global_step < 0:\n        return 0, 0, 0\n    return")
    (diagnostic,) = convert(script({"functions": early, "collect": CALL})).warnings
    assert diagnostic.code == "LC102"
    assert re.search(
        r"not in one training loop; collect\(\) \(line \d+\) .* line \d+ returns before", diagnostic.message
    )


def statements(chance: random.Random, names: str, depth: int = 0) -> list[str]:
    """Random statements that print, read and bind names."""
    lines: list[str] = []
    for _ in range(chance.randint(1, 4)):
        x, y, z = (chance.choice(names) for _ in range(3))
        inner = ["    " + line for line in statements(chance, names, depth + 1)] if depth < 2 else ["    pass"]
        lines += chance.choice(
            [
                [f"{x} = {y} + {z}"],
                [f"{x} += {y}"],
                [f"{x} = {y}"],
                [f"print({x}, [{y} for {y} in range({z} % 3)])"],
                [f"{x}, {y} = {z}, {x}"],
                [f"show({x})"],
                [f"if {x} % 2:", *inner],
                [f"for {x} in range({y} % 3):", *inner],
                ["try:", *inner, f"    {x} = 1 // ({y} % 2)", "except ZeroDivisionError:", f"    print({z})"],
            ]
        )
    return lines


def made(seed: int) -> str:
    """A program that calls a random function among random statements."""
    chance = random.Random(seed)
    names, params = "abcde", chance.sample("abcde", 3)
    results = [chance.choice(names) for _ in range(2)]
    body = [f"{n} = {i}" for i, n in enumerate(names) if n not in params and chance.random() < 0.8]
    body += [*statements(chance, names), f"return {results[0]}, {results[1]} + 1"]
    call = f"{', '.join(chance.sample(names, 2))} = f({', '.join(chance.choice([*names, '7']) for _ in params)})"
    turns = ["    " + line for line in (*statements(chance, names), call, *statements(chance, names))]
    inside = chance.random() < 0.5
    lines = [f"{', '.join(names)} = 1, 2, 3, 4, 5", "for turn in range(3):", *turns, f"print({', '.join(names)})"]
    main = ["def main():", *["    " + line for line in lines], "main()"] if inside else lines
    show = f"def show(x):\n    print(x{', ' + chance.choice(names) if chance.random() < 0.5 else ''})"
    return "\n".join(
        [f"{chance.choice(names)} = 9", show, f"def f({', '.join(params)}):", *("    " + b for b in body), *main, ""]
    )


def test_random_programs_print_the_same() -> None:
    compared = 0
    for seed in range(120):
        code = made(seed)
        try:
            before = printed(code)
        except NameError:
            continue
        try:
            after = rewritten(Program(str(seed), code, ""))
        except NotInlined:
            continue
        assert printed(after) == before, f"{code}\n# ---\n{after}"
        compared += 1
    assert compared > 40


def without_detaching(code: str) -> str:
    """The syntax of a script without the assignments that only detach results of extraction."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, [s for s in block if not (isinstance(s, ast.Assign) and detaches(s.value))])
    return ast.dump(tree)


def detaches(value: ast.expr) -> bool:
    return isinstance(value, ast.Tuple) and all(ast.unparse(e).endswith(".detach()") for e in value.elts)


@pytest.mark.parametrize("fixture", ["renamed", "two_optimizers", "in_train_function", "module_level", "target_kl"])
def test_it_undoes_extraction(fixture: str) -> None:
    source = (FIXTURES / f"{fixture}.py").read_text(encoding="utf-8")
    extracted = convert(source, select={"rollout", "update"}).source
    assert "def rollout(" in extracted and "def update" in extracted
    back = convert(extracted, select={"inline"})
    assert back.converted, back.diagnostics
    assert without_detaching(back.source) == without_detaching(source)


def test_messages_name_a_renamed_variable_as_the_script_does() -> None:
    function = "def learn(obs, rate):\n    loss = obs * rate\n    print(loss)\n"
    code = f"{function}\n\nobs = 1\nloss = 2\nlearn(obs + 1, 3)\nprint(loss)\n"
    state = State.first(Tree(code), 120)
    after = inlined(state, next(iter(only_calls(state.roles).values())))
    assert "obs_1 = obs + 1" in after.tree.code and "loss_1 = obs_1 * " in after.tree.code
    line = next(n for n, text in enumerate(after.tree.code.splitlines(), 1) if text.startswith("loss_1 ="))
    assert after.in_original(f"line {line} computes loss_1 of obs_1, and not of obs_10") == (
        "line 2 computes loss of obs, and not of obs_10"
    )
