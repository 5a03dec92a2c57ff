"""Reductions, scans, softmax, declared as operators."""
