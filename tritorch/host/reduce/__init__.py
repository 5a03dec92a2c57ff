"""Reductions, scans, softmax, computed on ndarrays."""
