"""Apply the transforms and collect the result; this layer knows nothing of running scripts or of the terminal."""
