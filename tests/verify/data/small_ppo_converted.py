# PPO on a task of its own, small enough to train a few iterations in a tenth of a second
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
import tqdm
from tensordict import TensorDict
from tensordict.nn import CudaGraphModule
from torch.distributions.categorical import Categorical
from torch.utils.tensorboard import SummaryWriter


class Drift:
    """Points that drift away from zero unless they are pushed back; an episode ends when one is too far off."""

    def __init__(self, num_envs, seed):
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.num_envs = num_envs
        self.scores = np.zeros(num_envs)

    def reset(self):
        self.points = self.random.normal(size=(self.num_envs, 3)).astype(np.float32)
        return self.points.copy()

    def step(self, action):
        push = np.where(action == 1, 0.4, -0.4).astype(np.float32)
        self.points = 1.1 * self.points + push[:, None] + 0.1 * self.random.normal(size=self.points.shape)
        reward = 3.0 - np.abs(self.points).sum(1)
        self.scores += reward
        done = np.abs(self.points).max(1) > 3.0
        info = {"episodes": [float(score) for score in self.scores[done]]}
        self.scores[done] = 0.0
        self.points[done] = self.random.normal(size=(int(done.sum()), 3))
        return self.points.astype(np.float32), reward, done, info


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=20000)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--num-envs", type=int, default=2)
    parser.add_argument("--num-steps", type=int, default=32)
    parser.add_argument("--gamma", type=float, default=0.98)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--num-minibatches", type=int, default=4)
    parser.add_argument("--update-epochs", type=int, default=3)
    parser.add_argument("--clip-coef", type=float, default=0.1)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    parser.add_argument("--vf-coef", type=float, default=0.5)
    parser.add_argument("--max-grad-norm", type=float, default=0.5)
    parser.add_argument("--target-kl", type=float, default=0.03)
    parser.add_argument(
        "--compile", action="store_true", help="compile policy, advantages and update with torch.compile"
    )
    parser.add_argument("--cudagraphs", action="store_true", help="replay policy, advantages and update as CUDA graphs")
    parser.add_argument("--measure-burnin", type=int, default=3, help="iterations before the speed is measured")
    args = parser.parse_args()
    args.batch_size = int(args.num_envs * args.num_steps)
    args.minibatch_size = int(args.batch_size // args.num_minibatches)
    return args


def rollout(global_step, next_obs, next_done):
    """Step the environments num_steps times with the present policy."""
    transitions = []
    for _step in range(args.num_steps):
        transition = {}
        transitions.append(transition)
        global_step += args.num_envs
        transition["obs"] = next_obs.clone()
        transition["dones"] = next_done.flatten().clone()

        if args.cudagraphs:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            action, logprob, _, value = policy(next_obs)
            transition["values"] = value.flatten()
        transition["actions"] = action.flatten()
        transition["logprobs"] = logprob.flatten()

        next_obs, reward, done, info = envs.step(action.cpu().numpy())
        reward = np.clip(reward, -1.0, 1.0)
        transition["rewards"] = torch.tensor(reward).to(device, non_blocking=True).view(-1)
        next_obs, next_done = (
            torch.as_tensor(next_obs).to(device, torch.float32, non_blocking=True),
            torch.as_tensor(done).to(device, torch.float32, non_blocking=True),
        )

        for score in info["episodes"]:
            print(f"global_step={global_step}, episodic_return={score}")
            writer.add_scalar("charts/episodic_return", score, global_step)
    storage = TensorDict(
        {key: torch.stack([t[key] for t in transitions]) for key in transition}, batch_size=[args.num_steps]
    ).to(device, torch.float32)
    return global_step, next_obs, next_done, storage


@torch.compiler.disable
def recurrence(advantages, lastgaelam, delta, discount):
    """Accumulate backwards in time; torch.compile would unroll this loop over the whole rollout."""
    for t in reversed(range(args.num_steps)):
        advantages[t] = lastgaelam = delta[t] + discount[t] * lastgaelam


def gae(next_obs, storage, next_done):
    """Estimate the advantages and returns of the rollout, backwards in time."""
    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        advantages = torch.zeros_like(storage["rewards"]).to(device)
        lastgaelam = 0
        nextnonterminal = torch.cat([1.0 - storage["dones"][1:], (1.0 - next_done).expand_as(storage["dones"][:1])])
        nextvalues = torch.cat([storage["values"][1:], next_value.expand_as(storage["values"][:1])])
        delta = storage["rewards"] + args.gamma * nextvalues * nextnonterminal - storage["values"]
        discount = args.gamma * args.gae_lambda * nextnonterminal
        recurrence(advantages, lastgaelam, delta, discount)
        returns = advantages + storage["values"]
    return advantages, returns


def update_1(b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns, b_values):
    """Optimize the networks on one minibatch."""
    _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])
    logratio = newlogprob - b_logprobs[mb_inds]
    ratio = logratio.exp()

    with torch.no_grad():
        approx_kl = ((ratio - 1) - logratio).mean()
        clipfrac = ((ratio - 1.0).abs() > args.clip_coef).float().mean()

    mb_advantages = b_advantages[mb_inds]
    mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)

    pg_loss1 = -mb_advantages * ratio
    pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
    pg_loss = torch.max(pg_loss1, pg_loss2).mean()

    newvalue = newvalue.view(-1)
    v_loss_unclipped = (newvalue - b_returns[mb_inds]) ** 2
    v_clipped = b_values[mb_inds] + torch.clamp(newvalue - b_values[mb_inds], -args.clip_coef, args.clip_coef)
    v_loss_clipped = (v_clipped - b_returns[mb_inds]) ** 2
    v_loss = 0.5 * torch.max(v_loss_unclipped, v_loss_clipped).mean()

    entropy_loss = entropy.mean()
    loss = pg_loss - args.ent_coef * entropy_loss + v_loss * args.vf_coef

    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
    optimizer.step()
    return approx_kl, clipfrac, pg_loss.detach(), v_loss.detach(), entropy_loss.detach()


