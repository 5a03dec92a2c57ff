"""Copies, joining, reordering and padding, launched on a GPU."""
