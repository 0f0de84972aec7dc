"""Transforms of training that stores single steps and learns from samples of them."""
