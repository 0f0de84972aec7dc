"""Holds the environment."""
