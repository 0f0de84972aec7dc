"""Observations and actions of other forms: masks, tuples, dicts, several at once, normalised."""

from __future__ import annotations

from scripts import PARTS, edited

from variations.base import WRAPPED, WRAPPER, Variation

VARIATIONS = [
    Variation(
        "action masks",
        {
            "agent": PARTS["agent"]
            .replace("x, action=None", "x, mask, action=None")
            .replace("logits=self.actor(x)", "logits=torch.where(mask, self.actor(x), torch.tensor(-1e8))"),
            "buffers": PARTS["buffers"]
            + "\nmasks = torch.zeros((args.num_steps, args.num_envs, 2), dtype=torch.bool).to(device)",
            "store": PARTS["store"]
            + "\nmask = next_obs[:, :1] > torch.tensor([-0.3, 0.3])\nmask[:, 0] |= ~mask[:, 1]\n"
            "masks[step] = mask",
            "act": edited("act", "(next_obs)", "(next_obs, mask)"),
            "flatten": PARTS["flatten"] + "\nb_masks = masks.reshape((-1, 2))",
            "minibatch": edited("minibatch", "b_obs[mb_inds], b", "b_obs[mb_inds], b_masks[mb_inds], b"),
        },
        {"evaluate-once": "passes the policy more than the observations"},
    ),
    Variation(
        "multi-discrete actions",
        {
            "agent": """
                class Agent(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.nvec = [2, 3]
                        self.critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
                        self.actor = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 5))

                    def get_value(self, x):
                        return self.critic(x)

                    def get_action_and_value(self, x, action=None):
                        heads = [Categorical(logits=part) for part in torch.split(self.actor(x), self.nvec, dim=1)]
                        if action is None:
                            action = torch.stack([head.sample() for head in heads])
                        else:
                            action = action.T
                        logprob = torch.stack([head.log_prob(a) for a, head in zip(action, heads)])
                        entropy = torch.stack([head.entropy() for head in heads])
                        return action.T, logprob.sum(0), entropy.sum(0), self.critic(x)
            """,
            "buffers": edited(
                "buffers",
                "actions = torch.zeros((args.num_steps, args.num_envs)",
                "actions = torch.zeros((args.num_steps, args.num_envs, 2)",
            ),
            "step": edited("step", "action.cpu().numpy()", "action.cpu().numpy()[:, 0]"),
            "flatten": edited("flatten", "actions.reshape(-1)", "actions.reshape((-1, 2))"),
        },
        {
            "evaluate-once": "cannot take the actions",
            "one-graph": "does not always reach agent.actor",  # it is in the items of lists
            "cudagraphs": "keeps self.nvec",
        },
    ),
    Variation(
        "observations in a tuple",
        {
            "functions": WRAPPER
            + """    def reset(self):
        return tuple(self.envs.reset().T)

    def step(self, action):
        obs, *rest = self.envs.step(action)
        return tuple(obs.T), *rest


""",
            "make_agent": WRAPPED,
            "agent": PARTS["agent"]
            .replace("(self, x", "(self, place, speed")
            .replace("        probs =", "        x = torch.stack([place, speed], 1)\n        probs =")
            .replace("        return self.critic(x)\n", "        return self.critic(torch.stack([place, speed], 1))\n"),
            "buffers": edited(
                "buffers",
                "obs = torch.zeros((args.num_steps, args.num_envs, 2)).to(device)",
                "places = torch.zeros((args.num_steps, args.num_envs)).to(device)\n"
                "speeds = torch.zeros((args.num_steps, args.num_envs)).to(device)",
            ),
            "begin": edited(
                "begin",
                "next_obs = torch.Tensor(envs.reset()).to(device)",
                "place, speed = (torch.Tensor(o).to(device) for o in envs.reset())",
            ),
            "store": edited("store", "obs[step] = next_obs", "places[step] = place\nspeeds[step] = speed"),
            "act": edited("act", "(next_obs)", "(place, speed)"),
            "step": edited(
                "step",
                "next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)",
                "place, speed = torch.Tensor(next_obs[0]).to(device), torch.Tensor(next_obs[1]).to(device)\n"
                "next_done = torch.Tensor(done).to(device)",
            ),
            "advantages": edited("advantages", "(next_obs)", "(place, speed)"),
            "flatten": edited(
                "flatten", "b_obs = obs.reshape((-1, 2))", "b_places, b_speeds = places.reshape(-1), speeds.reshape(-1)"
            ),
            "minibatch": edited("minibatch", "b_obs[mb_inds]", "b_places[mb_inds], b_speeds[mb_inds]"),
        },
        {"evaluate-once": "passes the policy more than the observations"},
    ),
    Variation(
        "observations in a dict",
        {
            "functions": WRAPPER
            + """    def reset(self):
        obs = self.envs.reset()
        return {"place": obs[:, :1], "speed": obs[:, 1:]}

    def step(self, action):
        obs, *rest = self.envs.step(action)
        return {"place": obs[:, :1], "speed": obs[:, 1:]}, *rest


""",
            "make_agent": WRAPPED,
            "agent": PARTS["agent"]
            .replace("self.actor(x)", "self.actor(torch.cat([x['place'], x['speed']], 1))")
            .replace("self.critic(x)", "self.critic(torch.cat([x['place'], x['speed']], 1))"),
            "buffers": edited(
                "buffers",
                "obs = torch.zeros((args.num_steps, args.num_envs, 2)).to(device)",
                "obs = {k: torch.zeros((args.num_steps, args.num_envs, 1)).to(device) for k in ('place', 'speed')}",
            ),
            "begin": edited(
                "begin",
                "torch.Tensor(envs.reset()).to(device)",
                "{k: torch.Tensor(o).to(device) for k, o in envs.reset().items()}",
            ),
            "store": edited("store", "obs[step] = next_obs", "for k, o in next_obs.items():\n    obs[k][step] = o"),
            "step": edited(
                "step",
                "next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)",
                "next_obs = {k: torch.Tensor(o).to(device) for k, o in next_obs.items()}\n"
                "next_done = torch.Tensor(done).to(device)",
            ),
            "flatten": edited("flatten", "obs.reshape((-1, 2))", "{k: o.reshape((-1, 1)) for k, o in obs.items()}"),
            "minibatch": edited("minibatch", "b_obs[mb_inds]", "{k: o[mb_inds] for k, o in b_obs.items()}"),
        },
        {
            "evaluate-once": "indexes x['place']",
            "cudagraphs": "its argument next_obs is not known to be a tensor",
        },
    ),
    Variation(
        "observations and rewards normalised in torch",
        {
            "functions": """
                class RunningMeanStd:
                    def __init__(self, shape, device):
                        self.mean, self.var = torch.zeros(shape, device=device), torch.ones(shape, device=device)
                        self.count = 1e-4

                    def update(self, x):
                        mean, var, count = x.mean(0), x.var(0, unbiased=False), x.shape[0]
                        delta, total = mean - self.mean, self.count + count
                        self.mean = self.mean + delta * count / total
                        self.var = (self.var * self.count + var * count + delta**2 * self.count * count / total) / total
                        self.count = total

                    def normalize(self, x):
                        self.update(x)
                        return ((x - self.mean) / torch.sqrt(self.var + 1e-8)).clamp(-10, 10)


            """,
            "make_agent": "obs_rms, returns_rms = RunningMeanStd((2,), device), RunningMeanStd((), device)\n"
            "running = torch.zeros(args.num_envs, device=device)\n" + PARTS["make_agent"],
            "step": """
                next_obs, reward, done, info = envs.step(action.cpu().numpy())
                next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)
                reward = torch.tensor(reward, dtype=torch.float32).to(device).view(-1)
                running = running * args.gamma * (1 - next_done) + reward
                returns_rms.update(running)
                rewards[step] = reward / torch.sqrt(returns_rms.var + 1e-8)
                next_obs = obs_rms.normalize(next_obs)
            """,
        },
        {"host-arrays": "is known to be an array that no network sees"},
    ),
]
