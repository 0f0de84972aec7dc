"""What makes single lines faster, or shows their speed; knows nothing of how phases become functions."""
