"""Facts about Python, torch, numpy and other libraries: one row per name. Names without a row are unknown."""
