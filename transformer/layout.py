"""How emitted statements are broken into lines, so that a formatter leaves them as they are."""

from __future__ import annotations

from collections.abc import Sequence


def call(prefix: str, function: str, args: Sequence[str], indent: int, width: int, *, suffix: str = ")") -> str:
    """`prefix function(args)`, on one line, or with its arguments on the next, or one argument a line."""
    head = f"{prefix}{function}("
    flat = head + ", ".join(args) + suffix
    if indent + len(flat) <= width or not args:
        return flat
    inner = "    " + ", ".join(args)
    if indent + len(inner) <= width:
        return f"{head}\n{inner}\n{suffix}"
    return head + "\n" + "".join(f"    {arg},\n" for arg in args) + suffix


def returns(values: Sequence[str], indent: int, width: int) -> str:
    """`return a, b`, in parentheses and one value a line where it is too long."""
    flat = "return " + ", ".join(values)
    if indent + len(flat) <= width or len(values) < 2:
        return flat
    return "return (\n" + "".join(f"    {v},\n" for v in values) + ")"
