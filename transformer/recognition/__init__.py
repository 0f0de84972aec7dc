"""What trains in a script: its phases, networks, optimizers, buffers; changes nothing, and knows no transform."""
