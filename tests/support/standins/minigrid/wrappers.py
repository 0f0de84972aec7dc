"""The wrappers that scripts import; there is no environment here to put them around."""

import gymnasium as gym


class ImgObsWrapper(gym.Wrapper):
    pass


class RGBImgPartialObsWrapper(gym.Wrapper):
    pass
