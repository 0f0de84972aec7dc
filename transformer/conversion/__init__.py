"""The run through the transforms, and what comes of it; knows nothing of running scripts, nor of the terminal."""
