"""Scripts that deviate from the skeleton as users' do: each converts, for the most part, and computes the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from family import BY_DATA
from host import host_copies
from scripts import PARTS, edited, script

from transformer import Applied, Skipped, convert
from transformer.verify import compare, record


@dataclass(frozen=True)
class Variation:
    """A script in parts, and which transforms are skipped, each with a piece of the reason."""

    title: str
    parts: Mapping[str, str]
    skipped: Mapping[str, str | None] = field(default_factory=dict)
    """None for one of NOT_NEEDED that is needed."""

    def __str__(self) -> str:
        return self.title


WRAPPER = "class Wrapped:\n    def __init__(self, envs):\n        self.envs = envs\n\n"
WRAPPED = "envs = Wrapped(envs)\n" + PARTS["make_agent"]
ACTOR_AND_CRITIC = (
    "optimizer = optim.Adam(agent.actor.parameters(), lr=args.learning_rate)\n"
    "critic_optimizer = optim.Adam(agent.critic.parameters(), lr=args.learning_rate)"
)
NOT_NEEDED = {
    "dissolve": "no class of this file trains",
    "inline": "rollout and update stand in one training loop already",
    "no-grad": "no torch.no_grad() stands around the rollout loop",
    "auxiliary-update": "the minibatch loop is the only one that steps an optimizer",
    "late-exit": "nothing leaves the minibatch loop between its computation and the optimizer's step",
    "float-arrays": "nothing that is compiled makes tensors of arrays with torch.Tensor()",
}

LOSS = {
    "functions": """
        def ppo_loss(agent, b_obs, b_actions, b_logprobs, b_advantages, b_returns, mb_inds, clipfracs):
            <computation>
            return loss, v_loss


    """,
    "computation": PARTS["minibatch"].removesuffix("\n<optimize>"),
    "learn": "loss, v_loss = ppo_loss(agent, b_obs, b_actions, b_logprobs, b_advantages, b_returns, mb_inds, "
    "clipfracs)\n<optimize>",
}

HANDED_OVER = """
if __name__ == "__main__":
    options = parse_args()
    torch.manual_seed(3)
    network = Agent().to("cpu")
    adam = optim.Adam(network.parameters(), lr=options.learning_rate, eps=1e-5)
    learn(network, adam, options, device="cpu")
