# PPO on Atari with gymnasium's wrappers: what `lean-convert migrate` turns to envpool.
import argparse
import random
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.distributions import Categorical
from torch.utils.tensorboard import SummaryWriter

from stable_baselines3.common.atari_wrappers import (  # isort:skip
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    NoopResetEnv,
)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="BreakoutNoFrameskip-v4", help="the game")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--capture-video", action="store_true", help="film the first game")
    parser.add_argument("--total-timesteps", type=int, default=10_000_000)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=128)
    parser.add_argument("--update-epochs", type=int, default=4)
    parser.add_argument("--num-minibatches", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=2.5e-4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--clip-coef", type=float, default=0.1)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    parser.add_argument("--vf-coef", type=float, default=0.5)
    return parser.parse_args()


def game(name, index, film, folder):
    def make():
        if film and index == 0:
            env = gym.make(name, render_mode="rgb_array")
            env = gym.wrappers.RecordVideo(env, folder)
        else:
            env = gym.make(name)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env = NoopResetEnv(env, noop_max=30)
        env = MaxAndSkipEnv(env, skip=4)
        env = EpisodicLifeEnv(env)
        if "FIRE" in env.unwrapped.get_action_meanings():
            env = FireResetEnv(env)
        env = ClipRewardEnv(env)
        env = gym.wrappers.ResizeObservation(env, (84, 84))
        env = gym.wrappers.GrayScaleObservation(env)
        env = gym.wrappers.FrameStack(env, 4)
        return env

    return make


class Agent(nn.Module):
    def __init__(self, games):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(4, 8, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(8, 8, 4, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(8 * 9 * 9, 32),
            nn.ReLU(),
        )
        self.actor = nn.Linear(32, games.single_action_space.n)
        self.critic = nn.Linear(32, 1)

    def value(self, frames):
        return self.critic(self.trunk(frames / 255.0))

    def act(self, frames, action=None):
        features = self.trunk(frames / 255.0)
        policy = Categorical(logits=self.actor(features))
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.critic(features)


if __name__ == "__main__":
    args = parse_args()
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    num_iterations = args.total_timesteps // batch_size
    folder = f"runs/{args.env_id}-{args.seed}-{int(time.time())}"
    writer = SummaryWriter(folder)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    games = gym.vector.SyncVectorEnv(
        [game(args.env_id, i, args.capture_video, f"{folder}/videos") for i in range(args.num_envs)]
    )
    agent = Agent(games).to(device)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    frames = torch.zeros((args.num_steps, args.num_envs) + games.single_observation_space.shape).to(device)
    actions = torch.zeros((args.num_steps, args.num_envs), dtype=torch.long).to(device)
    logprobs = torch.zeros((args.num_steps, args.num_envs)).to(device)
    rewards = torch.zeros((args.num_steps, args.num_envs)).to(device)
    dones = torch.zeros((args.num_steps, args.num_envs)).to(device)
    values = torch.zeros((args.num_steps, args.num_envs)).to(device)

    global_step = 0
    start_time = time.time()
    frame, _ = games.reset(seed=args.seed)
    frame = torch.Tensor(frame).to(device)
    done = torch.zeros(args.num_envs).to(device)
    for iteration in range(1, num_iterations + 1):
        optimizer.param_groups[0]["lr"] = (1.0 - (iteration - 1.0) / num_iterations) * args.learning_rate
        for step in range(args.num_steps):
            global_step += args.num_envs
            frames[step] = frame
            dones[step] = done
            with torch.no_grad():
                action, logprob, _, value = agent.act(frame)
            values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            frame, reward, terminated, truncated, infos = games.step(action.cpu().numpy())
            rewards[step] = torch.tensor(reward).to(device).view(-1)
            done = np.logical_or(terminated, truncated)
            frame, done = torch.Tensor(frame).to(device), torch.Tensor(done).to(device)
            if "final_info" in infos:
                for info in infos["final_info"]:
                    if info and "episode" in info:
                        print(f"global_step={global_step}, episodic_return={info['episode']['r']}")
                        writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
                        writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)

        with torch.no_grad():
            next_value = agent.value(frame).reshape(1, -1)
            advantages = torch.zeros_like(rewards)
            trace = 0
            for t in reversed(range(args.num_steps)):
                if t == args.num_steps - 1:
                    alive, following = 1.0 - done, next_value
                else:
                    alive, following = 1.0 - dones[t + 1], values[t + 1]
                delta = rewards[t] + args.gamma * following * alive - values[t]
                advantages[t] = trace = delta + args.gamma * args.gae_lambda * alive * trace
            returns = advantages + values

        b_frames = frames.reshape((-1,) + games.single_observation_space.shape)
        b_actions, b_logprobs = actions.reshape(-1), logprobs.reshape(-1)
        b_advantages, b_returns = advantages.reshape(-1), returns.reshape(-1)
        order = np.arange(batch_size)
        for epoch in range(args.update_epochs):
            np.random.shuffle(order)
            for start in range(0, batch_size, minibatch_size):
                mb = order[start : start + minibatch_size]
                _, newlogprob, entropy, newvalue = agent.act(b_frames[mb], b_actions[mb])
                ratio = (newlogprob - b_logprobs[mb]).exp()
                advantage = b_advantages[mb]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = torch.max(-advantage * ratio, -advantage * clipped).mean()
                v_loss = 0.5 * ((newvalue.view(-1) - b_returns[mb]) ** 2).mean()
                loss = pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

        writer.add_scalar("losses/value_loss", v_loss.item(), global_step)
        writer.add_scalar("losses/policy_loss", pg_loss.item(), global_step)
        print("SPS:", int(global_step / (time.time() - start_time)))

    games.close()
    writer.close()
