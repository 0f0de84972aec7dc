"""Holds `dqn_eval`."""