"""

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
    Variation("the skeleton", {}),
    Variation(
        "training in a function that is handed its network and its optimizer",
        {
            "main": "def learn(agent, optimizer, args, device):",
            "parse": "print('training')",
            "setup": "device = torch.device(device)",
            "make_agent": "",
            "optimizer": "",
            "end": HANDED_OVER,
        },
        {"inline": None},
    ),
    Variation(
        "phases in functions",
        {
            "functions": """
                def collect(envs, agent, obs, actions, logprobs, rewards, dones, values, start, next_done, steps_done):
                    next_obs = start
                    <rollout>
                    return next_obs, next_done, steps_done

                def train(agent, optimizer, obs, actions, logprobs, advantages, returns, clip=0.2):
                    <flatten_inside>
                    <epochs>
                    return v_loss.item(), clipfracs


            """,
            "rollout": PARTS["rollout"].replace("global_step", "steps_done"),
            "flatten_inside": PARTS["flatten"],
            "flatten": "",
            "learn": PARTS["minibatch"].replace("args.clip_coef", "clip"),
            "metrics": PARTS["metrics"].replace("args.clip_coef", "clip"),
            "collect": "next_obs, next_done, global_step = collect(envs, agent, obs, actions, logprobs, rewards, "
            "dones, values, next_obs, next_done, global_step)",
            "epochs": PARTS["minibatches"],
            "minibatches": "",
            "report": "value_loss, clipfracs = train(agent, optimizer, obs, actions, logprobs, advantages, returns, "
            "clip=args.clip_coef)\n" + PARTS["report"].replace("v_loss.item()", "value_loss"),
        },
        {"inline": None},
    ),
    Variation("a loss in a function", LOSS, {"inline": None}),
    Variation(
        "a loss in a function that must stay one",
        {**LOSS, "end": "print(ppo_loss.__name__)"},
        {
            "shuffle": "mb_inds is used otherwise than to index a tensor",
            "deferred-sync": "the minibatch loop reads no tensor on the host",
        },
    ),
    Variation(
        "one block of no_grad around rollout and advantages",
        {
            "collect": "with torch.no_grad():\n    <rollout>\n    <estimation>",
            "estimation": PARTS["advantages"].partition("\n")[2],
            "estimate": "",
        },
        {"no-grad": None},
    ),
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
            "transfers": "no blocking transfer",
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
        "what a step records is computed from what it has recorded",
        {
            "act": """
                with torch.no_grad():
                    values[step] = agent.get_value(obs[step]).flatten()
                    action, logprob, _, _ = agent.get_action_and_value(obs[step])
            """
        },
        {"evaluate-once": "gives the policy more than the observations"},
    ),
    Variation(
        "a forward hook that changes what a layer returns",
        {"before_loop": "agent.actor[0].register_forward_hook(lambda module, given, result: result * 0.5)"},
        {"evaluate-once": "registers a hook", "cudagraphs": "registers a hook"},
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
        "a Lagrange multiplier with an optimizer that is stepped once per rollout",
        {
            "optimizer": PARTS["optimizer"]
            + "\npenalty = torch.tensor(0.5, requires_grad=True)\npenalty_optimizer = optim.Adam([penalty], lr=0.1)",
            "flatten": PARTS["flatten"]
            + """
                penalty_loss = -penalty * (float(rewards.mean()) - 0.5)
                penalty_optimizer.zero_grad()
                penalty_loss.backward()
                penalty_optimizer.step()
            """.replace("\n                ", "\n"),
            "minibatch": edited("minibatch", "- 0.01 *", "- penalty.detach() * 0.01 *"),
            "report": PARTS["report"] + "\nprint(penalty.item())",
        },
        {},
    ),
    Variation(
        "names that only some turns of the loops set",
        {
            "head": "if iteration > 1:\n    bonus = 0.5",
            "step": PARTS["step"]
            + "\nif done.any():\n    last = global_step\nif iteration > 1:\n    rewards[step] *= bonus",
            "metrics": PARTS["metrics"] + "\nif iteration > 1:\n    spread, worst = ratio.std(), bonus",
            "report": PARTS["report"]
            + "\nif iteration > 1:\n    print(last if args.seed > 5 else 0, spread.item(), worst)",
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
    ),
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
        {
            "host-arrays": "the storage has more than one dtype",
            "evaluate-once": "gives the policy more than the observations",
        },
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
        {"evaluate-once": "takes no actions that it would draw otherwise", "cudagraphs": "keeps self.nvec"},
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
        {"evaluate-once": "gives the policy more than the observations"},
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
            "evaluate-once": "torch.cat(), which may mix the rows",
            "cudagraphs": "next_obs, which it is given, is not known to be a tensor",
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
    Variation(
        "mixed precision with a GradScaler",
        {
            "make_agent": PARTS["make_agent"] + '\nscaler = torch.amp.GradScaler("cpu", enabled=True)',
            "learn": "with torch.autocast(device.type, dtype=torch.bfloat16):\n    <forward>\n<optimize>",
            "forward": PARTS["minibatch"].replace("\n<optimize>", ""),
            "optimize": """
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                scaler.step(optimizer)
                scaler.update()
            """,
        },
        {"one-graph": "step() on line"},
    ),
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
        "two optimizers under one loss, cleared after their steps",
        {
            "optimizer": ACTOR_AND_CRITIC,
            "anneal": "",
            "optimize": """
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                critic_optimizer.step()
                optimizer.zero_grad()
                critic_optimizer.zero_grad()
            """,
        },
    ),
    Variation(
        "two optimizers, and two losses one after the other",
        {
            "optimizer": ACTOR_AND_CRITIC,
            "anneal": "",
            "optimize": """
                critic_optimizer.zero_grad()
                optimizer.zero_grad()
                pg_loss.backward(retain_graph=True)
                v_loss.backward()
                optimizer.step()
                critic_optimizer.step()
            """,
        },
    ),
    Variation(
        "a scheduler per iteration",
        {
            "optimizer": PARTS["optimizer"]
            + "\nscheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 - i / args.num_iterations)",
            "anneal": "",
            "report": edited("report", 'optimizer.param_groups[0]["lr"]', "scheduler.get_last_lr()[0]")
            + "\nscheduler.step()",
        },
    ),
    Variation(
        "a scheduler per minibatch",
        {
            "optimizer": PARTS["optimizer"]
            + "\nscheduler = optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=20)",
            "anneal": "",
            "optimize": PARTS["optimize"] + "\nscheduler.step()",
        },
    ),
    Variation(
        "annealed entropy and clip coefficients",
        {
            "anneal": PARTS["anneal"] + "\nent_coef = 0.01 * frac\nclip_now = max(args.clip_coef * frac, 0.05)",
            "minibatch": PARTS["minibatch"].replace("0.01 *", "ent_coef *").replace("args.clip_coef", "clip_now"),
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
    # Single cases
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
        {"one-graph": "is not a statement of its own that always runs", "late-exit": None},
    ),
    Variation(
        "a line search that writes parameters",
        {
            "optimize": PARTS["optimize"]
            + """
old = [p.detach().clone() for p in agent.parameters()]
for shrink in (1.0, 0.5, 0.25):
    with torch.no_grad():
        for p, o in zip(agent.parameters(), old):
            p.copy_(o + shrink * 0.01 * p.grad)
        trial = (agent.get_value(b_obs[mb_inds]).view(-1) - b_returns[mb_inds]).pow(2).mean()
    if trial < v_loss:
        break
