"""Holds `atari_wrappers`."""
