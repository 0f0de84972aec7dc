"""The commands of `lean-convert`, one file each."""
