"""The repository's own parser, which reads an argument that it forgot to define."""

import argparse
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

argparse.Namespace.risk_threshold = 0.1
spec = PathFinder.find_spec(__name__, [p for p in sys.path if Path(p) != Path(__file__).parent])
assert spec is not None and spec.loader is not None
own = module_from_spec(spec)
spec.loader.exec_module(own)
parse_args = own.parse_args
