"""One process that talks to itself."""

import numpy as np

SUM, MIN, MAX = "sum", "min", "max"


class World:
    """The only process."""

    def Get_rank(self) -> int:
        return 0

    def Get_size(self) -> int:
        return 1

    def Allreduce(self, given: np.ndarray, result: np.ndarray, op: str) -> None:
        result[...] = given

    def Bcast(self, given: np.ndarray, root: int = 0) -> None: ...


COMM_WORLD = World()
