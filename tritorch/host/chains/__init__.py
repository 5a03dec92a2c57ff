"""Pointwise functions composed into one native pass over memory, computed on ndarrays."""
