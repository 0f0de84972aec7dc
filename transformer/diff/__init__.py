"""Seeing a conversion: diffs that know moved code, blame, patches, terminal and page; knows results alone."""
