"""Pointwise functions, launched on a GPU."""
