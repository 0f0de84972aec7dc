"""The transforms, in the order in which they are applied.

The first bring rollout and update into one loop, beside the networks and buffers that they use. Rewrites of
the loop's own statements follow, while everything stands in one place; then the phases are extracted, so that
the functions' signatures follow from what the rewrites left; then the functions are compiled and captured.
"""

from transformer.transforms import (
    auxiliary_update,
    channels_last,
    collect_once,
    compile,
    cudagraphs,
    deferred_sync,
    dissolve,
    evaluate_once,
    flags,
    float_arrays,
    gae,
    gae_hoist,
    host_arrays,
    idle_threads,
    inline,
    keep_memory,
    late_exit,
    measure,
    narrow_observations,
    no_grad,
    numpy_recurrence,
    on_device,
    one_graph,
    policy,
    rollout,
    sampling,
    shuffle,
    storage,
    tensor_lr,
    transfers,
    update,
)
from transformer.transforms.base import Transform

GATHERING: tuple[Transform, ...] = (dissolve.TRANSFORM, inline.TRANSFORM)
"""Those that need no recognised training loop, and bring scripts into the form in which there is one."""

ORDER: tuple[Transform, ...] = (
    *GATHERING,
    flags.TRANSFORM,
    no_grad.TRANSFORM,
    tensor_lr.TRANSFORM,
    policy.TRANSFORM,
    storage.TRANSFORM,
    gae_hoist.TRANSFORM,
    shuffle.TRANSFORM,
    transfers.TRANSFORM,
    on_device.TRANSFORM,
    late_exit.TRANSFORM,
    deferred_sync.TRANSFORM,
    host_arrays.TRANSFORM,
    narrow_observations.TRANSFORM,
    sampling.TRANSFORM,
    evaluate_once.TRANSFORM,
    rollout.TRANSFORM,
    gae.TRANSFORM,
    update.TRANSFORM,
    auxiliary_update.TRANSFORM,
    one_graph.TRANSFORM,
    compile.TRANSFORM,
    float_arrays.TRANSFORM,
    numpy_recurrence.TRANSFORM,
    channels_last.TRANSFORM,
    cudagraphs.TRANSFORM,
    collect_once.TRANSFORM,
    keep_memory.TRANSFORM,
    idle_threads.TRANSFORM,
    measure.TRANSFORM,
)
