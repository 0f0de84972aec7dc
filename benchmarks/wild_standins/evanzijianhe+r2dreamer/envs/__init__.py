"""The repository's own environments, but for the simulator."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
