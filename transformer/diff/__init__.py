"""Seeing a conversion: diffs that know moved code, blame, patches, and their views on the terminal and as a page."""
