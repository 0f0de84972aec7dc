"""Contains the wrappers, buffers and vector environments."""
