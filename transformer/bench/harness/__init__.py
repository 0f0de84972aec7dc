"""Code that runs in the user's interpreter: it executes a script as `__main__` and records its timing.

lean-convert need not be installed there, and only the script imports torch. So this folder imports only the standard
library.
"""
