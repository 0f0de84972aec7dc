"""A walking robot in PyBullet."""
