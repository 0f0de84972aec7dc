"""Code that runs in the user's interpreter: it executes a script as `__main__` and records its timing.

lean-convert need not be installed there, and importing torch is left to the script, so this folder imports only the
standard library.
"""
