"""The training in a script: its phases, networks, optimizers, buffers. Changes nothing, and knows no transforms."""
