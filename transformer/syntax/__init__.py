"""Any Python file, as text and as a tree; knows nothing of tensors, of training, or of what a name holds."""
