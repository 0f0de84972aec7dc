"""When two recordings are equal, and the message if they differ."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from transformer.verify import Recording, compare
from transformer.verify.bits import differing, distance, distances, same_number
from transformer.verify.checks import recorded_check
from transformer.verify.recording import Moment, Print, Scalar, Tensor


def with_scalars(recording: Recording, *scalars: tuple[str, int | None, float]) -> Recording:
    logged = tuple(Scalar(Moment(i, 0), *scalar) for i, scalar in enumerate(scalars))
    return dataclasses.replace(recording, scalars=logged)


def test_nan_equals_nan_in_the_same_place_only(toy_recording: Recording) -> None:
    left = with_scalars(toy_recording, ("a", 0, math.nan), ("a", 1, math.inf), ("a", 2, 0.0))
    assert compare(left, left) == ()
    right = with_scalars(toy_recording, ("a", 0, 0.0), ("a", 1, math.nan), ("a", 2, 0.0))
    (found,) = compare(left, right)
    assert (found.where, found.left, found.right, found.count, found.error) == ("step 0", "nan", "0.0", 2, math.inf)


@pytest.mark.parametrize(("a", "b"), [(0.0, -0.0), (1.0, 1.0 + 2**-52), (math.inf, -math.inf), (math.inf, 1e308)])
def test_numbers_differ_in_any_bit(a: float, b: float) -> None:
    assert same_number(a, a)
    assert not same_number(a, b)
    assert distance(a, b) == abs(a - b)


def test_arrays_differ_in_any_bit() -> None:
    x = np.array([0.0, 1.0, np.nan, np.inf], dtype=np.float32)
    y = np.array([-0.0, 1.0, np.nan, -np.inf], dtype=np.float32)
    assert differing(x, y).tolist() == [True, False, False, True]
    assert differing(np.array(1.0), np.array(1.0)).tolist() is False
    assert distances(np.array([1.0, np.nan]), np.array([3.0, 1.0])) == math.inf
    assert distances(np.array([1, 2]), np.array([3, 2])) == 2


def test_the_same_tag_and_step_logged_twice(toy_recording: Recording) -> None:
    left = with_scalars(toy_recording, ("r", 8, 1.0), ("r", 8, 2.0))
    assert compare(left, left) == ()
    (missing,) = compare(left, with_scalars(toy_recording, ("r", 8, 1.0)))
    assert (missing.left, missing.right, missing.where) == ("logged", "nothing", "step 8")
    (swapped,) = compare(left, with_scalars(toy_recording, ("r", 8, 2.0), ("r", 8, 1.0)))
    assert (swapped.count, swapped.error) == (2, 1.0)


def test_a_tag_of_one_side_only_on_either_side(toy_recording: Recording) -> None:
    one, two = with_scalars(toy_recording, ("a", 1, 1.0)), with_scalars(toy_recording, ("a", 1, 1.0), ("b", None, 1.0))
    assert [str(d) for d in compare(one, two)] == ["scalar b at no step: nothing became logged"]
    assert [str(d) for d in compare(two, one)] == ["scalar b at no step: logged became nothing"]


def test_missing_optimizer_step_action_and_line(toy_recording: Recording) -> None:
    less = dataclasses.replace(
        toy_recording,
        steps=toy_recording.steps[:-1],
        actions=toy_recording.actions[:-1],
        prints=toy_recording.prints[:-1],
    )
    for left, right in ((toy_recording, less), (less, toy_recording)):
        found = {d.quantity: d.where for d in compare(left, right)}
        assert found == {"optimizer": "optimizer step 4", "action": "action 7", "print": "line 4"}


def test_place_and_size_of_a_parameters_difference(toy_recording: Recording) -> None:
    step = toy_recording.steps[2]
    name = "Agent.actor.weight"
    weight = step.tensors[name].values
    assert weight is not None
    changed = weight.copy()
    changed[1, 0] += 0.25
    other = dataclasses.replace(step, tensors={**step.tensors, name: Tensor("other", changed, changed.size)})
    right = dataclasses.replace(toy_recording, steps=(*toy_recording.steps[:2], other, toy_recording.steps[3]))
    (found,) = compare(toy_recording, right)
    assert (found.quantity, found.name, found.where) == ("parameter", name, "optimizer step 3, element (1, 0)")
    assert found.error == pytest.approx(0.25)
    assert found.moment == (8, 3)


def test_dtype_and_shape_count(toy_recording: Recording) -> None:
    first = toy_recording.actions[0]
    (array,) = first.arrays
    assert array is not None
    for other in (array.astype(np.int32), array.reshape(1, 2)):
        actions = (dataclasses.replace(first, arrays=(other,)), *toy_recording.actions[1:])
        (found,) = compare(toy_recording, dataclasses.replace(toy_recording, actions=actions))
        assert (found.quantity, found.where, found.error) == ("action", "action 0", None)


def test_causes_come_before_effects(toy_recording: Recording) -> None:
    late, early = Moment(8, 4), Moment(4, 2)
    left = dataclasses.replace(toy_recording, prints=(Print(early, "x"), Print(late, "y")))
    left = with_scalars(left, ("a", 0, 1.0))
    right = dataclasses.replace(left, prints=(Print(early, "x"), Print(late, "z")), random=())
    right = with_scalars(right, ("a", 0, 2.0))
    assert [d.quantity for d in compare(left, right)] == ["scalar", "print"]


def test_what_is_compared_at_each_step_is_not_all_compared_if_one_lacks(toy_recording: Recording) -> None:
    less = dataclasses.replace(toy_recording, steps=toy_recording.steps[:-1])
    for original, converted in ((toy_recording, less), (less, toy_recording)):
        check = recorded_check("flags-off", original, converted, compare(original, converted))
        where = {row.what: row.where for row in check.rows if row.equal}
        assert {what for what, place in where.items() if place == "not all compared"} >= {"gradient norm", "parameter"}
        assert where["action"] == where["print"] == where["final parameter"] == ""
