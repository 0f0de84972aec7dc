import hand_made
from hand_made import COMPILE, ORIGINAL
from hand_made import hand_made as conversion

from transformer.conversion.result import Conversion
from transformer.diff.blame import Origin, blame


def origin(text):
    return blame(conversion())[COMPILE.splitlines().index(text)]


def number(text):
    return ORIGINAL.splitlines().index(text) + 1


def test_untouched_lines_have_their_original_number():
    assert origin("    env = Env()") == Origin(number("    env = Env()"))
    assert origin('        print("mean", total / (iteration + 1))') == Origin(
        number('        print("mean", total / (iteration + 1))')
    )


def test_new_lines_have_their_transform():
    text = "    compile = False  # compile rollout()"
    assert origin(text) == Origin(None, touched="flags", line=hand_made.FLAGS.splitlines().index(text) + 1)
    assert origin("def rollout(iteration, state, total):").transform == "rollout"
    assert origin("    if compile:").transform == "compile"


def test_edited_lines_have_both():
    found = origin("        learning_rate = np.multiply(learning_rate, 0.9)")
    assert (found.original, found.touched, found.moved) == (
        number("        learning_rate = learning_rate * 0.9"),
        "rate",
        None,
    )


def test_moved_lines_keep_where_they_came_from():
    found = origin("            total += reward")
    assert (found.original, found.touched, found.moved) == (number("                total += reward"), None, "rollout")
    assert hand_made.ROLLOUT.splitlines()[found.line - 1] == "            total += reward"


def test_lines_edited_while_moving_were_touched():
    found = origin("        action = int(state.mean() > 0.5)")
    assert (found.original, found.transform) == (number("            action = int(state.sum() > 1.5)"), "rollout")
    assert found.touched == "rollout"


def test_every_line_is_blamed_and_a_refused_conversion_blames_nobody():
    assert len(blame(conversion())) == len(COMPILE.splitlines())
    assert blame(Conversion(ORIGINAL)) == tuple(Origin(i + 1) for i in range(len(ORIGINAL.splitlines())))
