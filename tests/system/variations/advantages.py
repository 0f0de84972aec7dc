"""Advantages and returns: other estimators, in functions, from other buffers."""

from __future__ import annotations

from scripts import PARTS, edited

from variations.base import WRAPPED, WRAPPER, Variation

VARIATIONS = [
    Variation(
        "TD(lambda)",
        {
            "gae": """
                returns = torch.zeros_like(rewards)
                for t in reversed(range(args.num_steps)):
                    if t == args.num_steps - 1:
                        nextnonterminal, nextvalues, nextreturn = 1.0 - next_done, next_value, next_value
                    else:
                        nextnonterminal, nextvalues, nextreturn = 1.0 - dones[t + 1], values[t + 1], returns[t + 1]
                    mixed = args.gae_lambda * nextreturn + (1 - args.gae_lambda) * nextvalues
                    returns[t] = rewards[t] + args.gamma * nextnonterminal * mixed
                advantages = returns - values
            """,
            "advantages": """
                with torch.no_grad():
                    next_value = agent.get_value(next_obs).reshape(1, -1)
                    <gae>
            """,
        },
        {},
    ),
    Variation(
        "V-trace targets",
        {
            "advantages": """
                with torch.no_grad():
                    next_value = agent.get_value(next_obs).reshape(-1)
                    _, present, _, _ = agent.get_action_and_value(obs.reshape((-1, 2)), actions.reshape(-1))
                    rhos = (present.view(args.num_steps, -1) - logprobs).exp().clamp(max=1.0)
                    vs = torch.zeros_like(values)
                    acc = torch.zeros(args.num_envs).to(device)
                    for t in reversed(range(args.num_steps)):
                        ahead = next_value if t == args.num_steps - 1 else values[t + 1]
                        alive = 1.0 - (next_done if t == args.num_steps - 1 else dones[t + 1])
                        delta = rhos[t] * (rewards[t] + args.gamma * alive * ahead - values[t])
                        acc = delta + args.gamma * args.gae_lambda * alive * rhos[t] * acc
                        vs[t] = values[t] + acc
                    returns = vs
                    advantages = vs - values
            """,
        },
        {"evaluate-once": "calls the policy outside the steps"},
    ),
    Variation(
        "GAE in a function",
        {
            "functions": """
                def compute_gae(rewards, values, dones, last_value, last_done, num_steps, gamma, gae_lambda):
                    advantages = torch.zeros_like(rewards)
                    carry = 0
                    for t in reversed(range(num_steps)):
                        if t == num_steps - 1:
                            alive = 1.0 - last_done
                            following = last_value
                        else:
                            alive = 1.0 - dones[t + 1]
                            following = values[t + 1]
                        delta = rewards[t] + gamma * following * alive - values[t]
                        advantages[t] = carry = delta + gamma * gae_lambda * alive * carry
                    return advantages, advantages + values


            """,
            "advantages": """
                with torch.no_grad():
                    next_value = agent.get_value(next_obs).reshape(1, -1)
                    advantages, returns = compute_gae(
                        rewards, values, dones, next_value, next_done, args.num_steps, args.gamma, args.gae_lambda
                    )
            """,
        },
    ),
    Variation(
        "GAE in a function that asks the network",
        {
            "functions": """
                @torch.no_grad()
                def estimate(agent, obs, done, rews, vals, flags, gamma, lam=0.95):
                    last = agent.get_value(obs).flatten()
                    T, N = rews.shape
                    adv = torch.zeros(T, N)
                    g = torch.zeros(N)
                    for t in range(T - 1, -1, -1):
                        following = last if t == T - 1 else vals[t + 1]
                        go = 1.0 - (done if t == T - 1 else flags[t + 1])
                        g = rews[t] + gamma * following * go - vals[t] + gamma * lam * go * g
                        adv[t] = g
                    return adv


            """,
            "advantages": """
                advantages = estimate(agent, next_obs, next_done, rewards, values, dones, args.gamma)
                returns = advantages + values
            """,
        },
    ),
    Variation(
        "two streams of dones, and a buffer of next values",
        {
            "functions": WRAPPER
            + """    def reset(self):
        return self.envs.reset(), {}

    def step(self, action):
        obs, reward, done, infos = self.envs.step(action)
        return obs, reward, done & (obs[:, 0] > 0), done & (obs[:, 0] <= 0), infos


""",
            "make_agent": WRAPPED,
            "buffers": PARTS["buffers"]
            + "\ntruncateds = torch.zeros((args.num_steps, args.num_envs)).to(device)"
            + "\nnext_values = torch.zeros((args.num_steps, args.num_envs)).to(device)",
            "begin": edited("begin", "envs.reset()", "envs.reset()[0]"),
            "store": "obs[step] = next_obs",
            "step": """
                next_obs, reward, terminated, truncated, infos = envs.step(action.cpu().numpy())
                dones[step] = torch.Tensor(terminated).to(device)
                truncateds[step] = torch.Tensor(truncated).to(device)
                rewards[step] = torch.tensor(reward).to(device).view(-1)
                next_obs = torch.Tensor(next_obs).to(device)
                with torch.no_grad():
                    next_values[step] = agent.get_value(next_obs).flatten()
            """,
            "advantages": """
                with torch.no_grad():
                    advantages = torch.zeros_like(rewards).to(device)
                    lastgaelam = 0
                    for t in reversed(range(args.num_steps)):
                        delta = rewards[t] + args.gamma * next_values[t] * (1.0 - dones[t]) - values[t]
                        goes_on = (1.0 - dones[t]) * (1.0 - truncateds[t])
                        advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * goes_on * lastgaelam
                    returns = advantages + values
            """,
        },
    ),
]
