"""What stands behind --compile and --cudagraphs: transforms of functions that are extracted already."""
