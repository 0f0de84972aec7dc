"""The transforms, in the order in which they are applied.

The first bring rollout and update into one loop, next to the networks and buffers that they use. Then the loop's own
statements are rewritten while they are all in one place. Then the phases are extracted, so the signatures of the
functions follow from what the rewrites left. Finally the functions are compiled and captured.
"""

from transformer.transforms.advantages import gae, gae_hoist, last_step
from transformer.transforms.base import Transform
from transformer.transforms.compiling import (
    compile,
    cudagraphs,
    flags,
    lstm_cells,
    one_graph,
    plain_sizes,
    precision,
)
from transformer.transforms.gathering import dissolve, inline
from transformer.transforms.off_policy import replay, scatter_rows, target_update, tensor_temperature
from transformer.transforms.rollout import (
    acting,
    acting_method,
    acting_statements,
    evaluate_once,
    host_arrays,
    narrow_observations,
    policy,
    rollout,
    sampling,
    step_networks,
    storage,
)
from transformer.transforms.scaling import async_envs, checkpoint, distribute
from transformer.transforms.tuning import (
    channels_last,
    fused_envs,
    measure,
    on_device,
    transfers,
    tune_host,
)
from transformer.transforms.update import (
    auxiliary_update,
    deferred_sync,
    late_append,
    shuffle,
    tensor_lr,
    update,
)

GATHERING: tuple[Transform, ...] = (dissolve.TRANSFORM, inline.TRANSFORM)
"""The transforms that need no recognised training loop; they bring scripts into a form in which one is recognised."""

ORDER: tuple[Transform, ...] = (
    *GATHERING,
    flags.TRANSFORM,
    tensor_lr.TRANSFORM,
    acting.TRANSFORM,
    target_update.TRANSFORM,
    scatter_rows.TRANSFORM,
    tensor_temperature.TRANSFORM,
    replay.TRANSFORM,
    policy.TRANSFORM,
    storage.TRANSFORM,
    last_step.TRANSFORM,
    gae_hoist.TRANSFORM,
    shuffle.TRANSFORM,
    transfers.TRANSFORM,
    on_device.TRANSFORM,
    deferred_sync.TRANSFORM,
    late_append.TRANSFORM,
    host_arrays.TRANSFORM,
    narrow_observations.TRANSFORM,
    sampling.TRANSFORM,
    evaluate_once.TRANSFORM,
    acting_method.TRANSFORM,
    acting_statements.TRANSFORM,
    step_networks.TRANSFORM,
    rollout.TRANSFORM,
    gae.TRANSFORM,
    update.TRANSFORM,
    auxiliary_update.TRANSFORM,
    one_graph.TRANSFORM,
    compile.TRANSFORM,
    plain_sizes.TRANSFORM,
    channels_last.TRANSFORM,
    cudagraphs.TRANSFORM,
    precision.TRANSFORM,
    lstm_cells.TRANSFORM,
    distribute.TRANSFORM,
    checkpoint.TRANSFORM,
    async_envs.TRANSFORM,
    fused_envs.TRANSFORM,
    tune_host.TRANSFORM,
    measure.TRANSFORM,
)

FORMERLY: dict[str, str | None] = {
    "float-arrays": None,
    "late-exit": None,
    "no-grad": None,
}
"""Former names of transforms, which users may have written down: each with the present name, or None."""
