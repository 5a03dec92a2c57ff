"""Copies, joining, reordering and padding, declared as operators."""
