"""Which values reach which names in any scope; knows nothing about training."""
