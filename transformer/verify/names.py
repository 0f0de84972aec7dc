"""The names of the checks, as typed and in JSON, and as displayed."""

from __future__ import annotations

FLAGS_OFF = "flags-off"
FLAGS_ON = "flags-on"
"""With its flags on, and nothing compiled."""
OTHER_ARGUMENTS = "other-arguments"
"""The group of all checks with other arguments; also the suffix in their names, unless episodes are short."""
SHORT_EPISODES = "short-episodes"
"""The suffix of the check with other arguments and truncated episodes."""
COMPILED = "compiled"
FLAGS_ON_GRAPHS = "flags-on-cuda-graphs"
GRAPHS = "cuda-graphs"
COMPILED_GRAPHS = "compiled-cuda-graphs"
CHECKS = (FLAGS_OFF, FLAGS_ON, OTHER_ARGUMENTS, COMPILED, FLAGS_ON_GRAPHS, GRAPHS, COMPILED_GRAPHS)
"""The checks of every script, in order; those of an option come at the option's position."""

FLAGS = {
    FLAGS_ON: ("compile",),
    FLAGS_ON_GRAPHS: ("compile", "cudagraphs"),
    COMPILED: ("compile",),
    GRAPHS: ("cudagraphs",),
    COMPILED_GRAPHS: ("compile", "cudagraphs"),
}
"""The flags that a check turns on."""
EAGER = (FLAGS_ON, FLAGS_ON_GRAPHS)
"""Checks with the flags on and nothing compiled or captured."""

FORMER = {
    "refactored": FLAGS_OFF,
    "stress": OTHER_ARGUMENTS,
    "uncompiled": FLAGS_ON,
    "uncompiled + cudagraphs": FLAGS_ON_GRAPHS,
    "compile": COMPILED,
    "cudagraphs": GRAPHS,
    "compile + cudagraphs": COMPILED_GRAPHS,
}
"""Names of an earlier release, with their present names."""

_SHOWN = {
    FLAGS_OFF: "flags off",
    FLAGS_ON: "flags on, not compiled",
    COMPILED: "compiled",
    FLAGS_ON_GRAPHS: "CUDA graphs, flags on, not compiled",
    GRAPHS: "CUDA graphs",
    COMPILED_GRAPHS: "CUDA graphs, compiled",
    "env-workers": "environments in workers",
}
_ENDS = {OTHER_ARGUMENTS: "other arguments", SHORT_EPISODES: "other arguments, short episodes"}

COMPILED_OTHERS = f"{COMPILED}-{OTHER_ARGUMENTS}"
"""Run if other arguments change a branch of compiled code; shown in the line of COMPILED."""


def with_end(name: str, end: str) -> str:
    """The name of a check with other arguments; `end` may be empty."""
    return f"{name}-{end}" if end else name


def of_group(name: str, group: str) -> bool:
    """Whether a check is the one that a typed name refers to, or belongs to that group."""
    others = name.endswith(tuple(_ENDS)) and name != COMPILED_OTHERS
    return name == group or (group == OTHER_ARGUMENTS and others)


def line_of(name: str) -> str:
    """The line of the verdict for a check; several checks may share one."""
    if name == COMPILED_OTHERS:
        return shown(COMPILED)
    if name.endswith(tuple(_ENDS)):
        return _ENDS[OTHER_ARGUMENTS]
    return _SHOWN[GRAPHS] if GRAPHS in name else shown(name)


def shown(name: str) -> str:
    """The displayed name of a check or a group."""
    for end, words in _ENDS.items():
        if name.endswith(f"-{end}"):
            return f"{words}: {shown(name.removesuffix(f'-{end}'))}"
    return _SHOWN.get(name) or _ENDS.get(name, name)
