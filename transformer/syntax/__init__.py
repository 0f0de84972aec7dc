"""Any Python file, as text and as a tree; this layer knows nothing of tensors, training, or the values of names."""
