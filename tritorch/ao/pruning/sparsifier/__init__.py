"""Sparsifiers of weights."""
