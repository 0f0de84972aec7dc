"""Facts about Python, torch, numpy and other libraries: a row per name; nothing is known without a row."""
