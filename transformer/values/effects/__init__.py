"""What code does: which objects an expression may be, who holds them, and what statements change.

There is one abstract interpreter (`interpreter.py`), which runs a whole file until it finds nothing new. It errs on the
side of *may*: whatever escapes to unknown code, with everything reachable from it, may be changed by unknown code from
then on. `world.py` has the queries that transforms use.
"""
