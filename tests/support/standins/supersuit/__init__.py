"""A stand-in for supersuit: wrappers of parallel environments, and a vector env whose environments are agents."""

import copy

import gym
import numpy as np


class _Wrapper:
    """Passes a frame per agent through `frame`, and rewards through `reward`."""

    def __init__(self, env):
        self.env = env
        self.possible_agents = env.possible_agents
        self.agents = list(env.possible_agents)

    def shape(self, shape):
        return shape

    def frame(self, agent, frame):
        return frame

    def reward(self, reward):
        return reward

    def observation_space(self, agent):
        return gym.spaces.Box(0, 255, self.shape(self.env.observation_space(agent).shape), np.uint8)

    def action_space(self, agent):
        return self.env.action_space(agent)

    def _frames(self, frames):
        return {agent: self.frame(agent, frame) for agent, frame in frames.items()}

    def reset(self):
        self.last = {}
        return self._frames(self.env.reset())

    def step(self, actions):
        frames, rewards, dones, infos = self.env.step(actions)
        return self._frames(frames), {a: self.reward(r) for a, r in rewards.items()}, dones, infos

    def close(self):
        self.env.close()


class max_observation_v0(_Wrapper):
    def __init__(self, env, memory):
        super().__init__(env)

    def frame(self, agent, frame):
        before, self.last[agent] = self.last.get(agent, frame), frame
        return np.maximum(before, frame)


class frame_skip_v0(_Wrapper):
    def __init__(self, env, num_frames):
        super().__init__(env)
        self.num_frames = num_frames

    def step(self, actions):
        total = dict.fromkeys(actions, 0.0)
        for _ in range(self.num_frames):
            frames, rewards, dones, infos = self.env.step(actions)
            total = {agent: total[agent] + reward for agent, reward in rewards.items()}
            if all(dones.values()):
                break
        return frames, total, dones, infos


class clip_reward_v0(_Wrapper):
    def __init__(self, env, lower_bound=-1, upper_bound=1):
        super().__init__(env)
        self.bounds = lower_bound, upper_bound

    def reward(self, reward):
        return max(min(reward, self.bounds[1]), self.bounds[0])


class color_reduction_v0(_Wrapper):
    def __init__(self, env, mode="full"):
        super().__init__(env)
        self.parts = [0.299, 0.587, 0.114] if mode == "full" else [float(mode == channel) for channel in "RGB"]

    def shape(self, shape):
        return shape[:2]

    def frame(self, agent, frame):
        return (frame @ self.parts).astype(frame.dtype)


class resize_v1(_Wrapper):
    def __init__(self, env, x_size, y_size):
        super().__init__(env)
        self.size = y_size, x_size

    def shape(self, shape):
        return self.size

    def frame(self, agent, frame):
        rows, columns = (np.arange(new) * old // new for new, old in zip(self.size, frame.shape))
        return frame[rows][:, columns]


class frame_stack_v1(_Wrapper):
    def __init__(self, env, num_frames=4):
        super().__init__(env)
        self.num_frames = num_frames

    def shape(self, shape):
        return (*shape, self.num_frames)

    def frame(self, agent, frame):
        before = self.last.get(agent, np.zeros((*frame.shape, self.num_frames), np.uint8))
        self.last[agent] = np.concatenate([before[:, :, 1:], frame[:, :, None]], axis=2)
        return self.last[agent]


class agent_indicator_v0(_Wrapper):
    def __init__(self, env, type_only=False):
        super().__init__(env)

    def shape(self, shape):
        return (*shape[:2], shape[2] + len(self.possible_agents))

    def frame(self, agent, frame):
        marks = np.zeros((*frame.shape[:2], len(self.possible_agents)), np.uint8)
        marks[:, :, self.possible_agents.index(agent)] = 1
        return np.concatenate([frame, marks], axis=2)


class pettingzoo_env_to_vec_env_v1:
    """A vector env in which each agent is one environment; all are reset when all are done."""

    metadata = {"render_modes": ["human", "rgb_array"]}
    reward_range = (-float("inf"), float("inf"))
    spec = None

    def __init__(self, env):
        self.env = env
        self.num_envs = len(env.possible_agents)
        self.observation_space = env.observation_space(env.possible_agents[0])
        self.action_space = env.action_space(env.possible_agents[0])

    def _stacked(self, frames):
        return np.stack([frames[agent] for agent in self.env.possible_agents])

    def reset(self):
        return self._stacked(self.env.reset())

    def step(self, actions):
        agents = self.env.possible_agents
        frames, rewards, dones, infos = self.env.step(dict(zip(agents, actions)))
        infos = [infos[agent] for agent in agents]
        if all(dones.values()):
            for agent, info in zip(agents, infos):
                info["terminal_observation"] = frames[agent]
            frames = self.env.reset()
        rewards = np.array([rewards[agent] for agent in agents], dtype=np.float32)
        return self._stacked(frames), rewards, np.array([dones[agent] for agent in agents], dtype=np.uint8), infos


class concat_vec_envs_v1:
    """Copies of a vector env side by side; observations (num_envs, ...) uint8, float32 rewards, uint8 dones."""

    metadata = {"render_modes": ["human", "rgb_array"]}
    reward_range = (-float("inf"), float("inf"))
    spec = None

    def __init__(self, vec_env, num_vec_envs, num_cpus=0, base_class="gym"):
        self.vec_envs = [copy.deepcopy(vec_env) for _ in range(num_vec_envs)]
        self.num_envs = vec_env.num_envs * num_vec_envs
        self.observation_space, self.action_space = vec_env.observation_space, vec_env.action_space

    @property
    def unwrapped(self):
        return self

    def reset(self):
        return np.concatenate([env.reset() for env in self.vec_envs])

    def step(self, actions):
        each = np.split(np.asarray(actions), len(self.vec_envs))
        frames, rewards, dones, infos = zip(*(env.step(a) for env, a in zip(self.vec_envs, each)))
        return (
            np.concatenate(frames),
            np.concatenate(rewards),
            np.concatenate(dones),
            [i for info in infos for i in info],
        )

    def close(self):
        pass
