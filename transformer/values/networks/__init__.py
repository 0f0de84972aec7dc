"""What a script's networks are made of, compute and return; knows nothing of how they are compiled."""
