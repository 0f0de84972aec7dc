"""What code does: which objects an expression may be, who holds them, and what statements change.

There is one abstract interpreter (`interpreter.py`). It runs a whole file until it finds nothing new, and errs on the
side of *may*: once an object escapes to unknown code, unknown code may change it and everything reachable from it.
`world.py` has the queries that transforms use.
"""
