"""Environments: on the device, plain ones, vectors of another make, what they return at the end of an episode."""

from __future__ import annotations

from scripts import PARTS, edited

from variations.base import WRAPPED, WRAPPER, Variation

PLAIN = {
    "options": edited("options", '"--num-envs", type=int, default=2', '"--num-envs", type=int, default=1'),
    "functions": """
        class Plain:
            def __init__(self):
                self.envs = Envs(1)

            def reset(self):
                return self.envs.reset()[0]

            def step(self, action):
                state, reward, done, info = self.envs.step(np.array([action]))
                return state[0], reward[0], done[0], info


    """,
    "step": edited("step", "torch.Tensor(done)", "torch.Tensor([done])"),
}
"""One environment that is no vector of them."""

VARIATIONS = [
    Variation(
        "an environment on the device",
        {
            "functions": WRAPPER
            + """    # Tensors that the next step changes in place; actions are clipped in place
    def reset(self):
        self.reward, self.over = torch.zeros(2), torch.zeros(2, dtype=torch.long)
        return torch.tensor(self.envs.reset())

    def step(self, action):
        obs, reward, done, info = self.envs.step(action.clamp_(0, 1).numpy())
        self.reward[:] = torch.tensor(reward)
        self.over[:] = torch.tensor(done)
        return torch.tensor(obs), self.reward, self.over, info


""",
            "make_agent": WRAPPED,
            "buffers": PARTS["buffers"] + "\nadvantages = torch.zeros_like(rewards)",
            "begin": """
                global_step = 0
                next_obs = envs.reset()
                next_done = torch.zeros(args.num_envs).to(device)
            """,
            "step": "next_obs, rewards[step], next_done, info = envs.step(action)",
            "advantages": PARTS["advantages"].replace("advantages = torch.zeros_like(rewards).to(device)\n    ", ""),
        },
        {
            "gae-hoist": "1.0 - next_done is not known to be float32",
            "transfers": "the rollout moves nothing to the device that is known to be an array",
            "host-arrays": "the environment returns tensors",
        },
    ),
    Variation(
        "environments that a function steps one after the other",
        {
            "functions": """
                def step_all(envs, action):
                    states, rewards, dones, infos = [], [], [], []
                    for i, env in enumerate(envs):
                        state, reward, done, info = env.step(action[i : i + 1])
                        states.append(state[0])
                        rewards.append(reward[0])
                        dones.append(done[0])
                        infos.append(info)
                    return states, rewards, dones, infos


            """,
            "make_agent": "envs = [Envs(1) for _ in range(args.num_envs)]\n" + PARTS["make_agent"],
            "begin": edited(
                "begin", "torch.Tensor(envs.reset())", "torch.Tensor(np.concatenate([e.reset() for e in envs]))"
            ),
            "step": edited("step", "envs.step(action.cpu().numpy())", "step_all(envs, action.cpu().numpy())"),
        },
        {
            "host-arrays": "is known to be an array that no network sees",
            "evaluate-once": "next_obs is not recorded as it is",
        },
    ),
    Variation(
        "one plain environment, whose observations are broadcast into the buffer",
        {**PLAIN, "make_agent": "envs = Plain()\n" + PARTS["make_agent"]},
        {"evaluate-once": "next_obs is not recorded as it is"},
    ),
    Variation(
        "one plain environment, which the script gives single spaces",
        {**PLAIN, "make_agent": "envs = Plain()\nenvs.single_action_space = None\n" + PARTS["make_agent"]},
        {"evaluate-once": "next_obs is not recorded as it is"},
    ),
    Variation(
        "AsyncVectorEnv, which gives its own memory away",
        {
            "third_party": "import gymnasium as gym",
            "agent": PARTS["agent"].replace("nn.Linear(2, 8)", "nn.Linear(4, 8)"),
            "make_agent": """
                envs = gym.vector.AsyncVectorEnv(
                    [lambda: gym.make("CartPole-v1") for _ in range(args.num_envs)], copy=False
                )
                agent = Agent().to(device)
            """,
            "buffers": edited("buffers", "args.num_envs, 2)", "args.num_envs, 4)"),
            "begin": edited("begin", "envs.reset()", "envs.reset(seed=args.seed)[0]"),
            "step": """
                next_obs, reward, terminations, truncations, infos = envs.step(action.cpu().numpy())
                next_done = np.logical_or(terminations, truncations)
                rewards[step] = torch.tensor(reward).to(device).view(-1)
                next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(next_done).to(device)
                if "final_info" in infos:
                    print(step, [info is not None for info in infos["final_info"]])
            """,
            "flatten": edited("flatten", "obs.reshape((-1, 2))", "obs.reshape((-1, 4))"),
            "end": "    envs.close()",
        },
    ),
    Variation(
        "bootstrapping on the final observation",
        {
            "functions": WRAPPER
            + """    def reset(self):
        return self.envs.reset(), {}

    def step(self, action):
        obs, reward, done, _ = self.envs.step(action)
        infos = {"final_observation": [o if d else None for o, d in zip(obs + 0.1, done)]} if done.any() else {}
        return obs, reward, done & (obs[:, 0] > 0), done & (obs[:, 0] <= 0), infos


""",
            "make_agent": WRAPPED,
            "begin": edited("begin", "envs.reset()", "envs.reset()[0]"),
            "step": """
                next_obs, reward, terminations, truncations, infos = envs.step(action.cpu().numpy())
                done = np.logical_or(terminations, truncations)
                if "final_observation" in infos:
                    for idx, final in enumerate(infos["final_observation"]):
                        if final is not None and truncations[idx]:
                            with torch.no_grad():
                                reward[idx] += args.gamma * agent.get_value(torch.Tensor(final).to(device)).item()
                rewards[step] = torch.tensor(reward).to(device).view(-1)
                next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)
            """,
        },
        {"evaluate-once": "may change it in place"},  # rewards and observations come from one call
    ),
    Variation(
        "bootstrapping on the final observation, with a buffer of next values",
        {
            "buffers": PARTS["buffers"] + "\nnext_values = torch.zeros((args.num_steps, args.num_envs)).to(device)",
            "step": """
                next_obs, reward, done, info = envs.step(action.cpu().numpy())
                real_next_obs = next_obs.copy()
                for idx, d in enumerate(done):
                    if d:
                        real_next_obs[idx] = 0.1
                with torch.no_grad():
                    next_values[step] = agent.get_value(torch.Tensor(real_next_obs).to(device)).flatten()
                rewards[step] = torch.tensor(reward).to(device).view(-1)
                next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)
            """,
            "gae": """
                for t in reversed(range(args.num_steps)):
                    nextnonterminal = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
                    delta = rewards[t] + args.gamma * next_values[t] - values[t]
                    advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam
            """,
        },
        {"step-networks": None},
    ),
]
