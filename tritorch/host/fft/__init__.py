"""Fourier transforms, computed on ndarrays."""
