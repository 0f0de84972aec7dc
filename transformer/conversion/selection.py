"""Which transforms a conversion applies: as the user selects them, and what they need of each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from transformer.conversion.settings import Target
from transformer.transforms import ORDER


class SelectionError(ValueError):
    """`select` or `ignore` names an unknown transform, or leaves out one that a selected transform needs."""


@dataclass(frozen=True)
class Selection:
    """What the user asks of a conversion."""

    select: Iterable[str] | None = None
    """Names of the transforms to apply; all but those of the options below where None."""
    ignore: Iterable[str] | None = None
    """Names of the transforms to leave out."""
    tune: bool = False
    """Whether transforms that set up the host are applied too."""
    measure: bool = False
    """Whether the script shows its speed while it trains."""
    target: Target = "any"

    def names(self) -> frozenset[str]:
        """The transforms to apply; what they need is checked here, before anything runs.

        Raises:
            SelectionError: the selection is impossible.
        """
        known = {t.info.name: t.info for t in ORDER}
        options = {"tune": self.tune, "measure": self.measure}
        asked = {name for name, info in known.items() if options.get(info.option, True)}
        wanted, unwanted = asked if self.select is None else set(self.select), set(self.ignore or ())
        for name in sorted((wanted | unwanted) - set(known)):
            raise SelectionError(f"there is no transform named {name!r}; the names are: {', '.join(known)}")
        chosen = wanted - unwanted
        for name in (n for n in known if n in chosen):
            for need in known[name].needs:
                if need not in chosen:
                    how = f"drop --ignore {need}" if need in unwanted else f"add --select {need}"
                    raise SelectionError(f"{name} needs {need}: {how}, or leave {name} out too (--ignore {name})")
        return frozenset(chosen)
