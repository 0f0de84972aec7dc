"""What expressions are (tensors, shapes, dtypes, new memory), for a script with known roles; knows no transform."""
