"""Random numbers, computed on ndarrays."""
