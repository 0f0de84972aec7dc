"""What stands behind --compile and --cudagraphs; knows functions as they were extracted, and not how."""
