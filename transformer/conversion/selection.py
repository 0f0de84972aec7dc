"""Which transforms a conversion applies: the user's selection and the transforms that these need."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from transformer.transforms import FORMERLY, ORDER


def no_such_transform(name: str) -> str:
    """The message for a name that no transform has; it suggests the most similar name."""
    if name in FORMERLY:
        return f"the transform {name!r} was removed, because hardly any script needed it"
    similar = difflib.get_close_matches(name, [t.info.name for t in ORDER], n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else "`lean-convert transforms` lists the names"
    return f"there is no transform named {name!r}; {hint}"


def today(names: Iterable[str]) -> set[str]:
    """Names of transforms, with former names replaced by the present ones."""
    return {FORMERLY.get(name) or name for name in names}


class SelectionError(ValueError):
    """`select` or `ignore` names an unknown transform, or leaves out one that a selected transform needs."""


def chosen_names(select: Iterable[str] | None, ignore: Iterable[str] | None, **options: bool) -> frozenset[str]:
    """The transforms to apply; their needs are checked here, before anything runs.

    Args:
        select: names of the transforms to apply; if None, all that need no option.
        ignore: names of the transforms to leave out.
        options: by name, whether each option that adds transforms to the core is given.

    Raises:
        SelectionError: the selection is impossible.
    """
    known = {t.info.name: t.info for t in ORDER}
    asked = {name for name, info in known.items() if not info.option or options.get(info.option, False)}
    gone = {name for name, heir in FORMERLY.items() if heir is None}
    wanted, unwanted = asked if select is None else today(select), today(ignore or ()) - gone
    for name in sorted((wanted | unwanted) - set(known)):
        raise SelectionError(no_such_transform(name))
    chosen = wanted - unwanted
    for name in (n for n in known if n in chosen):
        for need in known[name].needs:
            if need not in chosen:
                how = f"drop --ignore {need}" if need in unwanted else f"add --select {need}"
                raise SelectionError(f"{name} needs {need}: {how}, or leave {name} out too (--ignore {name})")
    return frozenset(chosen)