""",
        },
        {"one-graph": "uses gradients outside of the minibatch too"},
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
            "gae-hoist": "before the last step is not elementwise",
        },
    ),
    Variation(
        "an optimizer that is made anew in the training",
        {"head": "if iteration == 2:\n    <remake>", "remake": PARTS["optimizer"]},
        {
            "tensor-lr": "it is made more than once",
            "one-graph": "may not be traceable",
            "evaluate-once": "binds optimizer",
            "cudagraphs": "binds optimizer",
        },
    ),
    Variation(
        "an optimizer with modes of its own",
        {
            "functions": """
                class Averaging(optim.Adam):
                    def train(self):
                        self.training = True

                    def eval(self):
                        self.training = False


            """,
            "optimizer": edited("optimizer", "optim.Adam", "Averaging"),
            "head": "optimizer.eval()",
            "flatten": PARTS["flatten"] + "\noptimizer.train()",
        },
        {
            "tensor-lr": "not known to take a tensor learning rate",
            "one-graph": "may not be traceable",
            "evaluate-once": "gives agent.parameters() to Averaging()",
            "cudagraphs": "gives agent.parameters() to Averaging()",
        },
    ),
    Variation(
        "weights rescaled through .data",
        {
            "flatten": PARTS["flatten"]
            + """
scale = b_returns.std() + 1e-5
agent.critic[-1].weight.data = agent.critic[-1].weight.data / scale
agent.critic[-1].bias.data = agent.critic[-1].bias.data / scale
b_returns = b_returns / scale
""",
        },
        {"evaluate-once": "sets agent.critic[-1].weight.data", "cudagraphs": "sets agent.critic[-1].weight.data"},
    ),
    Variation(
        "gradients saved, changed and restored between two backward passes",
        {
            "optimize": """
                optimizer.zero_grad()
                v_loss.backward(retain_graph=True)
                saved = [None if p.grad is None else p.grad.clone() for p in agent.parameters()]
                optimizer.zero_grad()
                loss.backward()
                for p, g in zip(agent.parameters(), saved):
                    if g is not None:
                        p.grad = p.grad - 0.1 * g
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
            """,
        },
        {"one-graph": "uses gradients one by one"},
    ),
    Variation(
        "a module that keeps statistics of what it sees",
        {
            "agent": PARTS["agent"].replace("nn.Linear(2, 8)", "Normalizer(), nn.Linear(2, 8)"),
            "args": """
                class Normalizer(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.register_buffer("mean", torch.zeros(2))

                    def forward(self, x):
                        if self.training:
                            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
                        return x - self.mean


                def parse_args():
                    <parser>
                    return parser.parse_args()
            """,
        },
        {"evaluate-once": "which may mix the rows", "cudagraphs": "uses self.training"},
    ),
    Variation(
        "a history on the agent",
        {
            "agent": PARTS["agent"]
            .replace("super().__init__()\n", "super().__init__()\n        self.history = []\n")
            .replace(
                "            action = probs.sample()",
                "            action = probs.sample()\n            self.history.append(x)",
            ),
            "act": PARTS["act"],
            "report": PARTS["report"]
            + "\nprint(len(agent.history), sum(h.sum().item() for h in agent.history))\nagent.history.clear()",
        },
        {
            "evaluate-once": "takes no actions that it would draw otherwise",
            "one-graph": "calls agent.history.clear()",
            "cudagraphs": "keeps self.history",
        },
    ),
]


@pytest.mark.parametrize("variation", VARIATIONS, ids=str)
def test_the_transforms_that_are_skipped(variation: Variation) -> None:
    conversion = convert(script(variation.parts), tune=True, measure=True)
    assert conversion.converted, conversion.diagnostics
    expected = {name: why for name, why in {**NOT_NEEDED, **variation.skipped}.items() if why is not None}
    for step in conversion.steps:
        name = step.transform.name
        derived = isinstance(step.outcome, Skipped) and step.outcome.reason.startswith("needs ")
        if derived or (name in BY_DATA and name not in variation.skipped):
            continue
        if isinstance(step.outcome, Skipped):
            assert expected.get(name, "not expected") in step.outcome.reason
        else:
            assert isinstance(step.outcome, Applied) and name not in expected


@pytest.mark.slow
@pytest.mark.parametrize("variation", VARIATIONS, ids=str)
def test_variation(variation: Variation, tmp_path: Path) -> None:
    source = script(variation.parts)
    path = tmp_path / "ppo.py"
    path.write_text(source)
    left, right = record(path, []), record(path, [], source=convert(source, tune=True, measure=True).source)
    assert left.steps and right.iterations == 3
    assert compare(left, right) == ()


def test_an_environment_on_the_device_stays_there() -> None:
    (variation,) = (v for v in VARIATIONS if v.title == "an environment on the device")
    source = script(variation.parts)
    assert host_copies(convert(source).source) == host_copies(source)
