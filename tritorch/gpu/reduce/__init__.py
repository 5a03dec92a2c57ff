"""Reductions, scans, softmax, launched on a GPU."""
