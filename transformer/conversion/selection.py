"""Which transforms a conversion applies: as the user selects them, and what they need of each other."""

from __future__ import annotations

from collections.abc import Iterable

from transformer.transforms import ORDER


class SelectionError(ValueError):
    """`select` or `ignore` names an unknown transform, or leaves out one that a selected transform needs."""


def chosen_names(
    select: Iterable[str] | None, ignore: Iterable[str] | None, *, tune: bool, measure: bool, checkpoint: bool = False
) -> frozenset[str]:
    """The transforms to apply; what they need of each other is checked here, before anything runs.

    Args:
        select: names of the transforms to apply; all but those that an option asks for where None.
        ignore: names of the transforms to leave out.
        tune: apply those that set up the host, too.
        measure: apply the one that shows the speed, too.
        checkpoint: apply the one that saves and loads, too.

    Raises:
        SelectionError: the selection is impossible.
    """
    known = {t.info.name: t.info for t in ORDER}
    options = {"tune": tune, "measure": measure, "checkpoint": checkpoint}
    asked = {name for name, info in known.items() if options.get(info.option, True)}
    wanted, unwanted = asked if select is None else set(select), set(ignore or ())
    for name in sorted((wanted | unwanted) - set(known)):
        raise SelectionError(f"there is no transform named {name!r}; the names are: {', '.join(known)}")
    chosen = wanted - unwanted
    for name in (n for n in known if n in chosen):
        for need in known[name].needs:
            if need not in chosen:
                how = f"drop --ignore {need}" if need in unwanted else f"add --select {need}"
                raise SelectionError(f"{name} needs {need}: {how}, or leave {name} out too (--ignore {name})")
    return frozenset(chosen)
