"""What gives access to variables, attributes and objects other than by their written names, and to which of them.

`tests/facts/test_lookups.py` tries each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from transformer.facts.rows import named

Found: TypeAlias = Literal[
    "variables", "attributes", "methods", "parts", "objects", "modules", "state", "copies", "nothing"
]
Where: TypeAlias = Literal["", "module", "caller", "both"]


@dataclass(frozen=True)
class Lookup:
    """Facts about functions, attributes and modules; `names` are words separated by spaces."""

    names: str
    of: str
    """The owner of the names. builtin, attribute, library, or the module that contains them. file: variables of a file,
    set by Python or by convention. special: methods that a class defines and Python calls. word: attributes, keyword
    arguments and words in strings, of any owner. record: fields that the format of a log may contain."""
    finds: Found
    """What they give access to. objects: of any kind. parts: of a network. methods: the methods that a class has.
    state: of the interpreter, including its modules."""
    where: Where = ""
    """Whose variables: a module's; the calling function's (and its module's); or either."""
    sets: bool = False
    """Whether they set attributes."""
    classes: bool = False
    """Whether they give access to classes, which reveal their module."""
    frames: bool = False
    """Whether they reveal which functions run, and which function called which."""


ROWS = (
    Lookup("__builtins__ __import__ globals", "builtin", "variables", "module"),
    Lookup("locals vars", "builtin", "variables", "caller"),
    Lookup("eval exec", "builtin", "variables", "both"),
    Lookup("dir", "builtin", "methods", "caller"),
    Lookup("getattr hasattr", "builtin", "attributes"),
    Lookup("delattr setattr", "builtin", "attributes", sets=True),
    Lookup("__delattr__ __setattr__", "attribute", "attributes", sets=True),
    Lookup("__dict__", "attribute", "methods", sets=True),
    Lookup("__dir__", "attribute", "methods"),
    Lookup("__base__ __bases__ __class__ __mro__ __subclasses__ mro", "attribute", "methods", classes=True),
    Lookup("_buffers _modules _parameters", "attribute", "parts"),
    Lookup("__globals__ f_globals", "attribute", "variables", "module"),
    Lookup("cell_contents f_builtins f_locals", "attribute", "variables", "both"),
    Lookup("f_back gi_frame tb_frame", "attribute", "variables", "both", frames=True),
    Lookup("attrgetter methodcaller operator", "library", "attributes"),
    Lookup("importlib", "library", "modules"),
    Lookup("sys", "library", "state"),
    Lookup("gc inspect", "library", "objects"),
    Lookup("modules", "sys", "variables", "module"),
    Lookup("_current_frames _getframe setprofile settrace", "sys", "variables", "both", frames=True),
    Lookup("import_module reload", "importlib", "variables", "module"),
    Lookup("getclosurevars", "inspect", "variables", "both"),
    Lookup("currentframe getinnerframes getouterframes stack trace", "inspect", "variables", "both", frames=True),
    Lookup(
        "StackSummary TracebackException extract_stack extract_tb format_stack print_stack walk_stack walk_tb",
        "traceback",
        "nothing",
        frames=True,
    ),
    Lookup("setprofile settrace", "threading", "nothing", frames=True),
    Lookup("filename module pathname", "record", "state"),
    Lookup("findCaller funcName stack_info stacklevel", "word", "nothing", frames=True),
    Lookup("getattr_static getmembers getsource", "inspect", "methods"),
    Lookup("get_objects get_referents get_referrers", "gc", "objects"),
    Lookup("__dir__ __getattr__ __getattribute__ __instancecheck__ __setattr__", "special", "attributes"),
    Lookup("__copy__ __deepcopy__ __getstate__ __new__ __reduce__ __reduce_ex__ __setstate__", "special", "copies"),
    Lookup("__init_subclass__", "special", "methods"),
    Lookup("__doc__ __file__ __loader__ __name__ __package__ __path__ __spec__", "file", "state"),
    Lookup("__dir__ __getattr__", "file", "attributes"),
    Lookup("__all__ __author__ __version__", "file", "nothing"),
    Lookup("__init__ __len__ __repr__ __str__", "special", "nothing"),
)


@cache
def lookups(**facts: object) -> frozenset[str]:
    """The names in the rows that match all of these facts; each fact is a value or a tuple of values."""
    return named(ROWS, facts)


VARIABLES = lookups(of="builtin", finds="variables")
"""Builtins that give access to variables by name."""
OF_CALLER = lookups(of="builtin", where=("caller", "both"))
"""Builtins that see the names around their call."""
SETS = lookups(of="builtin", sets=True)
EVERYTHING = VARIABLES | lookups(of="library", finds="objects")
"""Builtins and modules that give access to any variable or object."""
ATTRIBUTE_LOOKUPS = lookups(of=("builtin", "library"), finds="attributes")
"""Builtins and modules that give access to attributes, functions and methods by name."""
ANSWERING = lookups(of="special", finds="attributes")
"""Methods with which a class answers for attributes of any name."""
FRAMES = frozenset(f"{row.of}.{name}" for row in ROWS if row.frames for name in row.names.split())
"""Qualified names of what reveals which functions run, and where they are defined."""
