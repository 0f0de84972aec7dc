"""`python -m transformer` is `lean-convert`."""

from transformer.cli import main

main(prog_name="lean-convert")
