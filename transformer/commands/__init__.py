"""The commands of `lean-convert`, one file each, and their shared code; only this layer reads options."""
