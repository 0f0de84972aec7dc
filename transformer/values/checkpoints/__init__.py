"""What a checkpoint must hold: what lives across iterations and is not only read."""
