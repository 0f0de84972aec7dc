"""docs/migrate.md's claims about whole games, checked against the emulator; needs ale-py with its ROMs."""

import math

import pytest

np = pytest.importorskip("numpy")
gymnasium = pytest.importorskip("gymnasium")
envpool = pytest.importorskip("envpool")
pytest.importorskip("ale_py")  # its import makes the games known to gymnasium
pytestmark = pytest.mark.slow


class Game:
    """A game as the chain of wrappers plays it, four frames a step, with a single no-op and no FIRE."""

    def __init__(self, name: str) -> None:
        self.env = gymnasium.make(f"{name}NoFrameskip-v4")
        self.actions = self.env.action_space.n

    def reset(self, seed: int | None = None) -> None:
        self.env.reset(seed=seed)
        self.env.step(0)  # the no-op

    def step(self, action: int) -> tuple[float, bool, int]:
        """The sum of the rewards, whether the game is over, and the lives left."""
        total, over = 0.0, False
        for _ in range(4):
            _, reward, over, _, _ = self.env.step(action)
            total += reward
            if over:
                break
        return total, over, self.env.unwrapped.ale.lives()


@pytest.mark.parametrize(("game", "games"), [("Breakout", 3), ("Pong", 1)])
def test_rewards_ends_and_lives_agree_for_whole_games(game: str, games: int) -> None:
    ours = Game(game)
    envs = envpool.make(
        f"{game}-v5", env_type="gymnasium", num_envs=1, noop_max=1, use_fire_reset=False, reward_clip=True
    )
    draws, over, steps = np.random.default_rng(0), 0, 0
    ours.reset(seed=1)
    envs.reset()
    while over < games:
        action = int(draws.integers(ours.actions))
        reward, ended, lives = ours.step(action)
        _, clipped, terminated, truncated, infos = envs.step(np.array([action]))
        steps += 1
        assert (infos["reward"][0], clipped[0]) == (reward, math.copysign(1, reward) if reward else 0)
        assert (bool(terminated[0]), bool(truncated[0]), infos["lives"][0]) == (ended, False, lives)
        if ended:
            over += 1
            ours.reset()
            _, reward, terminated, _, infos = envs.step(np.array([action]))
            # The reset is a step of its own, whose action is ignored
            assert (reward[0], bool(terminated[0]), infos["elapsed_step"][0]) == (0, False, 0)
    assert steps > 500


def test_a_lost_life_fires_and_goes_on_with_the_frame_stack() -> None:
    envs = envpool.make("Breakout-v5", env_type="gymnasium", num_envs=1, noop_max=1, episodic_life=True)
    before, _ = envs.reset()
    lost = 0
    while True:
        frames, _, terminated, _, infos = envs.step(np.array([0]))
        if terminated[0]:
            lost += 1  # without FIRE there would be no ball to lose
            before, steps, over = frames, infos["elapsed_step"][0], infos["terminated"][0]
            frames, reward, _, _, infos = envs.step(np.array([0]))
            assert reward[0] == 0
            if over:
                break
            assert (frames[0, :3] == before[0, 1:]).all() and infos["elapsed_step"][0] == steps
    assert lost == 5 and infos["elapsed_step"][0] == 0
    assert all((frames[0, i] == frames[0, 3]).all() for i in range(3))
