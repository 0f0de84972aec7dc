"""What runs on the host, what waits for the device and what a graph can capture; knows no transform."""
