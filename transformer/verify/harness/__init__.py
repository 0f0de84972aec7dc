"""Code that runs in the user's interpreter: it executes a script as `__main__` and records what the script does.

lean-convert need not be installed there, so this folder imports only the standard library, numpy and torch.
"""

NOT_EMULATED = 83
"""The exit status if the emulated CUDA device cannot run the script, which is not the script's fault."""
