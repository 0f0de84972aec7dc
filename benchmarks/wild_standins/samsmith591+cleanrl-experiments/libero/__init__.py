"""A benchmark of robots that handle things."""
