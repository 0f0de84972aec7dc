"""How minibatches are drawn, indexed and left."""

from __future__ import annotations

from scripts import PARTS, edited

from variations.base import Variation

VARIATIONS = [
    Variation(
        "a minibatch's indices made a tensor of, and its observations put in a dict",
        {
            "flatten": PARTS["flatten"] + "\nb_parts = {}\nb_parts['place'] = b_obs",
            "minibatches": edited(
                "minibatches", "mb_inds = b_inds[start:end]", "mb_inds = torch.tensor(b_inds[start:end]).to(device)"
            ),
            "minibatch": "mb_parts = {}\nfor key in b_parts:\n    mb_parts[key] = b_parts[key][mb_inds]\n"
            + edited("minibatch", "b_obs[mb_inds]", "mb_parts['place']"),
        },
    ),
    Variation(
        "torch.randperm and slices",
        {
            "minibatches": edited(
                "minibatches", "np.random.shuffle(b_inds)", "b_inds = torch.randperm(args.batch_size, device=device)"
            ).replace("b_inds = np.arange(args.batch_size)\n", ""),
        },
    ),
    Variation(
        "np.random.permutation",
        {
            "minibatches": edited(
                "minibatches", "np.random.shuffle(b_inds)", "b_inds = np.random.permutation(args.batch_size)"
            ).replace("b_inds = np.arange(args.batch_size)\n", ""),
        },
    ),
    Variation(
        "BatchSampler",
        {
            "third_party": "from torch.utils.data.sampler import BatchSampler, SubsetRandomSampler",
            "minibatches": """
                clipfracs = []
                for epoch in range(args.update_epochs):
                    order = SubsetRandomSampler(range(args.batch_size))
                    for mb_inds in BatchSampler(order, args.minibatch_size, drop_last=True):
                        <learn>
            """,
        },
    ),
    Variation(
        "minibatches that are left before the optimizer's step",
        {
            "head": "stopped = 0",
            "metrics": PARTS["metrics"]
            + """
approx_kl = ((ratio - 1.0) - ratio.log()).mean()
if args.gamma < 1 and approx_kl > 2e-4:
    stopped += 1
    break
""",
            "report": edited("report", "v_loss.item(),", "v_loss.item(), approx_kl.item(), stopped,"),
        },
        {
            "deferred-sync": "may leave a minibatch before the optimizer's step",
            "update": "jumps out of the minibatch above optimizer.step()",
            "tensor-lr": "update() is not compiled",
        },
    ),
]
