"""The wrappers that scripts import; no environment here uses them."""

import gymnasium as gym


class ImgObsWrapper(gym.Wrapper):
    pass


class RGBImgPartialObsWrapper(gym.Wrapper):
    pass
