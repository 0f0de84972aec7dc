"""Stands in for the folder of cleanrl's scripts, of which one imports another's network."""
