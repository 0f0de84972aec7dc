import pytest
from cases import NoOp, Rewrite, turn
from scripts import PARTS, script

from transformer import Applied, convert

CALL = "global_step, next_obs, next_done = rollout(global_step, next_obs, next_done)"
FUNCTION = '''
    def rollout(global_step, next_obs, next_done):
        """Step the environments num_steps times with the present policy."""
        <rollout>
        return global_step, next_obs, next_done
'''
TAKEN = "def rollout(length):\n    return list(range(length))\n\n\n"
IN_MAIN = {"main": "def main():", "end": "\n\nmain()"}

REWRITES = [
    Rewrite("under the main guard", {}, {"functions": FUNCTION + "\n\n", "collect": CALL}),
    Rewrite("in main()", IN_MAIN, {"closures": FUNCTION + "\n", "collect": CALL}),
    Rewrite(
        "at module level",
        {"main": "if True:"},
        {"functions": FUNCTION + "\n\n", "collect": CALL},
    ),
    Rewrite(
        "the name is taken",
        {"functions": TAKEN, "report": PARTS["report"] + "\nprint(rollout(3))"},
        {
            "functions": "<taken>\n<added>",
            "taken": TAKEN,
            "added": FUNCTION.replace("rollout(", "collect_rollout(") + "\n\n",
            "collect": CALL.replace("rollout", "collect_rollout"),
        },
    ),
    Rewrite(
        "names read afterwards are returned",
        {"report": PARTS["report"] + "\nprint(reward, done, step, logprob)"},
        {
            "functions": FUNCTION.replace(
                "return global_step, next_obs, next_done",
                "return step, global_step, next_obs, next_done, logprob, reward, done",
            )
            + "\n\n",
            "collect": CALL.replace(
                "global_step, next_obs, next_done =", "step, global_step, next_obs, next_done, logprob, reward, done ="
            ),
        },
    ),
    Rewrite(
        "a list made just above it",
        {
            "collect": "finished = []\n<rollout>",
            "step": PARTS["step"] + "\nfinished += [done.sum()]",
            "report": PARTS["report"] + "\nprint(finished)",
        },
        {
            "functions": FUNCTION.replace("<rollout>", "finished = []\n        <rollout>").replace(
                "return global_step, next_obs, next_done", "return finished, global_step, next_obs, next_done"
            )
            + "\n\n",
            "collect": CALL.replace(
                "global_step, next_obs, next_done =", "finished, global_step, next_obs, next_done ="
            ),
        },
    ),
    Rewrite(
        "continue and break",
        {
            "step": PARTS["step"]
            + "\nif not done.any():\n    continue\nif global_step > 10_000:\n    break\nprint(global_step)"
        },
        {"functions": FUNCTION + "\n\n", "collect": CALL},
    ),
    Rewrite(
        "a value kept from step to step and from rollout to rollout",
        {
            "begin": PARTS["begin"] + "\ntrace = 0.0",
            "step": PARTS["step"] + "\ntrace = 0.9 * trace + reward.mean()",
            "report": PARTS["report"] + "\nprint(global_step)",
        },
        {
            "functions": FUNCTION.replace("next_done", "next_done, trace") + "\n\n",
            "collect": CALL.replace("next_done", "next_done, trace"),
        },
    ),
]

NOOPS = [
    NoOp(
        "under a condition",
        {"collect": "if args.num_steps > 0:\n    <rollout>"},
        "the rollout loop is inside another statement",
    ),
    NoOp(
        "under a with",
        {"collect": "with torch.no_grad():\n    <rollout>"},
        "the rollout loop is inside another statement",
    ),
    NoOp(
        "a return",
        {**IN_MAIN, "step": PARTS["step"] + "\nif global_step > 10_000:\n    return"},
        "line {line} has a return statement",
        at="                return",
    ),
    NoOp("a del", {"step": PARTS["step"] + "\ndel info"}, "line {line} has a delete statement", at="del info"),
    NoOp(
        "a walrus",
        {"step": PARTS["step"] + "\nif (ended := done.sum()) > 0:\n    print(ended)"},
        "line {line} has a namedexpr expression",
        at="ended :=",
    ),
    NoOp(
        "a function that reads what the rollout sets",
        {
            "functions": "def tell(what):\n    print(global_step, what)\n\n\n",
            "step": PARTS["step"] + '\ntell("stepped")',
        },
        "tell (line {line}) reads global_step from the training scope, which sets it here",
        at="def tell",
    ),
    NoOp(
        "a lambda that reads what the rollout sets",
        {"closures": "tell = lambda: print(next_done)", "step": PARTS["step"] + "\ntell()"},
        "the lambda (line {line}) reads next_done from the training scope, which sets it here",
        at="tell = lambda",
    ),
    NoOp(
        "a name that may be unset, and may be set above the training",
        {
            "begin": PARTS["begin"] + "\nif args.seed > 1:\n    bonus = 0.2",
            "head": "if iteration > 1:\n    bonus = 0.1",
            "step": PARTS["step"] + "\nif global_step > 16:\n    print(bonus)",
        },
        "bonus may be unset where line {line} begins, so it cannot be passed in",
        at="for step in range",
    ),
    NoOp(
        "a name that only some rollouts set, and a caught NameError",
        {
            "step": PARTS["step"] + "\nif done.any():\n    last = global_step",
            "report": PARTS["report"] + "\ntry:\n    print(last)\nexcept NameError:\n    print('none')",
        },
        "last may be unset where line {line} begins, so it cannot be passed in",
        at="for step in range",
    ),
]

