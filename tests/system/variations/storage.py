"""What a step records, and where: computed from what was recorded, broadcast, in lists."""

from __future__ import annotations

from scripts import PARTS, edited

from variations.base import Variation

VARIATIONS = [
    Variation(
        "what a step records is computed from what it has recorded",
        {
            "act": """
                with torch.no_grad():
                    values[step] = agent.get_value(obs[step]).flatten()
                    action, logprob, _, _ = agent.get_action_and_value(obs[step])
            """
        },
        {"evaluate-once": "passes the policy more than the observations", "step-networks": None},
    ),
    Variation(
        "a flag for one environment, broadcast into the first row",
        {"begin": edited("begin", "torch.zeros(args.num_envs)", "torch.zeros(1)")},
        {},
    ),
    Variation(
        "flags of another number, broadcast into the first row",
        {
            "options": edited("options", '"--num-envs", type=int, default=2', '"--num-envs", type=int, default=1'),
            "setup": PARTS["setup"] + "\nwidth = 3",
            "make_agent": PARTS["make_agent"] + "\nenvs = Envs(width)",
            "buffers": PARTS["buffers"].replace("args.num_envs", "width"),
            "flatten": PARTS["flatten"] + "\nargs.batch_size = args.num_steps * width",
        },
        {"evaluate-once": "next_obs is not recorded as it is"},
    ),
    Variation(
        "flags of the environments, broadcast into wider rows",
        {
            "options": edited("options", '"--num-envs", type=int, default=2', '"--num-envs", type=int, default=1'),
            "setup": PARTS["setup"] + "\nwidth = 3",
            "buffers": PARTS["buffers"] + "\nflags = torch.zeros((args.num_steps, width)).to(device)",
            "store": PARTS["store"] + "\nflags[step] = next_done",
            "report": PARTS["report"] + "\nprint(flags.sum().item())",
        },
        {},
    ),
    Variation(
        "a list of dicts of tensors",
        {
            "buffers": "",
            "rollout": """
                memory = []
                for step in range(0, args.num_steps):
                    global_step += args.num_envs
                    with torch.no_grad():
                        action, logprob, _, value = agent.get_action_and_value(next_obs)
                    entry = {"obs": next_obs, "done": next_done, "action": action, "logprob": logprob}
                    entry["value"] = value.flatten()
                    next_obs, reward, done, info = envs.step(action.cpu().numpy())
                    entry["reward"] = torch.tensor(reward, dtype=torch.float32).to(device)
                    memory.append(entry)
                    next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)
                obs, dones, actions, logprobs, values, rewards = (
                    torch.stack([m[k] for m in memory]) for k in ("obs", "done", "action", "logprob", "value", "reward")
                )
            """,
        },
        {
            "storage": "writes no preallocated torch buffers",
            "gae-hoist": "which is not known to be made by torch with a shape",
        },
    ),
]
