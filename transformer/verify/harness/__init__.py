"""What runs inside the user's interpreter: executes a script as `__main__` and writes down what it does.

lean-convert need not be installed there, so nothing here imports more than the standard library, numpy and torch.
"""

NOT_EMULATED = 83
"""The exit status of a script that the emulated CUDA device cannot run, through no fault of the script's."""
