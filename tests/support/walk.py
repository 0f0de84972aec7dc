"""An environment of four numbers, as text to be put into class-style scripts."""

WALK = """\
class Walk:
    def reset(self):
        self.at, self.t = np.zeros(4, np.float32), 0
        return self.at

    def step(self, push):
        self.at, self.t = (0.9 * self.at + 0.1 * push + 0.01).astype(np.float32), self.t + 1
        return self.at, -float(np.abs(self.at).sum()), self.t > 15
"""
