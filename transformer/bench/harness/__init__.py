"""What runs inside the user's interpreter: executes a script as `__main__` and notes when it did what.

lean-convert need not be installed there, and torch is left for the script to import, so nothing here imports more than
the standard library.
"""
