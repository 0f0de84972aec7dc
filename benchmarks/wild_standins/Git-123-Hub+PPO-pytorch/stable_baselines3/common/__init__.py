"""More parts than the stand-in of the tests has."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
