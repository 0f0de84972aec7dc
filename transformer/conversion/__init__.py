"""Apply the transforms and collect the result; this layer knows nothing about running scripts or the terminal."""
