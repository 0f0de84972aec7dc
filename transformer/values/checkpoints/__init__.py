"""What a checkpoint must hold: everything that lives across iterations and is not only read."""
