"""Drawing, which the environment's module sets up for a browser."""


def use(backend: str) -> None:
    """Any backend will do."""
