"""What expressions are (tensors, shapes, dtypes, new memory), asked of a recognised script; knows no transform."""
