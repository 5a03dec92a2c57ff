"""Pointwise functions, computed on ndarrays."""