if __name__ == "__main__":
    args = parse_args()
    writer = SummaryWriter(f"runs/small__{args.seed}__{int(time.time())}")
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    envs = Drift(args.num_envs, args.seed)
    agent = Agent().to(device)
    optimizer = optim.Adam(
        agent.parameters(),
        lr=torch.tensor(args.learning_rate, dtype=torch.float64, device=device if args.cudagraphs else "cpu"),
        eps=1e-5,
        capturable=args.cudagraphs,
    )
    policy = agent.get_action_and_value

    global_step = 0
    start_time = time.time()
    next_obs = torch.Tensor(envs.reset()).to(device)
    next_done = torch.zeros(args.num_envs).to(device)
    num_updates = args.total_timesteps // args.batch_size

    if args.compile:
        # Checking a distribution's arguments reads tensors on the host, which breaks the compiled graph
        torch.distributions.Distribution.set_default_validate_args(False)
        policy = torch.compile(policy)
        gae = torch.compile(gae)
        update_1 = torch.compile(update_1)

    if args.cudagraphs:
        if torch.device(device).type != "cuda":
            raise SystemExit(f"--cudagraphs needs a CUDA device, but this run is on {device}")
        policy = CudaGraphModule(policy, warmup=20)
        if args.batch_size % args.minibatch_size == 0:  # a graph holds one size: not with a smaller last minibatch
            update_1 = CudaGraphModule(update_1, warmup=20)

    pbar = tqdm.tqdm(range(1, num_updates + 1))
    for update in pbar:
        if update == args.measure_burnin + 1:
            burnin_step, burnin_time = global_step, time.perf_counter()
        elif update > args.measure_burnin + 1:
            speed = (global_step - burnin_step) / (time.perf_counter() - burnin_time)
            pbar.set_description(f"{speed:.0f} steps/s")
        frac = 1.0 - (update - 1.0) / num_updates
        optimizer.param_groups[0]["lr"].fill_(frac * args.learning_rate)

        global_step, next_obs, next_done, storage = rollout(global_step, next_obs, next_done)

        advantages, returns = gae(next_obs, storage, next_done)

        b_obs = storage["obs"].reshape((-1, 3))
        b_logprobs = storage["logprobs"].reshape(-1)
        b_actions = storage["actions"].reshape(-1)
        b_advantages = advantages.reshape(-1)
        b_returns = returns.reshape(-1)
        b_values = storage["values"].reshape(-1)

        clipfracs = []
        for _epoch in range(args.update_epochs):
            for mb_inds in torch.randperm(args.batch_size, device=device).split(args.minibatch_size):
                if args.cudagraphs:
                    torch.compiler.cudagraph_mark_step_begin()
                approx_kl, clipfrac, pg_loss, v_loss, entropy_loss = update_1(
                    b_obs, mb_inds, b_actions, b_logprobs, b_advantages, b_returns, b_values
                )
                clipfracs += [clipfrac]

            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        y_pred, y_true = b_values.cpu().numpy(), b_returns.cpu().numpy()
        var_y = np.var(y_true)
        explained_var = np.nan if var_y == 0 else 1 - np.var(y_true - y_pred) / var_y

        writer.add_scalar("charts/learning_rate", optimizer.param_groups[0]["lr"].item(), global_step)
        writer.add_scalar("losses/value_loss", v_loss.item(), global_step)
        writer.add_scalar("losses/policy_loss", pg_loss.item(), global_step)
        writer.add_scalar("losses/entropy", entropy_loss.item(), global_step)
        writer.add_scalar("losses/approx_kl", approx_kl.item(), global_step)
        writer.add_scalar("losses/clipfrac", np.mean(torch.stack(clipfracs).tolist()), global_step)
        writer.add_scalar("losses/explained_variance", explained_var, global_step)
        print("SPS:", int(global_step / (time.time() - start_time)))

    writer.close()
