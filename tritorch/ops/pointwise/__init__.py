"""Pointwise functions, declared as operators."""
