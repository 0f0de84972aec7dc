"""Show a conversion: diffs that recognise moved code, blame, patches, terminal output and the HTML page."""
