"""The list of packages: everything under transformer/, and templates/, which ships as transformer.templates.

All other metadata is in pyproject.toml.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["transformer", "transformer.*"]), "transformer.templates"],
    package_dir={"transformer.templates": "templates"},
)
