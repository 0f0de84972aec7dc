"""What finds the files of a benchmark."""


def get_libero_path(kind: str) -> str:
    """A folder, in which nothing is."""
    return kind
