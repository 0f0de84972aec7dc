"""What the networks of a script are made of, compute and return; knows nothing of how they are compiled."""
