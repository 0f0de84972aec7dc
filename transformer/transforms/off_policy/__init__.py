"""Transforms of off-policy training, which stores single steps and learns from samples of them."""
