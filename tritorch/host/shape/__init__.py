"""Copies, joining, reordering and padding, computed on ndarrays."""
