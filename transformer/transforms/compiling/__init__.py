"""The code behind --compile and --cudagraphs; knows the extracted functions, but not how they were extracted."""
