"""Which values reach which names in any scope; knows nothing of what a script trains."""
