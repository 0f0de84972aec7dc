"""The commands of `lean-convert`, one file each, and what they share; nothing below them reads options."""