MADE = "line {line} makes something that may be kept and read global_step"
NOOPS += [
    NoOp(title, {"before_loop": "kept = []", "step": PARTS["step"] + "\n" + made}, MADE, at=at)
    for title, made, at in (
        ("a lambda that outlives it", "kept.append(lambda: global_step + step)", "append(lambda"),
        ("functions of a comprehension", "kept += [lambda: n + global_step for n in range(2)]", "[lambda"),
        ("a function that outlives it", "def late():\n    return global_step\nkept.append(late)", "def late"),
        ("a function that is decorated", "@torch.no_grad()\ndef late():\n    return global_step", "def late"),
        ("a generator that outlives it", "kept.append(global_step + n for n in range(2))", "for n in"),
        ("a generator in another", "kept.append(zip(global_step + n for n in range(2)))", "for n in"),
        ("what a function returns", "kept.append((lambda: lambda: global_step)())", "lambda: lambda"),
        (
            "a method of a class made there",
            "class Late:\n    def __call__(self):\n        return global_step\nkept.append(Late())",
            "def __call__",
        ),
    )
] + [
    NoOp(
        "a lambda that reads what only the training loop sets",
        {"before_loop": "kept = []", "step": PARTS["step"] + "\nkept.append(lambda: iteration)"},
        "line {line} makes something that may be kept and read iteration",
        at="lambda: iteration",
    ),
    NoOp(
        "a function that the next rollout may call",
        {
            "before_loop": "late = print",
            "step": "late(step)\n" + PARTS["step"] + "\ndef late(n):\n    print(global_step)",
        },
        MADE,
        at="def late",
    ),
    NoOp(
        "a generator made above it",
        {
            "before_loop": "counts = (global_step + n for n in range(99))",
            "step": PARTS["step"] + "\nprint(next(counts))",
        },
        "the generator (line {line}) reads global_step from the training scope, which sets it here",
        at="counts = (",
    ),
    NoOp(
        "a variable of the module that another function sets",
        {
            "functions": "def later():\n    global horizon\n    horizon += 1\n\n\n",
            "head": "horizon = 0",
            "step": PARTS["step"] + "\nlater()\nprint(horizon)",
        },
        "line {line} shares horizon, which is set here, with other functions",
        at="global horizon",
    ),
    NoOp(
        "a variable of the module, in main()",
        {
            "main": "def show():\n    print(global_step)\n\n\ndef main():\n    global global_step",
            "end": "\n\nmain()",
            "step": PARTS["step"] + "\nshow()",
        },
        "line {line} shares global_step, which is set here, with other functions",
        at="    global global_step",
    ),
]
DONE = {
    "step": PARTS["step"]
    + "\nprint(sorted([2, 1], key=lambda n: n * global_step), sum(global_step + n for n in range(2)))"
    + "\ndef double(n):\n    return 2 * n * global_step\nprint(double(1), *map(double, [3]), (lambda: global_step)())"
    + "\nkept.append(lambda now=global_step: now + args.num_envs)\nkept.append(n for n in range(global_step))",
    "before_loop": "kept = []",
}


def test_closures_that_are_called_at_once_or_read_nothing_of_the_rollout() -> None:
    assert turn("rollout", script(DONE)).applied


def test_a_closure_over_another_functions_parameter() -> None:
    functions = "def make(step):\n    def tell(step_of=lambda: step):\n        print(step)\n\n    return tell\n\n\n"
    assert turn("rollout", script({"functions": functions, "begin": PARTS["begin"] + "\nmake(1)()"})).applied


@pytest.mark.parametrize("rewrite", REWRITES, ids=str)
def test_rewrite(rewrite: Rewrite) -> None:
    rewrite.check("rollout")


@pytest.mark.parametrize("noop", NOOPS, ids=str)
def test_noop(noop: NoOp) -> None:
    noop.check("rollout")


def test_steps_are_stacked_in_the_function() -> None:
    converted = convert(script(), select=["storage", "rollout"]).source
    function, training = converted.split("if __name__")
    assert function.count("transitions") == 4
    assert "return global_step, next_obs, next_done, storage\n" in function
    assert "transition" not in training
    assert "global_step, next_obs, next_done, storage = rollout(global_step, next_obs, next_done)\n" in training


def test_lines_after_the_rollout_stay_after_it() -> None:
    """They write into storage that the function stacks."""
    doubled = "print('between')\nrewards[0] = rewards[0] * 2"
    parts = {"advantages": f"{doubled}\n{PARTS['advantages']}"}
    step = turn("rollout", script(parts), ("storage", "host-arrays"))
    assert isinstance(step.outcome, Applied), step.outcome
    inside = step.after.partition("def rollout(")[2].partition("    return ")[0]
    assert "storage = TensorDict(" in inside
    assert "between" not in inside and 'storage["rewards"][0] =' not in inside
