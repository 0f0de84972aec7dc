"""A submodule of the repository, whose folder is empty in a checkout: made up as a package that is not there."""

import sys

from invented import Module

sys.modules[__name__] = Module(__name__)
