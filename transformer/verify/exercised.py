"""Code that no run of the original exercised: a wrong number or a missing line there would count as equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from transformer.verify.recording import Recording, Site

_NEVER = {
    "condition": "was never {}",
    "clip": "never reached its {}",
    "choice": "was never decided by {}",
    "where": "was never {}",
    "norm": "never {}",
    "block": "was never {}",
}


def sites_of(recordings: Iterable[Recording]) -> tuple[Site, ...]:
    """The places of a script, with the outcomes seen in any of several runs, in any process."""
    everywhere = [r.sites for recording in recordings for r in (recording, *recording.peers)]
    return tuple(
        replace(
            same[0],
            seen=frozenset().union(*(site.seen for site in same)),
            amounts=next((site.amounts for site in same if site.amounts), None),
        )
        for same in zip(*everywhere, strict=True)
    )


def is_open(site: Site, sites: Sequence[Site]) -> bool:
    """Whether a place was reached, but not all of its outcomes were seen."""
    reached = site.seen or (site.kind == "block" and (site.guard is None or site.guard[1] in sites[site.guard[0]].seen))
    return bool(reached) and not site.seen.issuperset(site.outcomes)


def not_exercised(sites: Sequence[Site]) -> tuple[str, ...]:
    """One sentence for each place whose outcomes were not all seen, by line.

    Places in a branch that was not taken are not listed separately.
    """
    found = [(site.line, sentence) for site in sites for sentence in _sentences(site, sites)]
    return tuple(f"line {line}: {sentence}" for line, sentence in dict.fromkeys(sorted(found)))


def _sentences(site: Site, sites: Sequence[Site]) -> Iterator[str]:
    if not is_open(site, sites):
        return
    missing = [way for way in site.outcomes if way not in site.seen]
    leaves = f" ({site.leaves})" if site.leaves else ""
    if site.kind == "choice" and len(missing) == len(site.outcomes):
        yield f"the arguments of {site.text} were always equal{leaves}"
    else:
        yield f"{site.text} {_NEVER[site.kind].format(' or '.join(missing))}{leaves}"
