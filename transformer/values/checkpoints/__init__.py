"""What a checkpoint must hold: what lives across iterations, and which of it is only read."""
