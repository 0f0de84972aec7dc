"""What code does: which objects an expression may be, who holds them, and what statements change.

There is one interpreter (`interpreter.py`), which runs a whole file in the abstract until nothing new is found. It errs
on the side of *may*: what it does not know gets hold of everything that it is given, and may change all that it ever
got hold of. `world.py` has the questions that transforms ask.
"""
